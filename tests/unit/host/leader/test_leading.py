"""The leading host's notices in virtual time: when it tries again and reports a problem, and that one host sends."""

import asyncio
import json
from collections.abc import Callable

import pytest

from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_host.batch.log import BatchLog
from eventconsumer_host.batch.plan import freeze
from eventconsumer_host.errors import NoticeFailed
from eventconsumer_host.notice.cursor import NoticesRecord, cursor_name
from eventconsumer_host.notice.message import NoticeMessage
from eventconsumer_host.sink.slots import segment_id
from tests.support.clocks import virtual_clock
from tests.support.fakes.hub import FakeHub
from tests.support.fakes.virtual import virtual
from tests.unit.host.chains import NOON, draft
from tests.unit.host.fleets import INFO, Fleet, until

URL = "spec.sink.notices.url"
EVENTS = 30  # in three files


class Receiver:
    """Acknowledges notices; `fails` raises instead."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.asked: list[float] = []  # times
        self.fails: Callable[[], None] = lambda: None
        self.open = 0

    async def post(self, message: NoticeMessage) -> None:
        self.asked.append(virtual_clock())
        self.fails()
        self.got.append(int(json.loads(message.body)["data"]["firstSequenceNumber"]))

    async def close(self) -> None:
        self.open -= 1


def leading(test: Callable[[Fleet, Receiver], object]) -> Callable[[], None]:
    """Run a test on a fleet of one host that leads, with the cursor at the beginning of its only partition."""

    @virtual
    async def run() -> None:
        receiver = Receiver()

        def endpoint(_: object) -> Receiver:
            receiver.open += 1
            return receiver

        fleet = Fleet(FakeHub(1), leading=True, endpoint=endpoint)
        try:
            fleet.start("shop/orders/orders-host-0.a")
            await until(lambda: "p/_notices.json" in fleet.sink.blobs, 120)
            await asyncio.sleep(60)
            await test(fleet, receiver)  # type: ignore[misc]
        finally:
            await fleet.close()
        assert receiver.open == 0, "connections stay open"

    run.__name__ = getattr(test, "__name__", "run")
    return run


def failing(receiver: Receiver, **how: object) -> None:
    def fails() -> None:
        raise NoticeFailed(URL, "HTTP 503", **how)  # type: ignore[arg-type]

    receiver.fails = fails


def publish(fleet: Fleet) -> None:
    fleet.hub.partitions["0"].add(*[b"x"] * EVENTS)


def reported(fleet: Fleet) -> list[str]:
    (host,) = fleet.hosts.values()
    assert host.leader
    return [problem.field for problem in host.leader.problems if problem.reason == "NoticesFailing"]


def firsts(fleet: Fleet) -> list[int]:
    """The first event of each file."""
    return [start for start, _, _ in fleet.files().get("0", [])]


@leading
async def test_files_are_announced_in_order_soon_after_they_are_written(fleet: Fleet, receiver: Receiver) -> None:
    publish(fleet)
    await until(fleet.drained, 60)
    await until(lambda: receiver.got == firsts(fleet), 60)
    assert len(receiver.got) > 1
    (host,) = fleet.hosts.values()
    assert host.leader
    leader = host.leader

    def all_reported() -> bool:
        fleet = leader.fleet
        return fleet is not None and fleet.notices is not None and fleet.notices.pending_events == 0

    await until(all_reported, 10)


@leading
async def test_an_outage_is_tried_again_with_longer_pauses_and_a_problem_after_a_minute(
    fleet: Fleet, receiver: Receiver
) -> None:
    failing(receiver)
    publish(fleet)
    await until(lambda: bool(receiver.asked), 120)
    began = receiver.asked[0]
    await until(lambda: bool(reported(fleet)), 200)
    assert 60 <= virtual_clock() - began <= 130
    await asyncio.sleep(600)
    pauses = [after - before for before, after in zip(receiver.asked, receiver.asked[1:], strict=False)]
    assert pauses[0] <= 2.5 and 30 <= pauses[-1] <= 60.5, pauses
    assert not receiver.got
    receiver.fails = lambda: None
    await until(lambda: receiver.got == firsts(fleet), 120)
    await until(lambda: not reported(fleet), 10)


@leading
async def test_what_a_user_must_correct_is_a_problem_at_once(fleet: Fleet, receiver: Receiver) -> None:
    failing(receiver, lasting=True)
    publish(fleet)
    await until(lambda: bool(receiver.asked), 120)
    await until(lambda: reported(fleet) == [URL], 1)


@leading
async def test_the_pause_that_the_endpoint_asks_for_is_kept(fleet: Fleet, receiver: Receiver) -> None:
    failing(receiver, retry_after=300.0)
    publish(fleet)
    await until(lambda: len(receiver.asked) == 2, 900)
    assert receiver.asked[1] - receiver.asked[0] >= 300


@pytest.mark.parametrize("order", [1, 2])
def test_a_host_that_stops_sends_the_rest_unless_another_one_leads(order: int) -> None:
    @leading
    async def run(fleet: Fleet, receiver: Receiver) -> None:
        (first,) = fleet.hosts.values()
        assert first.leader
        publish(fleet)
        await until(fleet.drained, 60)
        failing(receiver)
        await first.stop()
        sent = list(receiver.got)
        receiver.fails = lambda: None
        if order == 2:
            fleet.start("shop/orders/orders-host-1.b")
            await until(lambda: receiver.got == firsts(fleet), 300)
            failing(receiver)
            publish(fleet)
            await until(fleet.drained, 60)
        asked = len(receiver.asked)
        await first.leader.rest()
        if order == 1:
            assert receiver.got[len(sent) :] == [start for start in firsts(fleet) if start not in sent]
        else:
            assert len(receiver.asked) == asked, "another host leads"

    run()


@virtual
async def test_the_rest_of_an_ended_segment_is_announced_although_batches_are_in_the_next_one() -> None:
    receiver, newest = Receiver(), segment_id(INFO)
    fleet = Fleet(FakeHub(1), leading=True, endpoint=lambda _: receiver, earlier=["before"])
    receiver.open = 1
    for folder, first in (("before", 0), (newest, 500)):
        chain = fleet.chain("0", folder)
        await chain.begin(first)
        for start in (first, first + 10):
            await chain.put(draft(start, start + 9, f"{folder}-{start}"), b"x")
    await fleet.chain("0", "before").seal(20, b"")
    slots = await fleet.chain("0", newest).listed()
    batch = freeze(
        None,
        {"0": slots[:1]},
        {"0": 500},
        resource=ResourceRef(namespace="shop", name="orders", uid="u"),
        chain="",
        segment_id=newest,
        reason="Files",
        now=NOON,
    )
    await BatchLog(fleet.sink, "p").freeze(batch)
    record = NoticesRecord(chain="", written_at=NOON, segment_id="before", next={"0": 10})
    await fleet.sink.put(cursor_name("p"), record.model_dump_json(by_alias=True).encode())
    try:
        fleet.start("shop/orders/orders-host-0.a")
        await until(lambda: receiver.got == [10, 500, 510], 200)
    finally:
        await fleet.close()
