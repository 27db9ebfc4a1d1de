"""`source.hub.Hub` on our own receiver; it queries properties on a separate connection: see `management`.

All links of a hub share one connection, opened with the first link, and opened again by the next link after it broke.
A connection is not used for new links, and closed with its last link, in these cases: one of its links delivered
nothing although there were events; the hub refused a link, or detached it before it delivered anything; its token has
expired, or cannot be renewed on it.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError

from eventconsumer_api.shared.connection_string import parse_connection_string
from eventconsumer_api.v1alpha1 import HubTransport, Position, Processing, Roll
from eventconsumer_host.amqp import cbs, codec, frames
from eventconsumer_host.amqp.cbs import Claims, TokenSource
from eventconsumer_host.amqp.connection import IDLE_SECONDS, Connection, Endpoint
from eventconsumer_host.amqp.frames import Fields, Terminus
from eventconsumer_host.amqp.link import LINGER_SECONDS, REQUEST_SECONDS, Receiver
from eventconsumer_host.amqp.management import Management
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.errors import HubUnauthorized, HubUnreachable, LinkStolen, SourceError
from eventconsumer_host.source.budget import Budget
from eventconsumer_host.source.conditions import RECEIVER_NAME, RECEIVER_NAME_LENGTH
from eventconsumer_host.source.hub import HubInfo, PartitionInfo, Source
from eventconsumer_host.source.lastenqueued import CAPABILITY
from eventconsumer_host.source.locate import locate, milliseconds

FILE_SECONDS = 0.5
FILE_PART = 20  # share of the maximum age of a file
# By transport: with TLS; without, for emulators.
_PORTS = {HubTransport.AMQP: (5671, 5672), HubTransport.AMQP_WEB_SOCKETS: (443, 80)}
_GEO_REPLICATION = "com.microsoft:georeplication"  # offsets in the form of the SDK


@dataclass(eq=False)
class SharedConnection:
    """A connection and its links."""

    connection: Connection
    claims: Claims
    links: int = 0
    proven: bool = False  # the hub attached a link on it
    trusted: bool = True

    @property
    def is_good(self) -> bool:
        """Whether it is used for new links."""
        return self.trusted and self.claims.are_good

    async def close(self) -> None:
        """Close it; never fails."""
        await self.claims.close()
        await self.connection.close()


class PartitionLink(Receiver):
    """The link of a partition.

    Attributes:
        was_useless: Whether the hub detached it before it delivered anything.
    """

    def __init__(
        self, shared: SharedConnection, prefetch: int, frame: Callable[[str, int], bytes], **options: Any
    ) -> None:
        super().__init__(shared.connection, prefetch, frame, **options)
        self._claims = shared.claims
        self._first = 0  # delivery count at the attach
        self.was_useless = False

    def on_attach(self, fields: Fields) -> None:
        """See `session.Link`."""
        super().on_attach(fields)
        self._first = self._delivery_count

    def on_detach(self, error: SourceError) -> None:
        """See `session.Link`. A detach because of an expired token says so."""
        self.was_useless = self._delivery_count == self._first and not isinstance(error, LinkStolen)
        super().on_detach(self._claims.explain(error))


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
        self._shared: list[SharedConnection] = []
        self._connecting = asyncio.Lock()

    async def attach(self, make: Callable[[SharedConnection], PartitionLink]) -> tuple[PartitionLink, SharedConnection]:
        """Attach a link, created for its connection.

        Raises:
            SourceError: The hub is not reachable, or refuses it.
        """
        while True:
            shared = await self._get()
            receiver = make(shared)
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

    async def leave(self, shared: SharedConnection, *, trusted: bool = True) -> None:
        """Record that a link has ended, and whether its connection worked; never fails."""
        shared.links -= 1
        shared.trusted = shared.trusted and trusted
        if not shared.is_good and not shared.links and shared in self._shared:
            self._shared.remove(shared)
            await shared.close()

    async def renew(self) -> int:
        """Put a new token on each connection now; returns their number."""
        found = [shared for shared in self._shared if shared.connection.error is None]
        await asyncio.gather(*(shared.claims.renew() for shared in found))
        return len(found)

    async def close(self) -> None:
        """Close all; never fails."""
        found, self._shared = self._shared, []
        await asyncio.gather(*(shared.close() for shared in found))

    async def _get(self) -> SharedConnection:
        async with self._connecting:
            for shared in tuple(self._shared):
                useless = shared.connection.error is not None or not (shared.is_good or shared.links)
                if useless and shared in self._shared:
                    self._shared.remove(shared)
                    await shared.close()
            for shared in self._shared:
                if shared.is_good and shared.connection.is_usable:
                    return shared
            connection = Connection(self._endpoint.host, self._idle_seconds)
            await connection.connect(self._endpoint, REQUEST_SECONDS)
            claims = Claims(connection, self._audience, self._tokens)
            try:
                await claims.claim()
            except BaseException:
                await connection.close()
                raise
            shared = SharedConnection(connection, claims)
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
        reader: Name of its readers in texts of the service; empty: none.
    """

    def __init__(
        self,
        access: HubAccess,
        idle_seconds: float = IDLE_SECONDS,
        linger: float = LINGER_SECONDS,
        *,
        runtime_metrics: bool = False,
        budget: Budget | None = None,
        reader: str = "",
    ) -> None:
        self._access = access
        self._reader = {RECEIVER_NAME: codec.string(reader[:RECEIVER_NAME_LENGTH])} if reader else {}
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
        return await self._open(partition, events_after(after), epoch, prefetch, after)

    async def locate(self, partition: str, position: Position, epoch: int) -> int:
        """See `Hub`."""

        async def open_at(where: str | datetime | int) -> Source:
            selector = events_after(where) if isinstance(where, int) else events_at(where)
            return await self._open(partition, selector, epoch, prefetch=1)

        return await locate(partition, position, await self.partition(partition), open_at, REQUEST_SECONDS)

    async def open_where(self, partition: str, selector: str, epoch: int | None = None, prefetch: int = 1) -> Source:
        """Attach a reader with any filter, and with or without an epoch: for checks of the service.

        Raises:
            SourceError: See `Hub.open`.
        """
        return await self._open(partition, selector, epoch, prefetch)

    async def renew_tokens(self) -> int:
        """Put a new token on each connection of links now; returns their number.

        Raises:
            SourceError: See `Claims.renew`.
        """
        return await self._pool.renew()

    async def properties(self) -> dict[bytes, Any]:
        """The hub's properties as the service names them."""
        return await self._management.properties()

    async def close(self) -> None:
        """See `Hub`."""
        await self._pool.close()
        await self._management.close()
        if self._access.identity is not None:
            with contextlib.suppress(AzureError, OSError):
                await self._access.identity.close()

    async def _open(
        self, partition: str, selector: str, epoch: int | None, prefetch: int, after: int | None = None
    ) -> Source:
        receiver, shared = await self._attach(partition, selector, epoch, prefetch)
        from eventconsumer_host.amqp.source import AmqpSource  # queries do not need these imports

        return AmqpSource(
            receiver,
            lambda trusted: self._pool.leave(shared, trusted=trusted and not receiver.was_useless),
            runtime_metrics=self._runtime_metrics,
            after=after,
        )

    async def _attach(
        self, partition: str, selector: str, epoch: int | None, prefetch: int
    ) -> tuple[PartitionLink, SharedConnection]:
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
                properties=self._reader | ({} if epoch is None else {"com.microsoft:epoch": codec.long(epoch)}),
            )

        return await self._pool.attach(
            lambda shared: PartitionLink(shared, prefetch, frame, linger=self._linger, budget=self._budget)
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


def events_after(number: int) -> str:
    """The filter for the events with a sequence number above `number`; -1: all events.

    On a partition that was never used, Event Hubs delivers nothing for a sequence number above -1, so the start of a
    partition is an offset, as in the SDKs (Azure/azure-sdk-for-js, pull request 20982).
    """
    if number < 0:
        return "amqp.annotation.x-opt-offset > '-1'"
    return f"amqp.annotation.x-opt-sequence-number > '{number}'"


def events_at(where: str | datetime) -> str:
    """The filter for the event at an offset or a time, and all events after it."""
    if isinstance(where, datetime):
        return f"amqp.annotation.x-opt-enqueued-time >= '{milliseconds(where)}'"
    quoted = where.replace("'", "''")  # an offset may come from a lease that another program wrote
    return f"amqp.annotation.x-opt-offset >= '{quoted}'"


def _signing_in(access: HubAccess) -> tuple[str, Endpoint, Callable[[str], TokenSource]]:
    """The hub's authority, its address, and the source of tokens for an audience."""
    tls_port, plain_port = _PORTS[access.transport]
    websocket = access.transport is HubTransport.AMQP_WEB_SOCKETS
    if access.connection_string is None:
        identity = access.identity
        assert identity is not None  # noqa: S101 - HubAccess holds one of the two
        endpoint = Endpoint(access.host, tls_port, websocket=websocket)
        return access.host, endpoint, lambda _: cbs.of_identity(identity)
    parts = parse_connection_string(access.connection_string)
    address = urlsplit(parts["endpoint"])
    tls = parts.get("usedevelopmentemulator") != "true"
    endpoint = Endpoint(address.hostname or "", address.port or (tls_port if tls else plain_port), tls, websocket)
    signature = parts.get("sharedaccesssignature")
    if signature:
        ready = cbs.ready_made(signature)
        return address.netloc, endpoint, lambda _: ready
    name, key = parts["sharedaccesskeyname"], parts["sharedaccesskey"]
    return address.netloc, endpoint, lambda audience: cbs.signing(audience, name, key)
