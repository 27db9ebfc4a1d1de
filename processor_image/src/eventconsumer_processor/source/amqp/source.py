"""`source.hub.Source` on a link of our own: its payloads as columns."""

import asyncio

from eventconsumer_processor.errors import HubUnreachable
from eventconsumer_processor.source.amqp import events
from eventconsumer_processor.source.amqp.codec import FrameError
from eventconsumer_processor.source.amqp.link import Receiver
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.rows import EventRows

NOTHING = EventBatch.of(EventRows())


class AmqpSource:
    """`source.hub.Source` on one link."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._decoder = events.Decoder()
        self._rest = NOTHING  # decoded, and not handed over

    async def receive(self, max_events: int, max_wait: float) -> EventBatch:
        """See `Source`. What comes together is decoded together, and handed over in parts."""
        if len(self._rest):
            await asyncio.sleep(0)
            self._receiver.check()
        else:
            try:
                self._rest = self._decoder.batch(await self._receiver.take(max_wait))
            except FrameError as error:
                raise HubUnreachable(f"an event cannot be read: {error}") from error
        batch, whole = self._rest.head(max_events), self._rest
        self._rest = NOTHING if batch is whole else whole.slice(len(batch), len(whole))  # an empty part would keep all
        return batch

    async def close(self) -> None:
        """See `Source`."""
        await self._receiver.detach()
