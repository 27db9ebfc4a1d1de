"""The link that receives one partition's events.

It keeps deliveries encoded until the reader takes them, and gives credit according to `credit`. A detached link raises
its error immediately: the next link receives its waiting events again.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from eventconsumer_processor.amqp import credit
from eventconsumer_processor.amqp.baselink import BaseLink
from eventconsumer_processor.amqp.codec import FrameError
from eventconsumer_processor.amqp.connection import Connection
from eventconsumer_processor.amqp.deliveries import Deliveries
from eventconsumer_processor.amqp.performatives import Fields
from eventconsumer_processor.errors import SourceError
from eventconsumer_processor.source.budget import Budget

LINGER_SECONDS = 0.1  # between two takes of few events, unless set otherwise
MANY_EVENTS = 2000  # a `take` does not wait for more; for bytes see `Budget.many`
LIMIT_BYTES = 64 * 1024 * 1024  # maximum of waiting bytes: a peer that sends more ignores its credit
_WRAP = 0xFFFFFFFF


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
        self._typical = credit.FIRST_EVENT_BYTES
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
        enough = self._waiting >= self._wanted or self._held >= self._budget.many
        return enough or self._hurried or self.error is not None

    def _wake(self) -> None:
        if self._waiter is not None and self._has_enough():
            _set(self._waiter)

    def _top_up(self) -> None:
        if self.error is not None:
            return
        if self._seen:
            self._typical = self._seen_bytes // self._seen
        granted = credit.grant(
            prefetch=self._prefetch,
            credit=self._credit,
            waiting=self._waiting,
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
        """See `session.Link`. The peer may have advanced its delivery count without sending, or asks for the credit."""
        moved = (fields.number(5, self._delivery_count) - self._delivery_count) & _WRAP
        if moved <= self._credit:
            self._delivery_count = (self._delivery_count + moved) & _WRAP
            self._credit -= moved
        if fields[9]:
            self._session.flow(self._handle, self._delivery_count, self._credit)

    def on_deliveries(self, found: Deliveries) -> None:
        """See `session.Link`. The first one may be the end of an incomplete delivery."""
        if self._parts:
            end, found = found.split()
            self._hold(len(end))
            self._complete(end)
        if found.stops:
            self._hold(len(found.data))
            self._arrived(found)
        self._top_up()
        self._wake()

    def on_transfer(self, fields: Fields, payload: bytes) -> None:
        """See `session.Link`."""
        if fields[1] is not None:
            self._unsettled = fields.number(1)
        if fields[4] is True:
            self._unsettled = None
        self._hold(len(payload))
        if fields[9]:  # aborted: discard the delivery
            self._held -= sum(map(len, self._parts)) + len(payload)
            self._parts.clear()
            self._unsettled = None
            self._count(1, 0)
        elif fields[5]:
            self._parts.append(payload)
            return
        else:
            self._complete(payload)
        self._top_up()
        self._wake()

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
        self._count(len(found), len(found.data))

    def _count(self, count: int, size: int) -> None:
        self._delivery_count = (self._delivery_count + count) & _WRAP
        self._credit = max(0, self._credit - count)
        self._seen += count
        self._seen_bytes += size

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > LIMIT_BYTES:
            raise FrameError(f"the peer ignores its credit: more than {LIMIT_BYTES} bytes of events are waiting")

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
