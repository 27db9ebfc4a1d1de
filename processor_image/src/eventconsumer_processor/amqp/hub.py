"""`source.hub.Hub` on our own receiver; it queries properties on a separate connection: see `management`.

All links of a hub share one connection, opened with the first link, and opened again by the next link after it broke.
A connection is not used for new links, and closed with its last link, in two cases: one of its links delivered nothing
although there were events, or the hub refuses links because its token is no longer valid.
"""

import asyncio
import calendar
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError

from eventconsumer_api.connection_string import parse_connection_string
from eventconsumer_api.v1alpha1 import Position, Processing, Roll
from eventconsumer_processor.amqp import cbs, codec, frames
from eventconsumer_processor.amqp.cbs import Claims, TokenSource
from eventconsumer_processor.amqp.connection import IDLE_SECONDS, Connection, Endpoint
from eventconsumer_processor.amqp.frames import Terminus
from eventconsumer_processor.amqp.link import LINGER_SECONDS, REQUEST_SECONDS, Receiver
from eventconsumer_processor.amqp.management import Management
from eventconsumer_processor.credentials import HubAccess
from eventconsumer_processor.errors import HubUnauthorized, HubUnreachable, LinkStolen
from eventconsumer_processor.source.budget import Budget
from eventconsumer_processor.source.hub import HubInfo, PartitionInfo, Source
from eventconsumer_processor.source.lastenqueued import CAPABILITY
from eventconsumer_processor.source.locate import locate

FILE_SECONDS = 0.5
FILE_PART = 20  # share of the maximum age of a file
_TLS_PORT, _PLAIN_PORT = 5671, 5672
_GEO_REPLICATION = "com.microsoft:georeplication"  # offsets in the form of the SDK


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


class AmqpHub:
    """`source.hub.Hub` on our own receiver.

    Args:
        access: The hub and the credential.
        idle_seconds: A connection that is silent for longer is considered dead.
        linger: Seconds that few events wait for more.
        runtime_metrics: Whether to request the runtime metrics of the partition with each event.
        budget: Budget of the bytes that may wait on all its links.
    """

    def __init__(
        self,
        access: HubAccess,
        idle_seconds: float = IDLE_SECONDS,
        linger: float = LINGER_SECONDS,
        *,
        runtime_metrics: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self._access = access
        self._budget = Budget() if budget is None else budget
        self._runtime_metrics = runtime_metrics
        self._linger = linger
        self._authority, endpoint, tokens_for = _signing_in(access)
        audience = f"sb://{self._authority}/{access.name}"
        self._management = Management(access, endpoint, audience, tokens_for(audience), idle_seconds)
        audience += f"/consumergroups/{access.consumer_group}"
        self._pool = Pool(endpoint, audience, tokens_for(audience), idle_seconds)

    async def describe(self) -> HubInfo:
        """See `Hub`."""
        return await self._management.describe()

    async def partition(self, partition: str) -> PartitionInfo:
        """See `Hub`."""
        return await self._management.partition(partition)

    async def check_consumer_group(self, partition: str) -> None:
        """See `Hub`."""
        with contextlib.suppress(HubUnreachable, LinkStolen):  # an epoch reader is attached, so the group exists
            receiver, shared = await self._attach(partition, "amqp.annotation.x-opt-offset > '@latest'", None, 1)
            await receiver.detach()
            await self._pool.leave(shared)

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> Source:
        """See `Hub`."""
        selector = f"amqp.annotation.x-opt-sequence-number > '{after}'"
        return await self._open(partition, selector, epoch, prefetch, after)

    async def locate(self, partition: str, position: Position, epoch: int) -> int:
        """See `Hub`."""

        async def open_at(where: str | datetime, inclusive: bool) -> Source:
            return await self._open(partition, selector(where, inclusive), epoch, prefetch=1)

        return await locate(partition, position, await self.partition(partition), open_at, REQUEST_SECONDS)

    async def close(self) -> None:
        """See `Hub`."""
        await self._pool.close()
        await self._management.close()
        if self._access.identity is not None:
            with contextlib.suppress(AzureError, OSError):
                await self._access.identity.close()

    async def _open(self, partition: str, selector: str, epoch: int, prefetch: int, after: int | None = None) -> Source:
        receiver, shared = await self._attach(partition, selector, epoch, prefetch)
        from eventconsumer_processor.amqp.source import AmqpSource  # queries do not need these imports

        return AmqpSource(
            receiver,
            lambda trusted: self._pool.leave(shared, trusted=trusted),
            runtime_metrics=self._runtime_metrics,
            after=after,
        )

    async def _attach(self, partition: str, selector: str, epoch: int | None, prefetch: int) -> tuple[Receiver, Shared]:
        access = self._access
        path = f"{access.name}/ConsumerGroups/{access.consumer_group}/Partitions/{partition}"
        source = Terminus(f"amqps://{self._authority}/{path}", selector)

        def frame(name: str, handle: int) -> bytes:
            return frames.attach(
                name,
                handle,
                receives=True,
                source=source,
                target=Terminus(name),
                settle_mode=frames.SETTLED,
                capabilities=(_GEO_REPLICATION, *((CAPABILITY,) if self._runtime_metrics else ())),
                properties=None if epoch is None else {"com.microsoft:epoch": codec.long(epoch)},
            )

        return await self._pool.attach(
            lambda connection: Receiver(connection, prefetch, frame, self._linger, self._budget)
        )


def linger_seconds(roll: Roll, processing: Processing) -> float:
    """Seconds between two reads of few events from a link.

    The fixed cost of a batch is the same for one event as for many. Events that are only written to files wait for up
    to half a second, and less if files have a short maximum age. Events for a handler do not wait.

    Args:
        roll: Limits of a file.
        processing: Whether there is a handler.
    """
    if processing.handler is not None:
        return LINGER_SECONDS
    return max(LINGER_SECONDS, min(FILE_SECONDS, roll.max_seconds / FILE_PART))


def selector(where: str | datetime, inclusive: bool) -> str:
    """The filter for events after an offset or a time, or at it."""
    operator = ">=" if inclusive else ">"
    if isinstance(where, datetime):
        milliseconds = calendar.timegm(where.utctimetuple()) * 1000 + where.microsecond // 1000
        return f"amqp.annotation.x-opt-enqueued-time {operator} '{milliseconds}'"
    return f"amqp.annotation.x-opt-offset {operator} '{where}'"


def _signing_in(access: HubAccess) -> tuple[str, Endpoint, Callable[[str], TokenSource]]:
    """The hub's authority, its address, and the source of tokens for an audience."""
    if access.connection_string is None:
        identity = access.identity
        assert identity is not None  # noqa: S101 - HubAccess holds one of the two
        return access.host, Endpoint(access.host, _TLS_PORT), lambda _: cbs.of_identity(identity)
    parts = parse_connection_string(access.connection_string)
    address = urlsplit(parts["endpoint"])
    tls = parts.get("usedevelopmentemulator") != "true"
    endpoint = Endpoint(address.hostname or "", address.port or (_TLS_PORT if tls else _PLAIN_PORT), tls)
    signature = parts.get("sharedaccesssignature")
    if signature:
        ready = cbs.ready_made(signature)
        return address.netloc, endpoint, lambda _: ready
    name, key = parts["sharedaccesskeyname"], parts["sharedaccesskey"]
    return address.netloc, endpoint, lambda audience: cbs.signing(audience, name, key)
