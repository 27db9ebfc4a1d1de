"""Properties of a hub and its partitions, by `$management`.

The connection is opened with the first query and kept, separate from the connection of events, so that queries are
independent of links. If it was lost while idle, the next query detects this, and is repeated on a new connection.

A hub answers 50 queries per second, of all its clients together, then `com.microsoft:server-busy`. So a client spreads
its queries (`CallPace`), and queries of the whole hub share their answers (`SharedQuery`). `leader.rate_limit` keeps
the queries of a measurement below this, so that other queries do not wait for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from eventconsumer_host.amqp import codec
from eventconsumer_host.amqp.cbs import Claims, TokenSource
from eventconsumer_host.amqp.connection import Connection, Endpoint
from eventconsumer_host.amqp.link import REQUEST_SECONDS
from eventconsumer_host.amqp.requests import Requests, check, request
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.errors import HubBusy, HubUnauthorized, HubUnreachable
from eventconsumer_host.source.hub import HubInfo, PartitionInfo

ADDRESS = "$management"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Together the quota of a hub, "calls to GetRuntimeInformation": 50 in any second.
# https://learn.microsoft.com/azure/event-hubs/event-hubs-quotas
QUERIES_AT_ONCE = 10
QUERIES_PER_SECOND = 40.0  # after those
# Among the names of this response in the SDKs: PartitionRuntimeInfoRetrievalTimeUtc of AmqpManagement.ResponseMap in
# azure-sdk-for-net. No documentation says that the service always sends it.
READ_AT = b"runtime_info_retrieval_time_utc"
_Fact = TypeVar("_Fact", HubInfo, PartitionInfo, dict[bytes, Any])
_T = TypeVar("_T")


class CallPace:
    """Spreads calls: `at_once`, and then `rate` per second.

    Args:
        at_once: Calls.
        rate: Calls per second.
    """

    def __init__(self, at_once: int, rate: float) -> None:
        self._early = at_once / rate  # seconds
        self._rate = rate
        self._next = 0.0  # time of the next call if all calls were spread evenly

    def delay(self, now: float) -> float:
        """Seconds until a call may begin; counts the call. `now` is in seconds, on any clock."""
        self._next = max(self._next, now)
        found = max(0.0, self._next - now - self._early)
        self._next += 1 / self._rate
        return found


class SharedQuery(Generic[_T]):
    """One query for all tasks that need its answer. An answer is never older than the call that returns it.

    Args:
        ask: Queries once.
    """

    def __init__(self, ask: Callable[[], Awaitable[_T]]) -> None:
        self._ask = ask
        self._now: asyncio.Task[_T] | None = None
        self._next: asyncio.Task[_T] | None = None  # begins when `_now` has ended

    async def __call__(self) -> _T:
        """The answer.

        Raises:
            SourceError: As `ask`.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._now))
            self._next.add_done_callback(_retrieve)
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        """End all queries; never fails."""
        running = [task for task in (self._now, self._next) if task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _after(self, earlier: asyncio.Task[_T] | None) -> _T:
        if earlier is not None:
            await asyncio.wait([earlier])
        self._now, self._next = self._next, None
        return await self._ask()


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a task for which no task may wait any more."""
    if not task.cancelled():
        task.exception()


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
        self._pace = CallPace(QUERIES_AT_ONCE, QUERIES_PER_SECOND)
        self._hub = SharedQuery(partial(self._ask, "com.microsoft:eventhub", {}, partial(hub_info, access)))

    async def describe(self) -> HubInfo:
        """See `source.hub.Hub`."""
        return await self._hub()

    async def properties(self) -> dict[bytes, Any]:
        """The hub's properties as the service names them, also those that hosts do not use."""
        return await self._ask("com.microsoft:eventhub", {}, dict[bytes, Any])

    async def partition(self, partition: str) -> PartitionInfo:
        """See `source.hub.Hub`."""
        return await self._ask("com.microsoft:partition", {"partition": codec.string(partition)}, partition_info)

    async def close(self) -> None:
        """End all queries of the hub, and close the connection; never fails."""
        await self._hub.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        desk, self._desk = self._desk, None
        if desk is not None:
            await desk.close()

    async def _ask(self, kind: str, more: dict[str, bytes], read: Callable[[dict[bytes, Any]], _Fact]) -> _Fact:
        """Query once; again if an established connection was lost, or its token has expired.

        Raises:
            SourceError: There is no response, or it is an error.
        """
        while True:
            await asyncio.sleep(self._pace.delay(asyncio.get_running_loop().time()))
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
            except HubBusy:
                raise
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
            if self._desk is None or self._desk.connection.error is not None or not self._desk.claims.are_good:
                await self._disconnect()
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
            await self._disconnect()


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
        read_at=None if (read := answer.get(READ_AT)) is None else _time(read),
    )


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
