"""What others read: files, table and dead letters as real hosts leave them, and the output of our Spark program.

Two partitions of one hub; sequence numbers of partition 1 are above 2**53, where a reader that goes through floats is
wrong. A wave is sent, drained and frozen as a batch, and Spark processes it; then the next one.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.amqp import AmqpAnnotatedMessage
from azure.storage.blob import BlobServiceClient
from pyspark.sql import SparkSession

from eventconsumer_api.spec.spark import SparkOutput
from eventconsumer_api.wire.batch import BatchJob, BatchManifest, ReprocessOf, commit_name, manifest_name
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_spark.attempt.attempt import Attempt, begin
from eventconsumer_spark.attempt.shutdown import Ending
from eventconsumer_spark.job import write_batch
from eventconsumer_spark.program.process import run
from eventconsumer_spark.storage.paths import open_site
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.integration.spark.drained import host_name
from tests.support.appfolder import app_folder
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

PREFIX = "shop/orders"
HUB = "orders"
LARGE = 2**53 + 1
WAVES = 3
"""Batches 1 and 2 are committed; the output of batch 3 is written, and its commit is missing."""
PER_PARTITION = 6
NO_TEXT = b"\xff\xfe{}"
POISON = b'{"poison":true}'
HANDLER = """
class Picky:
    def process_events(self, context, batch):
        for event in batch:
            if event.body and b"poison" in event.body:
                raise ValueError("cannot digest it")
"""
Row = dict[str, Any]


def messages(partition: str, wave: int) -> Iterator[EventData | AmqpAnnotatedMessage]:
    """The events of a wave: `PER_PARTITION` for each partition."""
    bodies = [b'{"id":%d,"x":"\xc3\xa4"}' % (wave * 100), b"", b"a\0b\n", b"y" * 5_000]
    bodies.append(NO_TEXT if partition == "0" else b"plain")
    for number, body in enumerate(bodies):
        event = EventData(POISON if (partition, wave, number) == ("1", 1, 1) else body)
        if number:
            event.properties = {"int": number, "text": "ä=ö", "float": 1.5, "bool": True, "most": 2**31 - 1}
        event.message_id, event.content_type = f"m-{wave}-{number}", "application/json"
        event.correlation_id = None if number % 2 else "c\n1"
        yield event
    yield AmqpAnnotatedMessage(data_body=[b"two ", b"sections"])


@dataclass
class OutsiderStage:
    """Places, and the events that were sent.

    Attributes:
        azurite: The storage.
        local: A folder with a copy of each container, by its name.
        drained: Containers of drained files, by format: Parquet, Avro, Capture.
        output: Container of Spark's output: folders parquet, parquet_quarantine, delta_reprocess/again.
        sent: All events as the SDK receives them, in order of partition and number.
        spark: A session with access to the storage.
        host: The account's host in paths of Spark, with its port.
    """

    azurite: AzuriteProcess
    local: Path
    spark: SparkSession
    host: str
    drained: dict[str, str] = field(default_factory=dict)
    output: str = ""
    sent: list[Row] = field(default_factory=list)

    def of_batches(self, *numbers: int) -> list[Row]:
        """The events of these batches."""
        return [row for row in self.sent if row["wave"] in numbers]

    def copy(self, container: str) -> Path:
        """Copy a container to the local folder as it is now, without the blobs that Hadoop writes for folders."""
        with BlobServiceClient.from_connection_string(self.azurite.connection_string) as service:
            client = service.get_container_client(container)
            for blob in client.list_blobs(include=["metadata"]):
                if "hdi_isfolder" in {key.lower() for key in blob.metadata or {}}:
                    continue
                file = self.local / container / blob.name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(client.download_blob(blob.name).readall())
        return self.local / container


def build(emulator: EmulatorProcess, azurite: AzuriteProcess, spark: SparkSession, folder: Path) -> OutsiderStage:
    """Send, drain and process all waves."""
    stage = OutsiderStage(azurite, folder / "local", spark, host_name(azurite.port))
    emulator.admin.create_hub(HUB, 2, ["avro", "capture"])
    emulator.admin.skip_numbers(HUB, "1", LARGE)
    code = folder / "picky.py"
    code.write_text(HANDLER)
    app = app_folder(folder / "app", code)
    parquet = _consumer(
        folder / "parquet",
        emulator,
        azurite,
        table={"maxSeconds": 1},
        processing={"handler": "picky:Picky", "handlerMode": "PassThrough", "handlerAttempts": 1, "maxWaitSeconds": 1},
        # Whatever the machine does: a wave is one file of each partition, and one batch.
        roll={"maxBytes": 1_000_000, "maxSeconds": 600, "maxEvents": PER_PARTITION},
        batches={"trigger": {"files": 2, "ageSeconds": 604_800}},
    )
    avro = _consumer(folder / "avro", emulator, azurite, group="avro", files={"format": "Avro"})
    capture = _consumer(
        folder / "capture", emulator, azurite, group="capture", files={"format": "Avro", "layout": "Capture"}
    )
    stage.drained = {"Parquet": parquet.drained, "Avro": avro.drained, "Capture": capture.drained}
    stage.output = f"{parquet.drained}-out"
    try:
        path = os.pathsep.join(filter(None, (str(app), os.environ.get("PYTHONPATH"))))
        hosts = [parquet.host(environment={"PYTHONPATH": path}), avro.host(), capture.host()]
        for wave in range(1, WAVES + 1):
            _send(emulator, wave)
            manifest = wait_until(lambda n=wave: _manifest(parquet, n), f"batch {wave}: {hosts[0].log[-2000:]}")
            assert sum(each.count for each in manifest.files) == 2 * PER_PARTITION
            _process(stage, _job(stage, parquet, wave, "parquet"), commit=wave < WAVES)
        again = _job(stage, parquet, 1, "delta", format="Delta")
        _older(stage, again)
        for number in (1, 2):
            reprocess = again.model_copy(
                update={"number": number, "reprocess": ReprocessOf(name="again", first=1, last=2)}
            )
            _process(stage, reprocess)
        ends = {str(p): _start(str(p)) + WAVES * PER_PARTITION for p in range(2)}
        wait_until(lambda: _all_in_files(hosts, ends), f"all is drained: {hosts}")
        wait_until(lambda: _registered(hosts[0]), f"all files are in the table: {hosts[0]}")
        assert [host.terminate() for host in hosts] == [0, 0, 0]
    finally:
        for consumer in (parquet, avro, capture):
            consumer.close()
    stage.sent = _received(emulator)
    for container in (*stage.drained.values(), stage.output):
        stage.copy(container)
    return stage


def _consumer(
    folder: Path, emulator: EmulatorProcess, azurite: AzuriteProcess, group: str = "$Default", **config: Any
) -> Consumer:
    folder.mkdir()
    made = Consumer(folder, emulator, azurite, HUB, **config)
    made.config["eventHub"]["consumerGroup"] = group
    return made


def _send(emulator: EmulatorProcess, wave: int) -> None:
    with EventHubProducerClient.from_connection_string(emulator.connection_string(HUB)) as producer:
        for partition in ("0", "1"):
            batch = producer.create_batch(partition_id=partition)
            for message in messages(partition, wave):
                batch.add(message)
            producer.send_batch(batch)


def _manifest(consumer: Consumer, number: int) -> BatchManifest | None:
    with consumer.container(consumer.drained) as container:
        try:
            content = container.download_blob(manifest_name(PREFIX, number)).readall()
        except ResourceNotFoundError:
            return None
    return BatchManifest.model_validate_json(content)


def _job(stage: OutsiderStage, consumer: Consumer, number: int, folder: str, **output: Any) -> BatchJob:
    config = HostConfig.model_validate(consumer.config)
    manifest = _manifest(consumer, number)
    assert manifest is not None
    path = f"abfs://{stage.output}@{stage.host}/{folder}"
    return BatchJob(
        chain=manifest.chain,
        resource=config.resource,
        application=f"orders-{number}",
        number=number,
        sink=config.sink,
        output=SparkOutput.model_validate({"path": path, "format": "Parquet", "body": {"type": "Text"}, **output}),
        allow_insecure_endpoints=True,
    )


def _process(stage: OutsiderStage, job: BatchJob, *, commit: bool = True) -> None:
    """One attempt of a driver; without a commit it ends just before it."""
    ending = Ending()
    with open_site(job, {}) as site:
        attempt = begin(job, site, ending)
        assert isinstance(attempt, Attempt)
        try:
            if commit:
                run(attempt, stage.spark, write_batch)
            else:
                write_batch(attempt.batch(stage.spark))
        finally:
            attempt.end()
        assert commit == (site.store.read(commit_name(site.commits, job.number), 1 << 20) is not None)


def _older(stage: OutsiderStage, job: BatchJob) -> None:
    """The record of an output that an older version began: its folders of batches have a hidden name."""
    time = "2026-01-01T00:00:00Z"
    record = {"version": 1, "chain": job.chain, "sink": "a/b/c", "resource": job.resource.path, "since": time}
    with BlobServiceClient.from_connection_string(stage.azurite.connection_string) as service:
        service.get_container_client(stage.output).upload_blob("delta/_eventconsumer.json", json.dumps(record))


def _start(partition: str) -> int:
    return LARGE if partition == "1" else 0


def _all_in_files(hosts: list[HostProcess], ends: dict[str, int]) -> bool:
    return all({p.id: p.next_sequence_number for p in host.report().partitions} == ends for host in hosts)


def _registered(host: HostProcess) -> bool:
    fleet = host.report().fleet
    table = fleet.table if fleet else None
    return table is not None and (table.events, table.pending_files) == (2 * WAVES * PER_PARTITION, 0)


def _received(emulator: EmulatorProcess) -> list[Row]:
    """All events of the hub by Microsoft's SDK, with the columns of drained files."""
    rows: list[Row] = []
    total = 2 * WAVES * PER_PARTITION
    client = EventHubConsumerClient.from_connection_string(emulator.connection_string(HUB), "$Default")

    def take(context: Any, event: EventData | None) -> None:
        if event is not None:
            number = event.sequence_number
            rows.append(_row(context.partition_id, number, event))
        if len(rows) == total:
            client.close()

    with client:
        client.receive(take, starting_position="-1", max_wait_time=1)
    rows.sort(key=lambda row: (row["partition_id"], row["sequence_number"]))
    return rows


def _row(partition: str, number: int, event: EventData) -> Row:
    return {
        "sequence_number": number,
        "offset": event.offset,
        "enqueued_time": event.enqueued_time.astimezone(UTC),
        "partition_key": event.partition_key and event.partition_key.decode(),
        "partition_id": partition,
        "body": b"".join(event.body),
        "properties": {_text(key): _value(value) for key, value in (event.properties or {}).items()},
        "content_type": event.content_type,
        "message_id": event.message_id,
        "correlation_id": event.correlation_id,
        "wave": (number - _start(partition)) // PER_PARTITION + 1,
    }


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _value(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def utc(value: Any) -> datetime:
    """A reader's time, as aware UTC; naive times of readers without time zones are UTC."""
    time = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
    assert isinstance(time, datetime)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
