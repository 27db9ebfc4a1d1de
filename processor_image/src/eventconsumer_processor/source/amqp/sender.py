"""A link that sends requests to a service."""

import asyncio

from eventconsumer_processor.errors import HubUnreachable, SourceError
from eventconsumer_processor.source.amqp import performatives
from eventconsumer_processor.source.amqp.connection import Connection
from eventconsumer_processor.source.amqp.link import BaseLink
from eventconsumer_processor.source.amqp.performatives import Fields, Terminus


class Sender(BaseLink):
    """Sends requests, one at a time."""

    def __init__(self, connection: Connection, address: str) -> None:
        super().__init__(connection)
        self._address = address
        self._credit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._delivery: int | None = None
        self.refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Raises when the link is gone or the peer rejects a message."""

    async def send(self, payload: bytes) -> None:
        """Send a message once there is credit.

        Raises:
            SourceError: The link is gone.
        """
        await self._credit
        if self.error is not None:
            raise self.error
        self._delivery = self._session.transfer(self._handle, payload)

    def attach_frame(self, handle: int) -> bytes:
        """See `session.Link`."""
        ends = Terminus(self._address)
        return performatives.attach(self.name, handle, receives=False, source=ends, target=ends)

    def on_flow(self, fields: Fields) -> None:
        """See `session.Link`."""
        if fields.number(6, 0) and not self._credit.done():
            self._credit.set_result(None)

    def on_outcome(self, delivery: int, outcome: object) -> None:
        """See `session.Link`."""
        if delivery == self._delivery and isinstance(outcome, dict) and "rejected" in outcome:
            self._refuse(HubUnreachable(f"the hub rejects a request: {outcome['rejected']}"))

    def _end(self, error: SourceError) -> None:
        super()._end(error)
        if not self._credit.done():
            self._credit.set_result(None)
        self._refuse(error)

    def _refuse(self, error: SourceError) -> None:
        if not self.refused.done():
            self.refused.set_exception(error)
            self.refused.exception()  # seen, even where nobody waits
