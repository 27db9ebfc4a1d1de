"""Event Hubs through azure-eventhub 5.15.1: the only module that uses the SDK and its private attributes.

The public `receive` retries, balances and rewinds by itself, which conflicts with the leases of this host. So a link is
opened with `_create_consumer`, its client is driven here one read at a time, and the pump gets every error. This module
works around these properties of the SDK:

- messages are read directly from the link: no EventData, no sleep of 50 ms between reads, no second task;
- credit is renewed at half, not at zero; without a `receive` of the pump nothing is read, which gives backpressure;
- the number of frames of a read adapts: a read of n frames returns only after n frames or a pause of 0.2 s. It stays
  small for large events, so that unread events wait in the socket and not in memory;
- delivery tags, which pyamqp keeps for the life of a link, are dropped;
- the keep-alive task, which reads from the same socket, is disabled: the pump reads often enough;
- AMQP types that the decoder lacks (char, decimal32, decimal64) or fails to decode (decimal128) are added: one event
  with such a value would stop its partition. A binary keeps its type: see `rows.Binary`.
"""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import ClientHttpProxyError
from azure.core.exceptions import ClientAuthenticationError
from azure.eventhub import TransportType
from azure.eventhub._pyamqp import _decode
from azure.eventhub._pyamqp.constants import LinkState
from azure.eventhub._pyamqp.error import AMQPException, TokenExpired
from azure.eventhub._pyamqp.utils import amqp_string_value
from azure.eventhub.aio import EventHubConsumerClient
from azure.eventhub.exceptions import EventHubError

from eventconsumer_api.v1alpha1 import HubTransport, Position
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.errors import HubUnauthorized, HubUnreachable, LinkStolen, SourceError
from eventconsumer_host.source.causes import cause_of
from eventconsumer_host.source.conditions import RECEIVER_NAME, RECEIVER_NAME_LENGTH, error_for
from eventconsumer_host.source.hub import HubInfo, PartitionInfo
from eventconsumer_host.source.lastenqueued import last_enqueued
from eventconsumer_host.source.locate import locate
from eventconsumer_host.source.rows import Binary
from eventconsumer_storage.proxy import proxy_for, proxy_refusal

if TYPE_CHECKING:
    from eventconsumer_host.source.batch import EventBatch

REQUEST_SECONDS = 10.0  # to connect, authenticate and get one response
CLOSE_SECONDS = 2.0
READ_BYTES = 4 * 1024 * 1024  # approximate size of one read
FAST_READ_SECONDS = 0.02  # the frames of a faster read were waiting: the next read takes more frames
_ERRORS = (
    EventHubError,
    AMQPException,
    ClientAuthenticationError,
    OSError,
    TimeoutError,
    ValueError,
    AttributeError,
    TypeError,
)


def _complete_decoder() -> None:
    """Replace decoders that are missing or wrong in pyamqp; a char becomes its UTF-8 bytes, decimals stay raw."""
    table = _decode._DECODE_BY_CONSTRUCTOR
    table[0x73] = lambda buffer: (buffer[4:], chr(struct.unpack(">I", buffer[:4])[0]).encode())
    table[0x74] = lambda buffer: (buffer[4:], Binary(buffer[:4]))
    table[0x84] = lambda buffer: (buffer[8:], Binary(buffer[:8]))
    table[0x94] = lambda buffer: (buffer[16:], Binary(buffer[:16]))
    for code in (0xA0, 0xB0):
        table[code] = partial(_binary, table[code])


def _binary(read: Callable[[memoryview], tuple[memoryview, bytes]], buffer: memoryview) -> tuple[memoryview, bytes]:
    rest, found = read(buffer)
    return rest, Binary(found)


_complete_decoder()


class SdkHub:
    """`source.hub.Hub` on the SDK's consumer client.

    Args:
        access: The hub and its credential.
        runtime_metrics: Whether to request runtime metrics: see `lastenqueued`.
        reader: Name of its readers in texts of the service; empty: none.
    """

    def __init__(self, access: HubAccess, *, runtime_metrics: bool = False, reader: str = "") -> None:
        self._reader = reader[:RECEIVER_NAME_LENGTH]
        self._runtime_metrics = runtime_metrics
        options: dict[str, Any] = {
            "retry_total": 0,
            "retry_backoff_factor": 0.01,
            "auth_timeout": REQUEST_SECONDS,
            "user_agent": "eventconsumer",
            **_transport(access),
            "ssl_context": ssl.create_default_context(),  # trusts SSL_CERT_FILE, not the SDK's own authorities
        }
        self._access = access
        if access.connection_string is not None:
            self._client = EventHubConsumerClient.from_connection_string(
                access.connection_string, access.consumer_group, eventhub_name=access.name, **options
            )
        else:
            assert access.identity is not None  # noqa: S101 - HubAccess holds one of the two
            self._client = EventHubConsumerClient(
                access.host, access.name, access.consumer_group, access.identity, **options
            )

    async def describe(self) -> HubInfo:
        """See `Hub`."""
        answer = await self._ask(self._client.get_eventhub_properties())
        return HubInfo(
            namespace=self._access.namespace,
            name=self._access.name,
            created_at=answer["created_at"],
            partition_ids=tuple(answer["partition_ids"]),
            host=self._access.host,
        )

    async def partition(self, partition: str) -> PartitionInfo:
        """See `Hub`."""
        answer = await self._ask(self._client.get_partition_properties(partition))
        return PartitionInfo(
            first=int(answer["beginning_sequence_number"]),
            last=int(answer["last_enqueued_sequence_number"]),
            last_enqueued_time=answer["last_enqueued_time_utc"],
            is_empty=bool(answer["is_empty"]),
        )

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> "SdkSource":
        """See `Hub`."""
        source = SdkSource(self._consumer(partition, _after(after), prefetch, owner_level=epoch), prefetch)
        await source.open()
        return source

    async def locate(self, partition: str, position: Position, epoch: int) -> int:
        """See `Hub`."""

        async def open_at(where: str | datetime | int) -> SdkSource:
            after = isinstance(where, int)
            place = _after(where) if isinstance(where, int) else where
            consumer = self._consumer(partition, place, 1, owner_level=epoch, inclusive=not after)
            source = SdkSource(consumer, prefetch=1)
            await source.open()
            return source

        return await locate(partition, position, await self.partition(partition), open_at, REQUEST_SECONDS)

    async def check_consumer_group(self, partition: str) -> None:
        """See `Hub`."""
        source = SdkSource(self._consumer(partition, "@latest", prefetch=1), prefetch=1)
        with contextlib.suppress(HubUnreachable, LinkStolen):  # a reader with an epoch is attached, so the group exists
            await source.open()
        await source.close()

    async def close(self) -> None:
        """See `Hub`."""
        with contextlib.suppress(*_ERRORS):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._client.close()
                if self._access.identity is not None:
                    await self._access.identity.close()

    def _consumer(
        self,
        partition: str,
        position: int | str | datetime,
        prefetch: int,
        owner_level: int | None = None,
        inclusive: bool = False,
    ) -> Any:
        consumer = self._client._create_consumer(
            self._access.consumer_group,
            partition,
            position,
            _unused_callback,
            owner_level=owner_level,
            prefetch=prefetch,
            event_position_inclusive=inclusive,
            track_last_enqueued_event_properties=self._runtime_metrics,
        )
        consumer._keep_alive = None
        if self._reader:
            consumer._link_properties[RECEIVER_NAME.encode()] = amqp_string_value(self._reader)
        return consumer

    async def _ask(self, request: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer: dict[str, Any] = await request
        except _ERRORS as error:
            raise source_error(error) from error
        if not answer:
            raise HubUnreachable("the hub returned an empty response to a management request")
        return answer


def _transport(access: HubAccess) -> dict[str, Any]:
    """The SDK's options for the transport; it does not read the environment."""
    if access.transport is HubTransport.AMQP:
        return {}
    # With the default of the SDK, the context of aiohttp, an authority in SSL_CERT_FILE was refused.
    options: dict[str, Any] = {
        "transport_type": TransportType.AmqpOverWebsocket,
        "ssl_context": ssl.create_default_context(),
    }
    if ":" in access.host:  # the port of an emulator: the SDK takes 443 otherwise
        options["custom_endpoint_address"] = f"sb://{access.host}"
    if proxy := proxy_for("https", access.namespace):
        user = {"username": proxy.user, "password": proxy.password} if proxy.user else {}
        options["http_proxy"] = {"proxy_hostname": f"http://{proxy.host}", "proxy_port": proxy.port} | user
    return options


class SdkSource:
    """`source.hub.Source` on one link of the SDK."""

    def __init__(self, consumer: Any, prefetch: int) -> None:
        from eventconsumer_host.source.columns import to_batch  # loads Arrow, which requests do not need

        self._to_batch = to_batch
        self._consumer = consumer
        self._prefetch = prefetch
        self._messages: list[Any] = []
        self._frames = 1  # how many frames the next read may wait for

    async def open(self) -> None:
        """Connect, authenticate and attach.

        Raises:
            SourceError: See `Hub.open`.
        """
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._consumer._open()
        except _ERRORS as error:
            await self.close()
            raise source_error(error) from error
        self._consumer._handler._message_received_callback = self._take

    async def receive(self, max_events: int, max_wait: float) -> "EventBatch":
        """See `Source`."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + max_wait
        try:
            while not self._messages:
                started = clock()
                await self._read(min(self._frames, max_events))
                quick = self._messages and clock() - started < FAST_READ_SECONDS
                self._frames = min(self._frames * 2, max_events, self._fitting()) if quick else 1
                if clock() >= deadline:
                    break
        except _ERRORS as error:
            raise source_error(error) from error
        taken, self._messages = self._messages[:max_events], self._messages[max_events:]
        batch = self._to_batch(taken)
        if taken and (found := last_enqueued(taken[-1].delivery_annotations)) is not None:
            batch = batch.noting(found)
        return batch

    def hurry(self) -> None:
        """See `Source`. A read of the SDK cannot be ended early, but it is short."""

    async def close(self) -> None:
        """See `Source`. The SDK does not close the socket of a broken connection, so it is closed here."""
        handler = self._consumer._handler
        connection = handler._connection if handler else None
        with contextlib.suppress(*_ERRORS):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._consumer.close()
        if connection is not None:
            transport = connection._transport
            with contextlib.suppress(*_ERRORS):
                if session := getattr(transport, "session", None):  # of a WebSocket
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await session.close()
                elif writer := getattr(transport, "writer", None):
                    writer.close()

    async def abandon(self) -> None:
        """See `Source`. Each link has its own connection."""
        await self.close()

    def _fitting(self) -> int:
        """Number of frames of `READ_BYTES`, from the size of the last read."""
        size = sum(len(part) for message in self._messages for part in message.data or ())
        return max(1, READ_BYTES * self._frames // max(1, size))

    async def _read(self, frames: int) -> None:
        handler = self._consumer._handler
        link = handler._link
        if link is not None and link.state is LinkState.ATTACHED:
            link._received_delivery_tags.clear()
            if link.current_link_credit <= self._prefetch // 2:
                await link.flow(link_credit=self._prefetch)
        if not await handler.do_work_async(batch=frames):
            raise HubUnreachable("the link was closed")

    async def _take(self, message: Any) -> None:
        self._messages.append(message)


def _after(number: int) -> int | str:
    """See `amqp.hub.events_after`."""
    return "-1" if number < 0 else number


async def _unused_callback(*_: Any) -> None:
    """Required by the SDK for its own loop, which is not used."""


def source_error(error: BaseException) -> SourceError:
    """The host's error for an error of the SDK."""
    if isinstance(error, SourceError):
        return error
    text = " ".join(str(error).split()) or type(error).__name__
    refused: BaseException | None = error
    while refused is not None and not isinstance(refused, ClientHttpProxyError):
        refused = refused.__cause__ or refused.__context__
    if refused is not None:
        proxy = refused.request_info.real_url
        return HubUnreachable(proxy_refusal(refused.status, "Event Hubs", f"{proxy.host}:{proxy.port}"))
    if isinstance(error, TimeoutError):
        text = f"no answer within {REQUEST_SECONDS:.0f} s"
    # Of an EventHubError, the context is the error of its AMQP library.
    for cause in (error, error.__context__):
        if isinstance(cause, ClientAuthenticationError | TokenExpired):
            return HubUnauthorized(text)
        status = getattr(cause, "status_code", None)  # of a token that $cbs refuses
        for condition in _conditions(cause):
            found = error_for(condition, text, status if isinstance(status, int) else None)
            if type(found) is not HubUnreachable or cause_of(found):
                return found
    return HubUnreachable(text)


def _conditions(error: object) -> tuple[str, ...]:
    """The possible conditions of an error of the SDK: an EventHubError lacks the part before the first colon."""
    if isinstance(error, EventHubError):
        return (f"amqp:{error.error}", f"com.microsoft:{error.error}")
    condition = getattr(error, "condition", b"")
    return (bytes(condition).decode(errors="replace") if isinstance(condition, bytes) else str(condition),)
