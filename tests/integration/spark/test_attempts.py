"""Drivers that fail, are killed, are overtaken or told to end, and files that nobody can process."""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobLeaseClient, BlobServiceClient

from eventconsumer_api.wire.batch import (
    BatchClaim,
    BatchCommit,
    BatchJob,
    ReprocessOf,
    ResidentLimits,
    attempt_name,
    commit_name,
    reprocess_prefix,
)
from eventconsumer_host.batch.log import BatchLog, BatchState
from eventconsumer_storage.async_blobs import AzureBlobStore, blob_service
from tests.integration.spark.conftest import Driver, Launch
from tests.integration.spark.drained import MOVED, PREFIX, START, DrainedBatch
from tests.integration.spark.drivers import until
from tests.integration.spark.test_resident import table
from tests.support.azurite import AzuriteProcess
from tests.support.waiting import HANG_SECONDS

HERE = Path(__file__).parent
PROGRAMS, OWN_SESSION = HERE / "programs.py", HERE / "own_session.py"
Result = Callable[[BatchJob], list[dict[str, Any]]]


def committed(drained: DrainedBatch, number: int = 1, prefix: str = PREFIX) -> BatchCommit:
    blob = drained.container.get_blob_client(commit_name(prefix, number))
    return BatchCommit.model_validate_json(blob.download_blob().readall())


def numbers(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return sorted((row["partition_id"], row["sequence_number"]) for row in rows)


def test_files_that_cannot_be_processed_are_left_out_and_named(
    drained: DrainedBatch, driver: Driver, result: Result, service: BlobServiceClient
) -> None:
    for first in range(0, 20, 10):
        drained.slot("0", first, 10)
    program_fails = [drained.slot("1", first, 10) for first in (10, 20)][1]
    damaged = drained.damage(1)
    job = drained.freeze()

    ended = driver(job.model_copy(update={"search_unprocessable": True}), PROGRAMS, env={"WAY": "fail_on_one"})
    assert ended.returncode == 0, ended.stdout
    record = committed(drained)
    quarantine = record.quarantine
    assert quarantine is not None
    assert quarantine.number == 1
    assert {file.path for file in quarantine.files} == {damaged.path, program_fails.path}
    assert damaged.path in quarantine.message
    assert "is not a Parquet file" in quarantine.message
    # Named in the log with its own cause.
    assert "event 25 cannot be priced" in ended.stdout
    assert (record.files, record.rows_read, record.rows_written) == (4, 20, 20)
    assert record.totals.quarantined_files == 2
    left = {("0", number) for number in range(10, 20)} | {("1", number) for number in range(20, 30)}
    every = {(str(row["partition_id"]), int(str(row["sequence_number"]))) for row in drained.events}
    assert numbers(result(job)) == sorted(every - left)
    # Nothing of the trials is left.
    output = service.get_container_client(f"{job.sink.container}-out")
    assert {blob.name.split("/", 1)[0] for blob in output.list_blobs()} == {"results"}


@pytest.mark.long
def test_what_one_attempt_left_out_the_next_leaves_out(drained: DrainedBatch, driver: Driver, result: Result) -> None:
    drained.slot("0", 0, 10)
    drained.slot("0", 10, 10)
    damaged = drained.damage(0)
    job = drained.freeze()
    # As it was left by an attempt that searched, and was killed before its commit.
    found = BatchClaim(
        number=1,
        claimed_at=START,
        application="first",
        attempt="1-x",
        left_out=[damaged],
        cause="it is no Parquet file",
    )
    drained.container.upload_blob(attempt_name(PREFIX, 1), found.model_dump_json(by_alias=True))
    ended = driver(job, PROGRAMS, env={"WAY": "copy"})
    assert ended.returncode == 0, ended.stdout
    record = committed(drained)
    assert record.quarantine is not None
    assert (record.quarantine.files, record.quarantine.message) == ([damaged], found.cause)
    assert (record.files, record.rows_read, record.totals.quarantined_files) == (2, 10, 1)
    assert numbers(result(job)) == [("0", number) for number in range(10, 20)]


@pytest.mark.long
def test_fault_of_the_program_is_no_fault_of_the_files(drained: DrainedBatch, driver: Driver) -> None:
    for first in (0, 10):
        drained.slot("0", first, 10)
    job = drained.freeze().model_copy(update={"search_unprocessable": True})
    ended = driver(job, PROGRAMS, env={"WAY": "fail_always"})
    assert ended.returncode == 1, ended.stdout
    assert "every file of batch 1 fails alone" in ended.stdout
    assert "nothing can be done with 2 files" in ended.stdout
    assert drained.commit() is None


def test_a_terminated_driver_lets_the_next_one_begin(drained: DrainedBatch, launch: Launch, result: Result) -> None:
    drained.slot("0", 0, 50)
    job = drained.freeze()
    first = launch(job, PROGRAMS, env={"WAY": "slowly", "SECONDS_AT_WORK": "600"})
    until(first, "BEGUN")
    # Java receives the signal first, and leaves the end to Python: its own would come before the lease is broken.
    os.kill(first.pid, signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(5)
    os.killpg(first.pid, signal.SIGTERM)
    output, _ = first.communicate(timeout=HANG_SECONDS)
    assert first.returncode == 128 + signal.SIGTERM, output
    assert "ended by SIGTERM; batch 1 is not committed" in output
    # The next attempt does not wait for the end of its lease, which is broken, and released if the driver still can.
    claim = drained.container.get_blob_client(attempt_name(PREFIX, 1)).get_blob_properties()
    assert claim.lease.state in {"breaking", "broken", "available"}
    assert drained.commit() is None
    assert result(job) == []


@pytest.mark.long  # unit/spark/attempt/test_claim.py has each order of the two
def test_frozen_driver_does_not_commit_after_another(
    drained: DrainedBatch, launch: Launch, driver: Driver, result: Result
) -> None:
    drained.slot("0", 0, 50)
    job = drained.freeze()
    zombie = launch(job, PROGRAMS, env={"WAY": "slowly", "SECONDS_AT_WORK": "1"})
    until(zombie, "BEGUN")
    os.killpg(zombie.pid, signal.SIGSTOP)
    # The resource was deleted and applied again while the driver ran.
    ended = driver(job.model_copy(update={"application": "heir", "resource": MOVED}), PROGRAMS, env={"WAY": "copy"})
    assert ended.returncode == 0, ended.stdout
    before = drained.commit()
    os.killpg(zombie.pid, signal.SIGCONT)
    output, _ = zombie.communicate(timeout=HANG_SECONDS)
    assert zombie.returncode == 1, output
    # It depends on where it was frozen whether its clock or storage tells it first.
    assert re.search("the claim of batch 1 is lost: (it could not be renewed|another attempt, or a user)", output)
    assert drained.commit() == before
    assert committed(drained).application == "heir"
    assert numbers(result(job)) == [("0", number) for number in range(50)]


@pytest.mark.long
def test_program_with_a_session_of_its_own(drained: DrainedBatch, driver: Driver, result: Result) -> None:
    drained.slot("0", 0, 40)
    drained.slot("0", 40, 40)
    damaged = drained.damage(1)
    job = drained.freeze().model_copy(update={"search_unprocessable": True})

    drained.files.clear()
    drained.slot("0", 80, 40)
    drained.freeze(2)

    ended = driver(job.model_copy(update={"resident": ResidentLimits(seconds=1, max_bytes=1024**2)}), OWN_SESSION)
    assert ended.returncode == 0, ended.stdout
    assert "COMMITTED 1" in ended.stdout
    assert "COMMITTED 2" in ended.stdout
    assert committed(drained, 2).totals.rows_read == 80
    record = committed(drained)
    assert (record.rows_read, record.rows_written) == (40, len(result(job)))
    assert sum(row["count"] for row in result(job)) == 40
    assert record.quarantine is not None
    assert [file.path for file in record.quarantine.files] == [damaged.path]


@pytest.mark.long
def test_reprocess_resumes_where_it_stopped(drained: DrainedBatch, driver: Driver, service: BlobServiceClient) -> None:
    jobs = []
    for number in (1, 2, 3):
        drained.files = []
        drained.slot("0", 100 * number, 10 * number)
        jobs.append(drained.freeze(number))
    for number in (1, 2):
        original = f'{{"number": {number}, "committedAt": "2026-01-01T00:00:00Z", "application": "a", "attempt": "x", '
        original += '"output": "o", "files": 1, "rowsRead": 1, "rowsWritten": 1, "seconds": 1}'
        drained.container.upload_blob(commit_name(PREFIX, number), original)
    reprocess = ReprocessOf(name="again", first=1, last=3)
    # The resource was deleted and applied again after they were frozen.
    job = jobs[0].model_copy(update={"reprocess": reprocess, "application": "orders-reprocess", "resource": MOVED})

    ended = driver(job, PROGRAMS, env={"WAY": "copy"})
    assert ended.returncode == 1
    assert "spec.spark.reprocess.to: batch 3 is not committed" in ended.stdout

    prefix = reprocess_prefix(PREFIX, "again")
    one = job.model_copy(update={"reprocess": ReprocessOf(name="again", first=1, last=1)})
    assert driver(one, PROGRAMS, env={"WAY": "copy"}).returncode == 0
    first = committed(drained, 1, prefix)
    both = job.model_copy(update={"reprocess": ReprocessOf(name="again", first=1, last=2)})
    ended = driver(both, PROGRAMS, env={"WAY": "copy"})
    assert ended.returncode == 0, ended.stdout
    assert "batch 1 was committed by orders-reprocess" in ended.stdout
    assert committed(drained, 1, prefix) == first
    second = committed(drained, 2, prefix)
    assert second.totals.rows_written == 30
    assert second.output == f"{job.output.path}_reprocess/again/batch=2"
    # The consumer's own output has a record of its chain, and nothing else changed.
    output = service.get_container_client(f"{job.sink.container}-out")
    others = {blob.name for blob in output.list_blobs() if not blob.name.startswith("results_reprocess")}
    assert others == {"results/_eventconsumer.json"}
    assert committed(drained, 2).attempt == "x"


async def publish(job: BatchJob) -> BatchState:
    """Publish the commits of parallel batches, as the leading host does."""
    async with blob_service(job.sink, "spec.sink", True, ()) as service:
        log = BatchLog(AzureBlobStore(service, job.sink.container, lambda _, __: None), PREFIX)
        state = await log.restore()
        await log.publish(state)
        return await log.poll(state)


@pytest.mark.long  # unit/operator/spark/test_attempts.py has the machine, unit/spark/attempt/test_claim.py the claims
def test_parallel_batches_are_decided_in_any_order_and_published_in_theirs(
    drained: DrainedBatch, launch: Launch, driver: Driver, azurite: AzuriteProcess
) -> None:
    """Three drivers create the table at the same time; one is killed between its transaction and its commit."""
    jobs = []
    for number in (1, 2, 3):
        drained.files.clear()
        drained.slot("0", 1000 * number, 10)
        jobs.append(drained.freeze(number, parallel=True))
    drivers = [launch(job, PROGRAMS, env={"WAY": "kill_at_two"}) for job in jobs]
    outputs = [each.communicate(timeout=HANG_SECONDS)[0] for each in drivers]
    assert [each.returncode for each in drivers] == [0, -signal.SIGKILL, 0], "\n".join(outputs)
    assert [drained.commit(number) for number in (1, 2, 3)] == [None, None, None]
    assert asyncio.run(publish(jobs[0])).committed_number == 1

    lease = BlobLeaseClient(drained.container.get_blob_client(attempt_name(PREFIX, 2)))
    lease.break_lease(0)  # it would expire
    ended = driver(jobs[1].model_copy(update={"attempt": 2}), PROGRAMS, env={"WAY": "append"})
    assert ended.returncode == 0, ended.stdout
    again = driver(jobs[2].model_copy(update={"attempt": 2}), PROGRAMS, env={"WAY": "append"})
    assert again.returncode == 0 and "no work left" in again.stdout, again.stdout
    state = asyncio.run(publish(jobs[0]))
    assert (state.committed_number, state.open) == (3, ())
    found = [committed(drained, number) for number in (1, 2, 3)]
    assert [each.totals.rows_written for each in found] == [10, 20, 30]
    assert [each.rows_written for each in found] == [10, 10, 10]
    assert table(jobs[0], azurite) == [1000 * number + event for number in (1, 2, 3) for event in range(10)]
