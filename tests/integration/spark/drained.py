"""Drained files as hosts leave them: Parquet slots in a container, and the manifest of a batch over them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient

from eventconsumer_api.spec.spark import SparkOutput
from eventconsumer_api.wire.batch import BatchFile, BatchJob, BatchManifest, Range, Totals, commit_name, manifest_name
from eventconsumer_api.wire.host_config import BlobLocation, Credential, ResourceRef
from eventconsumer_host.sink.parquet import SCHEMA
from tests.support.azurite import ACCOUNT

RESOURCE = ResourceRef(namespace="shop", name="orders", uid="5f1c9e0a-7d7c-4f6e-9a55-2c6c1a1b2c3d")
CHAIN = "00000000000000c1"
MOVED = ResourceRef(namespace="market", name="orders", uid="uid-2")
"""The resource after it was deleted and applied again, in another namespace with the same `sink.prefix`."""
PREFIX = "shop/orders"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def event(partition: str, sequence: int) -> dict[str, object]:
    """One event; its id is unique over all partitions, its key one of three and none."""
    number = int(partition) * 1_000_000 + sequence
    return {
        "sequence_number": sequence,
        "offset": str(sequence * 1000),
        "enqueued_time": START + timedelta(seconds=sequence),
        "partition_key": None if number % 7 == 0 else f"key-{number % 3}",
        "partition_id": partition,
        "body": f"body {number}".encode(),
        "properties": [("id", str(number)), ("note", "ä=ö")],
        "system_properties": [("x-opt-sequence-number", str(sequence))],
        "content_type": None,
        "message_id": f"m{number}",
        "correlation_id": None,
    }


@dataclass
class DrainedBatch:
    """A container with slots; `files` is what the manifest will say."""

    container: ContainerClient
    host: str
    secret_file: str
    files: list[BatchFile] = field(default_factory=list)
    events: list[dict[str, object]] = field(default_factory=list)

    def slot(
        self, partition: str, first: int, count: int, body: Callable[[int], bytes | None] | None = None
    ) -> BatchFile:
        """Write one drained file and list it; `body` gives an event's body by its sequence number."""
        rows = [event(partition, number) for number in range(first, first + count)]
        if body:
            rows = [row | {"body": body(number)} for number, row in enumerate(rows, first)]
        buffer = BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), buffer, compression="zstd")
        path = f"{PREFIX}/segment=0123456789abcdef/partition={partition}/from={first:020d}.parquet"
        answer = self.container.upload_blob(path, buffer.getvalue())
        etag = str(answer.get_blob_properties().etag)
        size = buffer.getbuffer().nbytes
        last = first + count - 1
        file = BatchFile(path=path, etag=etag, size=size, partition=partition, first=first, last=last, count=count)
        self.files.append(file)
        self.events.extend(rows)
        return file

    def damage(self, index: int) -> BatchFile:
        """Turn a listed file into one that no reader can open; the list says what storage says."""
        file = self.files[index]
        answer = self.container.upload_blob(file.path, b"\0" * file.size, overwrite=True)
        self.files[index] = file.model_copy(update={"etag": str(answer.get_blob_properties().etag)})
        return self.files[index]

    def freeze(self, number: int = 1, chain: str = CHAIN, *, parallel: bool = False) -> BatchJob:
        """Write the manifest of a chain, and return the job that processes it as one of `CHAIN`."""
        ranges = {
            partition: Range(
                first=min(file.first for file in self.files if file.partition == partition),
                last=max(file.last for file in self.files if file.partition == partition),
            )
            for partition in {file.partition for file in self.files}
        }
        manifest = BatchManifest(
            number=number,
            created_at=START,
            reason="Files",
            chain=chain,
            resource=RESOURCE,
            segment_id="0123456789abcdef",
            files=self.files,
            ranges=ranges,
            next={partition: covered.last + 1 for partition, covered in ranges.items()},
            totals=Totals(files=len(self.files), events=len(self.events), bytes=sum(file.size for file in self.files)),
            parallel=parallel,
        )
        self.container.upload_blob(manifest_name(PREFIX, number), manifest.model_dump_json(by_alias=True))
        credential = Credential(
            field="spec.sink.authentication.connectionStringSecretRef",
            secret="orders-storage",
            key="connectionString",
            connection_string_file=self.secret_file,
        )
        return BatchJob(
            chain=CHAIN,
            resource=RESOURCE,
            application=f"orders-5f1c9e0a-b{number}",
            number=number,
            sink=BlobLocation(container=self.container.container_name, prefix=PREFIX, credential=credential),
            output=SparkOutput(path=f"abfs://{self.container.container_name}-out@{self.host}/results"),
            allow_insecure_endpoints=True,
            parallel=parallel,
        )

    def commit(self, number: int = 1) -> bytes | None:
        """The batch's commit, byte for byte; None where there is none."""
        blob = self.container.get_blob_client(commit_name(PREFIX, number))
        return bytes(blob.download_blob().readall()) if blob.exists() else None


def host_name(port: int) -> str:
    """A product-style name of the development account: ABFS takes the account from the first label."""
    return f"{ACCOUNT}.blob.localhost:{port}"
