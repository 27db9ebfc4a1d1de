"""`source.hub.Source` on a link of our own: its deliveries as columns."""

import asyncio
from collections.abc import Awaitable, Callable

from eventconsumer_processor.amqp import events
from eventconsumer_processor.amqp.codec import FrameError
from eventconsumer_processor.amqp.link import Receiver
from eventconsumer_processor.amqp.messages import delivery_annotations
from eventconsumer_processor.errors import HubUnreachable
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.lastenqueued import last_enqueued
from eventconsumer_processor.source.rows import EventRows

NOTHING = EventBatch.of(EventRows())


class AmqpSource:
    """`source.hub.Source` on one link.

    Args:
        receiver: The link.
        left: Told when it is closed, and whether its connection did what it should.
        runtime_metrics: Whether events carry them.
    """

    def __init__(
        self, receiver: Receiver, left: Callable[[bool], Awaitable[None]], *, runtime_metrics: bool = False
    ) -> None:
        self._receiver = receiver
        self._left = left
        self._runtime_metrics = runtime_metrics
        self._rest = NOTHING  # decoded, and not handed over

    async def receive(self, max_events: int, max_wait: float) -> EventBatch:
        """See `Source`. What comes together is decoded together, and handed over in parts."""
        if len(self._rest):
            await asyncio.sleep(0)
            self._receiver.check()
        else:
            try:
                pieces = await self._receiver.take(max_wait)
                self._rest = events.decode(pieces)
                if self._runtime_metrics and pieces:
                    self._rest = self._rest.noting(last_enqueued(delivery_annotations(pieces[-1].last)))
            except FrameError as error:
                raise HubUnreachable(f"an event cannot be read: {error}") from error
        batch, whole = self._rest.head(max_events), self._rest
        self._rest = NOTHING if batch is whole else whole.slice(len(batch), len(whole))  # an empty part would keep all
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
    """Whom a source tells that is closed again."""
