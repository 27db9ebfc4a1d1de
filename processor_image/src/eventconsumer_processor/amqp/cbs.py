"""Claims-based security: puts a token on `$cbs`, and renews it before it expires."""

import asyncio
import time

import structlog

from eventconsumer_processor.amqp import codec
from eventconsumer_processor.amqp.connection import Connection
from eventconsumer_processor.amqp.requests import Requests, check, request
from eventconsumer_processor.amqp.tokens import Token, TokenSource, renew_after
from eventconsumer_processor.errors import SourceError

ADDRESS = "$cbs"
log = structlog.get_logger(__name__)


class Claims:
    """The claims of one connection.

    Args:
        connection: An open connection.
        audience: The resource to access.
        source: Creates tokens for it.
    """

    def __init__(self, connection: Connection, audience: str, source: TokenSource) -> None:
        self._connection = connection
        self._audience = audience
        self._source = source
        self._service = Requests(connection, ADDRESS)
        self._renewing: asyncio.Task[None] | None = None
        self.token = ""
        """The text of the last token."""

    async def claim(self) -> None:
        """Attach to `$cbs`, put the first token, and start to renew it.

        Raises:
            HubUnauthorized: The token is refused.
            SourceError: There is no response.
        """
        await self._service.attach()
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
                log.warning("failed to renew the token; retrying", error=str(error))

    async def _put(self) -> Token:
        token = await self._source(time.time())
        check(await self._service.ask(lambda identifier: put_token(token, self._audience, identifier)))
        self.token = token.text
        return token


def put_token(token: Token, audience: str, identifier: bytes) -> bytes:
    """The request that puts a token; `identifier` is the UUID of the message."""
    properties = {
        "operation": codec.string("put-token"),
        "type": codec.string(token.kind),
        "name": codec.string(audience),
    }
    if token.expires_at is not None:
        properties["expiration"] = codec.timestamp(int(token.expires_at * 1000))
    return request(identifier, ADDRESS, properties, codec.string(token.text))
