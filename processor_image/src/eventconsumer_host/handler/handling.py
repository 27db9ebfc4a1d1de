"""Calls the user's handler with the events of a partition until each is done: processed, or a dead letter.

No event is skipped, and events are done in order: when a call succeeds, all earlier events are done. So the number of
leading events that are done describes the progress, and a checkpoint may follow them.

Errors:

    a batch fails    -> the whole batch again, after growing pauses, `attempts` times in total
    it still fails   -> its first half, then its second half, once each; a half that fails is divided again
    one event fails  -> the event again, after growing pauses, `attempts` times in total; then it is a dead letter
    TryAgain         -> the same events again, after growing pauses, without limit
    RejectEvents     -> the named events are dead letters; the other events of the call are passed again at once
    undecoded event  -> it is a dead letter at once, and never passed

A dead letter is written before its event counts as done; while it cannot be written, processing waits. A stop ends each
pause; the next owner processes the remaining events.

In mode Replace the handler may write checkpoints. Events up to a checkpoint are done, also if the call then raises.

Between batches, dead letters that a user passes again are given to the handler, each alone and once: see `deadletter`.
They change neither the progress nor the files. With mode Transform there is no place for their rows, so none is passed.

In mode Transform the rows that successful calls return go to the file, in order. A dead letter has no row, so no event
is in a file that the handler has not seen to. Rows that cannot go to a file are a failure of the call (`rows`).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random

import structlog

from eventconsumer_api.errors import Blocked
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_api.wire.capture import UNDECODED
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_host.errors import LeaseLost
from eventconsumer_host.handler.api import (
    Batch,
    CheckpointError,
    CloseReason,
    Event,
    PartitionContext,
    Position,
    RejectEvents,
    TryAgain,
)
from eventconsumer_host.handler.calls import Calls
from eventconsumer_host.handler.deadletter import UNDECODED as UNDECODED_EVENT
from eventconsumer_host.handler.deadletter import DeadLetters, HandlerAttempts, LetterCause, StoredLetter, letter_cause
from eventconsumer_host.handler.loading import FIELD, Factory, describe
from eventconsumer_host.handler.rows import rows_of
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.rows import EventRows
from eventconsumer_storage.errors import Damaged, StorageError

PAUSE_FIRST = 0.5  # seconds, doubled each time
PAUSE_MOST = 30.0
FAILED_CALLS = 3  # consecutive failures before a problem is reported: a call may fail at any time
CLOSE_SECONDS = 10.0  # time limit of the handler's close

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionIdentity:
    """The partition of a handler."""

    namespace: str
    event_hub: str
    consumer_group: str
    partition: str
    owner: str


@dataclass(frozen=True)
class HandlerDependencies:
    """Dependencies that the handlers of all partitions share."""

    factory: Factory
    letters: DeadLetters
    attempts: int  # `processing.handlerAttempts`
    metrics: Metrics
    rng: Random
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    mode: HandlerMode = HandlerMode.PASS_THROUGH


@dataclass(frozen=True, slots=True)
class _Piece:
    """Events of a batch that are passed in one call."""

    indices: Sequence[int]
    tries: int  # remaining attempts of the events together
    given: int = 0  # attempts so far, together or with other events


@dataclass(frozen=True, slots=True)
class _Round:
    """The processing of one batch."""

    batch: EventBatch
    rows: EventRows  # the same events
    undecoded: frozenset[int]  # indices
    stop: asyncio.Event
    began: datetime
    kept: list[EventBatch] = field(default_factory=list)  # rows for the file, with mode Transform

    def events(self, indices: Sequence[int]) -> EventBatch:
        """The events at rising indices."""
        return self.batch if len(indices) == len(self.batch) else self.batch.take(indices)

    def keep(self, rows: EventBatch | None) -> None:
        """Append the rows of a call, which follow those of all earlier calls."""
        if rows is not None and len(rows):
            self.kept.append(rows)

    def all_kept(self) -> EventBatch:
        """The rows of all calls; may be empty."""
        return EventBatch.joined(self.kept) if self.kept else self.batch.head(0)


class PartitionHandler:
    """The handler of one partition: one instance from `open` to `close`."""

    def __init__(self, identity: PartitionIdentity, deps: HandlerDependencies) -> None:
        self._identity = identity
        self._deps = deps
        self._calls: Calls | None = None  # None: not open
        self._context: PartitionContext | None = None
        self._failures = 0  # consecutive
        self._throttle = LogThrottle(lambda: deps.now().timestamp())
        self._failing: Problem | None = None
        self._write: Callable[[Checkpoint], Awaitable[None]] | None = None  # a checkpoint; None: they follow the files
        self._loop: asyncio.AbstractEventLoop | None = None  # since `open`
        self._given: Position | None = None  # the last event of the call in progress
        self._reached = -1  # sequence number of the last checkpoint that the instance has written
        self._redriven: set[int] = set()  # processed again, but the dead letter is not removed yet
        self._log = log.bind(partition=identity.partition)

    def problems(self) -> list[Problem]:
        """Problems of the handler: it fails, or events became dead letters."""
        return [problem for problem in (self._failing, self._deps.letters.problem()) if problem]

    async def open(
        self, epoch: int, position: int, checkpoint: Callable[[Checkpoint], Awaitable[None]] | None = None
    ) -> None:
        """Create an instance and open it.

        Args:
            epoch: The epoch of the lease.
            position: Sequence number of the first event.
            checkpoint: Writes checkpoints for the handler; None: checkpoints follow the files.

        Raises:
            Blocked: The handler failed; the next call tries a new instance.
        """
        identity = self._identity
        context = PartitionContext(
            namespace=identity.namespace,
            event_hub=identity.event_hub,
            consumer_group=identity.consumer_group,
            partition_id=identity.partition,
            owner=identity.owner,
            epoch=epoch,
            next_sequence_number=position,
            position=None,
            log=self._log.bind(epoch=epoch),
        )
        self._write, self._loop = checkpoint, asyncio.get_running_loop()
        self._given, self._reached = None, -1
        if checkpoint is not None:
            context.note_checkpoints(self._checkpoint)
        calls = None
        try:
            calls = Calls(self._deps.factory(), f"handler-{identity.partition}", self._slow)
            await calls.open(context)
        except (Exception, SystemExit) as error:
            self._count(error)
            message = f"the handler cannot open partition {identity.partition}: {describe(error)}; the host retries"
            raise Blocked(FIELD, Reason.HANDLER_FAILING, message) from error
        else:
            self._calls, self._context = calls, context
            self._failing = None
        finally:
            if calls is not None and self._calls is not calls:
                calls.end()

    async def process(self, batch: EventBatch, stop: asyncio.Event) -> tuple[int, EventBatch | None]:
        """Pass events to the handler until all of them are done.

        Args:
            batch: Events that follow all earlier ones.
            stop: Set when the partition stops: a call in progress is awaited, and no further call is made.

        Returns:
            The number of leading events that are done; fewer than all only if `stop` was set. With mode Transform also
            the rows for the file in place of these events, else None.
        """
        assert self._calls is not None and self._context is not None  # noqa: S101, PT018 - open
        rows = batch.rows()
        self._context.note_batch(batch.last_enqueued)
        turn = _Round(batch, rows, frozenset(batch.undecoded), stop, self._deps.now())
        pending = [_Piece(range(len(batch)), self._deps.attempts)]  # the first piece is last
        done = 0
        while pending and not stop.is_set():
            pending += await self._give(turn, self._calls, self._context, pending.pop())
            done = pending[-1].indices[0] if pending else len(batch)
            if done:
                self._context.note_processed(_position(rows, done - 1))
        if not pending:
            self._failing = None
        return done, turn.all_kept() if self._deps.mode is HandlerMode.TRANSFORM else None

    async def redrive(self, stop: asyncio.Event, most: int) -> None:
        """Pass dead letters to the handler that a user wants to be passed again.

        Args:
            stop: Set when the partition stops: a call in progress is awaited, and no further call is made.
            most: The number of events; the others follow in later calls.
        """
        letters, partition = self._deps.letters, self._identity.partition
        possible = self._deps.mode is not HandlerMode.TRANSFORM
        try:
            await letters.look(requests=possible)
            for number in letters.requested(partition)[:most]:
                if stop.is_set() or not await self._redrive(number):
                    break
            self._throttle.over("redrive")
        except StorageError as error:
            letters.postpone(partition)
            if times := self._throttle.again("redrive", str(error)):
                self._log.warning("failed to pass dead letters again; the host retries", error=str(error), times=times)

    async def close(self, *, lost: bool) -> None:
        """Close the open instance, if any; never fails, and takes at most `CLOSE_SECONDS`.

        Args:
            lost: Whether the lease was lost; else the partition stops in an orderly way.
        """
        calls, self._calls = self._calls, None
        if calls is None or self._context is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await calls.close(self._context, CloseReason.LEASE_LOST if lost else CloseReason.SHUTDOWN)
        except Exception as error:
            self._count(error)
            self._log.error("the handler's close failed: fix it in the handler's image", error=describe(error))
        finally:
            self._context.note_checkpoints(None)
            calls.end()

    def _checkpoint(self, at: Event | Position | None) -> Awaitable[None]:
        """See `PartitionContext.checkpoint`; called on the event loop, or in a thread, which then waits."""
        assert self._loop is not None  # noqa: S101 - open
        writing = asyncio.run_coroutine_threadsafe(self._write_checkpoint(at), self._loop)
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # in the thread of a `def` method
            writing.result()
            return _Written()
        return asyncio.wrap_future(writing)

    async def _write_checkpoint(self, at: Event | Position | None) -> None:
        assert self._write is not None  # noqa: S101 - see `open`
        last = self._given or (self._context.position if self._context else None)
        at = at or last
        if at is None:  # no event was passed
            return
        if last is None or at.sequence_number > last.sequence_number:
            raise CheckpointError(
                f"event {at.sequence_number} is neither in this call nor processed by an earlier one: use one that is"
            )
        try:
            await self._write(Checkpoint(at.offset, at.sequence_number))
        except (StorageError, LeaseLost) as error:
            raise CheckpointError(f"the checkpoint at event {at.sequence_number} was not written: {error}") from error
        self._reached = max(self._reached, at.sequence_number)

    async def _redrive(self, number: int) -> bool:
        """Pass one dead letter again; returns whether the next one may follow now.

        Raises:
            StorageError: A request to storage failed: the event is passed again after the next look.
        """
        assert self._calls is not None and self._context is not None  # noqa: S101, PT018 - open
        letters, partition = self._deps.letters, self._identity.partition
        try:
            found = await letters.read(partition, number)
        except Damaged as error:
            self._log.error("a dead letter cannot be passed again", number=number, error=str(error))
            found = None
        if found is None or found.letter.error.type == UNDECODED_EVENT:  # dropped, or nothing to pass
            await letters.answered(partition, number)
            return True
        if number not in self._redriven:
            try:
                await self._pass_again(found, self._calls, self._context)
            except TryAgain as error:
                self._count(error)
                self._log.warning("the handler requests a dead letter again", number=number, error=describe(error))
                letters.postpone(partition)
                return False
            except Exception as error:
                self._count(error)
                self._log.error("a dead letter failed again", number=number, error=describe(error))
                cause = letter_cause(error, error.reason if isinstance(error, RejectEvents) else None)
                await letters.again(self._context, found, self._deps.now(), cause)
                return True
            self._redriven.add(number)
            self._log.info("a dead letter was processed", number=number)
            self._deps.metrics.redriven.labels(partition).inc()
        await letters.remove(partition, found)
        self._redriven.discard(number)
        return True

    async def _pass_again(self, found: StoredLetter, calls: Calls, context: PartitionContext) -> None:
        batch = found.letter.batch()
        context.note_batch(None)
        with self._deps.metrics.handler_seconds.time():
            result = await calls.process_events(context, Batch(batch.rows(), redriven=True))
        rows_of(result, batch, self._deps.mode)  # a result that does not fit the mode is a failure

    async def _give(self, turn: _Round, calls: Calls, context: PartitionContext, piece: _Piece) -> list[_Piece]:
        """Make one call, and pause if it failed; returns the remaining pieces, the first one last."""
        undecoded = next((index for index in piece.indices if index in turn.undecoded), None)
        if undecoded is not None:
            why = turn.rows.system_properties.entries(undecoded)[UNDECODED]
            return await self._reject(
                turn, context, piece, [undecoded], LetterCause(UNDECODED_EVENT, why, traceback="")
            )
        events = Batch(turn.rows, piece.indices)
        piece = replace(piece, given=piece.given + 1)
        self._given = _position(turn.rows, piece.indices[-1])
        try:
            with self._deps.metrics.handler_seconds.time():
                result = await calls.process_events(context, events)
            turn.keep(rows_of(result, turn.events(piece.indices), self._deps.mode))
        except TryAgain as error:
            self._failed(error, f"it requests {_named(events)} again", alarm=self._failures >= FAILED_CALLS)
            await self._pause(self._failures, turn.stop)
            left = self._unreached(turn, piece)
            return [left] if left.indices else []
        except Exception as error:
            numbers = error.sequence_numbers if isinstance(error, RejectEvents) else frozenset()
            rejected = [index for index in piece.indices if turn.rows.sequence_numbers[index] in numbers]
            piece = self._unreached(turn, piece, rejected)
            if isinstance(error, RejectEvents) and rejected:
                return await self._reject(turn, context, piece, rejected, letter_cause(error, error.reason))
            if not piece.indices:
                self._failed(error, "its events are done, because it has written a checkpoint", alarm=True)
                return []
            return await self._again(turn, context, piece, error)
        finally:
            self._given = None
        self._failures = 0
        self._deps.metrics.handled.labels(self._identity.partition).inc(len(events))
        return []

    def _unreached(self, turn: _Round, piece: _Piece, rejected: Sequence[int] = ()) -> _Piece:
        """The events of a piece that no checkpoint of the handler covers, and those that it rejected."""
        numbers = turn.rows.sequence_numbers
        left = [index for index in piece.indices if numbers[index] > self._reached or index in rejected]
        return piece if len(left) == len(piece.indices) else replace(piece, indices=left)

    async def _again(self, turn: _Round, context: PartitionContext, piece: _Piece, error: Exception) -> list[_Piece]:
        """After a failure: try the same events again, divide them, or make the only one a dead letter."""
        events, failed = Batch(turn.rows, piece.indices), self._deps.attempts - piece.tries + 1
        piece = replace(piece, tries=piece.tries - 1)
        if piece.tries:
            self._failed(error, f"{_named(events)} will be retried", alarm=failed >= FAILED_CALLS)
            await self._pause(failed, turn.stop)
            return [piece]
        if len(events) == 1:
            self._failed(error, f"{_named(events)} becomes a dead letter", alarm=True)
            return await self._reject(turn, context, piece, piece.indices, letter_cause(error))
        self._failed(error, f"{_named(events)} are divided to find the events that fail", alarm=True)
        middle = len(events) // 2
        return [
            _Piece(half, self._deps.attempts if len(half) == 1 else 1, piece.given)
            for half in (piece.indices[middle:], piece.indices[:middle])
        ]

    async def _reject(
        self, turn: _Round, context: PartitionContext, piece: _Piece, rejected: Sequence[int], cause: LetterCause
    ) -> list[_Piece]:
        """Write dead letters; returns the remaining events of the piece, or the whole piece after a stop."""
        attempts = HandlerAttempts(piece.given, turn.began, self._deps.now())
        for event in Batch(turn.rows, rejected):
            failures = 0
            while True:
                try:
                    await self._deps.letters.put(context, event, attempts, cause)
                    self._throttle.over("letter")
                    break
                except StorageError as error:
                    failures += 1
                    if times := self._throttle.again("letter", str(error)):
                        self._log.warning(
                            "failed to write a dead letter; retrying",
                            number=event.sequence_number,
                            error=str(error),
                            times=times,
                        )
                    self._alarm(f"a dead letter cannot be written, so processing waits: {error}")
                await self._pause(failures, turn.stop)
                if turn.stop.is_set():
                    return [piece]
            self._log.error(
                "an event became a dead letter",
                number=event.sequence_number,
                error=cause.type,
                cause=cause.message,
            )
            self._deps.metrics.dead_letters.labels(self._identity.partition).inc()
        gone = set(rejected)
        left = [index for index in piece.indices if index not in gone]
        return [replace(piece, indices=left)] if left else []

    def _failed(self, error: Exception, what: str, *, alarm: bool) -> None:
        self._failures += 1
        self._count(error)
        self._log.warning("the handler failed", error=describe(error), next=what)
        if alarm:
            self._alarm(f"process_events fails with {describe(error)}; {what}")

    def _count(self, error: BaseException) -> None:
        self._deps.metrics.handler_failures.labels(self._identity.partition, type(error).__name__).inc()

    def _slow(self, method: str, seconds: float) -> None:
        self._log.warning("the handler has not returned", method=method, seconds=round(seconds))
        self._alarm(f"{method} has not returned for {seconds:.0f} s; the partition waits for it")

    def _alarm(self, what: str) -> None:
        self._failing = Problem(
            field=FIELD,
            reason=Reason.HANDLER_FAILING,
            message=redact(f"partition {self._identity.partition}: {what}"),
        )

    async def _pause(self, failures: int, stop: asyncio.Event) -> None:
        """Wait, longer with each failure; a stop ends the wait."""
        seconds = min(PAUSE_MOST, PAUSE_FIRST * 2 ** min(failures - 1, 16))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds * self._deps.rng.uniform(0.5, 1.5))


class _Written:
    """A checkpoint that is written."""

    def __await__(self) -> Generator[None]:
        yield from ()


def _position(rows: EventRows, index: int) -> Position:
    event = Batch(rows)[index]
    return Position(event.sequence_number, event.offset, event.enqueued_time)


def _named(events: Batch) -> str:
    numbers = events.sequence_numbers
    return f"event {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} events from {numbers[0]} to {numbers[-1]}"
