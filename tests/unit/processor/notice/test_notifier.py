"""Notices on storage and endpoints that fail, in virtual time: in order, repeated at most, and never left out."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from eventconsumer_api.v1alpha1 import NoticeFormat
from eventconsumer_processor.errors import LeaseLost, NoticeFailed
from eventconsumer_processor.metrics import Metrics
from eventconsumer_processor.notice.message import Message, Origin
from eventconsumer_processor.notice.notifier import (
    PARTITIONS_AT_ONCE,
    Extent,
    NoticesRecord,
    Notifier,
    cursor_name,
)
from eventconsumer_processor.sink.slots import Chain
from eventconsumer_storage.errors import Damaged, StorageError
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.virtual import virtual
from tests.unit.processor.chains import NOON, draft, tombstone
from tests.unit.processor.stage import virtual_clock

PARTITIONS = ("0", "1")
Starts = dict[str, list[int]]


class Killed(Exception):
    """The process of a host ended."""


class Receiver:
    """Acknowledges notices, unless `fails` raises for the partition and start of one."""

    def __init__(self) -> None:
        self.got: Starts = defaultdict(list)  # by incarnation and partition
        self.fails: Callable[[str, int], None] = lambda _, __: None
        self.asked = 0
        self.seconds = 0.0

    async def post(self, message: Message) -> None:
        self.asked += 1
        event = json.loads(message.body)
        _, incarnation, partition, start = event["id"].split("/")
        await asyncio.sleep(self.seconds)
        self.fails(partition, int(start))
        self.got[f"{incarnation}/{partition}"].append(int(start))


class World:
    """Chains of two segments, and who sends notices."""

    def __init__(self) -> None:
        self.store = FakeBlobStore(virtual_clock)
        self.receiver = Receiver()
        self.metrics = Metrics()
        self.ends: dict[str, dict[str, int]] = {}

    def chain(self, incarnation: str, partition: str) -> Chain:
        return Chain(self.store, "p", incarnation, partition)

    async def write(self, partition: str, files: int, incarnation: str = "era") -> None:
        """Write files of ten events."""
        ends, chain = self.ends.setdefault(incarnation, {}), self.chain(incarnation, partition)
        if partition not in ends:
            ends[partition] = (await chain.begin(0)).start
        for _ in range(files):
            start = ends[partition]
            await chain.put(draft(start, start + 9, f"{partition}-{start}"), b"x")
            ends[partition] = start + 10

    def notifier(self, **options: Any) -> Notifier:
        origin = Origin("https://a.blob.core.windows.net/files", "p", "c1", "orders")
        post = options.pop("post", self.receiver.post)
        return Notifier(
            self.store, origin, NoticeFormat.CLOUD_EVENTS, post, now=lambda: NOON, clock=virtual_clock,
            metrics=self.metrics, **options,
        )  # fmt: skip

    def extents(self, *, known: bool = True) -> list[Extent]:
        def chain(incarnation: str) -> Callable[[str], Chain]:
            return lambda partition: self.chain(incarnation, partition)

        return [
            Extent(name, chain(name), dict(ends) if known else dict.fromkeys(PARTITIONS))
            for name, ends in self.ends.items()
        ]

    async def begun(self) -> Notifier:
        """A notifier whose cursor is at the beginning of both partitions."""
        for partition in PARTITIONS:
            await self.write(partition, 0)
        notifier = self.notifier()
        await notifier.advance(self.extents())
        return notifier

    def cursor(self) -> dict[str, int]:
        return NoticesRecord.model_validate_json(self.store.blobs[cursor_name("p")].data).next


def refuse(partition: str, start: int, **how: Any) -> Callable[[str, int], None]:
    """An endpoint that does not acknowledge one notice."""

    def fails(*place: Any) -> None:
        if place == (partition, start):
            raise NoticeFailed("f", "no", **how)

    return fails


def starts(files: int) -> list[int]:
    return [number * 10 for number in range(files)]


def complete(got: Sequence[int], files: int) -> bool:
    """Whether every file has a notice, and the first notice of each file came after that of the file before."""
    return list(dict.fromkeys(got)) == starts(files)


@virtual
async def test_notices_begin_with_the_files_after_the_first_activation() -> None:
    world = World()
    await world.write("0", 3)
    notifier = world.notifier()
    await notifier.advance(world.extents())
    assert not world.receiver.got
    assert world.cursor() == {"0": 30}, "a new leader must not begin later"
    await world.write("0", 1)
    await world.write("1", 2)  # a partition that has no file yet begins with its first
    await world.notifier().advance(world.extents())
    assert world.receiver.got == {"era/0": [30], "era/1": [0, 10]}
    assert world.cursor() == {"0": 40, "1": 20}


@virtual
async def test_each_file_has_one_notice_in_order_and_the_cursor_is_written_once_a_second() -> None:
    world = World()
    notifier = await world.begun()
    await world.write("0", 30)
    await world.write("1", 5)
    world.receiver.seconds = 0.25
    writes = len([name for call, name in world.store.calls if name == cursor_name("p") and call == "put"])
    await notifier.advance(world.extents())
    assert world.receiver.got == {"era/0": starts(30), "era/1": starts(5)}
    written = len([name for call, name in world.store.calls if name == cursor_name("p") and call == "put"]) - writes
    assert 5 <= written <= 9, "7.5 seconds"
    asked = len(world.store.calls)
    await notifier.advance(world.extents())
    assert len(world.store.calls) == asked, "without a new file there is no request"
    report = notifier.report
    assert report and (report.pending_events, report.acknowledged_at) == (0, NOON)


@pytest.mark.parametrize("seed", range(30))
def test_hosts_that_are_killed_and_faults_of_storage_and_endpoint_leave_out_no_notice(seed: int) -> None:
    rng = Random(seed)

    def fails(*_: Any) -> None:
        chance = rng.random()
        if chance < 0.1:
            raise Killed
        if chance < 0.3:
            raise NoticeFailed("f", "HTTP 503")

    @virtual
    async def run() -> None:
        world = World()
        notifier = await world.begun()
        world.receiver.seconds = 0.4
        for _ in range(40):
            world.store.faults = []
            await world.write(rng.choice(PARTITIONS), rng.randrange(3))
            world.receiver.fails = fails
            world.store.faults = [
                Fault(rng.choice(("put", "head", "read")), applied=rng.random() < 0.5) for _ in range(rng.randrange(2))
            ]
            try:
                await notifier.advance(world.extents())
            except Killed:
                notifier = world.notifier()
            except (NoticeFailed, StorageError):
                pass
        world.receiver.fails, world.store.faults = lambda *_: None, []
        await notifier.advance(world.extents())
        for partition, end in world.ends["era"].items():
            assert complete(world.receiver.got[f"era/{partition}"], end // 10)
        assert world.cursor() == world.ends["era"]

    run()


@virtual
async def test_a_host_that_ends_between_the_acknowledgement_and_the_cursor_repeats_the_notice() -> None:
    world = World()
    notifier = await world.begun()
    await world.write("0", 1)
    world.store.faults = [Fault("put")]
    with pytest.raises(StorageError):
        await notifier.advance(world.extents())
    await world.notifier().advance(world.extents())
    assert world.receiver.got["era/0"] == [0, 0]
    assert world.cursor()["0"] == 10


@virtual
async def test_two_leaders_at_once_repeat_notices_and_leave_out_none() -> None:
    world = World()
    one, other = await world.begun(), world.notifier()
    world.receiver.seconds = 0.7
    for _ in range(10):
        await world.write("0", 2)
        await asyncio.gather(one.advance(world.extents()), other.advance(world.extents()))
    await one.advance(world.extents())
    await other.advance(world.extents())
    assert set(world.receiver.got["era/0"]) == set(starts(20))
    assert world.cursor()["0"] == 200


@virtual
async def test_the_slower_of_two_leaders_does_not_move_the_cursor_back() -> None:
    world = World()
    one = await world.begun()
    fails = refuse("0", 10)

    async def post(message: Message) -> None:
        fails("0", int(json.loads(message.body)["data"]["firstSequenceNumber"]))

    slower = world.notifier(post=post)
    await slower.advance(world.extents())
    await world.write("0", 2)
    await one.advance(world.extents())
    with pytest.raises(NoticeFailed):
        await slower.advance(world.extents())
    assert world.cursor()["0"] == 20
    await slower.advance(world.extents())  # it has read the cursor again: nothing is left


@virtual
async def test_a_host_that_no_longer_leads_sends_nothing() -> None:
    world = World()
    await world.begun()
    await world.write("0", 1)

    def check() -> None:
        raise LeaseLost("lost")

    with pytest.raises(LeaseLost):
        await world.notifier(check=check).advance(world.extents())
    assert not world.receiver.asked


@virtual
async def test_a_refused_notice_stops_its_partition_and_is_not_left_out() -> None:
    world = World()
    notifier = await world.begun()
    for partition in PARTITIONS:
        await world.write(partition, 4)
    world.receiver.fails = refuse("0", 10, lasting=True, only_this=True)
    for _ in range(3):
        with pytest.raises(NoticeFailed):
            await notifier.advance(world.extents())
    assert world.receiver.got == {"era/0": [0], "era/1": starts(4)}
    assert world.cursor() == {"0": 10, "1": 40}, "a new leader does not repeat the others"
    assert notifier.report and notifier.report.pending_events == 30
    counted = {
        each.labels["outcome"]: each.value for family in world.metrics.notices.collect() for each in family.samples
    }
    assert counted == {"acknowledged": 5, "refused": 3}
    world.receiver.fails = lambda *_: None
    await notifier.advance(world.extents())
    assert world.receiver.got["era/0"] == starts(4)


@virtual
async def test_an_endpoint_that_does_not_respond_is_asked_once_in_a_round() -> None:
    world = World()
    partitions = [str(number) for number in range(3 * PARTITIONS_AT_ONCE)]
    for partition in partitions:
        await world.write(partition, 0)
    notifier = world.notifier()
    await notifier.advance(world.extents())
    for partition in partitions:
        await world.write(partition, 4)

    def fails(*_: Any) -> None:
        raise NoticeFailed("f", "HTTP 503")

    world.receiver.fails = fails
    with pytest.raises(NoticeFailed):
        await notifier.advance(world.extents())
    assert world.receiver.asked <= PARTITIONS_AT_ONCE, "those that were under way"


@virtual
async def test_a_later_segment_follows_the_notices_of_the_segment_before() -> None:
    world = World()
    notifier = await world.begun()
    for partition in PARTITIONS:
        await world.write(partition, 2)
        await world.write(partition, 2, "later")
    world.receiver.fails = refuse("1", 10)
    with pytest.raises(NoticeFailed):
        await notifier.advance(world.extents())
    assert not [place for place in world.receiver.got if place.startswith("later")]
    world.receiver.fails = lambda *_: None
    await world.notifier().advance(world.extents())
    assert {place: sorted(set(got)) for place, got in world.receiver.got.items()} == dict.fromkeys(
        ("era/0", "era/1", "later/0", "later/1"), starts(2)
    )
    assert world.cursor() == {"0": 20, "1": 20}


@virtual
async def test_the_rest_is_sent_without_knowing_the_ends_and_begins_no_cursor() -> None:
    world = World()
    await world.write("0", 1)
    await world.notifier().advance(world.extents(known=False), begin=False)
    assert cursor_name("p") not in world.store.blobs
    await world.notifier().advance(world.extents())
    await world.write("0", 2)
    await world.notifier().advance(world.extents(known=False), begin=False)
    assert world.receiver.got == {"era/0": [10, 20]}


@virtual
async def test_a_pruned_file_has_no_notice_and_the_next_one_has() -> None:
    world = World()
    notifier = await world.begun()
    await world.write("0", 3)
    chain = world.chain("era", "0")
    slot = await chain.at(0)
    assert slot and await tombstone(world.store, chain, slot)
    await notifier.advance(world.extents())
    assert world.receiver.got == {"era/0": [10, 20]}


@virtual
async def test_a_damaged_cursor_names_the_remedy() -> None:
    world = World()
    await world.begun()
    await world.store.put(cursor_name("p"), b"{")
    with pytest.raises(Damaged, match=r"cannot parse the cursor of notices, blob p/_notices\.json: delete it"):
        await world.notifier().advance(world.extents())
    record = NoticesRecord(chain="c1", written_at=NOON, incarnation="unknown", next={})
    await world.store.put(cursor_name("p"), record.model_dump_json(by_alias=True).encode())
    with pytest.raises(Damaged, match="a segment that this host does not know"):
        await world.notifier().advance(world.extents())


@virtual
async def test_a_file_that_is_missing_is_not_left_out_in_silence() -> None:
    world = World()
    notifier = await world.begun()
    await world.write("0", 3)
    world.store.delete(world.chain("era", "0").path(10))
    with pytest.raises(Damaged, match="is missing, so its notice cannot be sent: restore it"):
        await notifier.advance(world.extents())


@virtual
async def test_the_cursor_of_another_chain_does_not_count() -> None:
    world = World()
    await world.begun()
    record = NoticesRecord(chain="c2", written_at=NOON, incarnation="era", next={"0": 500})
    await world.store.put(cursor_name("p"), record.model_dump_json(by_alias=True).encode())
    await world.notifier().advance(world.extents())
    assert world.cursor() == {"0": 0, "1": 0}
