"""Claims-based security: a token is put on `$cbs`, and another one before it expires."""

import asyncio
import time
from typing import Any
from uuid import uuid4

import structlog

from eventconsumer_processor.errors import HubUnreachable, SourceError
from eventconsumer_processor.source.amqp import codec, performatives
from eventconsumer_processor.source.amqp.codec import FrameError
from eventconsumer_processor.source.amqp.connection import Connection
from eventconsumer_processor.source.amqp.link import REQUEST_SECONDS, Receiver
from eventconsumer_processor.source.amqp.messages import DecodedMessage, decode_message
from eventconsumer_processor.source.amqp.performatives import Terminus
from eventconsumer_processor.source.amqp.sender import Sender
from eventconsumer_processor.source.amqp.tokens import Token, TokenSource, renew_after
from eventconsumer_processor.source.conditions import error_for

ADDRESS = "$cbs"
log = structlog.get_logger(__name__)


class Claims:
    """The claims of one connection.

    Args:
        connection: An open connection.
        audience: What is to be used.
        source: Makes tokens for it.
    """

    def __init__(self, connection: Connection, audience: str, source: TokenSource) -> None:
        self._connection = connection
        self._audience = audience
        self._source = source
        self._sender = Sender(connection, ADDRESS)
        self._receiver = Receiver(connection, 10, _attach_replies)
        self._renewing: asyncio.Task[None] | None = None

    async def claim(self) -> None:
        """Attach to `$cbs`, put the first token, and renew it from now on.

        Raises:
            HubUnauthorized: The token is refused.
            SourceError: There is no answer.
        """
        await self._receiver.attach()
        await self._sender.attach()
        self._renewing = asyncio.create_task(self._renew(await self._put()))

    async def close(self) -> None:
        """Stop renewing; never fails."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])

    async def _renew(self, token: Token) -> None:
        failed = False
        while (seconds := renew_after(token, time.time(), failed)) is not None:
            await asyncio.sleep(seconds)
            if self._connection.error is not None:
                return
            try:
                token, failed = await self._put(), False
            except SourceError as error:
                failed = True
                log.warning("the token was not renewed, will try again", error=str(error))

    async def _put(self) -> Token:
        token = await self._source(time.time())
        identifier = uuid4()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._sender.send(put_token(token, self._audience, identifier.bytes))
                answer = await self._answer(identifier)
        except TimeoutError:
            raise HubUnreachable(f"no answer to a token within {REQUEST_SECONDS:.0f} s") from None
        check(answer)
        return token

    async def _answer(self, identifier: object) -> DecodedMessage:
        while True:
            taking = asyncio.ensure_future(self._receiver.take(REQUEST_SECONDS))
            pending: list[asyncio.Future[Any]] = [taking, self._sender.refused]
            try:
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if not taking.done():
                    self._sender.refused.result()
                found = taking.result()
            finally:
                taking.cancel()
            for payload in found:
                try:
                    message = decode_message(payload)
                except FrameError as error:
                    raise HubUnreachable(f"the answer to a token cannot be read: {error}") from None
                if message.properties is not None and message.properties.correlation_id == identifier:
                    return message


def put_token(token: Token, audience: str, identifier: bytes) -> bytes:
    """The request that puts a token; `identifier` is the UUID of the message."""
    text = codec.string
    properties = [
        (text("operation"), text("put-token")),
        (text("type"), text(token.kind)),
        (text("name"), text(audience)),
    ]
    if token.expires_at is not None:
        properties.append((text("expiration"), codec.timestamp(int(token.expires_at * 1000))))
    return (
        codec.composite(0x73, b"\x98" + identifier, codec.NULL, codec.NULL, codec.NULL, text(ADDRESS))
        + codec.described(0x74, codec.mapping(properties))
        + codec.described(0x77, text(token.text))
    )


def check(answer: DecodedMessage) -> None:
    """Make sure that the token was taken.

    Raises:
        SourceError: It was not; `HubUnauthorized` where it is refused.
    """
    properties = answer.application_properties or {}
    status, description = properties.get(b"status-code"), properties.get(b"status-description")
    if isinstance(status, int) and 200 <= status < 300:
        return
    text = description.decode(errors="replace") if isinstance(description, bytes) else ""
    raise error_for("", f"status code: {status}, {text}")


def _attach_replies(name: str, handle: int) -> bytes:
    ends = Terminus(ADDRESS)
    return performatives.attach(name, handle, receives=True, source=ends, target=ends)
