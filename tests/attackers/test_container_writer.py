"""Attacks by a writer of the container with the files."""

import gzip
import hashlib
import io
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from azure.storage.blob import ContainerClient, ContentSettings
from azure.storage.blob.aio import BlobServiceClient as AsyncBlobServiceClient

from eventconsumer_api.wire.capture import AVRO_SCHEMA
from eventconsumer_audit.container import AzureContainer
from eventconsumer_host.sink.parquet import SCHEMA
from eventconsumer_storage.account import StorageAccount
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.sync_blobs import SyncBlobStore
from tests.attackers import bombs
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.integration.processor.conftest import MakeConsumer, consumer  # noqa: F401 - a fixture
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.support.waiting import wait_until

AUDIT_BYTES = 512 * 2**20  # less than the pod of `audit --deep` has


def _parquet_bomb() -> bytes:
    """A file of a host whose `partition_id` is a text of 1 MiB in each row."""
    rows, groups = 48, 24
    content = io.BytesIO()
    columns: dict[str, Any] = {"sequence_number": list(range(rows)), "partition_id": ["0" * 2**20] * rows}
    arrays = [pa.array(columns.get(kind.name, [None] * rows), kind.type) for kind in SCHEMA]
    with pq.ParquetWriter(content, SCHEMA, compression="zstd") as file:
        for _ in range(groups):
            file.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA))
    return content.getvalue()


def _avro_bomb() -> bytes:
    """A file of Capture's schema whose block decompresses to a gigabyte."""
    size = 2**30
    packer = zlib.compressobj(1, wbits=-15)
    block = b"".join(packer.compress(bytes(2**20)) for _ in range(size // 2**20)) + packer.flush()
    sync = bytes(16)
    meta = {b"avro.codec": b"deflate", b"avro.schema": AVRO_SCHEMA.encode()}
    pairs = b"".join(_long(len(text)) + text for pair in meta.items() for text in pair)
    return b"Obj\x01" + _long(len(meta)) + pairs + _long(0) + sync + _long(1) + _long(len(block)) + block + sync


def _long(number: int) -> bytes:
    number, parts = number << 1, bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def _exhaust_a_deep_audit(
    container: ContainerClient, azurite: AzuriteProcess, folder: Path, slot: str, content: bytes
) -> Outcome:
    """Replace a file by one that needs gigabytes of memory, with the metadata of a valid file, and audit all."""
    blob = container.get_blob_client(slot)
    facts = blob.get_blob_properties().metadata | {"sha256": hashlib.sha256(content).hexdigest()}
    blob.upload_blob(content, metadata=facts, overwrite=True)
    secret = folder / "storage"
    secret.write_text(azurite.connection_string)
    where = [f"--container={container.container_name}", "--prefix=shop/orders"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "eventconsumer_tools",
            "audit",
            "--json",
            "--deep",
            f"--connection-string-file={secret}",
            *where,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with bombs.Container(process.pid, AUDIT_BYTES) as memory:
        output, _ = process.communicate()
    if memory.killed:
        return Gained(f"the end of the audit, with {len(content)} bytes")
    report = json.loads(output)
    found = {(each["code"], each["blob"]) for each in report["findings"]}
    assert ("FileDamaged", slot) in found, found
    others = [blob for code, blob in found if code == "FileDamaged" and blob != slot]
    assert not others and sum(each["files"] for each in report["partitions"]) >= 2, report
    return Refused(f"the limit of the child that reads it: {found}")


@pytest.mark.parametrize(
    ("file_format", "make", "plain"),
    [
        ("Parquet", _parquet_bomb, bombs.PLAIN_PARQUET),
        pytest.param("Avro", _avro_bomb, bombs.PLAIN_AVRO, marks=pytest.mark.long),
    ],
)
def test_a_file_that_needs_gigabytes_is_a_finding_of_the_deep_audit(
    consumer: MakeConsumer,  # noqa: F811
    azurite: AzuriteProcess,
    tmp_path: Path,
    file_format: str,
    make: Callable[[], bytes],
    plain: str,
) -> None:
    orders = consumer(partitions=2, files={"format": file_format})
    for partition in ("0", "1"):
        orders.publish(50, partition)
    host = orders.host()
    with orders.container(orders.drained) as container:
        wait_until(lambda: len(_slots(container)) == 2, f"two files: {host.log[-2000:]}")
        assert host.terminate() == 0
        content = make()
        outcome = _exhaust_a_deep_audit(container, azurite, tmp_path, _slots(container)[0], content)
    assert isinstance(outcome, Refused), outcome
    assert bombs.read_plainly(plain, content, tmp_path), "a program without the limit reads it"


def _slots(container: ContainerClient) -> list[str]:
    try:
        return [blob.name for blob in container.list_blobs("shop/orders/segment=")]
    except Exception:  # no container yet
        return []


async def test_a_blob_that_says_it_is_compressed_is_not_decompressed(azurite: AzuriteProcess) -> None:
    """Azure's client decompresses it by default, and then the limit of a read does not hold."""
    limit, expanded = 2**20, 64 * 2**20
    content = gzip.compress(bytes(expanded), 1)
    service = AsyncBlobServiceClient.from_connection_string(azurite.connection_string, **client_options())
    async with service:
        name = azurite.container()
        client = await service.create_container(name)
        await client.upload_blob("record", content, content_settings=ContentSettings(content_encoding="gzip"))

        async def attack() -> Outcome:
            store = AzureBlobStore(service, name, lambda _, __: None)
            blob = await store.read("record", limit)
            assert blob is not None
            part = await store.read_range("record", 0, len(content), if_match=blob.info.etag)
            audited = await AzureContainer(service, name).read("record", limit)
            assert audited is not None
            largest = max(map(len, (blob.data, part, audited)))
            return Gained(f"{largest} bytes in memory") if largest > limit else Refused("the limit of the read")

        with SyncBlobStore(StorageAccount(azurite.url, ACCOUNT, key=KEY), name) as spark:
            found = spark.read("record", limit)
            assert found is not None and found.data == content
        outcome = await attack()
        assert isinstance(outcome, Refused), outcome
        plain = await client.download_blob("record", offset=0, length=limit)
        assert len(await plain.readall()) == expanded, "the client without the option decompresses it"


@pytest.mark.parametrize("value", [b"[]", b"{}", b"1"])
def test_a_record_of_millions_of_values_is_refused_before_it_is_parsed(value: bytes) -> None:
    """pydantic takes up to 370 bytes for each value of JSON, also of a field that it then refuses."""
    content = b'{"number":1,"x":[' + b",".join([value] * (2**20 // len(value))) + b"]}"

    def attack(parse: str) -> Outcome:
        program = (  # not ru_maxrss, which begins with the memory of the process that started it
            "import re, sys; from eventconsumer_api.wire.batch import BatchManifest\n"
            "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) * 1024\n"
            "data = sys.stdin.buffer.read(); before = peak()\n"
            f"try: {parse}(data)\n"
            "except ValueError: pass\n"
            "print(peak() - before)"
        )
        found = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, check=True)
        grown = int(found.stdout)
        return Gained(f"{grown} bytes with {len(content)}") if grown > 64 * 2**20 else Refused("the number of values")

    assert isinstance(attack("BatchManifest.model_validate_json"), Refused)
    assert isinstance(attack("BatchManifest.__pydantic_validator__.validate_json"), Gained)
