"""`source.hub.Source` on a link of our own: its payloads as columns."""

from eventconsumer_processor.errors import HubUnreachable
from eventconsumer_processor.source.amqp import events
from eventconsumer_processor.source.amqp.codec import FrameError
from eventconsumer_processor.source.amqp.link import Receiver
from eventconsumer_processor.source.batch import EventBatch


class AmqpSource:
    """`source.hub.Source` on one link."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def receive(self, max_events: int, max_wait: float) -> EventBatch:
        """See `Source`."""
        payloads = await self._receiver.take(max_events, max_wait)
        try:
            return events.to_batch(payloads)
        except FrameError as error:
            raise HubUnreachable(f"an event cannot be read: {error}") from error

    async def close(self) -> None:
        """See `Source`."""
        await self._receiver.detach()
