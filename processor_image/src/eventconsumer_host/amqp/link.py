"""Links: the base of all links, and the link that receives the events of one partition.

A receiver keeps deliveries encoded until the reader takes them. A detached link raises its error immediately: the next
link receives its waiting events again.

Link credit is the number of events that the sender may send. Two limits apply: `prefetch` events, and a budget in
bytes, by the recent size of events. The first credit is one event, because events may have up to 20 MB. Credit is
renewed when half of it is used. It is withdrawn when waiting events exceed the budget, also while an event arrives, or
possible events exceed it by half: then events are larger than estimated, or the budget has shrunk. So the bytes that
wait for a slow reader stay near the budget, whatever the prefetch; or they are one event, if that is larger.

A delivery is counted at its first frame: a peer that counts it at its last frame is behind by one until then.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable
from uuid import uuid4

from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.connection import CLOSE_SECONDS, Connection
from eventconsumer_host.amqp.frames import Fields
from eventconsumer_host.amqp.wire import Deliveries
from eventconsumer_host.errors import HubUnreachable, SourceError
from eventconsumer_host.source.budget import Budget

ATTACH_SECONDS = 60.0  # as the SDKs: the service finds a sequence number slowly (Azure/azure-event-hubs-java pull 208)
REQUEST_SECONDS = 10.0
LINGER_SECONDS = 0.1  # between two takes of few events, unless set otherwise
MANY_EVENTS = 2000  # a `take` does not wait for more; for bytes see `Budget.many`
LIMIT_BYTES = 64 * 1024 * 1024  # maximum of waiting bytes: a link with more is detached, and its events come again
# Assumed size of an event before the first arrives: no event is larger. Microsoft's quotas page gives 1 MB; dedicated
# clusters are said to accept 20 MB, which is unproven.
FIRST_EVENT_BYTES = 20 * 1024 * 1024
_WRAP = 0xFFFFFFFF
_HALF = 1 << 31


class BaseLink:
    """A link of either kind.

    Attributes:
        name: Unique link name, sent to the peer.
        error: Why the link has ended; None while it is attached.
    """

    def __init__(self, connection: Connection) -> None:
        self.name = f"eventconsumer-{uuid4()}"
        self.error: SourceError | None = None
        self._session = connection.session
        self._handle = -1
        self._attached: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def attach(self) -> None:
        """Attach and wait for the peer.

        Raises:
            SourceError: The peer refuses, or does not respond in time.
        """
        self._handle = self._session.attach(self)
        try:
            async with asyncio.timeout(ATTACH_SECONDS):
                await self._attached
        except TimeoutError:
            await self.detach()
            raise HubUnreachable(f"the hub did not attach the link within {ATTACH_SECONDS:.0f} s") from None
        except asyncio.CancelledError:
            self._end(HubUnreachable("attaching was cancelled"))
            self._session.detach(self._handle, self)
            raise

    async def detach(self) -> None:
        """Close the link; never fails, at most two seconds."""
        self._end(HubUnreachable("the link was closed"))
        left = self._session.detach(self._handle, self)
        if left is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await left

    def attach_frame(self, handle: int) -> bytes:
        """See `session.Link`."""
        raise NotImplementedError

    def on_attach(self, fields: Fields) -> None:
        """See `session.Link`. A refusal is an attach without terminus, followed by a detach with the error."""
        if fields[5] is not None and fields[6] is not None and not self._attached.done():
            self._attached.set_result(None)

    def on_flow(self, fields: Fields) -> None:
        """See `session.Link`."""

    def on_transfer(self, fields: Fields, payload: bytes) -> None:
        """See `session.Link`."""
        raise FrameError("a transfer on a sending link")

    def on_deliveries(self, found: Deliveries) -> None:
        """See `session.Link`."""
        raise FrameError("a transfer on a sending link")

    def on_outcome(self, first: int, last: int, outcome: object) -> None:
        """See `session.Link`."""

    def on_window(self) -> None:
        """See `session.Link`."""

    def on_detach(self, error: SourceError) -> None:
        """See `session.Link`."""
        self._end(error)

    def _end(self, error: SourceError) -> None:
        if self.error is None:
            self.error = error
            if not self._attached.done():
                self._attached.set_exception(error)
                self._attached.exception()  # retrieved, even if no task waits


def grant(*, prefetch: int, credit: int, waiting: int, held: int, typical: int, budget: int) -> int | None:
    """The new credit; None: unchanged.

    Args:
        prefetch: Maximum number of events in flight or waiting.
        credit: Remaining credit of the sender.
        waiting: Received events that were not read yet.
        held: Their bytes.
        typical: Recent size of an event, bytes.
        budget: Maximum number of waiting bytes.
    """
    if held > budget:
        return 0 if credit else None
    typical = max(1, typical)
    ceiling = max(1, min(prefetch, budget // typical))
    room = min(prefetch - waiting, (budget - held) // typical) if waiting else ceiling
    step = max(1, ceiling // 2)
    return room if room - credit >= step or credit - ceiling >= step else None


class Receiver(BaseLink):
    """A link that receives.

    Args:
        connection: Its connection.
        prefetch: Maximum of deliveries in flight and waiting.
        frame: Makes the attach frame from its name and handle.
        linger: Seconds between two takes of few events.
        budget: Limit of the waiting bytes, shared with other links.
    """

    def __init__(
        self,
        connection: Connection,
        prefetch: int,
        frame: Callable[[str, int], bytes],
        linger: float = LINGER_SECONDS,
        budget: Budget | None = None,
    ) -> None:
        super().__init__(connection)
        self._budget = Budget() if budget is None else budget
        self._linger = linger
        self._prefetch = prefetch
        self._frame = frame
        self._pieces: deque[Deliveries] = deque()
        self._waiting = 0  # deliveries in them
        self._held = 0  # their bytes, and the bytes of an incomplete delivery
        self._parts: list[bytes] = []
        self._unsettled: int | None = None  # id of the delivery in `_parts`, if it must be settled
        self._delivery_count = 0
        self._credit = 0
        self._seen = self._seen_bytes = 0  # deliveries since the last credit, and their bytes
        self._typical = FIRST_EVENT_BYTES
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = 1  # deliveries that the reader waits for
        self._hurried = False
        self._taken = -math.inf  # time of the last take, on the loop's clock: the first take does not linger

    async def take(self, max_wait: float) -> list[Deliveries]:
        """Deliveries in order, at most about half of the budget; none if none arrived within `max_wait` seconds.

        Large takes cost less for each delivery, so few deliveries wait for more: at most `linger` seconds after the
        last take.

        Raises:
            SourceError: The link is detached.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.sleep(0)  # other tasks run even if this reader never has to wait
        self._wanted = 1
        await self._wait(started + max_wait)
        self._wanted = min(MANY_EVENTS, self._prefetch // 2)
        await self._wait(min(started + max_wait, self._taken + self._linger))
        self.check()
        self._taken = loop.time()
        taken: list[Deliveries] = []
        size = 0
        while self._pieces and size < self._budget.many:
            taken.append(self._next())
            size += len(taken[-1].data)
        self._top_up()
        return taken

    def _next(self) -> Deliveries:
        """Remove and return the first waiting piece."""
        piece = self._pieces.popleft()
        self._waiting -= len(piece)
        self._held -= len(piece.data)
        return piece

    def hurry(self) -> None:
        """End a waiting `take`; later ones do not wait."""
        self._hurried = True
        self._wake()

    def check(self) -> None:
        """Check that the link is attached.

        Raises:
            SourceError: It is detached.
        """
        if self.error is not None:
            raise self.error

    async def _wait(self, until: float) -> None:
        """Wait for the wanted number of deliveries, many bytes, or the end of the link."""
        loop = asyncio.get_running_loop()
        if self._has_enough() or until <= loop.time():
            return
        waiter = self._waiter = loop.create_future()
        timer = loop.call_at(until, _set, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _has_enough(self) -> bool:
        enough = self._waiting >= self._wanted or (self._waiting and self._held >= self._budget.many)
        return bool(enough) or self._hurried or self.error is not None

    def _wake(self) -> None:
        if self._waiter is not None and self._has_enough():
            _set(self._waiter)

    def _top_up(self) -> None:
        if self.error is not None:
            return
        if self._seen:
            self._typical = self._seen_bytes // self._seen
        granted = grant(
            prefetch=self._prefetch,
            credit=self._credit,
            waiting=self._waiting + bool(self._parts),
            held=self._held,
            typical=self._typical,
            budget=self._budget.each,
        )
        if granted is not None:
            self._credit = granted
            self._seen = self._seen_bytes = 0
            self._session.flow(self._handle, self._delivery_count, granted)

    # --- incoming frames ---

    def attach_frame(self, handle: int) -> bytes:
        """See `session.Link`."""
        return self._frame(self.name, handle)

    def on_attach(self, fields: Fields) -> None:
        """See `session.Link`."""
        if fields[5] is not None and fields[6] is not None:
            self._delivery_count = fields.number(9) & _WRAP
            self._budget.join(self)
            self._top_up()
        super().on_attach(fields)

    def on_flow(self, fields: Fields) -> None:
        """See `session.Link`. The peer may have used up credit without sending (a drain), or asks for the credit.

        The drained credit may be more than the present credit, if our flow that lowered it is still on its way. The
        peer's count holds in every case: a lower count of ours would cancel all further credit.
        """
        moved = (fields.number(5, self._delivery_count) - self._delivery_count) & _WRAP
        if moved < _HALF:
            self._advance(moved)
            self._top_up()
        if fields[9]:
            self._session.flow(self._handle, self._delivery_count, self._credit)

    def on_deliveries(self, found: Deliveries) -> None:
        """See `session.Link`. The first one may be the end of an incomplete delivery."""
        if self._parts:
            end, found = found.split()
            self._held += len(end)
            self._complete(end)
        if found.stops:
            self._held += len(found.data)
            self._advance(len(found))
            self._arrived(found)
        self._settle_up()

    def on_transfer(self, fields: Fields, payload: bytes) -> None:
        """See `session.Link`."""
        if fields[1] is not None:
            self._unsettled = fields.number(1)
        if fields[4] is True:
            self._unsettled = None
        if not self._parts:
            self._advance(1)
        self._held += len(payload)
        if fields[9]:  # aborted: discard the delivery
            self._held -= sum(map(len, self._parts)) + len(payload)
            self._parts.clear()
            self._unsettled = None
        elif fields[5]:
            self._parts.append(payload)
        else:
            self._complete(payload)
        self._settle_up()

    def _complete(self, end: bytes) -> None:
        """Complete a delivery with its last part."""
        self._arrived(Deliveries.of(b"".join((*self._parts, end)) if self._parts else end))
        self._parts.clear()
        if self._unsettled is not None:
            self._session.accept(self._unsettled)
            self._unsettled = None

    def _arrived(self, found: Deliveries) -> None:
        self._pieces.append(found)
        self._waiting += len(found)
        self._seen += len(found)
        self._seen_bytes += len(found.data)

    def _advance(self, count: int) -> None:
        """Count deliveries that the peer began to send, or credit that it gave up."""
        self._delivery_count = (self._delivery_count + count) & _WRAP
        self._credit = max(0, self._credit - count)

    def _settle_up(self) -> None:
        """Adjust the credit to the waiting bytes. The connection is shared, so a link with too many ends alone."""
        if self._held > LIMIT_BYTES:
            self._session.detach(self._handle, self)
            self._end(HubUnreachable(f"more than {LIMIT_BYTES} bytes of events wait on the link: it is opened again"))
            return
        self._top_up()
        self._wake()

    def _end(self, error: SourceError) -> None:
        super()._end(error)
        self._pieces.clear()
        self._parts.clear()
        self._waiting = self._held = 0
        self._budget.leave(self)
        self._wake()


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
