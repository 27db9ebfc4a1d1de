"""The connections of a hub: one for all links, and a new one if it is no longer reliable.

A connection is opened with the first link, and again by the next link after it broke. A connection is not used for new
links, and closed with its last link, in two cases: one of its links delivered nothing although there were events, or
the hub refuses links because its token is no longer valid.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from eventconsumer_processor.amqp.cbs import Claims, TokenSource
from eventconsumer_processor.amqp.connection import Connection, Endpoint
from eventconsumer_processor.amqp.link import REQUEST_SECONDS, Receiver
from eventconsumer_processor.errors import HubUnauthorized


@dataclass(eq=False)
class Shared:
    """A connection and its links."""

    connection: Connection
    claims: Claims
    links: int = 0
    proven: bool = False  # the hub attached a link on it
    trusted: bool = True

    async def close(self) -> None:
        """Close it; never fails."""
        await self.claims.close()
        await self.connection.close()


class Pool:
    """Connections to one hub.

    Args:
        endpoint: Its address.
        audience: Audience of its tokens.
        tokens: Creates them.
        idle_seconds: A connection that is silent for longer is dead.
    """

    def __init__(self, endpoint: Endpoint, audience: str, tokens: TokenSource, idle_seconds: float) -> None:
        self._endpoint = endpoint
        self._audience = audience
        self._tokens = tokens
        self._idle_seconds = idle_seconds
        self._shared: list[Shared] = []
        self._connecting = asyncio.Lock()

    async def attach(self, make: Callable[[Connection], Receiver]) -> tuple[Receiver, Shared]:
        """Attach a link, created for its connection.

        Raises:
            SourceError: The hub is not reachable, or refuses it.
        """
        while True:
            shared = await self._get()
            receiver = make(shared.connection)
            shared.links += 1
            try:
                await receiver.attach()
            except HubUnauthorized:
                again = shared.proven
                await self.leave(shared, trusted=False)
                if not again:
                    raise
            except BaseException:
                await self.leave(shared)
                raise
            else:
                shared.proven = True
                return receiver, shared

    async def leave(self, shared: Shared, *, trusted: bool = True) -> None:
        """Record that a link has ended, and whether its connection worked; never fails."""
        shared.links -= 1
        shared.trusted = shared.trusted and trusted
        if not shared.trusted and not shared.links and shared in self._shared:
            self._shared.remove(shared)
            await shared.close()

    async def close(self) -> None:
        """Close all; never fails."""
        found, self._shared = self._shared, []
        await asyncio.gather(*(shared.close() for shared in found))

    async def _get(self) -> Shared:
        async with self._connecting:
            for shared in tuple(self._shared):
                if shared.connection.error is not None:
                    self._shared.remove(shared)
                    await shared.claims.close()
            for shared in self._shared:
                if shared.trusted and shared.connection.is_usable:
                    return shared
            connection = Connection(self._endpoint.host, self._idle_seconds)
            await connection.connect(self._endpoint, REQUEST_SECONDS)
            claims = Claims(connection, self._audience, self._tokens)
            try:
                await claims.claim()
            except BaseException:
                await connection.close()
                raise
            shared = Shared(connection, claims)
            self._shared.append(shared)
            return shared
