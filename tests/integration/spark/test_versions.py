"""Drivers of the previous release and of this tree take over each other's batches, as in an upgrade and a rollback."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

import eventconsumer_spark.job
from eventconsumer_api.wire.batch import BatchCommit
from tests.integration.spark.conftest import Driver
from tests.integration.spark.drained import DrainedBatch
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.support.previous import Previous

KILLED = Path(__file__).with_name("killed.py")
TODAY = Path(eventconsumer_spark.job.__file__)


@pytest.mark.long  # contract/api/wire/test_previous.py has the documents, test_attempts.py attempts of one version
def test_attempts_of_two_versions_at_one_batch_write_each_event_once(
    drained: DrainedBatch, driver: Driver, azurite: AzuriteProcess, tmp_path: Path
) -> None:
    old = Previous.check_out(tmp_path)
    (program,) = old.tree.glob("*/src/eventconsumer_spark/job.py")
    runs: list[tuple[Path, dict[str, str]]] = [(program, old.environment), (TODAY, {})]
    for number in (1, 2):
        drained.files.clear()
        drained.slot("0", 100 * number, 100)
        job = drained.freeze(number)
        (first, environment), (second, other) = runs
        ended = driver(job, KILLED, env={"PROGRAM": str(first), "FUNCTION": "write_batch"} | environment)
        assert (ended.returncode, drained.commit(number)) == (-9, None), ended.stdout
        ended = driver(job.model_copy(update={"attempt": 2}), second, env=other)
        assert ended.returncode == 0, ended.stdout
        commit = BatchCommit.model_validate_json(drained.commit(number) or "")
        assert (commit.rows_read, commit.rows_written, commit.totals.rows_written) == (100, 100, 100 * number)
        runs.reverse()
    options = {"allow_http": "true", "azure_endpoint": azurite.url, "account_name": ACCOUNT, "account_key": KEY}
    table = DeltaTable(f"az://{drained.container.container_name}-out/results", storage_options=options)
    rows = table.to_pyarrow_table(columns=["sequence_number"])["sequence_number"].to_pylist()
    assert sorted(rows) == [*range(100, 300)]
    assert table.version() == 1  # so the second attempts found what the first ones wrote
