"""Base of all links: attaching, and the end with one final error."""

import asyncio
import contextlib
from uuid import uuid4

from eventconsumer_processor.amqp.codec import FrameError
from eventconsumer_processor.amqp.connection import CLOSE_SECONDS, Connection
from eventconsumer_processor.amqp.deliveries import Deliveries
from eventconsumer_processor.amqp.performatives import Fields
from eventconsumer_processor.errors import HubUnreachable, SourceError

REQUEST_SECONDS = 10.0


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
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._attached
        except TimeoutError:
            await self.detach()
            raise HubUnreachable(f"the hub did not attach the link within {REQUEST_SECONDS:.0f} s") from None
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

    def on_outcome(self, delivery: int, outcome: object) -> None:
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
