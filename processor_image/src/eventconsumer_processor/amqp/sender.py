"""A link that sends requests to a service."""

import asyncio
from collections import deque

from eventconsumer_processor.amqp import frames
from eventconsumer_processor.amqp.connection import Connection
from eventconsumer_processor.amqp.frames import Fields, Terminus
from eventconsumer_processor.amqp.link import BaseLink
from eventconsumer_processor.errors import HubUnreachable, SourceError

REMEMBERED = 64  # recent requests whose rejection is detected
_WRAP = 0xFFFFFFFF


class Sender(BaseLink):
    """Sends requests within the peer's credit."""

    def __init__(self, connection: Connection, address: str) -> None:
        super().__init__(connection)
        self._address = address
        self._credit = 0
        self._sent = 0  # deliveries on this link
        self._more: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # credit, or the end
        self._deliveries: deque[int] = deque(maxlen=REMEMBERED)
        self.refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Raises when the link ends or the peer rejects a message."""

    async def send(self, payload: bytes) -> None:
        """Send a message when there is credit.

        Raises:
            SourceError: The link has ended.
        """
        while self._credit <= 0 and self.error is None:
            if self._more.done():
                self._more = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._more)  # other tasks wait for it too
        if self.error is not None:
            raise self.error
        self._credit -= 1
        self._sent = (self._sent + 1) & _WRAP
        self._deliveries.append(self._session.transfer(self._handle, payload))

    def attach_frame(self, handle: int) -> bytes:
        """See `session.Link`."""
        ends = Terminus(self._address)
        return frames.attach(self.name, handle, receives=False, source=ends, target=ends)

    def on_flow(self, fields: Fields) -> None:
        """See `session.Link`. The credit counts from the peer's delivery count."""
        on_their_way = (self._sent - fields.number(5, 0)) & _WRAP
        self._credit = fields.number(6, 0) - on_their_way
        if self._credit > 0:
            self._wake()

    def on_outcome(self, delivery: int, outcome: object) -> None:
        """See `session.Link`."""
        if delivery in self._deliveries and isinstance(outcome, dict) and "rejected" in outcome:
            self._refuse(HubUnreachable(f"the hub rejects a request: {outcome['rejected']}"))

    def _end(self, error: SourceError) -> None:
        super()._end(error)
        self._wake()
        self._refuse(error)

    def _wake(self) -> None:
        if not self._more.done():
            self._more.set_result(None)

    def _refuse(self, error: SourceError) -> None:
        if not self.refused.done():
            self.refused.set_exception(error)
            self.refused.exception()  # retrieved, even if no task waits
