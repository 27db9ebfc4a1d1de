"""The program `eventconsumer audit` on real storage, over files that a host wrote, and that retention removed."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import ContainerClient
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_api.v1alpha1 import Retention as Limits
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import RetentionReport
from eventconsumer_audit import container as container_module
from eventconsumer_audit.container import ATTEMPTS, AzureContainer
from eventconsumer_audit.model import AuditReport, TableAudit
from eventconsumer_audit.read import audit
from eventconsumer_host.batch.log import BatchLog, BatchState
from eventconsumer_host.identity.records import Times, claim_chain
from eventconsumer_host.identity.segments import current
from eventconsumer_host.leader.retention import FileRetention
from eventconsumer_host.leader.tail import Tail, segments_of
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.sink.formats import files_of
from eventconsumer_host.sink.slots import Chain, Draft, segment_id, utc_now
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_host.source.rows import EventRows, FlatMap
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Damaged, Unavailable
from eventconsumer_storage.lease_time import boottime
from eventconsumer_tools.access import Options, opened
from tests.support.audited import assert_clean, run_program
from tests.support.azurite import KEY, AzuriteProcess
from tests.support.faultactions import Down, Fail, Truncate
from tests.support.faultproxy import FaultProxy, Match

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
INFO = HubInfo("shop.example", "orders", CREATED, ("0", "1"))
LAYOUTS: dict[str, dict[str, Any]] = {
    "parquet": {"format": "Parquet", "layout": "SequenceNumber"},
    "capture": {"format": "Avro", "layout": "Capture", "emptyFiles": True},
}


@dataclass
class Drained:
    """A consumer that was drained: partitions 0 and 1, three files of ten events each, checkpoints at their ends."""

    azurite: AzuriteProcess
    config: dict[str, Any]
    config_file: Path
    files: str
    leases: str

    @property
    def environment(self) -> dict[str, str]:
        """What a host pod has."""
        return {"EVENTCONSUMER_CONFIG": str(self.config_file)}

    def client(self, name: str = "") -> ContainerClient:
        """A container, that of the files if not said."""
        return ContainerClient.from_connection_string(self.azurite.connection_string, name or self.files)

    def names(self, prefix: str) -> list[str]:
        """Blobs below the consumer's prefix."""
        with self.client() as container:
            return [blob.name for blob in container.list_blobs(f"shop/orders/{prefix}")]

    def audit(self, *, deep: bool = True) -> dict[str, Any]:
        """The report of an audit, without a process of its own."""

        async def go() -> AuditReport:
            async with opened(self.config_file, Options(), hub=False) as found:
                return await audit(found, deep=deep)

        report: dict[str, Any] = json.loads(asyncio.run(go()).model_dump_json(by_alias=True))
        return report

    def retain(self, checkpoint: int = 1000) -> RetentionReport:
        """Remove all files that are due: with a limit of one byte, all that may be removed."""
        found: list[RetentionReport] = []

        async def go(store: BlobStore, config: HostConfig) -> None:
            segments = await current(store, "shop/orders", INFO, CREATED)
            tail = Tail(segments_of(config, INFO, segments, store, utc_now), utc_now)
            work = FileRetention(
                store,
                config,
                Limits(bytes=1),
                "",
                tail,
                batches=BatchLog(store, "shop/orders"),
                metrics=Metrics(),
                now=utc_now,
            )
            at = Checkpoint(str(checkpoint), checkpoint)
            await work.step(INFO.partition_ids, {name: Lease(name, checkpoint=at) for name in "01"}, BatchState())
            assert work.report is not None
            found.append(work.report)

        self.write(go)
        return found[0]

    def write(self, action: Callable[[BlobStore, HostConfig], Awaitable[None]]) -> None:
        """Let a host's code write."""

        async def go() -> None:
            service = BlobServiceClient.from_connection_string(self.azurite.connection_string, **client_options())
            store = AzureBlobStore(service, self.files, lambda _, __: None)
            await store.ensure_container()
            await action(store, HostConfig.model_validate(self.config))
            await store.close()

        asyncio.run(go())


def events(start: int, count: int) -> EventBatch:
    """Events in sequence order."""
    numbers = list(range(start, start + count))
    text = [str(number) for number in numbers]
    none: list[str | None] = [None] * count
    bodies = [b"body %d" % number for number in numbers]
    times = [1_767_225_600_000] * count
    one, two = FlatMap([0] * count), FlatMap([0] * count)
    return EventBatch.of(EventRows(numbers, text, times, none, bodies, one, two, none, none, none))


async def commit(chain: Chain, encode: Any, start: int, identity: str) -> None:
    """Commit a file of ten events as a host does."""
    last, count = start + 9, 10
    draft = Draft(start, start, last, count, 1, "host-a", f"nonce-{start}", str(last), CREATED, chain=identity)
    await chain.put(draft, b"".join(encode([events(start, count)], chain.partition, draft.metadata())))


async def claim(store: BlobStore, config: HostConfig) -> str:
    """The identity of the chain, claimed as a host does."""

    leases = lease_store(config, INFO, store, boottime)  # nobody holds any
    return await claim_chain(config, segment_id(INFO), leases, store, Times(lambda: CREATED, boottime))


def make(azurite: AzuriteProcess, folder: Path, files: dict[str, Any]) -> Drained:
    """Drain."""
    secret = folder / "storage"
    secret.write_text(azurite.connection_string)
    credential = {"field": "spec.x", "secret": "s", "key": "k", "connectionStringFile": str(secret)}
    drained, leases = azurite.container(), azurite.container()
    config: dict[str, Any] = {
        "resource": {"namespace": "shop", "name": "orders", "uid": "u"},
        "eventHub": {"name": "orders", "consumerGroup": "$Default", "credential": credential},
        "leases": {"location": {"container": leases, "prefix": "", "credential": credential}, "durationSeconds": 15},
        "startingPosition": {"type": "Earliest"},
        "processing": {},
        "sink": {"container": drained, "prefix": "shop/orders", "credential": credential},
        "files": files,
        "roll": {},
        "batches": None,
        "drainSeconds": 10,
        "allowInsecureEndpoints": True,
    }
    config_file = folder / "config.json"
    config_file.write_text(json.dumps(config))
    made = Drained(azurite, config, config_file, drained, leases)

    async def drain(store: BlobStore, parsed: HostConfig) -> None:
        segment = (await current(store, "shop/orders", INFO, CREATED))[-1]
        identity = await claim(store, parsed)
        second = iter(range(1000))
        times = lambda: CREATED + timedelta(seconds=next(second))  # noqa: E731
        encode, chain_of = files_of(parsed, INFO, segment, store, now=times)
        for partition in ("0", "1"):
            chain = chain_of(partition)
            await chain.begin(100)
            for start in (100, 110, 120):
                await commit(chain, encode, start, identity)
            await chain.put_empty()

    made.write(drain)
    with made.client(leases) as container:
        container.create_container()
        whose = {"chain": made.audit()["chain"], "sink": "here", "resource": "shop/orders", "since": str(CREATED)}
        record = {"namespace": "shop.example", "hub": "orders", "consumerGroup": "$Default"} | whose
        container.upload_blob("$Default~identity.json", json.dumps(record))
        for partition in ("0", "1"):
            body = {"Offset": "129", "SequenceNumber": 129, "PartitionId": partition, "Owner": "", "Epoch": 1}
            container.upload_blob(f"$Default/{partition}", json.dumps(body))
    return made


@pytest.fixture(params=list(LAYOUTS))
def drained(request: pytest.FixtureRequest, azurite: AzuriteProcess, tmp_path: Path) -> Iterator[Drained]:
    """A consumer in each format and layout."""
    yield make(azurite, tmp_path, LAYOUTS[request.param])


@pytest.fixture
def parquet(azurite: AzuriteProcess, tmp_path: Path) -> Drained:
    """A consumer with Parquet files."""
    return make(azurite, tmp_path, LAYOUTS["parquet"])


def test_what_the_hosts_writers_write_is_clean(drained: Drained) -> None:
    report = assert_clean(drained.azurite, drained.files, "shop/orders", drained.leases)
    assert [(p["partition"], p["start"], p["next"], p["files"], p["events"]) for p in report["partitions"]] == [
        ("0", 100, 130, 3, 30),
        ("1", 100, 130, 3, 30),
    ]
    assert report["hub"] == "shop.example/orders"
    assert report["counts"] == {}


def test_a_deleted_and_an_overwritten_file_are_violations(drained: Drained) -> None:
    middle = next(name for name in drained.names("segment=") if "partition=0" in name and "110" in name)
    with drained.client() as container:
        blob = container.get_blob_client(middle)
        kept, metadata = blob.download_blob().readall(), blob.get_blob_properties().metadata
        blob.delete_blob()
        report = drained.audit()
        assert (report["exitCode"], report["counts"]["SlotMissing"]) == (2, 1)
        changed = kept[:-20] + bytes(byte ^ 1 for byte in kept[-20:])
        blob.upload_blob(changed, metadata=metadata)
        assert drained.audit()["counts"]["ContentChanged"] == 1
        blob.upload_blob(b"", overwrite=True)
        assert drained.audit()["counts"]["SlotChanged"] == 1
        blob.upload_blob(kept, metadata=metadata, overwrite=True)
    assert drained.audit()["exitCode"] == 0


def test_a_host_pod_needs_no_options(parquet: Drained) -> None:
    result = run_program("audit", **parquet.environment)
    assert (result.returncode, result.stderr) == (0, "")
    *table, verdict = result.stdout.strip().splitlines()
    assert verdict.startswith("Clean: each event is in exactly one file (2 partitions, 6 files, 60 events")
    rows = [re.findall(r"[\w,]+", line) for line in table]
    assert ["0", "100", "130", "129", "3", "30", "0", "1", "clean"] in rows, result.stdout


def test_a_violation_is_named_and_says_what_to_do(parquet: Drained) -> None:
    with parquet.client() as container:
        container.delete_blob(parquet.names("segment=")[1])
    result = run_program("audit", **parquet.environment)
    assert result.returncode == 2
    assert "SlotMissing (S2) partition 0: no file starts at 110" in result.stdout
    verdict = result.stdout.strip().splitlines()[-1]
    assert verdict.startswith("VIOLATION: 1 violation")
    assert "Remedy: a file was deleted: restore the blob" in verdict


def test_the_json_document_is_what_its_reference_says(parquet: Drained) -> None:
    report = parquet.audit()
    reference = (Path(__file__).parents[3] / "docs/reference/audit.md").read_text()
    table = TableAudit().model_dump(by_alias=True)
    for part in (report, report["partitions"][0], report["batches"], table):
        for key in part:
            assert f"`{key}`" in reference, f"{key} is not described"


def test_a_bad_connection_string_is_named_and_not_shown(parquet: Drained, tmp_path: Path) -> None:
    text = "AccountName=a;AccountKey=no-base64!;BlobEndpoint=http://127.0.0.1:1/a"
    secret = tmp_path / "bad"
    secret.write_text(text)
    result = run_program("audit", f"--connection-string-file={secret}", "--container=c", "--prefix=p")
    assert result.returncode == 3
    assert "AccountKey that is not base64" in result.stdout
    assert text not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_what_cannot_be_audited_has_exit_code_3(parquet: Drained) -> None:
    secret = parquet.config_file.with_name("storage")
    where = ("--container=not-there", "--prefix=shop/orders")
    result = run_program("audit", f"--connection-string-file={secret}", *where)
    assert (result.returncode, result.stderr) == (3, "")
    assert "ContainerNotFound" in result.stdout


def test_a_refused_key_is_named_and_not_shown(azurite: AzuriteProcess, tmp_path: Path) -> None:
    secret, other = tmp_path / "refused", KEY.replace("E", "F")
    secret.write_text(azurite.connection_string.replace(KEY, other))
    result = run_program("audit", f"--connection-string-file={secret}", "--container=drained", "--prefix=p")
    assert (result.returncode, result.stderr) == (3, "")
    assert "AuthorizationFailure" in result.stdout
    assert other[:20] not in result.stdout


def test_a_mistake_in_the_call_is_no_violation() -> None:
    result = run_program("audit", "--no-such-option")
    assert (result.returncode, result.stderr.splitlines()[0]) == (3, "No such option: --no-such-option")
    result = run_program("audit", "--json", "--config=/not/there")
    assert (result.returncode, json.loads(result.stdout)["verdict"]) == (3, "Unreadable")


async def test_a_listing_reads_all_pages(azurite: AzuriteProcess) -> None:
    async with BlobServiceClient.from_connection_string(azurite.connection_string, **client_options()) as service:
        name = azurite.container()
        client = await service.create_container(name)
        for number in range(7):
            await client.upload_blob(f"a/{number}", b"x", metadata={"number": str(number)})
        await client.upload_blob("b/0", b"x")
        container = AzureContainer(service, name, page=2)
        found = [(info.name, info.size, info.metadata["number"]) async for info in container.walk("a/")]
        assert found == [(f"a/{number}", 1, str(number)) for number in range(7)]
        assert [info async for info in container.walk("c/")] == []
        assert await container.head("a/9") is None
        assert await container.read("a/9") is None
        assert await container.read("a/1") == b"x"


async def test_a_long_listing_waits_for_storage_but_the_first_request_does_not(
    azurite: AzuriteProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(container_module, "LONGEST_PAUSE", 0.01)
    proxy, listing = FaultProxy(azurite.port, azurite.connection_string), Match(query={"comp": "list"})
    proxy.start()
    try:
        async with BlobServiceClient.from_connection_string(proxy.connection_string, **client_options()) as service:
            name = azurite.container()
            client = await service.create_container(name)
            for number in range(4):
                await client.upload_blob(f"a/{number}", b"x")
            unreachable = proxy.add(listing, Fail(503), times=ATTEMPTS)
            with pytest.raises(Unavailable):
                await anext(AzureContainer(service, name).walk("a/"))
            outage = proxy.add(listing, Fail(503), times=2 * ATTEMPTS, skip=1)
            found = [info.name async for info in AzureContainer(service, name, page=2).walk("a/")]
            assert found == [f"a/{number}" for number in range(4)]
            assert [len(fault.requests) for fault in (unreachable, outage)] == [ATTEMPTS, 2 * ATTEMPTS]
            monkeypatch.setattr(container_module, "OUTAGE_SECONDS", 0.05)
            proxy.add(listing, Fail(503), skip=1)
            with pytest.raises(Unavailable):
                assert [info async for info in AzureContainer(service, name, page=2).walk("a/")] == []
    finally:
        proxy.close()


async def test_a_blob_that_no_host_has_written_is_named_and_not_read(azurite: AzuriteProcess) -> None:
    async with BlobServiceClient.from_connection_string(azurite.connection_string, **client_options()) as service:
        name = azurite.container()
        client = await service.create_container(name)
        await client.upload_blob("large", bytes(101))
        container = AzureContainer(service, name)
        assert await container.read("large", 101) == bytes(101)
        with pytest.raises(Damaged, match=r"blob large has 101 bytes, and hosts write 100 at most: another program"):
            await container.read("large", 100)


def test_an_audit_lives_through_a_storage_that_fails_at_times(parquet: Drained) -> None:
    proxy = FaultProxy(parquet.azurite.port, parquet.azurite.connection_string)
    proxy.start()
    secret = parquet.config_file.with_name("storage")
    secret.write_text(proxy.connection_string)
    listing, reading = Match(query={"comp": "list"}), Match("GET", path=r"\.parquet")
    met = [
        proxy.add(listing, Fail(503), times=2),
        proxy.add(listing, Down(), times=1, skip=2),
        proxy.add(reading, Fail(429, retry_after=1), times=1),
        proxy.add(reading, Truncate(300), times=1, skip=2),
    ]
    try:
        report = parquet.audit()
        assert (report["exitCode"], report["counts"]) == (0, {})
        assert [len(fault.requests) for fault in met] == [2, 1, 1, 1]
        proxy.add(Match(), Down())
        report = parquet.audit()
        assert (report["exitCode"], list(report["counts"])) == (3, ["Unreadable"])
    finally:
        proxy.close()


def test_retention_keeps_the_chain_whole_and_hosts_go_on_behind_it(drained: Drained) -> None:
    names, size = drained.names(""), _bytes(drained)
    assert drained.retain().files == 4
    capture = drained.config["files"]["layout"] == "Capture"
    assert len(drained.names("")) == len(names) + 1 - (4 if capture else 0), "and the cursor"
    assert _bytes(drained) < size
    report = drained.audit()
    assert (report["exitCode"], report["counts"]) == (0, {"Tombstones": 4})
    assert [(p["next"], p["tombstones"], p["events"]) for p in report["partitions"]] == [(130, 2, 30)] * 2
    assert drained.retain().files == 4, "nothing more"

    async def follow(store: BlobStore, config: HostConfig) -> None:
        encode, chain_of = files_of(config, INFO, (await current(store, "shop/orders", INFO, CREATED))[-1], store)
        chain = chain_of("0")
        assert [slot.tombstone for slot in await chain.listed()] == [True, True, False]
        await commit(chain, encode, 130, await claim(store, config))

    drained.write(follow)
    assert drained.audit()["exitCode"] == 0


def test_a_removal_that_was_interrupted_is_named_and_completed(azurite: AzuriteProcess, tmp_path: Path) -> None:
    drained = make(azurite, tmp_path, LAYOUTS["capture"])
    record = next(name for name in drained.names("segment=") if "partition=0" in name)
    assert drained.retain().files == 4
    with drained.client() as container:  # as if the host had ended before it removed the content, and moved `done`
        blob = container.get_blob_client(record)
        data = blob.get_blob_properties().metadata
        container.upload_blob(data["path"], b"content", metadata={"nonce": data["nonce"]})
        etag = container.get_blob_client(data["path"]).get_blob_properties().etag.strip('"')
        facts = blob.get_blob_properties().metadata
        blob.set_blob_metadata(facts | {"etag": etag, "size": "7"})
        cursor = container.get_blob_client("shop/orders/_retention.json")
        found = json.loads(cursor.download_blob().readall())
        found["partitions"]["0"]["done"] = 100
        cursor.upload_blob(json.dumps(found), overwrite=True)
    report = drained.audit()
    assert report["counts"] == {"OrphanDataFile": 1, "Tombstones": 4}
    assert "a host ended while it removed old files" in report["findings"][0]["message"]
    drained.retain()
    assert drained.audit()["counts"] == {"Tombstones": 4}


def _bytes(drained: Drained) -> int:
    with drained.client() as container:
        return sum(blob.size for blob in container.list_blobs("shop/orders/"))
