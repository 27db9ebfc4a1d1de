"""The follower of files: what costs a request, which files it gives, and that no other room follows a chain."""

import ast
import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventconsumer_host
from eventconsumer_host.leader.leader import Leader
from eventconsumer_host.leader.tail import (
    FOLLOWED,
    RECENT,
    STALE,
    Follower,
    HubAnswer,
    LookPace,
    Segment,
    Tail,
    is_complete,
)
from eventconsumer_host.leader.task import LeaderTask, Task, View
from eventconsumer_host.sink.slots import Chain
from eventconsumer_storage.errors import Unavailable
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.hub import FakeHub
from tests.support.fakes.virtual import virtual
from tests.unit.host.chains import NOON, draft
from tests.unit.host.fleets import Fleet, until
from tests.unit.host.measuring import now

PACKAGE = Path(eventconsumer_host.__file__).parent
FOLLOWERS = {"leader/tail.py", "partition/checkpoint.py", "sink/commit.py"}
"""The modules that may ask for the file at a position of a chain."""


class Files:
    """The files of one partition."""

    def __init__(self) -> None:
        self.store = FakeBlobStore(virtual_clock)
        self.chain = Chain(self.store, "p", "era", "0")
        self.end = 0

    async def write(self, files: int) -> None:
        for _ in range(files):
            await self.chain.put(draft(self.end, self.end + 9, f"{self.end}"), b"x")
            self.end += 10

    def asked(self) -> list[str]:
        """Requests since the last call."""
        calls = [operation for operation, _ in self.store.calls]
        self.store.calls.clear()
        return calls


async def starts(follower: Follower, position: int, **options: bool) -> list[int]:
    return [slot.start async for slot in follower.files(position, **options)]


@virtual
async def test_files_are_requested_once_for_all_tasks() -> None:
    files = Files()
    await files.write(3)
    follower = Follower(files.chain, now)
    files.asked()
    assert await starts(follower, 0) == [0, 10, 20]
    assert files.asked() == ["head"] * 4
    assert await starts(follower, 10) == [10, 20]
    assert await follower.file(20) is not None
    assert (files.asked(), follower.end) == ([], 30)
    await files.write(1)
    files.asked()
    assert await starts(follower, 10) == [10, 20], "nobody has looked"
    assert await starts(follower, 20, look=True) == [20, 30]
    assert files.asked() == ["head"] * 2


@virtual
async def test_what_is_far_behind_is_listed_once() -> None:
    files = Files()
    await files.write(FOLLOWED + RECENT + 5)
    follower = Follower(files.chain, now)
    files.asked()
    assert len(await starts(follower, 0)) == FOLLOWED + RECENT + 5
    assert files.asked() == [*["head"] * FOLLOWED, "list"]
    assert len(await starts(follower, files.end - 10 * RECENT)) == RECENT
    assert files.asked() == []


@virtual
async def test_a_failed_request_leaves_no_file_out() -> None:
    files = Files()
    await files.write(3)
    follower = Follower(files.chain, now)
    files.store.faults = [Fault("head")]
    with pytest.raises(Unavailable):
        await starts(follower, 0)
    assert await starts(follower, 0, look=True) == [0, 10, 20]


@virtual
async def test_the_files_end_before_one_that_is_missing() -> None:
    files = Files()
    await files.write(3)
    files.store.delete(files.chain.path(10))
    follower = Follower(files.chain, now)
    follower.reach(30)
    assert await starts(follower, 0) == [0]
    assert follower.end == 30


@virtual
async def test_a_file_that_became_a_tombstone_is_read_again() -> None:
    files = Files()
    await files.write(2)
    follower = Follower(files.chain, now)
    await starts(follower, 0)
    info = await files.store.head(files.chain.path(0))
    assert info is not None
    await files.store.put(info.name, b"", metadata={**info.metadata, "tombstone": "x"})
    follower.replaced(0)
    slot = await follower.file(0)
    assert slot is not None and slot.tombstone


@virtual
async def test_a_partition_is_asked_for_only_where_there_may_be_a_file() -> None:
    files = Files()
    await files.write(1)
    tail = Tail([Segment("era", lambda _: files.chain, now)], now)
    eager, rare = LookPace(0.0, quiet=60.0), LookPace(75.0)
    await starts(tail.newest.follower("0"), 0)

    async def asked(pace: LookPace, view: View | None = None) -> int:
        files.asked()
        await tail.follow(view or View(["0", "1"]), pace)
        return len(files.asked())

    await asyncio.sleep(30)
    tail.hear("0", 9, now())
    assert await asked(eager) == 1, "there was a file a short time ago"
    await asyncio.sleep(40)
    tail.hear("0", 9, now())
    assert (await asked(eager), await asked(rare)) == (0, 0), "it is complete"
    assert await asked(rare, View(["0"], commits={"0": 20})) == 1, "this host has committed a file"
    tail.hear("0", 12, now())
    assert (await asked(eager), await asked(rare)) == (1, 0), "the hub has events that are in no file"
    await asyncio.sleep(75)
    assert await asked(rare) == 1, "the hub does not answer any more"


AGES = st.integers(0, 200)


@given(st.integers(0, 50), st.integers(-1, 50), AGES, st.none() | AGES, AGES)
def test_a_partition_is_complete_only_by_a_present_answer(
    end: int, last: int, age: int, found: int | None, quiet: int
) -> None:
    answer = HubAnswer(last, NOON - timedelta(seconds=age))
    complete = is_complete(end, None if found is None else NOON - timedelta(seconds=found), answer, NOON, quiet)
    assert complete is (age < STALE.total_seconds() and last < end and (found is None or found >= quiet))
    assert not is_complete(end, None, None, NOON, quiet)


def test_no_other_room_follows_a_chain() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "at":
                found.add(str(path.relative_to(PACKAGE)))
    assert found == FOLLOWERS


class Counting(Task):
    """A new task: a module, and a line in the list."""

    name = "count"
    pause = 1.0

    def __init__(self) -> None:
        self.steps = 0

    async def step(self, view: View) -> None:
        self.steps += 1
        if self.steps == 2:
            raise Unavailable("no answer")


class Slow(Task):
    """A task that takes long."""

    name = "sleep"

    async def step(self, view: View) -> None:
        await asyncio.sleep(3600)


@virtual
async def test_a_task_is_one_line_and_a_slow_or_failing_one_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    counting, tasks_of = Counting(), Leader._tasks_of

    def with_another(*arguments: object) -> object:
        measure, tasks = tasks_of(*arguments)  # type: ignore[arg-type]
        added: list[LeaderTask] = [counting, Slow()]
        return measure, [*tasks, *added]

    monkeypatch.setattr(Leader, "_tasks_of", with_another)
    fleet = Fleet(FakeHub(1), leading=True)
    try:
        host = fleet.start("shop/orders/orders-host-0.a")
        await until(lambda: counting.steps == 2, 60)
        assert host.leader is not None
        assert "no answer" in host.leader.problems[0].message
        await until(lambda: counting.steps > 100, 200)
        assert host.leader.problems == []
        assert host.leader.fleet is not None, "the lag is measured meanwhile"
    finally:
        await fleet.close()
