"""Assumptions about an Event Hub apart from its events: properties, errors, tokens, and readers with epochs.

The checks use the host's own receiver in a consumer group of their own. Readers stay at the end of a partition, so that
they get no events. All checks use the consumer's transport and proxy; one check uses the other transport.
"""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from uuid import uuid4

from eventconsumer_api.shared.connection_string import parse_connection_string
from eventconsumer_api.v1alpha1 import HubTransport
from eventconsumer_host.amqp import cbs
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.amqp.link import REQUEST_SECONDS
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.errors import HubNotFound, HubUnauthorized, HubUnreachable, LinkStolen, SourceError
from eventconsumer_host.source.hub import HubInfo, PartitionInfo, Source
from eventconsumer_tools.certify.model import SLOW, Assumption, Differs, Skipped

LATEST = "amqp.annotation.x-opt-offset > '@latest'"
READERS = 5
"""Readers without an epoch that a partition admits in a consumer group; one more is refused. Source:
learn.microsoft.com/azure/event-hubs/event-hubs-features#consumer-groups, …/event-hubs-quotas"""
ENDS_SECONDS = 20.0  # within which a displaced reader is disconnected
TOKEN_SECONDS = 60  # lifetime of the token that expires in a check
EXPIRY_SECONDS = 480.0
"""How long after its expiry the service may accept a token. It ends links within about five minutes: see the trace in
github.com/Azure/azure-sdk-for-python/issues/5314."""
PARALLEL = 16  # partitions that are looked at concurrently


@dataclass
class Namespace:
    """The Event Hub of a run, and the state of its checks.

    Attributes:
        access: The hub and the credential, in the consumer group of the run.
        hub: The client.
        given: The options of the command.
        info: The hub.
        partitions: Its partitions at the start, by id.
        slowest: Longest time of an attach, seconds.
        token_seconds: Lifetime of the token that expires in a check.
    """

    access: HubAccess
    hub: AmqpHub
    given: tuple[str, ...] = ()
    info: HubInfo | None = None
    partitions: dict[str, PartitionInfo] = field(default_factory=dict)
    slowest: float = 0.0
    token_seconds: int = TOKEN_SECONDS
    may_send: bool | None = None  # None: unknown
    _sources: list[Source] = field(default_factory=list)
    _others: list[AmqpHub] = field(default_factory=list)

    @property
    def spare(self) -> str:
        """The partition for readers that need no events."""
        return list(self.partitions)[-1]

    async def attach(self, opening: Awaitable[Source]) -> Source:
        """Attach a reader, which `tidy` closes."""
        started = time.monotonic()
        source = await opening
        self.slowest = max(self.slowest, time.monotonic() - started)
        self._sources.append(source)
        return source

    async def open(self, partition: str, selector: str, epoch: int | None = 1) -> Source:
        """Attach a reader with any filter."""
        return await self.attach(self.hub.open_where(partition, selector, epoch))

    def other(self, access: HubAccess, *, runtime_metrics: bool = False) -> AmqpHub:
        """A client with another credential, other names or other options, which `close` closes."""
        self._others.append(AmqpHub(access, runtime_metrics=runtime_metrics))
        return self._others[-1]

    async def tidy(self) -> None:
        """Close all readers; never fails."""
        found, self._sources = self._sources, []
        await asyncio.gather(*(source.close() for source in found))

    async def close(self) -> None:
        """Close all readers and connections; never fails."""
        await self.tidy()
        await asyncio.gather(self.hub.close(), *(hub.close() for hub in self._others))


async def look(namespace: Namespace) -> None:
    """Read the properties of the hub and its partitions.

    Raises:
        SourceError: The hub does not respond, or refuses the credential.
    """
    namespace.info = await namespace.hub.describe()
    turns = asyncio.Semaphore(PARALLEL)

    async def one(partition: str) -> PartitionInfo:
        async with turns:
            return await namespace.hub.partition(partition)

    ids = namespace.info.partition_ids
    namespace.partitions = dict(zip(ids, await asyncio.gather(*map(one, ids)), strict=True))


async def readers(namespace: Namespace) -> list[str]:
    """The partitions with readers in this consumer group; does not disturb them.

    The service does not list readers. But a reader without an epoch is refused beside a reader with one, and a
    partition admits five without: if five attach, there is no other.

    Raises:
        HubNotFound: The consumer group does not exist.
        SourceError: The hub does not respond.
    """
    turns = asyncio.Semaphore(PARALLEL)

    async def one(partition: str) -> bool:
        opened: list[Source] = []
        async with turns:
            try:
                for _ in range(READERS):
                    opened.append(await namespace.hub.open_where(partition, LATEST))
            except LinkStolen:
                return True
            except SourceError as error:
                if "resource-limit-exceeded" not in str(error):
                    raise
                return True
            finally:
                await asyncio.gather(*(source.close() for source in opened))
        return False

    found = await asyncio.gather(*map(one, namespace.partitions))
    return [partition for partition, used in zip(namespace.partitions, found, strict=True) if used]


async def facts(namespace: Namespace) -> dict[str, str]:
    """Properties of the hub."""
    properties = await namespace.hub.properties()
    info = namespace.info
    found = {"host": namespace.access.host, "hub": namespace.access.name}
    if info is not None:
        found |= {"partitions": str(len(info.partition_ids)), "created": info.created_at.isoformat()}
    return found | {"georeplication-factor": str(properties.get(b"georeplication_factor", "absent"))}


# --- properties ---


async def _partition_properties(namespace: Namespace) -> str:
    used = 0
    for partition, info in namespace.partitions.items():
        if info.last < 0:
            if not info.is_empty:
                raise Differs(f"partition {partition} has no last number, but is not empty")
            continue
        used += 1
        if not info.is_empty and not 0 <= info.first <= info.last:
            raise Differs(f"partition {partition} has events, from {info.first} to {info.last}")
    return f"{used} of {len(namespace.partitions)} partitions have had events"


async def _repeated(namespace: Namespace) -> str:
    again = await namespace.hub.describe()
    if again != namespace.info:
        raise Differs(f"the hub answers {again} after {namespace.info}")
    return f"created {again.created_at.isoformat()}"


# --- errors ---


async def _wrong_key(namespace: Namespace) -> str:
    connection_string = namespace.access.connection_string
    parts = parse_connection_string(connection_string or "")
    key = parts.get("sharedaccesskey")
    if connection_string is None or not key:
        raise Skipped("needs a connection string with a key")
    wrong = connection_string.replace(key, uuid4().hex)
    hub = namespace.other(replace(namespace.access, connection_string=wrong))
    return await _refused(hub, "a wrong key", HubUnauthorized)


async def _no_group(namespace: Namespace) -> str:
    access = replace(namespace.access, consumer_group=f"certify-{uuid4().hex[:12]}")
    try:
        await namespace.attach(namespace.other(access).open_where(namespace.spare, LATEST))
    except HubNotFound as error:
        return str(error)
    except HubUnauthorized as error:
        raise Skipped(f"the credential is for other consumer groups only: {error}") from error
    except SourceError as error:
        raise Differs(f"an absent consumer group is refused with: {error}") from error
    raise Differs("a reader of an absent consumer group is attached")


async def _no_hub(namespace: Namespace) -> str:
    access = replace(namespace.access, name=f"certify-{uuid4().hex[:12]}")
    if "entitypath" in parse_connection_string(access.connection_string or ""):
        raise Skipped("the connection string is for one hub")
    return await _refused(namespace.other(access), "an absent hub", HubNotFound)


async def _refused(hub: AmqpHub, what: str, kind: type[SourceError]) -> str:
    """The text with which the hub's properties are refused.

    Raises:
        Differs: They are given, or refused with another error.
    """
    try:
        await hub.describe()
    except kind as error:
        return str(error)
    except SourceError as error:
        raise Differs(f"{what} is refused with: {error}") from error
    raise Differs(f"{what} is accepted")


# --- tokens ---


async def _renewed(namespace: Namespace) -> str:
    source = await namespace.open(namespace.spare, LATEST)
    for _ in range(2):
        try:
            count = await namespace.hub.renew_tokens()
            await source.receive(1, 1)
        except SourceError as error:
            raise Differs(f"after a new token on a connection with links: {error}") from error
    return f"two new tokens on {count} connection, its link stays attached"


async def _expires(namespace: Namespace) -> str:
    access = namespace.access
    parts = parse_connection_string(access.connection_string or "")
    name, key = parts.get("sharedaccesskeyname"), parts.get("sharedaccesskey")
    if access.connection_string is None or not name or not key:
        raise Skipped("needs a connection string with a key")
    audience = f"sb://{access.host}/{access.name}"
    token = cbs.sign(audience, name, key, int(time.time()) + namespace.token_seconds)
    kept = (part for part in access.connection_string.split(";") if not part.lower().startswith("sharedaccess"))
    signed = ";".join((*kept, f"SharedAccessSignature={token}"))
    hub = namespace.other(replace(access, connection_string=signed))
    started = time.monotonic()
    source = await namespace.attach(hub.open_where(namespace.spare, LATEST, 1))
    error = await ended(source, namespace.token_seconds + EXPIRY_SECONDS)
    after = time.monotonic() - started - namespace.token_seconds
    if error is None:
        raise Differs(f"{after:.0f} s after the expiry of its token a link is still attached")
    return f"{after:.0f} s after the expiry: {type(error).__name__}: {error}"


# --- the other transport ---


async def _other_transport(namespace: Namespace) -> str:
    (other,) = set(HubTransport) - {namespace.access.transport}
    hub = namespace.other(replace(namespace.access, transport=other))
    try:
        info = await hub.describe()
    except HubUnreachable as error:
        raise Skipped(
            f"{other} is not possible from here, so spec.eventHub.transport cannot be changed: {error}"
        ) from error
    if info != namespace.info:
        raise Differs(f"by {other} the hub answers {info}, and {namespace.info} by the transport of the consumer")
    source = await namespace.attach(hub.open_where(namespace.spare, LATEST, 1))
    if (end := await ended(source, 1)) is not None:
        raise Differs(f"by {other} a reader is ended: {end}")
    return f"{other} is possible, too"


# --- readers ---


async def _higher(namespace: Namespace) -> str:
    return await _displaced(namespace, 1, 2)


async def _equal(namespace: Namespace) -> str:
    return await _displaced(namespace, 2, 2)


async def _over_none(namespace: Namespace) -> str:
    return await _displaced(namespace, None, 1)


async def _displaced(namespace: Namespace, first: int | None, second: int) -> str:
    before = await namespace.open(namespace.spare, LATEST, first)
    after = await namespace.open(namespace.spare, LATEST, second)
    error = await ended(before, ENDS_SECONDS)
    if error is None:
        raise Differs(f"the first reader is still attached after {ENDS_SECONDS:.0f} s")
    if not isinstance(error, LinkStolen):
        raise Differs(f"the first reader ends with: {error}")
    if (other := await ended(after, 1)) is not None:
        raise Differs(f"the second reader ends with: {other}")
    return str(error)


async def _lower(namespace: Namespace) -> str:
    return await _not_admitted(namespace, 1)


async def _without(namespace: Namespace) -> str:
    return await _not_admitted(namespace, None)


async def _not_admitted(namespace: Namespace, epoch: int | None) -> str:
    first = await namespace.open(namespace.spare, LATEST, 5)
    try:
        second = await namespace.open(namespace.spare, LATEST, epoch)
        error = await ended(second, ENDS_SECONDS)  # a refusal may follow the attach
    except SourceError as found:
        error = found
    if error is None:
        raise Differs("the second reader is attached")
    if not isinstance(error, LinkStolen):
        raise Differs(f"the second reader is refused with: {error}")
    if (other := await ended(first, 1)) is not None:
        raise Differs(f"the first reader ends with: {other}")
    return str(error)


async def _forgotten(namespace: Namespace) -> str:
    first = await namespace.open(namespace.spare, LATEST, 9)
    await first.close()
    try:
        second = await namespace.open(namespace.spare, LATEST, 1)
        error = await ended(second, 1)
    except SourceError as found:
        error = found
    if error is not None:
        raise Differs(f"after a reader with epoch 9 was closed, one with epoch 1 is refused: {error}")
    return "epoch 1 attaches after epoch 9 was closed"


async def _attach_time(namespace: Namespace) -> str:
    if namespace.slowest > REQUEST_SECONDS / 2:
        raise Differs(f"the slowest attach took {namespace.slowest:.1f} s")
    return f"the slowest attach took {namespace.slowest:.1f} s"


async def ended(source: Source, seconds: float) -> SourceError | None:
    """The error with which a link ends; None if it is attached after `seconds`. Its events are discarded."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    try:
        while (left := until - loop.time()) > 0:
            await source.receive(100, left)
    except SourceError as error:
        return error
    return None


_REPORT = "report it with this output"


async def _reached(namespace: Namespace) -> str:
    return f"{namespace.access.host} responds, {namespace.access.name} has {len(namespace.partitions)} partitions"


REACHABLE = Assumption("reachable", "The hub responds and accepts the credential.", "hosts do not register",
                       "see eventconsumer check", _reached)  # fmt: skip
HUB: tuple[Assumption[Namespace], ...] = (
    Assumption("partition-properties", "Numbers of a partition's first and last event are -1, or in order.",
               "hosts start at a wrong position", _REPORT, _partition_properties),
    Assumption("hub-properties", "The properties of a hub do not change between two requests.",
               "hosts compare the events with the files without need", _REPORT, _repeated),
    Assumption("wrong-key", "A wrong key is refused as unauthorized.",
               "the condition for a wrong key names another cause", _REPORT, _wrong_key),
    Assumption("absent-group", "An absent consumer group is refused as not found.",
               "the condition for an absent consumer group names another cause", _REPORT, _no_group),
    Assumption("absent-hub", "An absent hub is refused as not found.",
               "the condition for an absent hub names another cause", _REPORT, _no_hub),
    Assumption("token-renewal", "A connection with attached links accepts a new token.",
               "all partitions are read again from a new connection once per hour", _REPORT, _renewed),
    Assumption("token-expiry", "A link whose token has expired is ended.",
               "none for events: a host reads on although its right was withdrawn", "no action is required", _expires,
               (SLOW,), seconds=TOKEN_SECONDS + EXPIRY_SECONDS + 60),
    Assumption("other-transport", "AMQP over TLS and AMQP over WebSockets reach the same hub.",
               "a change of spec.eventHub.transport stops the consumer", "do not change spec.eventHub.transport",
               _other_transport),
    Assumption("epoch-higher", "A reader with a higher epoch disconnects the present one (link stolen).",
               "two hosts read one partition until the lease ends; no event is in two files", _REPORT, _higher),
    Assumption("epoch-equal", "A reader with an equal epoch disconnects the present one (link stolen).",
               "a host that opens a link again waits until the service drops the old one", _REPORT, _equal),
    Assumption("epoch-over-none", "A reader with an epoch disconnects readers without.",
               "another program of the consumer group prevents hosts from reading", _REPORT, _over_none),
    Assumption("epoch-lower", "A reader with a lower epoch is refused (link stolen).",
               "a host that lost its lease takes the link back", _REPORT, _lower),
    Assumption("epoch-none", "A reader without an epoch is refused beside one with an epoch (link stolen).",
               "a program of the same consumer group reads beside hosts", _REPORT, _without),
    Assumption("epoch-forgotten", "The epoch of a closed reader has no effect.",
               "leases that are rebuilt with a low epoch cannot be read", _REPORT, _forgotten),
)  # fmt: skip
LAST: tuple[Assumption[Namespace], ...] = (
    Assumption("attach-time", f"A link is attached within {REQUEST_SECONDS / 2:.0f} s.",
               f"hosts give up after {REQUEST_SECONDS:.0f} s and try again: partitions are not read for long",
               _REPORT, _attach_time),
)  # fmt: skip
