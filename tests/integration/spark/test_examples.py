"""The worked examples and the streaming program: over batches, late events, repeats, and a driver killed in between."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from eventconsumer_api.spec.spark import SparkOutput
from eventconsumer_api.wire.batch import BatchCommit, BatchJob
from eventconsumer_spark import WriteResult, streaming
from eventconsumer_spark.errors import ConfigurationError, CountMismatchError
from tests.integration.spark.conftest import Driver
from tests.integration.spark.consumer import Consumer
from tests.integration.spark.drained import MOVED, DrainedBatch
from tests.integration.spark.drivers import ROOT
from tests.support.avrobodies import encoded, framed
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.support.registry import StandInRegistry

EXAMPLES = ROOT / "spark/examples"
PACKAGE = ROOT / "spark/src/eventconsumer_spark"
FIVE_MINUTES = timedelta(minutes=5)
NUMBER = {"type": "record", "name": "Reading", "fields": [{"name": "number", "type": "long"}]}
Events = Iterable[dict[str, Any]]


def windows(events: Events) -> dict[tuple[datetime, str | None], tuple[int, int]]:
    """Events and bytes of each window and key, without Spark."""
    found: dict[tuple[datetime, str | None], tuple[int, int]] = {}
    for event in events:
        start = event["enqueued_time"] - (event["enqueued_time"] - datetime(2026, 1, 1, tzinfo=UTC)) % FIVE_MINUTES
        count, size = found.get((start, event["partition_key"]), (0, 0))
        found[start, event["partition_key"]] = count + 1, size + len(event["body"] or b"")
    return found


def latest(events: Events) -> dict[str, tuple[datetime, int, bytes]]:
    """The latest event of each key, without Spark."""
    found: dict[str, tuple[datetime, int, bytes]] = {}
    for event in events:
        if key := event["partition_key"]:
            row = (event["enqueued_time"], event["sequence_number"], event["body"])
            found[key] = max(row, found.get(key, row))
    return found


def rows(azurite: AzuriteProcess, job: BatchJob) -> list[dict[str, Any]]:
    """The Delta table of a job, read without Spark."""
    options = {"allow_http": "true", "azure_endpoint": azurite.url, "account_name": ACCOUNT, "account_key": KEY}
    table = DeltaTable(f"az://{job.sink.container}-out/results", storage_options=options)
    return list(table.to_pyarrow_table().to_pylist())


def identities(events: Events) -> Counter[tuple[str, int]]:
    """What tells events apart, and how often each is there."""
    return Counter((event["partition_id"], event["sequence_number"]) for event in events)


def as_decoded(table: Events) -> Counter[tuple[str, int, int]]:
    """`identities`, and the number in each decoded body."""
    return Counter((row["partition_id"], row["sequence_number"], row["body"]["number"]) for row in table)


def numbered(events: Events) -> Counter[tuple[str, int, int]]:
    """`as_decoded` of events with the bodies of `avro`."""
    return Counter((*identity, identity[1]) for identity in identities(events))


def as_windows(table: Events) -> dict[tuple[datetime, str | None], tuple[int, int]]:
    return {(row["window"], row["partition_key"]): (row["events"], row["bytes"]) for row in table}


def as_latest(table: Events) -> dict[str, tuple[datetime, int, bytes]]:
    return {row["partition_key"]: (row["enqueued_time"], row["sequence_number"], row["body"]) for row in table}


def example(name: str) -> Any:
    """The work of an example."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile((EXAMPLES / f"{name}.py").read_text(), name, "exec"), names)
    return names["process"]


def test_late_events_correct_earlier_windows_and_no_attempt_counts_twice(
    consumer: Consumer, azurite: AzuriteProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["events_per_window.py"])
    process = example("events_per_window")
    consumer.drained.slot("0", 0, 700)
    consumer.drained.slot("2", 6000, 4, body=lambda _: None)  # A window of tombstones, and later bodies in it.
    first = consumer.job(1)
    keys = len(windows(consumer.drained.events))
    assert consumer.run(first, process) == WriteResult(keys, 1)  # Version 0 is the empty table.
    assert consumer.run(first, process) == WriteResult(keys, 1)
    consumer.drained.slot("0", 700, 100)
    consumer.drained.slot("2", 6004, 8)
    consumer.drained.slot("1", 0, 50)  # Ten minutes and more before what was processed last.
    second = consumer.job(2)
    done = consumer.run(second, process)
    assert consumer.run(second, process) == done
    assert as_windows(rows(azurite, second)) == windows(consumer.drained.events)


def test_an_upsert_keeps_the_latest_event_of_each_key(consumer: Consumer, azurite: AzuriteProcess) -> None:
    process = example("latest_by_key")
    consumer.drained.slot("0", 0, 30)
    assert consumer.run(consumer.job(1), process) == WriteResult(3, 1)
    consumer.drained.slot("1", 10, 5)  # Older than what is there.
    consumer.drained.slot("0", 30, 2)
    second = consumer.job(2)
    done = consumer.run(second, process)
    assert consumer.run(second, process) == done
    assert as_latest(rows(azurite, second)) == latest(consumer.drained.events)


def test_a_stream_takes_each_file_once_even_before_its_batch(consumer: Consumer, azurite: AzuriteProcess) -> None:
    consumer.drained.slot("0", 0, 20)
    first = consumer.job(1, partitionByDate=True)
    early = consumer.drained.slot("1", 5, 10)  # It landed later than the manifest, and is of the second batch.
    assert consumer.run(first, streaming.drain).rows == 20
    assert consumer.run(first, streaming.drain).rows == 20
    consumer.drained.slot("0", 20, 5)
    second = consumer.job(2, partitionByDate=True)
    assert consumer.run(second, streaming.drain).rows == 15
    found = rows(azurite, second)
    assert identities(found) == identities(consumer.drained.events)
    assert {row["file"] for row in found if row["partition_id"] == "1"} == {early.path}

    # A table that lost rows of a file is found out, and the batch is not committed.
    consumer.drained.slot("0", 25, 5)
    third = consumer.job(3, partitionByDate=True)
    consumer.spark.sql(f"DELETE FROM delta.`{third.output.path}` WHERE partition_id = '1'")
    assert consumer.run(third, streaming.drain).rows == 5
    with pytest.raises(CountMismatchError, match=r"the table has 0 rows of .*partition=1.*which has 10"):
        consumer.run(second, streaming.drain)

    text = third.model_copy(update={"output": SparkOutput(path=third.output.path, body={"type": "Text"})})
    with pytest.raises(ConfigurationError, match=r"body\.type: Binary"):
        consumer.run(text, streaming.drain)


@pytest.fixture
def registry() -> Iterator[StandInRegistry]:
    """A schema registry with the schema of `avro`."""
    with StandInRegistry(schemas={"1": json.dumps(NUMBER)}) as made:
        yield made


def avro(number: int) -> bytes:
    """An event's body in Avro."""
    return framed(1, encoded(NUMBER, {"number": number}))


def long(*case: Any) -> Any:
    """The same mechanism in another program."""
    return pytest.param(*case, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("program", "function", "found", "expected", "body"),
    [
        long(EXAMPLES / "events_per_window.py", "process", as_windows, windows, None),
        long(EXAMPLES / "latest_by_key.py", "process", as_latest, latest, None),
        long(PACKAGE / "streaming.py", "drain", identities, identities, None),
        long(PACKAGE / "job.py", "write_batch", as_decoded, numbered, avro),
        (PACKAGE / "job.py", "write_batch", identities, identities, None),
    ],
    ids=["events_per_window", "latest_by_key", "streaming", "the shipped program, Avro", "the shipped program"],
)
def test_a_driver_killed_between_write_and_commit_leaves_nothing_to_be_seen(
    program: Path,
    function: str,
    found: Any,
    expected: Any,
    body: Callable[[int], bytes] | None,
    azurite: AzuriteProcess,
    drained: DrainedBatch,
    driver: Driver,
    registry: StandInRegistry,
) -> None:
    drained.slot("0", 0, 400, body=body)
    drained.slot("1", 100, 50, body=body)
    job = drained.freeze()
    if body:
        decoded = {"type": "Avro", "registry": {"type": "Confluent", "url": registry.url}}
        job = job.model_copy(update={"output": SparkOutput(path=job.output.path, body=decoded)})
    killed = driver(job, Path(__file__).with_name("killed.py"), env={"PROGRAM": str(program), "FUNCTION": function})
    assert killed.returncode == -9, killed.stdout
    assert found(rows(azurite, job)) == expected(drained.events), "written"
    assert drained.commit() is None, "and not committed"
    # The resource was applied again, in another namespace: the chain is the same, so the open batch is finished.
    ended = driver(job.model_copy(update={"attempt": 2, "application": "heir", "resource": MOVED}), program)
    assert ended.returncode == 0, ended.stdout
    commit = drained.commit()
    assert commit is not None
    record = BatchCommit.model_validate_json(commit)
    table = rows(azurite, job)
    assert record.rows_written == len(table)
    assert found(table) == expected(drained.events)
