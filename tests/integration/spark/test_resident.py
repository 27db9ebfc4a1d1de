"""A resident driver against real storage: batch after batch in one process, its ends, and what follows a failure."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.blob import ContainerClient
from deltalake import DeltaTable

from eventconsumer_api.wire.batch import BatchCommit, BatchJob, ResidentLimits, attempt_name, commit_name
from tests.integration.spark.conftest import Driver, Launch
from tests.integration.spark.drained import PREFIX, DrainedBatch
from tests.integration.spark.drivers import ROOT, until
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.support.faultactions import Down, Fail
from tests.support.faultproxy import Action, FaultProxy, Match
from tests.support.waiting import HANG_SECONDS, wait_until

PROGRAMS, SHIPPED = Path(__file__).with_name("programs.py"), ROOT / "spark/src/eventconsumer_spark/job.py"
LIMITS = ResidentLimits(seconds=600, max_bytes=1024**2)


def freeze(drained: DrainedBatch, number: int, events: int = 10) -> BatchJob:
    """Drain and freeze a batch; the job stays for the next ones."""
    drained.files.clear()
    drained.slot("0", 1000 * number, events)
    return drained.freeze(number).model_copy(update={"resident": LIMITS})


def committed(drained: DrainedBatch, number: int) -> BatchCommit:
    """The commit of a batch, when there is one."""
    return BatchCommit.model_validate_json(wait_until(lambda: drained.commit(number), f"commit {number}"))


def released(container: ContainerClient, number: int) -> bool:
    """Whether nobody holds the claim of a batch."""
    return str(container.get_blob_client(attempt_name(PREFIX, number)).get_blob_properties().lease.state) == "available"


def table(job: BatchJob, azurite: AzuriteProcess) -> list[int]:
    """Sequence numbers in the table, read without Spark."""
    options = {"allow_http": "true", "azure_endpoint": azurite.url, "account_name": ACCOUNT, "account_key": KEY}
    found = DeltaTable(f"az://{job.sink.container}-out/results", storage_options=options).to_pyarrow_table()
    return sorted(found["sequence_number"].to_pylist())


def numbers(*batches: int) -> list[int]:
    """The sequence numbers of batches of 10 events."""
    return [1000 * batch + number for batch in batches for number in range(10)]


@pytest.fixture
def proxy(azurite: AzuriteProcess, drained: DrainedBatch) -> Iterator[FaultProxy]:
    """Between drivers and storage, except for Spark's own requests."""
    made = FaultProxy(azurite.port, azurite.connection_string)
    made.start()
    Path(drained.secret_file).write_text(made.connection_string)
    yield made
    made.close()


def own_errors(output: str) -> list[str]:
    """Errors of Python; Java logs some of its own when a signal ends it in its work."""
    errors = (line for line in output.splitlines() if '"level": "error"' in line)
    return [line for line in errors if '"logger": "org.apache.' not in line]


def test_one_driver_commits_batch_after_batch_until_it_is_told_to_end(
    drained: DrainedBatch, launch: Launch, azurite: AzuriteProcess
) -> None:
    job = freeze(drained, 1)
    freeze(drained, 2)
    driver = launch(job, SHIPPED)
    committed(drained, 2)
    wait_until(lambda: released(drained.container, 2), "the driver waits for batch 3")
    freeze(drained, 3)
    last = committed(drained, 3)
    assert (last.application, last.output_version, last.totals.rows_written) == (job.application, 2, 30)
    assert last.attempt.startswith("1-")
    assert table(job, azurite) == numbers(1, 2, 3)
    wait_until(lambda: released(drained.container, 3), "the driver waits for batch 4")
    os.killpg(driver.pid, signal.SIGTERM)
    output, _ = driver.communicate(timeout=HANG_SECONDS)
    assert driver.returncode == 0, output
    assert "ended by SIGTERM: no batch is in progress" in output
    assert not own_errors(output)


@pytest.mark.parametrize(
    ("outage", "requests"),
    [
        (Fail(403, "AuthorizationFailure"), 3),  # as from the account's firewall
        pytest.param(Down(), 7, marks=pytest.mark.long),  # the client repeats a request five times
    ],
)
def test_waiting_driver_outlives_errors_of_storage_and_ends_with_its_credential(
    outage: Action, requests: int, drained: DrainedBatch, launch: Launch, azurite: AzuriteProcess, proxy: FaultProxy
) -> None:
    job = freeze(drained, 1)
    driver = launch(job, SHIPPED)
    committed(drained, 1)
    wait_until(lambda: released(drained.container, 1), "the driver waits for batch 2")
    manifest = Match(path="/_batches/")
    out = proxy.add(manifest, outage)
    out.wait()
    freeze(drained, 2)
    out.wait(count=requests)
    assert drained.commit(2) is None
    out.remove()
    committed(drained, 2)
    wait_until(lambda: released(drained.container, 2), "the driver waits for batch 3")

    # The key is rotated: storage refuses the old one, until the Secret has the new one.
    proxy.add(manifest, Fail(403, "AuthenticationFailed")).wait(count=2)
    Path(drained.secret_file).write_text(azurite.connection_string)
    freeze(drained, 3)
    output, _ = driver.communicate(timeout=HANG_SECONDS)
    assert driver.returncode == 0, output
    assert "batch 2 cannot be looked for; trying again (1 failures): cannot look at" in output
    assert "batch 2 can be looked for again, after" in output
    assert "batch 3 cannot be looked for; trying again (1 failures): cannot look at" in output
    assert "the resident driver ends before batch 3: the credential of spec.sink has changed" in output
    assert not own_errors(output)
    assert drained.commit(3) is None
    assert table(job, azurite) == numbers(1, 2)


def test_batch_does_not_depend_on_the_maintenance_after_its_commit(
    drained: DrainedBatch, launch: Launch, azurite: AzuriteProcess
) -> None:
    job = freeze(drained, 1)
    freeze(drained, 2)
    driver = launch(job, PROGRAMS, env={"WAY": "maintain"})
    said = until(driver, "MAINTAINS")
    assert "batch 1 is committed, but its output" in said
    assert "was not maintained: ValueError: another program compacts this table: a later batch tries again" in said
    assert drained.commit(2) is not None
    assert released(drained.container, 2)
    os.killpg(driver.pid, signal.SIGTERM)
    output, _ = driver.communicate(timeout=HANG_SECONDS)
    assert driver.returncode == 0, output
    assert "ended by SIGTERM: no batch is in progress" in output
    assert "was not maintained" not in output
    assert not own_errors(output)
    assert table(job, azurite) == numbers(1, 2)


def test_batch_finds_nothing_of_the_one_before_and_its_failure_ends_the_driver(
    drained: DrainedBatch, driver: Driver
) -> None:
    job = freeze(drained, 1)
    freeze(drained, 2)
    freeze(drained, 3)
    ended = driver(job, PROGRAMS, env={"WAY": "leave_traces"})
    assert ended.returncode == 1, ended.stdout
    assert drained.commit(2) is not None, ended.stdout
    assert "batch 3 cannot be priced" in ended.stdout
    assert drained.commit(3) is None
    assert released(drained.container, 3)


def test_driver_killed_in_a_later_batch_loses_and_repeats_nothing(
    drained: DrainedBatch, driver: Driver, azurite: AzuriteProcess
) -> None:
    job = freeze(drained, 1)
    second = freeze(drained, 2)
    ended = driver(job, PROGRAMS, env={"WAY": "kill_at_two"})
    assert ended.returncode == -signal.SIGKILL, ended.stdout
    assert drained.commit(2) is None
    freeze(drained, 3)
    freeze(drained, 4, events=20_000)
    # As the operator starts it: the first attempt at batch 2. It leaves batch 4 to a driver with executors.
    limits = LIMITS.model_copy(update={"max_bytes": 100_000})
    ended = driver(second.model_copy(update={"resident": limits}), PROGRAMS, env={"WAY": "append"})
    assert ended.returncode == 0, ended.stdout
    assert committed(drained, 3).totals.rows_written == 30
    assert table(job, azurite) == numbers(1, 2, 3)
    assert "the resident driver ends before batch 4: the files of the next batch have" in ended.stdout
    assert not drained.container.get_blob_client(commit_name(PREFIX, 4)).exists()
