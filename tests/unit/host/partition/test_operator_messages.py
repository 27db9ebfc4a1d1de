"""Messages about the fleet, over real HTTP: who is believed, for how long, and that others change nothing."""

import asyncio
import base64
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from eventconsumer_api.wire.fleet import (
    FLEET_CLOCK_SECONDS,
    FLEET_MAX_BYTES,
    FLEET_PATH,
    FLEET_SIGNATURE_HEADER,
    FLEET_SILENCE_SECONDS,
    FleetMessage,
)
from eventconsumer_api.wire.host_report import HostReport, HostState
from eventconsumer_host.host import health
from eventconsumer_host.host.health import HealthServer, Heartbeat
from eventconsumer_host.lease.planned_balancer import Fleet
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.partition.operator_messages import FIRST_SECONDS, OperatorMessages

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def pem(key: Any) -> bytes:
    """Its public half as a file."""
    found: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


@dataclass
class Desk:
    """A host's HTTP side, and an operator with a key."""

    key_file: Path
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    metrics: Metrics = field(default_factory=Metrics)
    clock: float = 100.0
    port: int = 0

    def __post_init__(self) -> None:
        self.key_file.write_bytes(pem(self.key))
        self.news = OperatorMessages("shop/orders", self.key_file, self.metrics, lambda: self.clock, lambda: NOW)

    def message(self, **changes: Any) -> bytes:
        values = {"resource": "shop/orders", "generation": 1, "time": NOW, "hosts": 2, "ready": ("orders-host-0",)}
        return FleetMessage(**values | changes).model_dump_json(by_alias=True).encode()

    def sign(self, body: bytes, key: Ed25519PrivateKey | None = None) -> str:
        return base64.b64encode((key or self.key).sign(body)).decode()

    async def post(self, body: bytes, signature: str | None = None, **more: str) -> tuple[int, str]:
        headers = {FLEET_SIGNATURE_HEADER: self.sign(body) if signature is None else signature, **more}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://127.0.0.1:{self.port}{FLEET_PATH}", data=body, headers=headers) as answer,
        ):
            return answer.status, await answer.text()

    def counted(self) -> dict[str, float]:
        return {
            sample.labels["result"]: sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "eventconsumer_fleet_messages_total"
        }


@asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Desk]:
    found = Desk(folder / "fleet.pem")
    report = HostReport(owner="orders-host-0.u", state=HostState.RUNNING)
    server = HealthServer(Heartbeat(lambda: found.clock), lambda: report, found.metrics, found.news)
    found.port = await server.start(0)
    try:
        yield found
    finally:
        await server.stop()


async def test_a_good_message_is_believed_until_the_operator_is_silent(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        assert at.news.current() is None
        body = at.message(gone=("orders-host-1.u",), partitions=8)
        assert await at.post(body) == (204, "")
        assert at.news.changed
        expected = Fleet(2, frozenset(["orders-host-0"]), frozenset(["orders-host-1.u"]), 8)
        at.clock += FLEET_SILENCE_SECONDS - 1
        assert at.news.current() == expected
        at.clock += 1
        assert at.news.current() is None
        assert at.counted() == {"accepted": 1}


async def test_the_response_is_the_report_if_the_operator_prefers_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        status, text = await at.post(at.message(), Prefer="return=representation")
        assert (status, HostReport.model_validate_json(text).owner) == (200, "orders-host-0.u")
        assert (await at.post(at.message(), Prefer="return=representation"))[0] == 409  # it is old


async def test_a_message_that_repeats_the_last_wakes_nobody_and_goes_on_counting(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.post(at.message())
        at.news.acknowledge()
        at.clock += FLEET_SILENCE_SECONDS - 1
        assert (await at.post(at.message(generation=2)))[0] == 204
        assert not at.news.changed
        at.clock += FLEET_SILENCE_SECONDS - 1
        assert at.news.current() == Fleet(2, frozenset(["orders-host-0"]))


@pytest.mark.parametrize(
    ("result", "status", "changes"),
    [
        ("other resource", 403, {"resource": "market/orders"}),
        ("old", 409, {"generation": 1}),
        ("old", 409, {"generation": 0}),
        ("clock", 403, {"time": NOW + timedelta(seconds=FLEET_CLOCK_SECONDS + 1)}),
        ("clock", 403, {"time": NOW - timedelta(seconds=FLEET_CLOCK_SECONDS + 1)}),
        ("unreadable", 400, {"time": NOW.replace(tzinfo=None)}),
    ],
)
async def test_what_is_not_for_this_host_and_time_changes_nothing(
    tmp_path: Path, result: str, status: int, changes: dict[str, Any]
) -> None:
    async with desk(tmp_path) as at:
        await at.post(at.message())
        at.news.acknowledge()
        answer = await at.post(at.message(**{"generation": 2, "hosts": 7} | changes))
        assert answer[0] == status and answer[1].strip()
        assert at.news.current() == Fleet(2, frozenset(["orders-host-0"]))
        assert not at.news.changed
        assert at.counted() == {"accepted": 1, result: 1}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"hosts": -1}', b"\xff" * 100, b'{"hosts": 1}'])
async def test_what_is_no_message_is_refused_though_it_is_signed(tmp_path: Path, body: bytes) -> None:
    async with desk(tmp_path) as at:
        assert (await at.post(body))[0] == 400
        assert at.news.current() is None
        assert at.counted() == {"unreadable": 1}


async def test_only_the_operators_signature_counts(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        body = at.message()
        stranger = at.sign(body, Ed25519PrivateKey.generate())
        for signature in ("", "é", "AAAA", "not base64!", stranger, at.sign(body + b" ")):
            assert (await at.post(body, signature))[0] == 403
        assert (await at.post(body.replace(b"2", b"3", 1), at.sign(body)))[0] == 403
        assert at.news.current() is None
        assert at.counted() == {"bad signature": 7}


async def test_the_key_is_read_again_when_it_changes(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        former, at.key = at.key, Ed25519PrivateKey.generate()
        assert (await at.post(at.message()))[0] == 403
        at.key_file.write_bytes(pem(at.key))
        assert (await at.post(at.message()))[0] == 204
        body = at.message(generation=2)
        assert (await at.post(body, at.sign(body, former)))[0] == 403


async def test_without_a_usable_key_nobody_is_believed(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        for content in (b"", b"no key", pem(ec.generate_private_key(ec.SECP256R1()))):
            at.key_file.write_bytes(content)
            status, text = await at.post(at.message())
            assert status == 403 and "key" in text
        at.key_file.unlink()
        assert (await at.post(at.message()))[0] == 403
        assert at.counted() == {"no key": 4}


async def test_a_huge_message_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        assert (await at.post(b" " * (FLEET_MAX_BYTES + 1), ""))[0] == 413
        assert at.counted() == {"too large": 1}
        most = at.message(gone=tuple(f"orders-host-{number}.{'u' * 36}" for number in range(4000)))
        assert len(most) < FLEET_MAX_BYTES
        assert (await at.post(most))[0] == 204


async def test_a_message_that_does_not_come_costs_its_sender_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "BODY_SECONDS", 0.2)
    async with desk(tmp_path) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port, family=socket.AF_INET)
        writer.write(b"POST /fleet HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
        assert (await at.post(at.message()))[0] == 204
        answer = await asyncio.wait_for(reader.read(12), 5)
        assert answer == b"HTTP/1.1 408"
        assert at.counted() == {"accepted": 1, "too slow": 1}
        writer.close()


def test_a_new_host_that_knows_an_operator_expects_its_word_for_a_moment(tmp_path: Path) -> None:
    clock = [50.0]
    key_file = tmp_path / "fleet.pem"
    news = OperatorMessages("shop/orders", key_file, Metrics(), lambda: clock[0], lambda: NOW)
    assert not news.expected()  # no operator made the configuration
    key_file.write_bytes(b"")
    assert news.expected()
    clock[0] += FIRST_SECONDS
    assert not news.expected()
