"""Hours of a service that detaches idle links, lets tokens expire and limits requests; in virtual time."""

import asyncio

import pytest

from eventconsumer_host.amqp import cbs
from eventconsumer_host.errors import HubUnauthorized, HubUnreachable
from eventconsumer_host.source.hub import Source
from eventhubs_emulator.errors import LinkFailed
from eventhubs_emulator.faults import Refusal, Selection
from eventhubs_emulator.messages import encode_event
from eventhubs_emulator.tokens import DEFAULT_POLICY
from tests.support.fakes.virtual import virtual
from tests.unit.host.amqp.emulated import START, Emulated

DETACHED = LinkFailed("amqp:link:detach-forced", "The link is detached.")
HOUR = 3600.0


async def received(source: Source, seconds: float) -> int:
    """Receive for a time; returns the number of events."""
    clock = asyncio.get_running_loop().time
    until, found = clock() + seconds, 0
    while clock() < until:
        found += len(await source.receive(100, until - clock()))
    return found


def put(service: Emulated, name: str = "orders") -> None:
    """Enqueue an event in partition 0."""
    service.broker.hub(name).partition("0").append([encode_event(b"x")], service.broker.clock())


def reader_connections(service: Emulated) -> list[int]:
    return [link.endpoint.connection for link in service.broker.links]


@virtual
async def test_a_link_is_read_for_hours_although_idle_cbs_links_are_detached(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Emulated(monkeypatch)
    service.broker.create_hub("orders", 1)
    hub = service.hub()
    source = await hub.open("0", -1, 1, 100)
    for _ in range(5):
        put(service)
        assert await received(source, HOUR) == 1
        assert not service.broker.service_links  # idle for longer than 5 minutes
    assert service.connections == 1
    assert service.broker.counters["cbs_accepted"] == 1 + 299 // 50  # 10 minutes before the end of each hour
    await source.close()
    await hub.close()


@virtual
async def test_properties_are_read_on_the_same_connection_after_a_detach(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Emulated(monkeypatch)
    service.broker.create_hub("orders", 1)
    hub = service.hub()
    for _ in range(3):
        assert (await hub.describe()).partition_ids == ("0",)
        assert service.broker.detach(Selection(kind="management"), DETACHED) == 2
        await asyncio.sleep(1)
    assert service.connections == 1
    await hub.close()


@virtual
async def test_a_connection_whose_token_cannot_be_renewed_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Emulated(monkeypatch)
    service.broker.create_hub("orders", 2)
    hub = service.hub()
    source = await hub.open("0", -1, 1, 100)
    service.broker.faults.refusals.append(Refusal(Selection(kind="cbs", connection=1), DETACHED))
    assert await received(source, 0.9 * HOUR) == 0  # the token is not renewed, and still valid
    other = await hub.open("1", -1, 1, 100)
    assert reader_connections(service) == [1, 2]
    with pytest.raises(HubUnauthorized, match=r"expired at 2023-.* could not be renewed: .*The link is detached"):
        await received(source, HOUR)
    await source.close()
    source = await hub.open("0", -1, 2, 100)
    assert reader_connections(service) == [2, 2]
    put(service)
    assert await received(source, 2 * HOUR) == 1
    await asyncio.gather(source.close(), other.close())
    await hub.close()


@virtual
async def test_the_end_of_a_given_signature_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Emulated(monkeypatch)
    service.broker.create_hub("orders", 1)
    expiry = START + 3600 + int(asyncio.get_running_loop().time())
    signature = cbs.sign("sb://shop.servicebus.windows.net/orders", DEFAULT_POLICY.name, DEFAULT_POLICY.key, expiry)
    hub = service.hub(credential=f"SharedAccessSignature={signature}")
    source = await hub.open("0", -1, 1, 100)
    assert await received(source, 0.9 * HOUR) == 0
    with pytest.raises(HubUnauthorized, match=r"expired at 2023-.*create a new one"):
        await received(source, HOUR)
    await source.close()
    with pytest.raises(HubUnauthorized, match="has expired: create a new one"):
        await hub.open("0", -1, 2, 100)
    await hub.close()


@virtual
async def test_a_link_that_is_detached_before_it_delivers_gets_a_new_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Emulated(monkeypatch)
    service.broker.create_hub("orders", 2)
    hub = service.hub()
    stays, source = [await hub.open(partition, -1, 1, 100) for partition in ("1", "0")]
    put(service)
    for connection, delivered in ((1, 1), (1, 0), (2, 0), (3, 1)):
        assert reader_connections(service) == [1, connection]
        assert await received(source, 1) == delivered
        service.broker.detach(Selection(partition="0"), DETACHED)
        with pytest.raises(HubUnreachable, match="The link is detached"):
            await received(source, 1)
        await source.close()
        if connection == 2:
            put(service)
        source = await hub.open("0", 0, 1, 100)
    await asyncio.gather(source.close(), stays.close())
    await hub.close()


@virtual
async def test_names_in_the_text_of_an_error_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Emulated(monkeypatch)
    name = "auth-failed-not-found"
    service.broker.create_hub(name, 1)
    hub = service.hub(name)
    source = await hub.open("0", -1, 1, 100)
    text = f"The link 'G1:2:x' is force detached. Detach origin: IdleTimerExpired. SystemTracker:shop:eventhub:{name}"
    service.broker.detach(Selection(), LinkFailed("amqp:link:detach-forced", text))
    with pytest.raises(HubUnreachable, match=name):
        await received(source, 1)
    await source.close()
    await hub.close()


@virtual
async def test_many_queries_stay_below_the_limit_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Emulated(monkeypatch)
    service.broker.create_hub("orders", 1)
    hub = service.hub()
    clock = asyncio.get_running_loop().time
    began = clock()
    assert {info.last for info in await asyncio.gather(*(hub.partition("0") for _ in range(400)))} == {-1}
    assert clock() - began == pytest.approx(390 / 40, abs=0.1)
    await asyncio.sleep(10)
    began = clock()
    await asyncio.gather(*(hub.partition("0") for _ in range(10)))
    assert clock() == began  # few queries do not wait
    await hub.close()


@virtual
async def test_queries_of_the_hub_at_the_same_time_share_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Emulated(monkeypatch)
    service.broker.create_hub("orders", 1)
    hub = service.hub()
    await asyncio.gather(*(hub.describe() for _ in range(32)))
    assert service.broker.counters["management_reads"] == 1
    running = asyncio.create_task(hub.describe())
    while service.broker.counters["management_reads"] < 2:  # it has begun: the next answer must be a newer one
        await asyncio.sleep(0)
    service.broker.hub("orders").add_partitions(2)
    later = await asyncio.gather(*(hub.describe() for _ in range(32)))
    await running
    assert {info.partition_ids for info in later} == {("0", "1")}
    assert service.broker.counters["management_reads"] == 3
    await hub.close()
