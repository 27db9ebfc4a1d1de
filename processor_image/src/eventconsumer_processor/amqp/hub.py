"""`source.hub.Hub` on our own receiver, which queries properties on a separate connection: see `management`."""

import calendar
import contextlib
from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError

from eventconsumer_api.connection_string import parse_connection_string
from eventconsumer_api.v1alpha1 import Position
from eventconsumer_processor.amqp import cbs, codec, frames
from eventconsumer_processor.amqp.cbs import TokenSource
from eventconsumer_processor.amqp.connection import IDLE_SECONDS, Endpoint
from eventconsumer_processor.amqp.frames import Terminus
from eventconsumer_processor.amqp.link import LINGER_SECONDS, REQUEST_SECONDS, Receiver
from eventconsumer_processor.amqp.management import Management
from eventconsumer_processor.amqp.pool import Pool, Shared
from eventconsumer_processor.credentials import HubAccess
from eventconsumer_processor.errors import HubUnreachable, LinkStolen
from eventconsumer_processor.source.budget import Budget
from eventconsumer_processor.source.hub import HubInfo, PartitionInfo, Source
from eventconsumer_processor.source.lastenqueued import CAPABILITY
from eventconsumer_processor.source.locate import locate

_TLS_PORT, _PLAIN_PORT = 5671, 5672
_GEO_REPLICATION = "com.microsoft:georeplication"  # offsets in the form of the SDK


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
        return await self._open(partition, f"amqp.annotation.x-opt-sequence-number > '{after}'", epoch, prefetch)

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

    async def _open(self, partition: str, selector: str, epoch: int, prefetch: int) -> Source:
        receiver, shared = await self._attach(partition, selector, epoch, prefetch)
        from eventconsumer_processor.amqp.source import AmqpSource  # queries do not need these imports

        return AmqpSource(
            receiver,
            lambda trusted: self._pool.leave(shared, trusted=trusted),
            runtime_metrics=self._runtime_metrics,
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
