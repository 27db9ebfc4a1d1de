"""Requests to a service of the namespace, `$cbs` or `$management`, and their responses: a pair of links.

Any number of requests may be open; a response has the id of its request. If the links end or the peer rejects a
message, all open requests fail at once.

Event Hubs may detach these links at any time, for example when they are idle
(https://github.com/Azure/azure-event-hubs-node/issues/96). The next request attaches a new pair. A request that fails
by the detach is sent once more, on the new pair: all requests of this package can be repeated.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from uuid import UUID, uuid4

from eventconsumer_host.amqp import codec, frames
from eventconsumer_host.amqp.connection import Connection
from eventconsumer_host.amqp.frames import Fields, Terminus
from eventconsumer_host.amqp.link import REQUEST_SECONDS, BaseLink, Receiver
from eventconsumer_host.amqp.messages import DecodedMessage, decode_message
from eventconsumer_host.errors import HubBusy, HubUnreachable, SourceError
from eventconsumer_host.source.conditions import error_for

ANSWERS = 64  # maximum number of open requests
REMEMBERED = 64  # recent requests whose rejection is detected
_WRAP = 0xFFFFFFFF


class Requests:
    """A service, on one connection.

    Args:
        connection: An open connection.
        address: The service's.
    """

    def __init__(self, connection: Connection, address: str) -> None:
        self._connection = connection
        self._address = address
        self._pair: _Pair | None = None
        self._attaching = asyncio.Lock()

    async def attach(self) -> None:
        """Attach both links.

        Raises:
            SourceError: The peer refuses, or does not respond in time.
        """
        await self._attached()

    async def ask(self, make: Callable[[bytes], bytes]) -> DecodedMessage:
        """The response to a request.

        Args:
            make: Encodes the message, with the 16 bytes of its id, a UUID.

        Raises:
            SourceError: There is no response: `HubUnreachable` at the time limit, or if the peer detaches the links
                twice.
        """
        pair = await self._attached()
        try:
            return await pair.ask(make)
        except HubBusy:
            raise
        except SourceError:
            if pair.error is None or self._connection.error is not None:
                raise
        return await (await self._attached()).ask(make)

    async def _attached(self) -> "_Pair":
        """The pair of links; a new one if it was detached.

        The old one is detached first: Event Hubs allows one pair of links to `$cbs` for a connection
        (https://github.com/Azure/azure-event-hubs-node/issues/186).
        """
        async with self._attaching:
            if self._pair is not None and self._pair.error is not None:
                await self._pair.detach()
                self._pair = None
            if self._pair is None:
                pair = _Pair(self._connection, self._address)
                await pair.attach()
                self._pair = pair
            return self._pair


class _Pair:
    """A link for requests and a link for their responses."""

    def __init__(self, connection: Connection, address: str) -> None:
        self._address = address
        self._sender = Sender(connection, address)
        self._replies = _Replies(connection, address)

    @property
    def error(self) -> SourceError | None:
        """Why one of them has ended; None while both are attached."""
        return self._sender.error or self._replies.error

    async def attach(self) -> None:
        try:
            await self._replies.attach()
            await self._sender.attach()
        except BaseException:
            await self.detach()
            raise

    async def detach(self) -> None:
        await self._replies.detach()
        await self._sender.detach()

    async def ask(self, make: Callable[[bytes], bytes]) -> DecodedMessage:
        identifier = uuid4()
        answer = self._replies.expect(identifier)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._sender.send(make(identifier.bytes))
                await asyncio.wait((answer, self._sender.refused), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise HubUnreachable(f"no response of {self._address} within {REQUEST_SECONDS:.0f} s") from None
        finally:
            self._replies.forget(identifier)
        if not answer.done():
            self._sender.refused.result()
        return answer.result()


class Sender(BaseLink):
    """Sends requests within the peer's credit and window."""

    def __init__(self, connection: Connection, address: str) -> None:
        super().__init__(connection)
        self._address = address
        self._credit = 0
        self._sent = 0  # deliveries on this link
        self._more: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # credit, window, or the end
        self._deliveries: deque[int] = deque(maxlen=REMEMBERED)
        self.refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Raises when the link ends or the peer rejects a message."""

    async def send(self, payload: bytes) -> None:
        """Send a message when the peer accepts one.

        Raises:
            SourceError: The link has ended.
        """
        while self.error is None and (self._credit <= 0 or not self._session.can_send):
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

    def on_window(self) -> None:
        """See `session.Link`."""
        self._wake()

    def on_outcome(self, first: int, last: int, outcome: object) -> None:
        """See `session.Link`."""
        ours = any((sent - first) & _WRAP <= (last - first) & _WRAP for sent in self._deliveries)
        if ours and isinstance(outcome, dict) and "rejected" in outcome:
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


class _Replies(Receiver):
    """Pass on each response; never waits."""

    def __init__(self, connection: Connection, address: str) -> None:
        ends = Terminus(address)
        super().__init__(
            connection,
            ANSWERS,
            lambda name, handle: frames.attach(name, handle, receives=True, source=ends, target=ends),
        )
        self._expected: dict[UUID, asyncio.Future[DecodedMessage]] = {}

    def expect(self, identifier: UUID) -> "asyncio.Future[DecodedMessage]":
        """The future of a response."""
        found = self._expected[identifier] = asyncio.get_running_loop().create_future()
        if self.error is not None:
            _fail(found, self.error)
        return found

    def forget(self, identifier: UUID) -> None:
        """Forget a request."""
        self._expected.pop(identifier, None)

    def _wake(self) -> None:
        while self._pieces:
            self._hand_on(self._next().messages())
        self._top_up()
        if self.error is not None:
            for answer in self._expected.values():
                _fail(answer, self.error)

    def _hand_on(self, answers: list[bytes]) -> None:
        for encoded in answers:
            message = decode_message(encoded)
            identifier = message.properties.correlation_id if message.properties is not None else None
            answer = self._expected.get(identifier) if isinstance(identifier, UUID) else None
            if answer is not None and not answer.done():
                answer.set_result(message)


def _fail(answer: "asyncio.Future[DecodedMessage]", error: SourceError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # retrieved, even if no task waits


def request(identifier: bytes, address: str, properties: Mapping[str, bytes], body: bytes) -> bytes:
    """The message of a request.

    Args:
        identifier: The 16 bytes of its UUID.
        address: The service's.
        properties: Application properties, encoded, by name.
        body: Its value, encoded.
    """
    return (
        codec.composite(0x73, b"\x98" + identifier, codec.NULL, codec.NULL, codec.NULL, codec.string(address))
        + codec.described(0x74, codec.mapping((codec.string(name), value) for name, value in properties.items()))
        + codec.described(0x77, body)
    )


def check(answer: DecodedMessage) -> None:
    """Verify the status of a response.

    Raises:
        SourceError: The error of `source.conditions` for the status.
    """
    properties = answer.application_properties or {}
    status = properties.get(b"status-code")
    if isinstance(status, int) and 200 <= status < 300:
        return
    condition, description = (_text(properties.get(name)) for name in (b"error-condition", b"status-description"))
    raise error_for(condition, f"status code: {status}, {description}", status if isinstance(status, int) else None)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""
