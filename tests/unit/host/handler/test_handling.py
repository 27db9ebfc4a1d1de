"""User code that fails: retries, division, dead letters, in order, and nothing skipped. In virtual time."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.errors import Blocked
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_host.handler.api import (
    Batch,
    CheckpointError,
    CloseReason,
    Event,
    EventProcessor,
    PartitionContext,
    RejectEvents,
    TryAgain,
)
from eventconsumer_host.handler.deadletter import LOOK_SECONDS, DeadLetters
from eventconsumer_host.handler.handling import HandlerDependencies, PartitionHandler, PartitionIdentity
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.lastenqueued import LastEnqueued
from eventconsumer_storage.errors import StorageError, Unavailable
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.hub import batch_of as batch_of_events
from tests.support.fakes.virtual import virtual

PLACE = PartitionIdentity("shop.example", "orders", "$Default", "0", "host-a")
FOLDER = "p/_deadletters/segment=era/partition=0/seq="
REQUESTS = "p/_deadletters/segment=era/redrive/partition=0/seq="


class Recorder(EventProcessor):
    """Fails where it is told to; remembers the calls that succeeded, and all."""

    def __init__(self, fail: Callable[[tuple[int, ...]], Exception | None] = lambda _: None) -> None:
        self.fail = fail
        self.succeeded: list[int] = []
        self.calls: list[tuple[int, ...]] = []
        self.opened: list[int] = []
        self.closed: list[CloseReason] = []
        self.positions: list[tuple[int, int | None]] = []

    async def open(self, context: PartitionContext) -> None:
        self.opened.append(context.next_sequence_number)

    async def process_events(self, context: PartitionContext, batch: Batch) -> None:
        last = context.position.sequence_number if context.position else None
        self.positions.append((context.next_sequence_number, last))
        self.calls.append(batch.sequence_numbers)
        if error := self.fail(batch.sequence_numbers):
            raise error
        self.succeeded += batch.sequence_numbers

    async def close(self, context: PartitionContext, reason: CloseReason) -> None:
        self.closed.append(reason)


def poison(*numbers: int) -> Callable[[tuple[int, ...]], Exception | None]:
    return lambda given: ValueError("bad event") if set(numbers) & set(given) else None


class Editor(Recorder):
    """Drops some events, and marks the others."""

    def __init__(
        self, unwanted: set[int], fail: Callable[[tuple[int, ...]], Exception | None] = lambda _: None
    ) -> None:
        super().__init__(fail)
        self.unwanted = unwanted

    async def process_events(self, context: PartitionContext, batch: Batch) -> pa.Table:  # type: ignore[override]
        await super().process_events(context, batch)
        kept = [event for event in batch if event.sequence_number not in self.unwanted]
        numbers = pa.array([event.sequence_number for event in kept], pa.int64())
        return pa.table({"sequence_number": numbers, "body": [(event.body or b"") + b"!" for event in kept]})


class Bench:
    """A partition handler with an instance of user code, and the container of its dead letters."""

    def __init__(
        self, processor: EventProcessor, attempts: int = 3, mode: HandlerMode = HandlerMode.PASS_THROUGH
    ) -> None:
        self.blobs = FakeBlobStore(lambda: 0.0)
        self.metrics = Metrics()
        self.rows: EventBatch | None = None  # for the file, of the last batch
        self.stop = asyncio.Event()
        letters = DeadLetters(self.blobs, "drained", "p", "era", "shop:Shop")
        began = virtual_clock()
        self.handler = PartitionHandler(
            PLACE,
            HandlerDependencies(
                lambda: processor,
                letters,
                attempts,
                self.metrics,
                Random(1),
                lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=virtual_clock() - began),
                mode,
            ),
        )

    def letters(self) -> list[int]:
        names = sorted(name for name in self.blobs.blobs if name.startswith(FOLDER))
        return [int(name.removeprefix(FOLDER).split(".")[0]) for name in names]

    def requests(self) -> list[int]:
        names = sorted(name for name in self.blobs.blobs if name.startswith(REQUESTS))
        return [int(name.removeprefix(REQUESTS).split(".")[0]) for name in names]

    async def request(self, *numbers: int) -> None:
        """A user wants these events to be passed again."""
        for number in numbers:
            await self.blobs.put(f"{REQUESTS}{number:020d}.json", b"")

    async def redrive(self, most: int = 100) -> None:
        """What the pump calls between batches, after the time between two looks."""
        await asyncio.sleep(LOOK_SECONDS)
        await self.handler.redrive(self.stop, most)

    def letter(self, number: int) -> dict[str, object]:
        document: dict[str, object] = json.loads(self.blobs.blobs[f"{FOLDER}{number:020d}.json"].data)
        return document

    async def process(self, batch: EventBatch) -> int:
        done, self.rows = await self.handler.process(batch, self.stop)
        return done


def batch_of(*numbers: int, undecoded: Sequence[int] = ()) -> EventBatch:
    return batch_of_events(((number, b"body %d" % number) for number in numbers), undecoded)


async def opened(processor: EventProcessor, attempts: int = 3, mode: HandlerMode = HandlerMode.PASS_THROUGH) -> Bench:
    bench = Bench(processor, attempts, mode)
    await bench.handler.open(7, 10)
    return bench


@virtual
async def test_batches_are_processed_one_after_the_other() -> None:
    recorder = Recorder()
    bench = await opened(recorder)
    assert await bench.process(batch_of(10, 11, 12)) == 3
    assert await bench.process(batch_of(13)) == 1
    await bench.handler.close(lost=False)
    assert (recorder.opened, recorder.calls) == ([10], [(10, 11, 12), (13,)])
    assert recorder.positions == [(10, None), (13, 12)]
    assert recorder.closed == [CloseReason.SHUTDOWN]
    assert bench.handler.problems() == []
    assert b'handled_events_total{partition="0"} 4.0' in bench.metrics.text()


@virtual
async def test_an_undecoded_event_is_a_dead_letter_and_is_never_passed() -> None:
    recorder = Recorder()
    bench = await opened(recorder)
    assert await bench.process(batch_of(10, 11, 12, 13, undecoded=(10, 12))) == 4
    assert (recorder.calls, bench.letters()) == ([(11, 13)], [10, 12])
    letter = bench.letter(12)
    assert letter["error"] == {"type": "Undecoded", "message": "cause", "traceback": ""}
    assert (letter["bodyText"], letter["attempts"]) == ("body 12", 0)
    assert await bench.process(batch_of(14, undecoded=(14,))) == 1
    assert recorder.calls == [(11, 13)]
    assert [problem.reason for problem in bench.handler.problems()] == ["DeadLetters"]


@virtual
async def test_a_failure_is_retried_after_growing_pauses_and_forgotten_when_it_heals() -> None:
    times: list[float] = []

    def fail(_: tuple[int, ...]) -> Exception | None:
        times.append(virtual_clock())
        return OSError("down") if len(times) < 5 else None

    bench = await opened(Recorder(fail), attempts=5)
    assert await bench.process(batch_of(10, 11)) == 2
    pauses = [later - earlier for earlier, later in pairwise(times)]
    for pause, middle in zip(pauses, [0.5, 1.0, 2.0, 4.0], strict=True):
        assert 0.5 * middle <= pause <= 1.5 * middle
    assert bench.letters() == []
    assert bench.handler.problems() == []
    assert b'handler_failures_total{error="OSError",partition="0"} 4.0' in bench.metrics.text()


@virtual
async def test_a_failing_event_becomes_a_dead_letter_and_the_order_is_kept() -> None:
    recorder = Recorder(poison(13))
    bench = await opened(recorder)
    assert await bench.process(batch_of(*range(10, 20))) == 10
    assert recorder.succeeded == [10, 11, 12, 14, 15, 16, 17, 18, 19]
    assert recorder.calls[:3] == [tuple(range(10, 20))] * 3
    assert recorder.calls.count((13,)) == 3
    assert bench.letters() == [13]
    letter = bench.letter(13)
    assert letter["attempts"] == len([call for call in recorder.calls if 13 in call])
    assert letter["error"]["type"] == "ValueError"  # type: ignore[index]
    assert letter["firstAttempt"] == "2026-01-01T00:00:00Z" < str(letter["lastAttempt"])
    assert [problem.reason for problem in bench.handler.problems()] == ["DeadLetters"]


@given(st.integers(1, 40), st.data())
def test_every_event_is_processed_or_a_dead_letter_in_order(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(10, 9 + count)))
    rejected = data.draw(st.sets(st.integers(10, 9 + count)))
    passing = data.draw(st.lists(st.booleans(), max_size=30))  # failures that no event is at fault for
    attempts = data.draw(st.integers(1, 4))

    def fail(given: tuple[int, ...]) -> Exception | None:
        if passing and passing.pop():
            return TryAgain("not now")
        if bad & set(given):
            return ValueError("bad event")
        if hit := rejected & set(given):
            return RejectEvents(hit, "never")
        return None

    @virtual
    async def run() -> None:
        recorder = Recorder(fail)
        bench = await opened(recorder, attempts)
        assert await bench.process(batch_of(*range(10, 10 + count))) == count
        assert recorder.succeeded == sorted(set(range(10, 10 + count)) - bad - rejected)
        assert set(bench.letters()) == bad | rejected
        done = 10  # in order: what is in front of a call is done, and a call never goes back behind it
        for number, last in recorder.positions:
            assert number >= done
            assert last in (None, number - 1)
            done = number

    run()


@given(st.integers(1, 30), st.data())
def test_a_stop_leaves_a_prefix_that_is_done(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(10, 9 + count)))
    stop_at = data.draw(st.integers(1, 40))

    @virtual
    async def run() -> None:
        calls = 0

        def fail(given: tuple[int, ...]) -> Exception | None:
            nonlocal calls
            calls += 1
            if calls == stop_at:
                bench.stop.set()
            return ValueError("bad event") if bad & set(given) else None

        recorder = Recorder(fail)
        bench = await opened(recorder, 2)
        done = await bench.process(batch_of(*range(10, 10 + count)))
        finished = set(recorder.succeeded) | set(bench.letters())
        assert set(range(10, 10 + done)) <= finished
        assert set(recorder.succeeded) <= set(range(10, 10 + done))
        assert calls <= stop_at
        assert done == count or bench.stop.is_set()

    run()


@given(st.integers(1, 30), st.data())
def test_rows_of_all_calls_are_joined_in_order_without_dropped_events_and_dead_letters(
    count: int, data: st.DataObject
) -> None:
    numbers = range(10, 10 + count)
    some = st.sets(st.sampled_from(numbers))
    bad, rejected, unwanted = data.draw(some), data.draw(some), data.draw(some)
    undecoded = sorted(data.draw(some))
    stop_at = data.draw(st.integers(1, 40))

    @virtual
    async def run() -> None:
        calls = 0

        def fail(given: tuple[int, ...]) -> Exception | None:
            nonlocal calls
            calls += 1
            if calls == stop_at:
                bench.stop.set()
            if hit := rejected & set(given):
                return RejectEvents(hit, "never")
            return ValueError("bad event") if bad & set(given) else None

        bench = await opened(Editor(unwanted, fail), 2, HandlerMode.TRANSFORM)
        done = await bench.process(batch_of(*numbers, undecoded=undecoded))
        kept = sorted(set(numbers[:done]) - bad - rejected - unwanted - set(undecoded))
        assert bench.rows is not None
        assert bench.rows.numbers.tolist() == kept
        assert bench.rows.rows().bodies == [b"body %d!" % number for number in kept]
        assert done == count or bench.stop.is_set()

    run()


@virtual
async def test_rows_that_cannot_go_to_a_file_are_a_failure_and_no_event_is_lost() -> None:
    class Wrong(Recorder):
        async def process_events(self, context: PartitionContext, batch: Batch) -> pa.Table | None:  # type: ignore[override]
            self.calls.append(batch.sequence_numbers)
            return None if 11 in batch.sequence_numbers else pa.table({"sequence_number": [*batch.sequence_numbers]})

    wrong = Wrong()
    bench = await opened(wrong, 2, HandlerMode.TRANSFORM)
    processing = asyncio.create_task(bench.process(batch_of(10, 11)))
    await asyncio.sleep(0)
    assert await processing == 2
    assert wrong.calls == [(10, 11), (10, 11), (10,), (11,), (11,)]
    assert bench.rows is not None
    assert (bench.rows.numbers.tolist(), bench.letters()) == ([10], [11])
    cause = bench.letter(11)["error"]
    assert cause["type"] == "eventconsumer_host.handler.rows.InvalidRows"  # type: ignore[index]
    assert "returned None" in cause["message"]  # type: ignore[index]
    assert b'handler_failures_total{error="InvalidRows",partition="0"} 4.0' in bench.metrics.text()


@virtual
async def test_a_plain_method_returns_rows_too_and_another_mode_refuses_them() -> None:
    class Keeper:
        def process_events(self, context: PartitionContext, batch: Batch) -> pa.Table:
            return pa.table({"sequence_number": [*batch.sequence_numbers[1:]]})

    bench = await opened(Keeper(), 1, HandlerMode.TRANSFORM)  # type: ignore[arg-type]
    assert await bench.process(batch_of(10, 11, 12)) == 3
    assert bench.rows is not None
    assert bench.rows.numbers.tolist() == [11, 12]
    bench = await opened(Keeper(), 1)  # type: ignore[arg-type]
    assert await bench.process(batch_of(10)) == 1
    assert (bench.rows, bench.letters()) == (None, [10])
    assert "set it to Transform" in str(bench.letter(10)["error"])


@virtual
async def test_try_again_makes_no_dead_letters_and_ends_at_a_stop() -> None:
    bench = await opened(Recorder(lambda _: TryAgain("database down")), attempts=1)
    processing = asyncio.create_task(bench.process(batch_of(10, 11)))
    await asyncio.sleep(3600)
    assert bench.letters() == []
    (problem,) = bench.handler.problems()
    assert problem.reason == "HandlerFailing"
    assert "database down" in problem.message
    bench.stop.set()
    assert await processing == 0


@virtual
async def test_rejected_events_are_dead_letters_at_once_and_the_others_come_again() -> None:
    def fail(given: tuple[int, ...]) -> Exception | None:
        return RejectEvents([11, 12], "unknown version") if 11 in given else None

    recorder = Recorder(fail)
    bench = await opened(recorder)
    began = virtual_clock()
    assert await bench.process(batch_of(10, 11, 12, 13)) == 4
    assert virtual_clock() == began
    assert recorder.calls == [(10, 11, 12, 13), (10, 13)]
    assert bench.letters() == [11, 12]
    assert bench.letter(12)["error"]["message"] == "unknown version"  # type: ignore[index]


@virtual
async def test_rejecting_what_was_not_given_is_a_failure_like_any_other() -> None:
    bench = await opened(Recorder(lambda _: RejectEvents([99], "wrong number")), attempts=2)
    assert await bench.process(batch_of(10)) == 1
    assert bench.letters() == [10]


@virtual
async def test_handling_waits_while_a_dead_letter_cannot_be_written() -> None:
    recorder = Recorder(poison(10))
    bench = await opened(recorder, attempts=1)
    bench.blobs.faults += [Fault("put") for _ in range(6)] + [Fault("put", applied=True)]
    processing = asyncio.create_task(bench.process(batch_of(10, 11)))
    await asyncio.sleep(10)
    assert recorder.succeeded == []
    (problem,) = bench.handler.problems()
    assert problem.reason == "HandlerFailing"
    assert "a dead letter cannot be written, so processing waits" in problem.message
    assert await processing == 2
    assert (recorder.succeeded, bench.letters()) == ([11], [10])
    (problem,) = bench.handler.problems()
    assert problem.reason == "DeadLetters"
    assert "1 events" in problem.message


@virtual
async def test_a_stop_before_a_dead_letter_is_written_leaves_its_event() -> None:
    bench = await opened(Recorder(poison(10)), attempts=1)
    bench.blobs.faults += [Fault("put") for _ in range(1000)]
    processing = asyncio.create_task(bench.process(batch_of(10, 11)))
    await asyncio.sleep(10)
    bench.stop.set()
    assert await processing == 0
    assert bench.letters() == []


@virtual
async def test_open_that_fails_is_tried_with_a_new_instance() -> None:
    made: list[EventProcessor] = []

    class Late(Recorder):
        async def open(self, context: PartitionContext) -> None:
            if len(made) < 2:
                raise OSError("AccountKey=c2VjcmV0")

    def factory() -> EventProcessor:
        made.append(Late())
        return made[-1]

    bench = Bench(Recorder())
    means = HandlerDependencies(factory, DeadLetters(bench.blobs, "c", "p", "era", "s:S"), 3, bench.metrics, Random(1))
    handler = PartitionHandler(PLACE, means)
    with pytest.raises(Blocked) as caught:
        await handler.open(1, 10)
    problem = caught.value.problem
    assert (problem.field, problem.reason) == ("spec.processing.handler", "HandlerFailing")
    assert "OSError: AccountKey=***" in problem.message
    await handler.close(lost=False)  # nothing is open
    await handler.open(1, 10)
    assert len(made) == 2
    await handler.close(lost=True)
    assert [instance.closed for instance in made] == [[], [CloseReason.LEASE_LOST]]  # type: ignore[attr-defined]


@virtual
async def test_a_lost_lease_cancels_the_call_and_closes() -> None:
    class Slow(Recorder):
        cancelled = False

        async def process_events(self, context: PartitionContext, batch: Batch) -> None:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                self.cancelled = True
                raise

    slow = Slow()
    bench = await opened(slow)
    processing = asyncio.create_task(bench.process(batch_of(10)))
    await asyncio.sleep(70)
    (problem,) = bench.handler.problems()
    assert "process_events has not returned for 60 s" in problem.message
    processing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await processing
    await bench.handler.close(lost=True)
    assert slow.cancelled
    assert slow.closed == [CloseReason.LEASE_LOST]


@virtual
async def test_a_close_that_fails_or_hangs_ends_all_the_same() -> None:
    class Hanging(Recorder):
        async def close(self, context: PartitionContext, reason: CloseReason) -> None:
            await asyncio.sleep(1000)

    class Failing(Recorder):
        async def close(self, context: PartitionContext, reason: CloseReason) -> None:
            raise OSError("gone")

    for processor in (Hanging(), Failing()):
        bench = await opened(processor)
        began = virtual_clock()
        await bench.handler.close(lost=False)
        assert virtual_clock() - began <= 10


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), StopAsyncIteration(), KeyError("k")])
@virtual
async def test_no_error_of_user_code_ends_the_host(error: BaseException) -> None:
    class Rude(Recorder):
        async def process_events(self, context: PartitionContext, batch: Batch) -> None:
            raise error

    bench = await opened(Rude(), attempts=1)
    assert await bench.process(batch_of(10)) == 1
    assert bench.letters() == [10]


# --- plain methods: threads, so real time ---


class Plain:
    """No base class, no async, and it blocks."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.succeeded: list[int] = []
        self.busy = threading.Lock()
        self.closed: list[CloseReason] = []

    def open(self, context: PartitionContext) -> None:
        self.threads.append(threading.get_ident())

    def process_events(self, context: PartitionContext, batch: Batch) -> None:
        self.threads.append(threading.get_ident())
        with self.busy:
            time.sleep(0.2)
            self.succeeded += batch.sequence_numbers

    def close(self, context: PartitionContext, reason: CloseReason) -> Awaitable[None] | None:
        assert not self.busy.locked()
        self.threads.append(threading.get_ident())
        self.closed.append(reason)
        return None


async def test_plain_methods_run_in_a_thread_of_the_instances_own_and_block_nobody() -> None:
    class Waiting(Plain):
        begun, told = threading.Event(), threading.Event()

        def process_events(self, context: PartitionContext, batch: Batch) -> None:
            self.begun.set()
            assert self.told.wait(30), "the loop stands still while this runs"
            super().process_events(context, batch)

    plain = Waiting()
    bench = await opened(plain)  # type: ignore[arg-type]
    processing = asyncio.create_task(bench.process(batch_of(10, 11)))
    while not plain.begun.is_set():
        await asyncio.sleep(0.01)
    plain.told.set()
    assert await processing == 2
    await bench.handler.close(lost=False)
    assert len(set(plain.threads)) == 1
    assert plain.threads[0] != threading.get_ident()


async def test_close_waits_for_a_thread_that_cannot_be_cancelled() -> None:
    plain = Plain()
    bench = await opened(plain)  # type: ignore[arg-type]
    processing = asyncio.create_task(bench.process(batch_of(10)))
    await asyncio.sleep(0.05)
    processing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await processing
    await bench.handler.close(lost=True)
    assert plain.succeeded == [10]
    assert plain.closed == [CloseReason.LEASE_LOST]


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), KeyboardInterrupt(), KeyError("k")])
async def test_no_error_in_a_thread_ends_the_host(error: BaseException) -> None:
    class Rude(Plain):
        def process_events(self, context: PartitionContext, batch: Batch) -> None:
            raise error

    bench = await opened(Rude(), attempts=1)  # type: ignore[arg-type]
    assert await bench.process(batch_of(10)) == 1
    assert bench.letters() == [10]
    await bench.handler.close(lost=False)


async def test_threads_end_with_their_instance() -> None:
    before = set(threading.enumerate())
    bench = await opened(Plain())  # type: ignore[arg-type]
    (own,) = set(threading.enumerate()) - before
    await bench.handler.close(lost=False)
    await asyncio.to_thread(own.join, 60)
    assert not own.is_alive()


@virtual
async def test_the_context_says_how_far_the_partition_has_come_where_events_carry_it() -> None:
    seen: list[LastEnqueued | None] = []

    class Watcher(EventProcessor):
        async def process_events(self, context: PartitionContext, batch: Batch) -> None:
            seen.append(context.last_enqueued)

    bench = await opened(Watcher())
    came = LastEnqueued(99, "990", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    await bench.process(batch_of(10, 11).noting(came).after(10))
    await bench.process(batch_of(12))
    assert seen == [came, None]


class Healing(Recorder):
    """Fails on some events until they are healed, and notes which events were dead letters."""

    def __init__(self, *bad: int) -> None:
        super().__init__(lambda given: self.error if self.bad & set(given) else None)
        self.bad = set(bad)
        self.error: Exception = ValueError("bad event")
        self.again: list[int] = []

    async def process_events(self, context: PartitionContext, batch: Batch) -> None:
        if batch.redriven:
            self.again += batch[:1].sequence_numbers
            assert batch[:1].redriven
        await super().process_events(context, batch)


@virtual
async def test_a_dead_letter_that_is_passed_again_and_processed_is_removed() -> None:
    healing = Healing(11, 12, 14)
    bench = await opened(healing, attempts=1)
    assert await bench.process(batch_of(*range(10, 16))) == 6
    assert bench.letters() == [11, 12, 14]
    healing.bad.clear()
    await bench.redrive()
    assert healing.again == [], "nobody asked for it"
    await bench.request(12, 14, 99)  # 99 is no dead letter any more
    await bench.handler.redrive(bench.stop, 100)
    assert healing.again == [], "storage is not asked before a batch each time"
    await bench.redrive(1)
    assert (healing.again, bench.letters(), bench.requests()) == ([12], [11, 14], [14, 99])
    await bench.handler.redrive(bench.stop, 100)
    assert (healing.again, bench.letters(), bench.requests()) == ([12, 14], [11], [])
    assert healing.succeeded == [10, 13, 15, 12, 14]
    assert healing.positions[-1] == (16, 15), "the progress stays"
    assert await bench.process(batch_of(16)) == 1
    assert b'redriven_events_total{partition="0"} 2.0' in bench.metrics.text()
    (problem,) = bench.handler.problems()
    assert "3 events since" in problem.message
    await bench.blobs.remove(f"{FOLDER}{11:020d}.json", if_match=bench.blobs.blobs[f"{FOLDER}{11:020d}.json"].etag)
    await bench.redrive()
    assert bench.handler.problems() == [], "no dead letter is left"


@virtual
async def test_a_dead_letter_that_fails_again_stays_with_one_attempt_more() -> None:
    healing = Healing(11)
    bench = await opened(healing, attempts=2)
    assert await bench.process(batch_of(10, 11)) == 2
    before = bench.letter(11)
    healing.error = RejectEvents([11], "still bad")
    await bench.request(11)
    await bench.redrive()
    after = bench.letter(11)
    assert (healing.again, bench.letters(), bench.requests()) == ([11], [11], [])
    assert after["attempts"] == int(str(before["attempts"])) + 1
    assert after["error"]["message"] == "still bad"  # type: ignore[index]
    assert (after["firstAttempt"], after["body"]) == (before["firstAttempt"], before["body"])
    assert str(after["lastAttempt"]) > str(before["lastAttempt"])
    assert await bench.process(batch_of(12)) == 1


@virtual
async def test_a_dead_letter_waits_while_the_handler_says_try_again_or_the_partition_stops() -> None:
    healing = Healing(11, 12)
    bench = await opened(healing, attempts=1)
    assert await bench.process(batch_of(10, 11, 12)) == 3
    before = bench.letter(11)
    healing.error = TryAgain("database down")
    await bench.request(11, 12)
    await bench.redrive()
    await bench.handler.redrive(bench.stop, 100)
    assert healing.again == [11], "again after the next look"
    assert (bench.letter(11), bench.requests()) == (before, [11, 12])
    healing.bad.clear()
    bench.stop.set()
    await bench.redrive()
    assert healing.again == [11]
    bench.stop.clear()
    await bench.redrive()
    assert (healing.again, bench.letters(), bench.requests()) == ([11, 11, 12], [], [])


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from(["list", "read", "remove", "put"]), st.booleans()), max_size=6), st.booleans()
)
def test_no_dead_letter_is_lost_when_storage_or_the_host_fails_in_any_step(
    faults: list[tuple[str, bool]], fails: bool
) -> None:
    @virtual
    async def run() -> None:
        healing = Healing(10, 11)
        bench = await opened(healing, attempts=1)
        assert await bench.process(batch_of(10, 11)) == 2
        if not fails:
            healing.bad.clear()
        await bench.request(10, 11)
        bench.blobs.faults += [Fault(operation, applied) for operation, applied in faults]
        for _ in range(len(faults) + 1):
            await bench.redrive()
            processed = set(healing.succeeded)
            assert processed | set(bench.letters()) == {10, 11}
            assert set(bench.letters()) - processed <= set(bench.requests()) or fails
        bench.blobs.faults.clear()
        await bench.redrive()
        assert bench.requests() == []
        assert bench.letters() == ([10, 11] if fails else [])
        if not fails:
            assert sorted(healing.succeeded) == [10, 11], "a host passes it once, although its letter stays for a while"

    run()


@virtual
async def test_a_request_that_cannot_be_met_is_removed_and_the_letter_stays() -> None:
    recorder = Recorder()
    bench = await opened(recorder)
    assert await bench.process(batch_of(10, undecoded=(10,))) == 1
    await bench.blobs.put(f"{FOLDER}{11:020d}.json", b"edited")
    await bench.request(10, 11)
    await bench.redrive()
    assert (recorder.calls, bench.letters(), bench.requests()) == ([], [10, 11], [])


@virtual
async def test_transform_passes_no_dead_letter_again() -> None:
    editor = Editor(set(), poison(10))
    bench = await opened(editor, 1, HandlerMode.TRANSFORM)
    assert await bench.process(batch_of(10, 11)) == 2
    await bench.request(10)
    await bench.redrive()
    assert (editor.calls.count((10,)), bench.letters(), bench.requests()) == (1, [10], [10])


@virtual
async def test_a_result_that_does_not_fit_the_mode_is_a_failure_of_a_dead_letter_too() -> None:
    class Keeper:
        def process_events(self, context: PartitionContext, batch: Batch) -> pa.Table:
            return pa.table({"sequence_number": [*batch.sequence_numbers]})

    bench = await opened(Keeper(), 1)  # type: ignore[arg-type]
    assert await bench.process(batch_of(10)) == 1
    await bench.request(10)
    await bench.redrive()
    assert (bench.letters(), bench.requests(), bench.letter(10)["attempts"]) == ([10], [], 2)


class Lease:
    """Takes checkpoints, as the lease of a partition without files; raises what it is told to."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.errors: list[StorageError] = []

    async def write(self, checkpoint: Checkpoint) -> None:
        await asyncio.sleep(0.1)
        if self.errors:
            raise self.errors.pop()
        assert checkpoint.offset
        self.written.append(checkpoint.sequence_number)


async def opened_without_files(processor: EventProcessor, lease: Lease, attempts: int = 2) -> Bench:
    bench = Bench(processor, attempts, HandlerMode.REPLACE)
    await bench.handler.open(7, 10, lease.write)
    return bench


class Keeping(Recorder):
    """Writes a checkpoint at some events; fails on others after that."""

    def __init__(self, *at: int, fail: Callable[[tuple[int, ...]], Exception | None] = lambda _: None) -> None:
        super().__init__(fail)
        self.at = at

    async def process_events(self, context: PartitionContext, batch: Batch) -> None:
        for event in batch:
            if event.sequence_number in self.at:
                await context.checkpoint(event)
        await super().process_events(context, batch)

    async def close(self, context: PartitionContext, reason: CloseReason) -> None:
        await context.checkpoint()
        await super().close(context, reason)


@virtual
async def test_a_checkpoint_is_written_where_the_handler_says_so() -> None:
    lease, keeping = Lease(), Keeping(12, 14)
    bench = await opened_without_files(keeping, lease)
    assert await bench.process(batch_of(10, 11, 12, 13)) == 4
    assert await bench.process(batch_of(14, 15)) == 2
    assert lease.written == [12, 14]
    await bench.handler.close(lost=False)
    assert (lease.written, keeping.closed) == ([12, 14, 15], [CloseReason.SHUTDOWN])


@virtual
async def test_the_checkpoint_of_a_call_without_an_event_is_at_the_end_of_its_batch() -> None:
    class Plain:
        contexts: list[PartitionContext]

        def process_events(self, context: PartitionContext, batch: Batch) -> None:
            self.contexts = [context]
            context.checkpoint()  # a `def` method waits for it
            written.append([*lease.written])

    lease, written, plain = Lease(), list[list[int]](), Plain()
    bench = await opened_without_files(plain, lease)  # type: ignore[arg-type]
    assert await bench.process(batch_of(10, 11)) == 2
    assert await bench.process(batch_of(12)) == 1
    assert written == [[11], [11, 12]]
    await bench.handler.close(lost=True)
    with pytest.raises(CheckpointError, match="until close returns"):
        plain.contexts[0].checkpoint()


@virtual
async def test_events_before_a_checkpoint_are_not_passed_again_when_the_call_fails() -> None:
    lease, failures = Lease(), [ValueError("bad"), TryAgain("later"), RejectEvents([13], "never")]
    keeping = Keeping(11, 12, fail=lambda _: failures.pop() if failures else None)
    bench = await opened_without_files(keeping, lease, attempts=3)
    assert await bench.process(batch_of(10, 11, 12, 13, 14)) == 5
    assert keeping.calls == [(10, 11, 12, 13, 14), (14,), (14,), (14,)]
    assert (bench.letters(), keeping.succeeded) == ([13], [14])
    whole = Keeping(15, fail=lambda _: ValueError("after the last event"))
    bench = await opened_without_files(whole, lease)
    assert await bench.process(batch_of(15)) == 1
    assert (whole.calls, bench.letters()) == ([(15,)], [])


@virtual
async def test_a_checkpoint_that_is_not_written_makes_no_dead_letters() -> None:
    lease, keeping = Lease(), Keeping(11)
    lease.errors = [Unavailable("storage is down")] * 20
    bench = await opened_without_files(keeping, lease, attempts=1)
    processing = asyncio.create_task(bench.process(batch_of(10, 11)))
    await asyncio.sleep(60)
    (problem,) = bench.handler.problems()
    assert "the checkpoint at event 11 was not written: storage is down" in problem.message
    assert await processing == 2
    assert (lease.written, bench.letters(), keeping.calls) == ([11], [], [(10, 11)])


@virtual
async def test_with_files_and_for_events_that_were_not_processed_there_is_no_checkpoint() -> None:
    class Ahead(Recorder):
        async def process_events(self, context: PartitionContext, batch: Batch) -> None:
            await context.checkpoint(earlier[0] if earlier else None)

    earlier: list[Event] = []
    bench = await opened(Ahead(), attempts=1)
    processing = asyncio.create_task(bench.process(batch_of(10)))
    await asyncio.sleep(60)
    (problem,) = bench.handler.problems()
    assert "context.checkpoint() is possible only with processing.handlerMode: Replace" in problem.message
    bench.stop.set()
    assert (await processing, bench.letters()) == (0, [])
    lease = Lease()
    bench = await opened_without_files(Ahead(), lease)
    earlier[:] = [*Batch(batch_of(99).rows())]
    processing = asyncio.create_task(bench.process(batch_of(10)))
    await asyncio.sleep(60)
    (problem,) = bench.handler.problems()
    assert "event 99 is neither in this call nor processed by an earlier one" in problem.message
    bench.stop.set()
    assert (await processing, bench.letters(), lease.written) == (0, [], [])


@virtual
async def test_a_stop_during_failures_moves_no_checkpoint_of_close_beyond_what_is_done() -> None:
    lease = Lease()
    keeping = Keeping(fail=lambda given: TryAgain("down") if 12 in given else None)
    bench = await opened_without_files(keeping, lease)
    assert await bench.process(batch_of(10, 11)) == 2
    processing = asyncio.create_task(bench.process(batch_of(12, 13)))
    await asyncio.sleep(10)
    bench.stop.set()
    assert await processing == 0
    await bench.handler.close(lost=False)
    assert lease.written == [11]
