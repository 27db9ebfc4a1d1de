"""When a batch starts and what it takes: triggers, schedules, limits, and that all comes once in the end (S8)."""

import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from cronsim import CronSim
from hypothesis import assume, example, given
from hypothesis import strategies as st

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.spark import BatchLimits, Trigger
from eventconsumer_api.wire.batch import BatchManifest
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_host.batch.plan import WaitingFiles, freeze, oldest_first, take, trigger, unspent
from eventconsumer_host.batch.schedule import last_tick
from eventconsumer_host.sink.slots import Slot

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RESOURCE = ResourceRef(namespace="shop", name="orders", uid="u")
NEVER = {"files": 100_000, "bytes": 1 << 50, "ageSeconds": 604_800}  # so that only the schedule starts batches


def slot(start: int, count: int, size: int, committed_at: datetime) -> Slot:
    """A file of `count` events."""
    last = start + count - 1
    return Slot(f"p/{start}", '"e"', size, committed_at, start, start, last, count, 1, "n", str(last), NOW)


@pytest.mark.parametrize(
    ("files", "size", "age", "tick_age", "reason"),
    [
        (0, 0, None, None, ""),
        (0, 0, None, 0, ""),
        (1, 1, 0, None, ""),
        (9, 999, 299.9, None, ""),
        (10, 10, 0, None, "Files"),
        (1, 1000, 0, None, "Bytes"),
        (1, 1, 300, None, "Age"),
        (11, 9999, 9999, 0, "Files"),
        (1, 1000, 9999, 0, "Bytes"),
        (1, 1, 9999, 0, "Age"),
        (1, 1, 20, 10, "Schedule"),
        (1, 1, 10, 10, "Schedule"),
        (1, 1, 9.9, 10, ""),  # the file came after the scheduled time
    ],
)
def test_the_first_limit_that_is_reached_starts_a_batch(
    files: int, size: int, age: float | None, tick_age: float | None, reason: str
) -> None:
    waiting = WaitingFiles(files, size, None if age is None else NOW - timedelta(seconds=age))
    tick = None if tick_age is None else NOW - timedelta(seconds=tick_age)
    assert trigger(Trigger(files=10, bytes=1000, age_seconds=300), waiting, NOW, tick) == reason


@given(
    st.builds(Trigger, files=st.integers(1, 50), bytes=st.integers(1, 5000), age_seconds=st.integers(1, 900)),
    st.integers(0, 60),
    st.integers(0, 6000),
    st.integers(0, 1000),
    st.none() | st.integers(0, 1000),
)
def test_a_batch_starts_exactly_when_a_limit_is_reached(
    when: Trigger, files: int, size: int, age: int, tick_age: int | None
) -> None:
    waiting = WaitingFiles(files, size, NOW - timedelta(seconds=age) if files else None)
    tick = None if tick_age is None else NOW - timedelta(seconds=tick_age)
    reached = {
        "Files": files >= when.files,
        "Bytes": size >= when.bytes,
        "Age": age >= when.age_seconds,
        "Schedule": tick_age is not None and tick_age <= age,
    }
    reason = trigger(when, waiting, NOW, tick)
    assert bool(reason) == (files > 0 and any(reached.values()))
    assert not reason or reached[reason]


def test_the_last_scheduled_time_is_found_in_utc() -> None:
    at = datetime(2026, 1, 1, 12, 0, 0, 300, tzinfo=UTC)
    assert last_tick("", at) is None
    assert last_tick("0 * * * *", at) == NOW
    assert last_tick("0 * * * *", NOW) == NOW
    assert last_tick("0 * * * *", NOW - timedelta(microseconds=1)) == NOW - timedelta(hours=1)
    east = at.astimezone(datetime.fromisoformat("2026-01-01T00:00:00+05:30").tzinfo)
    assert last_tick("30 6 * * *", east) == datetime(2026, 1, 1, 6, 30, tzinfo=UTC)
    assert last_tick("0 0 29 2 *", at) == datetime(2024, 2, 29, tzinfo=UTC)
    assert last_tick("0 3 * * MON", at) == datetime(2025, 12, 29, 3, tzinfo=UTC)


@pytest.mark.parametrize("expression", ["60 * * * *", "* * * *", "0 0 31 2 *", "x y z a b", "*/0 * * * *"])
def test_a_schedule_that_cannot_be_read_names_its_field(expression: str) -> None:
    with pytest.raises(Blocked) as raised:
        last_tick(expression, NOW)
    assert raised.value.problem.field == "spec.spark.trigger.schedule"
    assert raised.value.problem.reason == "SpecInvalid"
    assert "0 * * * *" in raised.value.problem.message


part = st.text(string.digits + string.ascii_letters + "*/,#?-", min_size=1, max_size=8)


@given(st.lists(part | st.sampled_from(["*", "1", "L", "1#2/3", "5L/2", "LW"]), min_size=5, max_size=5))
@example(["0", "0", "*", "2", "MON#5"])
def test_whatever_the_schema_lets_pass_is_read_or_refused(parts: list[str]) -> None:
    try:
        tick = last_tick(" ".join(parts), NOW)
    except Blocked:
        return
    assert tick is None or tick <= NOW


@dataclass
class BatchWorld:
    """Files that come, leaders that come and go, batches that take their time."""

    when: Trigger
    limits: BatchLimits
    slots: dict[str, list[Slot]] = field(default_factory=dict)
    manifests: list[BatchManifest] = field(default_factory=list)
    committed: int = 0

    def pending(self) -> dict[str, list[Slot]]:
        """As a leader derives it from the last manifest and the files."""
        after = self.manifests[-1].next if self.manifests else {}
        return {
            partition: found
            for partition, slots in self.slots.items()
            if (found := [slot for slot in slots if slot.start >= after.get(partition, 0)])
        }

    def lead(self, now: datetime) -> str:
        """What a leader does once, whether it is new or not: the reason of the batch that it freezes."""
        if self.committed < len(self.manifests):
            return ""
        pending = self.pending()
        waiting = WaitingFiles(
            sum(map(len, pending.values())),
            sum(slot.size for slots in pending.values() for slot in slots),
            min((slots[0].committed_at for slots in pending.values()), default=None),
        )
        oldest = next((slot for _, slot in oldest_first(pending)), None)
        last = self.manifests[-1] if self.manifests else None
        tick = unspent(last_tick(self.when.schedule, now), last, self.limits, oldest)
        reason = trigger(self.when, waiting, now, tick)
        if reason:
            files = take(pending, self.limits, tick if reason == "Schedule" else None)
            starts = dict.fromkeys(self.slots, 0)
            self.manifests.append(
                freeze(last, files, starts, resource=RESOURCE, chain="c1", segment_id="era", reason=reason, now=now)
            )
        return reason

    def drain(self, partition: str, count: int, size: int, now: datetime) -> None:
        """One more file."""
        slots = self.slots.setdefault(partition, [])
        slots.append(slot(slots[-1].last + 1 if slots else 0, count, size, now))

    def files(self, manifest: BatchManifest) -> list[Slot]:
        """What a batch holds."""
        found = {(file.partition, file.first) for file in manifest.files}
        return [one for partition, slots in self.slots.items() for one in slots if (partition, one.start) in found]


steps = st.lists(
    st.tuples(
        st.floats(0.1, 400),  # seconds until it happens
        st.sampled_from(["file", "file", "file", "lead", "lead", "commit"]),
        st.sampled_from(["0", "1", "2"]),
        st.integers(1, 50),
        st.integers(0, 500),
    ),
    max_size=60,
)
limits = st.builds(BatchLimits, max_files=st.integers(1, 8), max_bytes=st.integers(1, 1000))


@given(
    steps,
    limits,
    st.builds(
        Trigger,
        files=st.integers(1, 10),
        bytes=st.integers(1, 2000),
        age_seconds=st.integers(1, 900),
        schedule=st.sampled_from(["", "*/5 * * * *"]),
    ),
)
def test_batches_are_disjoint_contiguous_bounded_and_hold_everything_in_the_end(
    events: list[tuple[float, str, str, int, int]], limit: BatchLimits, when: Trigger
) -> None:
    world, now = BatchWorld(when, limit), NOW
    for seconds, what, partition, count, size in events:
        now += timedelta(seconds=seconds)
        if what == "file":
            world.drain(partition, count, size, now)
        elif what == "lead":
            world.lead(now)
        else:
            world.committed = len(world.manifests)
    for _ in events:  # nothing new comes, and every batch is committed
        now += timedelta(seconds=when.age_seconds)
        world.committed = len(world.manifests)
        world.lead(now)
    assert not world.pending()
    _check_contiguous(world.slots, world.manifests)
    for manifest in world.manifests:
        sizes = [file.size for file in manifest.files]
        assert sizes
        assert len(sizes) == 1 or (len(sizes) <= limit.max_files and sum(sizes) <= limit.max_bytes)


def _check_contiguous(slots: Mapping[str, list[Slot]], manifests: list[BatchManifest]) -> None:
    for partition, found in slots.items():
        position = 0
        for number, manifest in enumerate(manifests, 1):
            assert manifest.number == number
            own = [file for file in manifest.files if file.partition == partition]
            for file in own:
                assert file.first == position
                position = file.last + 1
            assert (partition in manifest.ranges) == bool(own)
            if own:
                part = manifest.ranges[partition]
                assert (part.first, part.last) == (own[0].first, own[-1].last)
            assert manifest.next.get(partition, 0) == position
        assert position == found[-1].last + 1
    assert not manifests or manifests[-1].totals.files == sum(map(len, slots.values()))


@given(steps, limits)
def test_no_file_is_taken_before_an_older_one(
    events: list[tuple[float, str, str, int, int]], limit: BatchLimits
) -> None:
    world, now = BatchWorld(Trigger(files=1), limit), NOW
    for seconds, _, partition, count, size in events:
        now += timedelta(seconds=seconds)
        world.drain(partition, count, size, now)
    while world.pending():
        world.committed = len(world.manifests)
        assert world.lead(now) == "Files"
    order = [slot.committed_at for manifest in world.manifests for slot in sorted(world.files(manifest), key=_age)]
    assert order == sorted(order)


def _age(slot: Slot) -> datetime:
    return slot.committed_at


def test_a_time_that_passed_while_nobody_led_is_not_missed_and_not_repeated() -> None:
    world = BatchWorld(Trigger(**NEVER, schedule="0 * * * *"), BatchLimits())
    world.drain("0", 5, 10, NOW - timedelta(minutes=50))
    world.drain("1", 5, 10, NOW - timedelta(minutes=1))
    world.drain("0", 5, 10, NOW + timedelta(minutes=20))
    assert world.lead(NOW + timedelta(minutes=30)) == "Schedule"  # the time was 12:00, and there is a leader again
    assert [(file.partition, file.first) for file in world.manifests[0].files] == [("0", 0), ("1", 0)]
    world.committed = 1
    for minutes in range(31, 60):
        assert world.lead(NOW + timedelta(minutes=minutes)) == ""
    assert world.lead(NOW + timedelta(minutes=60)) == "Schedule"
    assert [(file.partition, file.first) for file in world.manifests[1].files] == [("0", 5)]


def test_a_file_that_is_noticed_late_waits_for_the_next_time() -> None:
    world = BatchWorld(Trigger(**NEVER, schedule="0 * * * *"), BatchLimits())
    world.drain("0", 5, 10, NOW - timedelta(minutes=5))
    assert world.lead(NOW + timedelta(seconds=1)) == "Schedule"
    world.committed = 1
    world.drain("1", 5, 10, NOW - timedelta(seconds=1))  # committed before the time, noticed after the batch
    assert world.lead(NOW + timedelta(seconds=6)) == ""
    assert world.lead(NOW + timedelta(hours=1)) == "Schedule"


@pytest.mark.parametrize("limit", [BatchLimits(max_files=2), BatchLimits(max_bytes=25)])
def test_what_a_full_batch_of_a_schedule_left_follows_at_once(limit: BatchLimits) -> None:
    world = BatchWorld(Trigger(**NEVER, schedule="0 * * * *"), limit)
    for number in range(5):
        world.drain(str(number % 2), 5, 10, NOW - timedelta(minutes=50 - number))
    world.drain("0", 5, 10, NOW + timedelta(minutes=1))  # for 13:00
    reasons = []
    for minute in range(2, 20):
        world.committed = len(world.manifests)
        reasons.append(world.lead(NOW + timedelta(minutes=minute)))
    assert reasons == ["Schedule"] * 3 + [""] * 15
    assert [len(manifest.files) for manifest in world.manifests] == [2, 2, 1]


@given(
    st.sampled_from(["*/5 * * * *", "0 * * * *", "7 */2 * * *"]),
    st.lists(
        st.tuples(st.integers(1, 4000), st.sampled_from(["file", "lead", "commit"]), st.sampled_from(["0", "1"])),
        max_size=60,
    ),
)
def test_each_scheduled_time_starts_at_most_one_batch_and_no_file_misses_its_time(
    schedule: str, events: list[tuple[int, str, str]]
) -> None:
    world, now = BatchWorld(Trigger(**NEVER, schedule=schedule), BatchLimits()), NOW
    assume(events)
    for seconds, what, partition in events:
        now += timedelta(seconds=seconds)
        if what == "file":
            world.drain(partition, 5, 10, now)
        elif what == "commit":
            world.committed = len(world.manifests)
        else:
            before = world.pending()
            free = world.committed == len(world.manifests)
            reason = world.lead(now)
            tick = last_tick(schedule, now)
            assert tick is not None
            due = {one.start for slots in before.values() for one in slots if one.committed_at <= tick}
            assert reason == ("Schedule" if due and free else "")
            if reason:
                assert all(one.committed_at <= tick for one in world.files(world.manifests[-1]))
                assert not [s for found in world.pending().values() for s in found if s.committed_at <= tick]
    ticks = [last_tick(schedule, manifest.created_at) for manifest in world.manifests]
    assert len(set(ticks)) == len(ticks)
    for manifest in world.manifests:  # independently of how the product looks for times
        oldest = min(map(_age, world.files(manifest)))
        assert next(CronSim(schedule, oldest - timedelta(seconds=1))) <= manifest.created_at
