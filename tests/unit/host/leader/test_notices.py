"""Notices on storage and endpoints that fail, in virtual time: in order, repeated at most, and never left out."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from eventconsumer_api.v1alpha1 import NoticeFormat
from eventconsumer_api.wire.identity import EventMark, PartitionBreak
from eventconsumer_host.errors import LeaseLost, NoticeFailed
from eventconsumer_host.leader.notices import LOOK_SECONDS, Notifier
from eventconsumer_host.leader.tail import Segment, Tail
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.notice.cursor import Cursor, NoticesRecord, cursor_name
from eventconsumer_host.notice.message import NoticeMessage, Origin
from eventconsumer_host.notice.pace import LONGEST_SECONDS
from eventconsumer_host.sink.slots import Chain
from eventconsumer_storage.errors import Damaged, StorageError
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.virtual import virtual
from tests.unit.host.chains import NOON, draft, tombstone

PARTITIONS = ("0", "1")
BREAK = PartitionBreak(
    start=0, files_end=EventMark(sequence_number=-1), hub_end=EventMark(sequence_number=-1), common=-1
)
Starts = dict[str, list[int]]


class Killed(Exception):
    """The process of a host ended."""


class Receiver:
    """Acknowledges notices, unless `fails` raises for the partition and start of one."""

    def __init__(self) -> None:
        self.got: Starts = defaultdict(list)  # by segment and partition
        self.fails: Callable[[str, int], None] = lambda _, __: None
        self.asked = 0
        self.seconds = 0.0

    async def post(self, message: NoticeMessage) -> None:
        self.asked += 1
        event = json.loads(message.body)
        _, segment_id, partition, start = event["id"].split("/")
        await asyncio.sleep(self.seconds)
        self.fails(partition, int(start))
        self.got[f"{segment_id}/{partition}"].append(int(start))


class NoticeWorld:
    """Chains of two segments, and who sends notices."""

    def __init__(self) -> None:
        self.store = FakeBlobStore(virtual_clock)
        self.receiver = Receiver()
        self.metrics = Metrics()
        self.ends: dict[str, dict[str, int]] = {}
        self.absent: set[str] = set()  # partitions that the hub of the next segment does not have
        self.segments: list[Segment] = []  # of the leading host
        self.tail = Tail(self.segments, lambda: NOON)

    def chain(self, segment_id: str, partition: str) -> Chain:
        first = segment_id == "era" or partition in self.absent
        return Chain(self.store, "p", segment_id, partition, opening=None if first else BREAK)

    async def write(self, partition: str, files: int, segment_id: str = "era") -> None:
        """Write files of ten events."""
        ends, chain = self.ends.setdefault(segment_id, {}), self.chain(segment_id, partition)
        if partition not in ends:
            ends[partition] = (await chain.begin(0)).start
        for _ in range(files):
            start = ends[partition]
            await chain.put(draft(start, start + 9, f"{partition}-{start}"), b"x")
            ends[partition] = start + 10

    async def seal(self) -> None:
        """End the first segment."""
        for partition, end in self.ends["era"].items():
            assert await self.chain("era", partition).seal(end, b"")

    def notifier(self, **options: Any) -> Notifier:
        origin = Origin("https://a.blob.core.windows.net/files", "p", "c1", "orders")
        post = options.pop("post", self.receiver.post)
        cursor = options.pop("cursor", None) or self.new_cursor()
        return Notifier(
            origin,
            NoticeFormat.CLOUD_EVENTS,
            post,
            cursor,
            self.tail,
            now=lambda: NOON,
            clock=virtual_clock,
            rng=Random(1),
            metrics=self.metrics,
            **options,
        )

    def new_cursor(self) -> Cursor:
        return Cursor(self.store, "p", "c1", now=lambda: NOON, clock=virtual_clock)

    async def again(self, notifier: Notifier) -> None:
        """Send notices after the longest pause."""
        await asyncio.sleep(LONGEST_SECONDS)
        await self.send(notifier)

    async def send(self, notifier: Notifier) -> None:
        """Send all notices of a leading host that knows the ends of the files."""
        self.know()
        await notifier.advance(self.partitions())

    async def keep_sending(self, notifier: Notifier) -> None:
        """The same, until cancelled."""
        try:
            while True:
                self.know()
                await notifier.step(self.partitions())
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            notifier.cancel()

    async def send_rest(self, **options: Any) -> None:
        """Send all notices in a host that stops."""
        self.segments[:] = self._segments()
        await self.notifier(look=True, **options).advance(self.partitions())

    def know(self) -> None:
        """Learn the ends of the files."""
        self.segments[:] = self._segments()
        for segment in self.segments:
            for partition, end in self.ends[segment.segment_id].items():
                segment.follower(partition).reach(end)

    def _segments(self) -> list[Segment]:
        return [Segment(name, partial(self.chain, name), lambda: NOON) for name in self.ends]

    def partitions(self) -> list[str]:
        return sorted({name for ends in self.ends.values() for name in ends} | set(PARTITIONS))

    async def begun(self) -> Notifier:
        """A notifier whose cursor is at the beginning of both partitions."""
        for partition in PARTITIONS:
            await self.write(partition, 0)
        notifier = self.notifier()
        await self.send(notifier)
        return notifier

    def record(self) -> NoticesRecord:
        return NoticesRecord.model_validate_json(self.store.blobs[cursor_name("p")].data)

    def cursor(self) -> dict[str, int]:
        return self.record().next


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
    world = NoticeWorld()
    await world.write("0", 3)
    notifier = world.notifier()
    await world.send(notifier)
    assert not world.receiver.got
    assert world.cursor() == {"0": 30}, "a new leader must not begin later"
    await world.write("0", 1)
    await world.write("1", 2)  # a partition that has no file yet begins with its first
    await world.send(world.notifier())
    assert world.receiver.got == {"era/0": [30], "era/1": [0, 10]}
    assert world.cursor() == {"0": 40, "1": 20}


@virtual
async def test_each_file_has_one_notice_in_order_and_the_cursor_is_written_once_a_second() -> None:
    world = NoticeWorld()
    notifier = await world.begun()
    await world.write("0", 30)
    await world.write("1", 5)
    world.receiver.seconds = 0.25
    writes = len([name for call, name in world.store.calls if name == cursor_name("p") and call == "put"])
    await world.send(notifier)
    assert world.receiver.got == {"era/0": starts(30), "era/1": starts(5)}
    written = len([name for call, name in world.store.calls if name == cursor_name("p") and call == "put"]) - writes
    assert 5 <= written <= 9, "7.5 seconds"
    asked = len(world.store.calls)
    await world.send(notifier)
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
        world = NoticeWorld()
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
                await world.send(notifier)
            except Killed:
                notifier = world.notifier()
        world.receiver.fails, world.store.faults = lambda *_: None, []
        await world.again(notifier)
        for partition, end in world.ends["era"].items():
            assert complete(world.receiver.got[f"era/{partition}"], end // 10)
        assert world.cursor() == world.ends["era"]

    run()


@virtual
async def test_a_host_that_ends_between_the_acknowledgement_and_the_cursor_repeats_the_notice() -> None:
    world = NoticeWorld()
    notifier = await world.begun()
    await world.write("0", 1)
    world.store.faults = [Fault("put")]
    await world.send(notifier)
    assert isinstance(notifier.problem, StorageError)
    await world.send(world.notifier())
    assert world.receiver.got["era/0"] == [0, 0]
    assert world.cursor()["0"] == 10


@virtual
async def test_two_leaders_at_once_repeat_notices_and_leave_out_none() -> None:
    world = NoticeWorld()
    one, other = await world.begun(), world.notifier()
    world.receiver.seconds = 0.7
    for _ in range(10):
        await world.write("0", 2)
        await asyncio.gather(world.send(one), world.send(other))
    await world.send(one)
    await world.send(other)
    assert set(world.receiver.got["era/0"]) == set(starts(20))
    assert world.cursor()["0"] == 200


@virtual
async def test_the_slower_of_two_leaders_does_not_move_the_cursor_back() -> None:
    world = NoticeWorld()
    one = await world.begun()
    fails = refuse("0", 10)

    async def post(message: NoticeMessage) -> None:
        fails("0", int(json.loads(message.body)["data"]["firstSequenceNumber"]))

    slower = world.notifier(post=post)
    await world.send(slower)
    await world.write("0", 2)
    await world.send(one)
    await world.send(slower)
    assert world.cursor()["0"] == 20
    await world.again(slower)
    assert slower.problem is None, "it has read the cursor again: nothing is left"
    assert world.cursor()["0"] == 20


@virtual
async def test_a_host_that_no_longer_leads_sends_nothing() -> None:
    world = NoticeWorld()
    await world.begun()
    await world.write("0", 1)

    def check() -> None:
        raise LeaseLost("lost")

    with pytest.raises(LeaseLost):
        await world.send(world.notifier(check=check))
    assert not world.receiver.asked


@virtual
async def test_a_refused_notice_stops_its_partition_and_is_not_left_out() -> None:
    world = NoticeWorld()
    notifier = await world.begun()
    for partition in PARTITIONS:
        await world.write(partition, 4)
    world.receiver.fails = refuse("0", 10, lasting=True, only_this=True)
    for _ in range(3):
        await world.again(notifier)
    assert isinstance(notifier.problem, NoticeFailed)
    assert world.receiver.got == {"era/0": [0], "era/1": starts(4)}
    assert world.cursor() == {"0": 10, "1": 40}, "a new leader does not repeat the others"
    assert notifier.report and notifier.report.pending_events == 30
    counted = {
        each.labels["outcome"]: each.value for family in world.metrics.notices.collect() for each in family.samples
    }
    assert counted == {"acknowledged": 5, "refused": 3}
    world.receiver.fails = lambda *_: None
    await world.again(notifier)
    assert world.receiver.got["era/0"] == starts(4)
    assert notifier.problem is None


@virtual
async def test_a_notice_that_fails_or_is_slow_does_not_delay_other_partitions() -> None:
    world = NoticeWorld()
    await world.begun()
    asked: list[float] = []

    async def post(message: NoticeMessage) -> None:
        event = json.loads(message.body)
        if event["data"]["partitionId"] == "0":
            asked.append(virtual_clock())
            await asyncio.sleep(20)
            raise NoticeFailed("f", "HTTP 503", retry_after=100)
        await world.receiver.post(message)

    notifier = world.notifier(post=post)
    running = asyncio.create_task(world.keep_sending(notifier))
    await world.write("0", 2)
    for number in range(300):
        await world.write("1", 1)
        await asyncio.sleep(2)
        assert world.receiver.got["era/1"] == starts(number + 1)
    await asyncio.sleep(2)
    running.cancel()
    assert [after - before >= 120 for before, after in pairwise(asked)] == [True] * (len(asked) - 1)
    assert 4 <= len(asked) <= 6
    assert world.cursor() == {"0": 0, "1": 3000}


@virtual
async def test_an_endpoint_that_does_not_respond_is_asked_once_for_each_partition() -> None:
    world = NoticeWorld()
    partitions = [str(number) for number in range(20)]
    for partition in partitions:
        await world.write(partition, 0)
    notifier = world.notifier()
    await world.send(notifier)
    for partition in partitions:
        await world.write(partition, 4)

    def fails(*_: Any) -> None:
        raise NoticeFailed("f", "HTTP 503")

    world.receiver.fails = fails
    await world.send(notifier)
    assert world.receiver.asked == len(partitions)


@virtual
async def test_a_partition_continues_in_the_next_segment_after_its_last_notice() -> None:
    world = NoticeWorld()
    notifier = await world.begun()
    for partition in PARTITIONS:
        await world.write(partition, 2)
    await world.seal()
    for partition in PARTITIONS:
        await world.write(partition, 2, "later")
    world.receiver.fails = refuse("1", 10, only_this=True, lasting=True)
    await world.send(notifier)
    assert world.receiver.got == {"era/0": starts(2), "later/0": starts(2), "era/1": [0]}
    assert world.record().segment_id == "era" and world.record().segments == {"0": "later"}
    assert world.cursor() == {"0": 20, "1": 10}
    world.receiver.fails = lambda *_: None
    await world.send(world.notifier())
    assert world.receiver.got == dict.fromkeys(("era/0", "era/1", "later/0", "later/1"), starts(2))
    assert world.cursor() == {"0": 20, "1": 20}


@virtual
async def test_a_missing_file_of_an_ended_segment_is_not_its_end() -> None:
    world = NoticeWorld()
    notifier = await world.begun()
    for partition in PARTITIONS:
        await world.write(partition, 3)
    await world.seal()
    for partition in PARTITIONS:
        await world.write(partition, 1, "later")
    world.store.delete(world.chain("era", "0").path(10))
    await world.send(notifier)
    assert world.receiver.got == {"era/0": [0], "era/1": starts(3), "later/1": [0]}
    assert isinstance(notifier.problem, Damaged) and "is missing" in str(notifier.problem)


@virtual
async def test_a_partition_that_the_next_hub_does_not_have_gets_its_last_notices() -> None:
    world = NoticeWorld()
    notifier = await world.begun()
    await world.write("0", 2)
    await world.chain("era", "1").seal(0, b"")
    world.ends["era"] = {"0": 20, "1": 0}
    world.absent.add("0")
    await world.write("1", 1, "later")
    await world.send(notifier)
    assert world.receiver.got == {"era/0": starts(2), "later/1": [0]}
    assert notifier.problem is None


@virtual
async def test_the_rest_is_sent_without_knowing_the_ends_and_begins_no_cursor() -> None:
    world = NoticeWorld()
    await world.write("0", 1)
    await world.send_rest()
    assert cursor_name("p") not in world.store.blobs
    await world.send(world.notifier())
    await world.write("0", 2)
    await world.send_rest()
    assert world.receiver.got == {"era/0": [10, 20]}


@virtual
async def test_a_pruned_file_has_no_notice_and_the_next_one_has() -> None:
    world = NoticeWorld()
    notifier = await world.begun()
    await world.write("0", 3)
    chain = world.chain("era", "0")
    slot = await chain.at(0)
    assert slot and await tombstone(world.store, chain, slot)
    await world.send(notifier)
    assert world.receiver.got == {"era/0": [10, 20]}


@virtual
async def test_a_damaged_cursor_names_the_remedy() -> None:
    world = NoticeWorld()
    await world.begun()
    await world.store.put(cursor_name("p"), b"{")
    notifier = world.notifier()
    await world.send(notifier)
    assert "cannot parse the cursor of notices, blob p/_notices.json: delete it" in str(notifier.problem)
    record = NoticesRecord(chain="c1", written_at=NOON, segment_id="unknown", next={})
    await world.store.put(cursor_name("p"), record.model_dump_json(by_alias=True).encode())
    await world.again(notifier)
    assert "a segment that this host does not know" in str(notifier.problem)


@virtual
async def test_a_file_that_is_missing_is_not_left_out_in_silence() -> None:
    world = NoticeWorld()
    notifier = await world.begun()
    await world.write("0", 3)
    world.store.delete(world.chain("era", "0").path(10))
    await world.send(notifier)
    assert "is missing, so its notice cannot be sent: restore it" in str(notifier.problem)


@virtual
async def test_the_cursor_of_another_chain_does_not_count() -> None:
    world = NoticeWorld()
    await world.begun()
    record = NoticesRecord(chain="c2", written_at=NOON, segment_id="era", next={"0": 500})
    await world.store.put(cursor_name("p"), record.model_dump_json(by_alias=True).encode())
    await world.send(world.notifier())
    assert world.cursor() == {"0": 0, "1": 0}


@virtual
async def test_what_a_leader_knows_counts_although_it_did_not_write_the_cursor() -> None:
    world = NoticeWorld()
    cursor = world.new_cursor()
    await world.begun()
    await world.write("0", 1)
    world.store.faults = [Fault("put")]
    await world.send(world.notifier(cursor=cursor))
    assert world.cursor()["0"] == 0
    await world.send_rest(cursor=cursor)
    assert world.receiver.got["era/0"] == [0]
    assert world.cursor()["0"] == 10


@virtual
async def test_nothing_is_sent_while_the_cursor_cannot_be_written() -> None:
    world = NoticeWorld()
    await world.begun()
    world.receiver.seconds = 0.4
    await world.write("0", 100)
    world.store.faults = [Fault("put") for _ in range(3)]
    running = asyncio.create_task(world.keep_sending(world.notifier()))
    await asyncio.sleep(6)
    assert len(world.receiver.got["era/0"]) <= 6, "a host that takes over repeats them"
    await asyncio.sleep(200)
    running.cancel()
    assert world.receiver.got["era/0"] == starts(100)
