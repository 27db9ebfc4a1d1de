"""`source.hub.Source` on our own receiver link: its deliveries as columns."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.decode import decode
from eventconsumer_host.amqp.link import Receiver
from eventconsumer_host.amqp.messages import delivery_annotations
from eventconsumer_host.errors import HubUnreachable
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.lastenqueued import last_enqueued
from eventconsumer_host.source.rows import EventRows

NOTHING = EventBatch.of(EventRows())


class AmqpSource:
    """`source.hub.Source` on one link.

    Args:
        receiver: The link.
        left: Called when it is closed, with whether its connection worked.
        runtime_metrics: Whether events have runtime metrics.
        after: Sequence number before its first event; None: unknown.
    """

    def __init__(
        self,
        receiver: Receiver,
        left: Callable[[bool], Awaitable[None]],
        *,
        runtime_metrics: bool = False,
        after: int | None = None,
    ) -> None:
        self._receiver = receiver
        self._left = left
        self._runtime_metrics = runtime_metrics
        self._after = after  # sequence number of the last decoded event
        self._rest = NOTHING  # decoded, but not returned yet

    async def receive(self, max_events: int, max_wait: float) -> EventBatch:
        """See `Source`. Deliveries that arrive together are decoded together, and returned in parts."""
        if len(self._rest):
            await asyncio.sleep(0)
            self._receiver.check()
        else:
            try:
                pieces = await self._receiver.take(max_wait)
                self._rest = decode(pieces, self._after)
            except FrameError as error:
                raise HubUnreachable(f"cannot decode an event: {error}") from error
            if len(self._rest):
                self._after = self._rest.last
            if self._runtime_metrics and pieces:
                with contextlib.suppress(FrameError):  # the event itself is undecoded
                    self._rest = self._rest.noting(last_enqueued(delivery_annotations(pieces[-1].last)))
        batch, whole = self._rest.head(max_events), self._rest
        self._rest = NOTHING if batch is whole else whole.slice(len(batch), len(whole))  # an empty slice keeps memory
        return batch

    def hurry(self) -> None:
        """See `Source`."""
        self._receiver.hurry()

    async def close(self) -> None:
        """See `Source`."""
        await self._end(trusted=True)

    async def abandon(self) -> None:
        """See `Source`."""
        await self._end(trusted=False)

    async def _end(self, *, trusted: bool) -> None:
        await self._receiver.detach()
        left, self._left = self._left, _nobody
        await left(trusted)


async def _nobody(_: bool) -> None:
    """Callback for the close of a source."""
