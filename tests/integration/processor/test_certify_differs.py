"""Each kind of check can fail: a storage service and a hub that behave in another way."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.wire.host_config import BlobContainer
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.configuration import credential_in
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.source.hub import Source
from eventconsumer_storage.account import resolve_account
from eventconsumer_storage.async_blobs import blob_service
from eventconsumer_tools.certify import events, hub, storage
from eventconsumer_tools.certify.command import certify, from_files, groups, judge
from eventconsumer_tools.certify.hub import Namespace
from eventconsumer_tools.certify.model import SEND, CheckOutcome
from eventconsumer_tools.certify.storage import CheckBlobs
from tests.support.azurite import AzuriteProcess
from tests.support.faultactions import Fail
from tests.support.faultproxy import Action, FaultProxy, Handling, Match
from tests.support.servers import EmulatorProcess
from tests.support.waiting import HANG_SECONDS

GROUP = "certify"
PASSED, DIFFERS, SKIPPED, FAILED = CheckOutcome.PASSED, CheckOutcome.DIFFERS, CheckOutcome.SKIPPED, CheckOutcome.FAILED


@pytest.fixture
def proxy(azurite: AzuriteProcess) -> Iterator[FaultProxy]:
    """Between the checks and Azurite."""
    found = FaultProxy(azurite.port, azurite.connection_string)
    found.start()
    yield found
    found.close()


@dataclass(frozen=True)
class Header:
    """Storage applies the request; one header of its response is another one."""

    name: str
    value: str

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        reply = await handling.forward()
        lines = reply.head.rstrip(b"\r\n").split(b"\r\n")
        kept = [line for line in lines if not line.lower().startswith(f"{self.name.lower()}:".encode())]
        await handling.answer(b"\r\n".join([*kept, f"{self.name}: {self.value}".encode(), b"", b""]) + reply.body)


@dataclass(frozen=True)
class Body:
    """A response without a request to storage."""

    status: int
    body: bytes

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        head = f"HTTP/1.1 {self.status} OK\r\nContent-Type: application/xml\r\nContent-Length: {len(self.body)}\r\n\r\n"
        await handling.answer(head.encode() + self.body)


NO_BLOBS = Body(200, b'<?xml version="1.0"?><EnumerationResults><Blobs/><NextMarker/></EnumerationResults>')


@pytest.fixture
async def place(proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[CheckBlobs]:
    """A place for blobs, through the proxy."""
    secret = tmp_path / "storage"
    secret.write_text(proxy.connection_string)
    location = BlobContainer(container="", credential=credential_in(secret, "storage"))
    account = resolve_account(location, "storage", allow_insecure=True, suffixes=())
    left: list[str] = []
    async with (
        blob_service(location, "storage", True, ()) as service,
        storage.scratch(
            service, account, container="", prefix="", run=f"{id(proxy):012x}", left=left.append, lease_seconds=15
        ) as made,
    ):
        yield made
        proxy.clear()
    assert left == []


async def outcome(name: str, subject: Any) -> tuple[CheckOutcome, str]:
    """The outcome of one check."""
    everything: list[Any] = [*storage.ACCOUNT, *storage.FILES, *storage.LEASES, *groups()]
    return await judge(next(each for each in everything if each.name == name), subject)


@pytest.mark.parametrize(
    ("check", "match", "action", "skip", "expected", "seen"),
    [
        ("put-if-absent", Match("PUT", "/once"), Fail(201), 1, DIFFERS, "is accepted"),
        ("put-if-absent", Match("PUT", "/once"), Fail(409, "LeaseIdMissing"), 1, DIFFERS, "with 409 LeaseIdMissing"),
        ("put-if-absent", Match("PUT", "/once"), Fail(503), 0, FAILED, "undecided: put: ServerBusy"),
        ("put-if-absent-contended", Match("PUT", "/contended"), Fail(201), 0, DIFFERS, "8 of 8 concurrent writers"),
        ("put-if-absent-contended", Match("PUT", "/contended"), Fail(409, "BlobAlreadyExists"), 0, DIFFERS, "0 of 8"),
        ("staged-blocks-hidden", Match("HEAD", "/staged"), Body(200, b""), 0, DIFFERS, "found by HEAD"),
        ("list-after-write", Match("GET", query={"comp": "list"}), NO_BLOBS, 0, DIFFERS, "0 of 20 blobs are listed"),
        ("etag", Match("HEAD", "/guarded"), Header("ETag", '"other"'), 0, DIFFERS, "another ETag"),
        ("lease-exclusive", Match("PUT", query={"comp": "lease"}), Fail(201), 2, DIFFERS, "a second lease is accepted"),
        ("lease-etag", Match("HEAD", "/renewed"), Header("ETag", '"x"'), 1, DIFFERS, "changes with: renew, release"),
        ("lease-guards-writes", Match("PUT", "/held"), Fail(201), 2, DIFFERS, "without the lease id is accepted"),
        (
            "container-exists",
            Match("GET", query={"restype": "container"}),
            Fail(403, "AuthorizationFailure"),
            0,
            DIFFERS,
            "AuthorizationFailure",
        ),
        ("flat-namespace", Match("HEAD", "/folder$"), Body(200, b""), 0, DIFFERS, "hierarchical namespace"),
        ("versioning", Match("PUT", "/versioned"), Header("x-ms-version-id", "2026-01-01"), 0, DIFFERS, "a version"),
    ],
)
async def test_another_storage_service(
    place: CheckBlobs,
    proxy: FaultProxy,
    check: str,
    match: Match,
    action: Action,
    skip: int,
    expected: CheckOutcome,
    seen: str,
) -> None:
    proxy.add(match, action, skip=skip)
    found, detail = await outcome(check, place)
    assert (found, seen in detail) == (expected, True), detail


@pytest.fixture
async def namespace(emulator: EmulatorProcess, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Namespace]:
    """A hub with ten events in partition 0, and none in partition 1."""
    monkeypatch.setattr(events, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(events, "QUIET_SECONDS", 0.5)
    monkeypatch.setattr(hub, "ENDS_SECONDS", 0.5)
    emulator.admin.create_hub("orders", partitions=2, groups=[GROUP])
    emulator.admin.put_events("orders", "0", [(b"%d" % number, {}) for number in range(10)])
    access = HubAccess(f"localhost:{emulator.port}", "orders", GROUP, emulator.connection_string("orders"))
    found = Namespace(access, AmqpHub(access))
    await hub.look(found)
    yield found
    await found.close()


async def test_another_hub(namespace: Namespace, emulator: EmulatorProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = emulator.admin
    assert await outcome("numbers", namespace) == (PASSED, "0 to 9 of partition 0")
    admin.compact("orders", "0", [4, 5])
    found, detail = await outcome("numbers", namespace)
    assert (found, "2 of the numbers 0 to 9" in detail) == (DIFFERS, True), detail

    admin.freeze(hub="orders")
    for check in ("after-number", "earliest", "unused"):
        found, detail = await outcome(check, namespace)
        assert (found, "not delivered" in detail) == (DIFFERS, True), (check, detail)
    admin.unfreeze()

    admin.put_events("orders", "1", [(b"%d" % number, {}) for number in range(20)])
    await hub.look(namespace)
    for early, partition in ((1, "0"), (4, "1")):
        admin.start_early(early, partition=partition)
        for check in ("after-number", "at-number", "at-end"):
            found, detail = await outcome(check, namespace)
            assert (found, f"partition {partition}: " in detail) == (DIFFERS, True), (check, detail)
        admin.clear_faults()

    monkeypatch.setattr(events, "BEYOND", -3)  # a position that exists stands for a hub that takes any
    for check in ("beyond-end-by-number", "beyond-end-by-offset"):
        found, detail = await outcome(check, namespace)
        assert (found, "is attached" in detail) == (DIFFERS, True), (check, detail)
    admin.refuse(condition="com.microsoft:argument-error", description="no", times=1)
    found, detail = await outcome("after-number", namespace)
    assert (found, "the position is refused" in detail) == (DIFFERS, True), detail
    admin.refuse(condition="amqp:internal-error", description="no", group=GROUP)
    found, detail = await outcome("epoch-higher", namespace)
    assert (found, "undecided" in detail) == (FAILED, True), detail
    admin.clear_faults()

    admin.fail_cbs(401, "Unauthorized access.")
    await namespace.tidy()
    found, detail = await outcome("token-renewal", namespace)
    assert (found, "after a new token" in detail) == (DIFFERS, True), detail
    admin.clear_faults()
    await namespace.tidy()
    namespace.slowest = 30
    assert (await outcome("attach-time", namespace))[0] is DIFFERS


async def test_readers_without_an_epoch_are_found_and_stay(namespace: Namespace, emulator: EmulatorProcess) -> None:
    assert await hub.readers(namespace) == []
    assert emulator.admin.links() == []
    other = namespace.other(namespace.access)
    reader = await namespace.attach(other.open_where("1", hub.LATEST))
    assert await hub.readers(namespace) == ["1"]
    emulator.admin.put_event("orders", "1", b"x")
    assert (await reader.receive(1, HANG_SECONDS)).rows().bodies == [b"x"]


async def test_readers_that_the_service_does_not_displace(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Epochs are per consumer group: a reader of another one stands for a service that does not compare them.
    other, own = AmqpHub(replace(namespace.access, consumer_group="$Default")), namespace.hub.open_where

    async def elsewhere(partition: str, selector: str, epoch: int | None = None, prefetch: int = 1) -> Source:
        return await (other.open_where if epoch == 2 else own)(partition, selector, epoch, prefetch)

    monkeypatch.setattr(namespace.hub, "open_where", elsewhere)
    found, detail = await outcome("epoch-higher", namespace)
    assert (found, "still attached" in detail) == (DIFFERS, True), detail
    await other.close()


async def test_without_the_right_to_send_the_events_are_skipped(emulator: EmulatorProcess, tmp_path: Path) -> None:
    emulator.admin.create_hub("orders", partitions=2, groups=[GROUP])
    emulator.admin.set_policies(("reads", "a2V5", ["Listen"]))
    access = HubAccess(
        f"localhost:{emulator.port}", "orders", GROUP, emulator.connection_string("orders", "reads", "a2V5")
    )
    namespace = Namespace(access, AmqpHub(access))
    await hub.look(namespace)
    for check in ("unused", "send", "large-event"):
        found, detail = await outcome(check, namespace)
        assert (found, "no right to send" in detail or "has events" in detail) == (SKIPPED, True), (check, detail)
    await namespace.close()


async def test_what_cannot_be_removed_or_reached_is_reported(proxy: FaultProxy, tmp_path: Path) -> None:
    for name, text in (
        ("storage", proxy.connection_string),
        (
            "hub",
            "Endpoint=sb://localhost:1;SharedAccessKeyName=a;"
            "SharedAccessKey=a2V5;UseDevelopmentEmulator=true;EntityPath=orders",
        ),
    ):
        (tmp_path / name).write_text(text)
    fault = proxy.add(Match("DELETE", query={"restype": "container"}), Fail(403, "AuthorizationFailure"))
    target = from_files(tmp_path / "hub", tmp_path / "storage", "", GROUP, (SEND,))
    report = await certify(target, lambda _: None)
    assert len(report.leftovers) == 1 and "container eventconsumer-certify-" in report.leftovers[0]
    assert len(fault.requests) == storage.REMOVE_ATTEMPTS
    hubs = {each.check: each.outcome for each in report.results if each.target == "hub"}
    assert hubs.pop("reachable") is FAILED and set(hubs.values()) == {SKIPPED}
    proxy.clear()
    proxy.add(Match("PUT", query={"restype": "container"}), Fail(403, "AuthorizationFailure"))
    report = await certify(target, lambda _: None)
    assert report.leftovers == [] and report.exit_code == 2
    assert {each.outcome for each in report.results if each.target != "hub"} == {FAILED, SKIPPED}
