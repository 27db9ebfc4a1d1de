"""Our own receiver where the SDK's is no measure: many links on one connection, silence, tokens, other services."""

import asyncio
import os
import signal
import tracemalloc
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from eventconsumer_api.v1alpha1 import HubTransport
from eventconsumer_host.amqp import link
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.errors import HubUnauthorized, HubUnreachable, LinkStolen
from eventconsumer_host.source.conditions import taker_of
from eventconsumer_host.source.hub import Hub
from eventconsumer_host.source.sdk import SdkHub
from tests.integration.processor.test_source import receive, send
from tests.support.servers import EmulatorProcess
from tests.support.tls import TlsEmulator
from tests.support.waiting import HANG_SECONDS

PARTITIONS = 8


@pytest.fixture(params=list(HubTransport))
async def hub(request: pytest.FixtureRequest, emulator: EmulatorProcess) -> AsyncIterator[AmqpHub]:
    """A hub with eight partitions; a peer is dead after two seconds."""
    emulator.admin.create_hub("orders", partitions=PARTITIONS)
    found = AmqpHub(replace(access(emulator), transport=request.param), idle_seconds=2)
    yield found
    await found.close()


def access(emulator: EmulatorProcess, hub: str = "orders") -> HubAccess:
    return HubAccess("localhost", hub, "$Default", emulator.connection_string(hub))


async def test_all_partitions_share_a_connection_which_is_opened_again(hub: AmqpHub, emulator: EmulatorProcess) -> None:
    for again in (False, True):
        sources = await asyncio.gather(*(hub.open(str(number), -1, 1, 100) for number in range(PARTITIONS)))
        links = emulator.admin.links(kind="reader")
        assert len(links) == PARTITIONS
        assert len({link["connection"] for link in links}) == 1
        for number, source in enumerate(sources):
            emulator.admin.put_event("orders", str(number), b"of %d" % number)
            found = await receive(source, 1 + again)
            assert found[-1].rows().bodies[-1] == b"of %d" % number
        emulator.admin.drop_connections()
        for source in sources:
            with pytest.raises(HubUnreachable):
                await receive(source, 1)
            await source.close()


async def test_a_link_that_is_closed_leaves_the_others_and_makes_room(hub: AmqpHub, emulator: EmulatorProcess) -> None:
    stays = await hub.open("0", -1, 1, 100)
    for _ in range(3):
        goes = await hub.open("1", -1, 1, 100)
        await goes.close()
    assert [link["partition"] for link in emulator.admin.links(kind="reader")] == ["0"]
    other = await hub.open("1", -1, 2, 100)
    emulator.admin.detach(partition="1", condition="amqp:link:stolen", description="taken")
    with pytest.raises(LinkStolen):
        await receive(other, 1)
    await other.close()
    emulator.admin.put_event("orders", "0", b"x")
    assert (await receive(stays, 1))[0].rows().bodies == [b"x"]
    await stays.close()


def connections(emulator: EmulatorProcess) -> dict[str, str]:
    """By partition, the connection of its link."""
    return {link["partition"]: link["connection"] for link in emulator.admin.links(kind="reader")}


async def test_what_gives_nothing_is_not_relied_on(hub: AmqpHub, emulator: EmulatorProcess) -> None:
    frozen = [await hub.open(str(number), -1, 1, 100) for number in range(2)]
    before = connections(emulator)
    emulator.admin.freeze(hub="orders", connection=before["0"])
    emulator.admin.put_event("orders", "0", b"x")
    await frozen[0].abandon()
    opened = await hub.open("0", -1, 2, 100)
    assert (await receive(opened, 1))[0].rows().bodies == [b"x"]
    assert connections(emulator)["0"] != before["0"]
    assert connections(emulator)["1"] == before["1"], "the other one is left alone"
    await frozen[1].close()
    again = await hub.open("1", -1, 2, 100)
    assert set(connections(emulator).values()) == {connections(emulator)["0"]}, "and closed with its last link"
    await asyncio.gather(opened.close(), again.close())


async def test_a_connection_whose_token_is_not_good_any_more_is_replaced(
    hub: AmqpHub, emulator: EmulatorProcess
) -> None:
    sources = [await hub.open(str(number), -1, 1, 100) for number in range(2)]
    before = connections(emulator)
    assert emulator.admin.expire_tokens() >= 1
    for number, source in enumerate(sources):
        with pytest.raises(HubUnreachable, match="'Listen' claim"):  # by this host's clock it is valid
            await receive(source, 1)
        await source.close()
        sources[number] = await hub.open(str(number), -1, 2, 100)
    assert len({*connections(emulator).values(), before["0"]}) == 2
    emulator.admin.fail_cbs(401, "Unauthorized access.")
    emulator.admin.expire_tokens()
    with pytest.raises(HubUnauthorized):
        await hub.open("2", -1, 1, 100)
    emulator.admin.clear_faults()
    for source in sources:
        await source.close()


async def test_heartbeats_keep_a_silent_connection_and_a_dead_peer_is_noticed(
    hub: AmqpHub, emulator: EmulatorProcess
) -> None:
    await hub.describe()
    source = await hub.open("0", -1, 1, 100)
    for _ in range(8):
        assert not len(await source.receive(10, 0.5))
    os.kill(emulator.pid, signal.SIGSTOP)
    try:
        with pytest.raises(HubUnreachable, match="silent"):
            await receive(source, 1, seconds=10)
        await source.close()
        with pytest.raises(HubUnreachable):
            async with asyncio.timeout(HANG_SECONDS):
                await hub.open("0", -1, 1, 100)
        with pytest.raises(HubUnreachable):
            async with asyncio.timeout(HANG_SECONDS):
                await hub.describe()
    finally:
        os.kill(emulator.pid, signal.SIGCONT)
    assert (await hub.describe()).name == "orders"
    source = await hub.open("0", -1, 1, 100)
    emulator.admin.put_event("orders", "0", b"x")
    assert (await receive(source, 1))[0].rows().bodies == [b"x"]
    await source.close()


async def test_large_events_wait_within_the_budget_whatever_the_prefetch(
    hub: AmqpHub, emulator: EmulatorProcess
) -> None:
    for size in [5] * 100 + [1_000_000] * 30:
        emulator.admin.put_event("orders", "0", b"x" * size)
    source = await hub.open("0", -1, 1, 3000)
    tracemalloc.start()
    await asyncio.sleep(2)  # whatever may come has come
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 16 * 1024 * 1024
    found = await receive(source, 130)
    assert [number for batch in found for number in batch.numbers.tolist()] == list(range(130))
    assert max(batch.size for batch in found) < 6_000_000
    await source.close()


async def test_events_of_20_mb_wait_one_per_link_and_starve_no_other_link(
    hub: AmqpHub, emulator: EmulatorProcess
) -> None:
    size, links, count = 20_000_000, 3, 4
    for number in range(links):
        emulator.admin.put_events("orders", str(number), [(bytes(size), {})], times=count)
    slow, *others = [await hub.open(str(number), -1, 1, 3000) for number in range(links)]
    tracemalloc.start()
    for source in others:  # nothing is taken from the first link meanwhile
        for number in range(count):
            (batch,) = await receive(source, 1)
            assert (batch.numbers.tolist(), len(batch.rows().bodies[0])) == ([number], size)
    batch = None
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1.5 * size  # one waits on the first link
    assert peak < (links + 3) * size  # one waits on each link; the rest are the copies of the one that is read
    assert [batch.first for batch in await receive(slow, count)] == list(range(count))
    assert len({link["connection"] for link in emulator.admin.links(kind="reader")}) == 1
    await asyncio.gather(slow.close(), *(source.close() for source in others))


@pytest.mark.parametrize(
    ("condition", "description"),
    [
        ("amqp:link:detach-forced", "The link is force detached: it was idle for more than 30 minutes."),
        ("amqp:link:detach-forced", "The link is force detached by the broker: the node is upgraded."),
        ("amqp:resource-limit-exceeded", "Cannot allocate more handles."),
        ("amqp:link:redirect", "The entity has moved to another node."),
    ],
)
async def test_a_link_that_the_service_ends_or_refuses_is_opened_again(
    hub: AmqpHub, emulator: EmulatorProcess, condition: str, description: str
) -> None:
    emulator.admin.put_event("orders", "0", b"0")
    source = await hub.open("0", -1, 1, 100)
    await receive(source, 1)
    emulator.admin.detach(condition, description, partition="0")
    with pytest.raises(HubUnreachable, match=condition):
        await receive(source, 1)
    await source.close()
    emulator.admin.refuse(condition, description, times=1, partition="0")
    with pytest.raises(HubUnreachable, match=condition):
        await hub.open("0", 0, 1, 100)
    source = await hub.open("0", 0, 1, 100)
    emulator.admin.put_event("orders", "0", b"1")
    assert (await receive(source, 1))[0].rows().bodies == [b"1"]
    await source.close()


async def test_an_attach_that_is_answered_late_is_detached(
    hub: AmqpHub, emulator: EmulatorProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays = await hub.open("0", -1, 1, 100)
    emulator.admin.answer_late(partition="1")
    with monkeypatch.context() as patch, pytest.raises(HubUnreachable, match="did not attach"):
        patch.setattr(link, "ATTACH_SECONDS", 0.2)
        await hub.open("1", -1, 1, 100)
    emulator.admin.clear_faults()
    opened = await hub.open("1", -1, 1, 100)
    assert len(emulator.admin.links(kind="reader")) == 2
    assert len(set(connections(emulator).values())) == 1
    await asyncio.gather(stays.close(), opened.close())


async def test_what_the_sdk_reads_is_what_we_read(hub: AmqpHub, emulator: EmulatorProcess) -> None:
    for number in range(5):
        send(emulator, *[b"%d" % number] * 30, number=number, text="ä" * number, half=number / 2, none=None)
    emulator.admin.put_event("orders", "0", b"keyed", {"k": "v"}, key="blue")
    other = SdkHub(access(emulator))
    by_sdk, by_us = [await whole(adapter, epoch, 151) for epoch, adapter in enumerate((other, hub))]
    await other.close()
    assert by_sdk.equals(by_us)


async def whole(hub: Hub, epoch: int, count: int) -> pa.Table:
    """All events of partition 0."""
    source = await hub.open("0", -1, epoch, 100)
    batches = await receive(source, count)
    await source.close()
    return pa.Table.from_batches([batch.columns for batch in batches])


@pytest.mark.parametrize("adapter", [AmqpHub, SdkHub])
async def test_over_tls_only_with_a_certificate_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adapter: Callable[[HubAccess], AmqpHub | SdkHub]
) -> None:
    server = TlsEmulator(tmp_path, "--hub=orders=1")
    server.start()
    server.admin.put_event("orders", "0", b"over TLS")
    wanted = HubAccess(server.host, "orders", "$Default", server.connection_string("orders"))
    untrusting = adapter(wanted)
    with pytest.raises(HubUnreachable, match="certificate verify failed"):
        await untrusting.open("0", -1, 1, 100)
    await untrusting.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    found = adapter(wanted)
    assert (await found.partition("0")).last == 0
    source = await found.open("0", -1, 1, 100)
    assert (await receive(source, 1))[0].rows().bodies == [b"over TLS"]
    await source.close()
    await found.close()
    server.close()


async def test_questions_share_a_connection_that_stays_and_is_opened_again(
    hub: AmqpHub, emulator: EmulatorProcess
) -> None:
    def signed_in() -> int:
        return emulator.admin.counters().get("cbs_accepted", 0)

    before = signed_in()
    for number in range(PARTITIONS):
        emulator.admin.put_event("orders", str(number), b"x" * (number + 1))
        emulator.admin.put_event("orders", str(number), b"y")
    # More at once than there is credit for.
    found = await asyncio.gather(*(hub.partition(str(number % PARTITIONS)) for number in range(100)))
    assert {info.last for info in found} == {1}
    assert (await hub.describe()).partition_ids == tuple(map(str, range(PARTITIONS)))
    assert signed_in() == before + 1
    emulator.admin.drop_connections()  # noticed, or else the question is asked again
    assert (await hub.partition("3")).last == 1
    assert signed_in() == before + 2
    emulator.admin.expire_tokens()
    assert (await hub.partition("3")).last == 1


async def test_both_adapters_say_the_same_about_a_hub(hub: AmqpHub, emulator: EmulatorProcess) -> None:
    other = SdkHub(access(emulator))
    emulator.admin.put_event("orders", "0", b"x")
    assert await hub.describe() == await other.describe()
    for partition in ("0", "1"):
        info = await hub.partition(partition)
        assert info.read_at is not None  # the SDK does not give it to its callers
        assert replace(info, read_at=None) == await other.partition(partition)
    with pytest.raises(HubUnreachable) as ours:
        await hub.partition("99")
    with pytest.raises(type(ours.value)):
        await other.partition("99")
    assert (await hub.partition("0")).last == 0  # a question that is refused costs no connection
    await other.close()


@pytest.mark.parametrize("adapter", [AmqpHub, SdkHub])
async def test_the_service_names_the_reader_that_took_a_link(
    adapter: type[AmqpHub] | type[SdkHub], emulator: EmulatorProcess
) -> None:
    """By the link property of Microsoft's clients, which the emulator reads as the service does."""
    emulator.admin.create_hub("orders", partitions=1)
    first, second = (adapter(access(emulator), reader=name) for name in ("orders-host-0", "x" * 65))
    source = await first.open("0", -1, 1, 1)
    assert [link["name"] for link in emulator.admin.links(kind="reader")] == ["orders-host-0"]
    taker = await second.open("0", -1, 2, 1)
    with pytest.raises(LinkStolen) as stolen:
        await receive(source, 1)
    assert taker_of(stolen.value) == "x" * 64
    with pytest.raises(LinkStolen) as refused:
        await receive(await first.open("0", -1, 1, 1), 1)
    assert taker_of(refused.value) == "x" * 64
    await source.close()
    await taker.close()
    await first.close()
    await second.close()
