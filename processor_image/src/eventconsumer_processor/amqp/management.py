"""Properties of a hub and its partitions, by `$management`.

The connection is opened with the first query and kept, separate from the connection of events, so that queries are
independent of links. If it was lost while idle, the next query detects this, and is repeated on a new connection.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from eventconsumer_processor.amqp import codec
from eventconsumer_processor.amqp.cbs import Claims, TokenSource
from eventconsumer_processor.amqp.connection import Connection, Endpoint
from eventconsumer_processor.amqp.link import REQUEST_SECONDS
from eventconsumer_processor.amqp.requests import Requests, check, request
from eventconsumer_processor.credentials import HubAccess
from eventconsumer_processor.errors import HubUnauthorized, HubUnreachable
from eventconsumer_processor.source.hub import HubInfo, PartitionInfo

ADDRESS = "$management"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Fact = TypeVar("_Fact", HubInfo, PartitionInfo, dict[bytes, Any])


@dataclass(eq=False)
class _Desk:
    """A connection for queries, its claims and the service on it."""

    connection: Connection
    claims: Claims
    service: Requests
    answered: bool = False

    async def close(self) -> None:
        await self.claims.close()
        await self.connection.close()


class Management:
    """The properties of one hub.

    Args:
        access: The hub.
        endpoint: Its address.
        audience: Audience of its tokens.
        tokens: Creates them.
        idle_seconds: A connection that is silent for longer is dead.
    """

    def __init__(
        self, access: HubAccess, endpoint: Endpoint, audience: str, tokens: TokenSource, idle_seconds: float
    ) -> None:
        self._access = access
        self._endpoint = endpoint
        self._audience = audience
        self._tokens = tokens
        self._idle_seconds = idle_seconds
        self._desk: _Desk | None = None
        self._opening = asyncio.Lock()

    async def describe(self) -> HubInfo:
        """See `source.hub.Hub`."""
        return await self._ask("com.microsoft:eventhub", {}, partial(hub_info, self._access))

    async def properties(self) -> dict[bytes, Any]:
        """The hub's properties as the service names them, also those that hosts do not use."""
        return await self._ask("com.microsoft:eventhub", {}, dict[bytes, Any])

    async def partition(self, partition: str) -> PartitionInfo:
        """See `source.hub.Hub`."""
        return await self._ask("com.microsoft:partition", {"partition": codec.string(partition)}, partition_info)

    async def close(self) -> None:
        """Close the connection; never fails."""
        desk, self._desk = self._desk, None
        if desk is not None:
            await desk.close()

    async def _ask(self, kind: str, more: dict[str, bytes], read: Callable[[dict[bytes, Any]], _Fact]) -> _Fact:
        """Query once; again if an established connection was lost, or its token has expired.

        Raises:
            SourceError: There is no response, or it is an error.
        """
        while True:
            desk = await self._open()
            properties = {
                "name": codec.string(self._access.name),
                "operation": codec.string("READ"),
                "type": codec.string(kind),
                "security_token": codec.string(desk.claims.token),
                **more,
            }
            try:
                answer = await desk.service.ask(partial(_question, properties))
            except HubUnreachable:
                await self._leave(desk)
                if not desk.answered:
                    raise
                continue
            try:
                check(answer)
            except HubUnauthorized:
                await self._leave(desk)
                if not desk.answered:
                    raise
                continue
            desk.answered = True
            try:
                return read(answer.value)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise HubUnreachable(f"cannot parse the properties of the hub: {error!r}") from None

    async def _open(self) -> _Desk:
        async with self._opening:
            if self._desk is None or self._desk.connection.error is not None:
                await self.close()
                connection = Connection(self._endpoint.host, self._idle_seconds)
                await connection.connect(self._endpoint, REQUEST_SECONDS)
                desk = _Desk(
                    connection, Claims(connection, self._audience, self._tokens), Requests(connection, ADDRESS)
                )
                try:
                    await desk.claims.claim()
                    await desk.service.attach()
                except BaseException:
                    await desk.close()
                    raise
                self._desk = desk
            return self._desk

    async def _leave(self, desk: _Desk) -> None:
        """Use a new connection for the next query."""
        if self._desk is desk:
            await self.close()


def _question(properties: dict[str, bytes], identifier: bytes) -> bytes:
    return request(identifier, ADDRESS, properties, codec.NULL)


def hub_info(access: HubAccess, answer: dict[bytes, Any]) -> HubInfo:
    """The hub, from the body of a response.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, OverflowError: The body is invalid.
    """
    return HubInfo(
        namespace=access.namespace,
        name=access.name,
        created_at=_time(answer[b"created_at"]),
        partition_ids=tuple(text.decode() for text in answer[b"partition_ids"]),
        host=access.host,
    )


def partition_info(answer: dict[bytes, Any]) -> PartitionInfo:
    """A partition, from the body of a response; raises as `hub_info` does."""
    return PartitionInfo(
        first=int(answer[b"begin_sequence_number"]),
        last=int(answer[b"last_enqueued_sequence_number"]),
        last_enqueued_time=_time(answer[b"last_enqueued_time_utc"]),
        is_empty=bool(answer[b"is_partition_empty"]),
        last_offset=answer[b"last_enqueued_offset"].decode(),
    )


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
