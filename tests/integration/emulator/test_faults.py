"""What a client meets when things go wrong, by its own errors and by injected faults; and that it continues."""

import asyncio
import contextlib
import time
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub._pyamqp.error import AMQPLinkError
from azure.eventhub.aio import EventHubConsumerClient as AsyncConsumerClient
from azure.eventhub.exceptions import AuthenticationError, EventHubError

from tests.integration.emulator.sdk import FAST, Hub, Received, attach, count, receive_aio
from tests.support.waiting import HANG_SECONDS

EARLIEST = {"starting_position": "-1"}
NO_RETRY: dict[str, Any] = {"retry_total": 0}


def reader(hub: Hub, **options: Any) -> AsyncConsumerClient:
    return AsyncConsumerClient.from_connection_string(hub.connection_string, "$Default", **{**FAST, **options})


# Who may do what


@pytest.mark.parametrize(
    ("name", "key"), [("RootManageSharedAccessKey", "wrong"), ("nobody", "SAS_KEY_VALUE"), ("reader", "read")]
)
def test_a_bad_key_is_an_authentication_error(hub: Hub, name: str, key: str) -> None:
    text = hub.server.connection_string(hub.name, name, key)
    client = EventHubConsumerClient.from_connection_string(text, "$Default", **NO_RETRY)
    with client, pytest.raises(AuthenticationError, match="401") as caught:
        client.get_partition_ids()
    assert "InvalidSignature" in str(caught.value)


def test_an_unknown_hub_is_status_404_when_the_token_is_put(hub: Hub) -> None:
    text = hub.server.connection_string("nothing")
    producer = EventHubProducerClient.from_connection_string(text, **NO_RETRY)
    with producer, pytest.raises(AuthenticationError, match="404"):
        producer.send_event(EventData("x"))
    consumer = EventHubConsumerClient.from_connection_string(text, "$Default", **NO_RETRY)
    with consumer, pytest.raises(AuthenticationError, match="could not be found"):
        consumer.get_eventhub_properties()


async def test_an_unknown_group_or_partition_is_refused_at_the_link(hub: Hub) -> None:
    with pytest.raises(AMQPLinkError, match="ConsumerGroups/nobody") as caught:
        await attach(hub, group="nobody")
    assert caught.value.condition == b"amqp:not-found"
    with pytest.raises(AMQPLinkError, match="should be between 0 and 1") as caught:
        await attach(hub, partition="7")
    assert caught.value.condition == b"com.microsoft:argument-out-of-range"


def test_rights_are_kept_apart(hub: Hub) -> None:
    listen = hub.server.connection_string(hub.name, "reader", "read+key/=")
    send = hub.server.connection_string(hub.name, "writer", "write:key=")
    with EventHubProducerClient.from_connection_string(send, **NO_RETRY) as client:
        client.send_event(EventData("x"), partition_id="0")
        assert client.get_partition_ids() == ["0", "1"]
    client = EventHubProducerClient.from_connection_string(listen, **NO_RETRY)
    with client, pytest.raises(EventHubError, match="'Send' claim"):
        client.send_event(EventData("x"), partition_id="0")


class Bearer:
    """A credential that gives the same bearer token for ever."""

    async def get_token(self, *scopes: str, **kwargs: Any) -> AccessToken:
        assert scopes
        return AccessToken("header.e30.signature", int(time.time()) + 3600)

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> "Bearer":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


async def test_a_bearer_token_opens_the_hub(hub: Hub) -> None:
    hub.put(2)
    client = AsyncConsumerClient(f"localhost:{hub.server.port}", hub.name, "$Default", Bearer(), use_tls=False)
    assert (await receive_aio(hub, count(2), client=client, **EARLIEST)).bodies == ["0", "1"]


def test_the_namespace_connection_string_takes_the_hub_as_argument(hub: Hub) -> None:
    text = hub.server.connection_string()
    with EventHubConsumerClient.from_connection_string(text, "$Default", eventhub_name=hub.name) as client:
        assert client.get_partition_ids() == ["0", "1"]


# Faults, each while a reader is attached


class Reading:
    """A reader that is attached and has read the first three events."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.received = Received()
        self._task: asyncio.Task[Received] | None = None
        self._wanted = asyncio.Event()
        self._until = 0

    async def __aenter__(self) -> "Reading":
        await asyncio.to_thread(self.hub.put, 3)

        def check(received: Received) -> bool:
            self.received = received
            if len(received.events) >= self._until:
                self._wanted.set()
            return False

        self._task = asyncio.create_task(receive_aio(self.hub, check, timeout=HANG_SECONDS, **EARLIEST))
        await self.events(3)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def events(self, number: int, timeout: float = 15) -> list[int]:
        """Waits for so many events in all; returns their numbers."""
        self._until = number
        self._wanted.clear()
        if len(self.received.events) < number:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), timeout)
        return self.received.numbers


async def test_a_dropped_connection_is_resumed(hub: Hub) -> None:
    async with Reading(hub) as reading:
        assert hub.server.admin.drop_connections() >= 1
        await asyncio.to_thread(hub.put, 2, start=3)
        assert await reading.events(5) == [0, 1, 2, 3, 4]


async def test_a_detached_link_is_resumed(hub: Hub) -> None:
    async with Reading(hub) as reading:
        assert hub.server.admin.detach("com.microsoft:operation-cancelled", "moved", hub=hub.name, partition="0") == 1
        await asyncio.to_thread(hub.put, 2, start=3)
        assert await reading.events(5) == [0, 1, 2, 3, 4]


async def test_expired_tokens_are_renewed_and_nothing_is_lost(hub: Hub) -> None:
    async with Reading(hub) as reading:
        assert hub.server.admin.expire_tokens() >= 1
        await asyncio.to_thread(hub.put, 2, start=3)
        assert await reading.events(5) == [0, 1, 2, 3, 4]


async def test_old_events_come_again_and_numbers_are_left_out(hub: Hub) -> None:
    async with Reading(hub) as reading:
        assert hub.server.admin.redeliver(1, hub=hub.name) == 1
        assert await reading.events(5) == [0, 1, 2, 1, 2]
        hub.server.admin.skip_numbers(hub.name, "0", 10)
        await asyncio.to_thread(hub.put, 1)
        assert await reading.events(6) == [0, 1, 2, 1, 2, 13]


async def test_a_delay_slows_but_loses_nothing(hub: Hub) -> None:
    async with Reading(hub) as reading:
        hub.server.admin.delay(0.1)
        started = time.monotonic()
        await asyncio.to_thread(hub.put, 2, start=3)
        assert await reading.events(5) == [0, 1, 2, 3, 4]
        assert time.monotonic() - started > 0.2


async def test_a_recreated_hub_is_younger_and_refuses_positions_of_the_old_one(hub: Hub) -> None:
    hub.put(5)
    async with reader(hub) as client:
        before = (await client.get_eventhub_properties())["created_at"]
        hub.server.admin.recreate_hub(hub.name)
        assert (await client.get_eventhub_properties())["created_at"] > before
    with pytest.raises(AMQPLinkError, match="The supplied sequence number '4' is invalid") as caught:
        await attach(hub, 4)
    assert caught.value.condition == b"com.microsoft:argument-error"
    hub.put(1)
    assert (await receive_aio(hub, count(1), **EARLIEST)).numbers == [0]


def test_a_busy_hub_is_reported_and_recovers(hub: Hub) -> None:
    hub.server.admin.busy(hub=hub.name, kind="producer")
    with hub.producer(retry_total=0) as producer, pytest.raises(EventHubError, match="server-busy"):
        producer.send_event(EventData("x"))
    hub.server.admin.clear_faults()
    with hub.producer() as producer:
        producer.send_event(EventData("x"))


async def test_a_refused_attach_is_tried_again(hub: Hub) -> None:
    hub.put(1)
    hub.server.admin.refuse("amqp:internal-error", times=1, hub=hub.name)
    assert (await receive_aio(hub, count(1), **EARLIEST)).bodies == ["0"]


def test_a_failing_cbs_is_an_authentication_error(hub: Hub) -> None:
    hub.server.admin.fail_cbs(status=500, description="the token service is down")
    client = EventHubConsumerClient.from_connection_string(hub.connection_string, "$Default", **NO_RETRY)
    with client, pytest.raises(AuthenticationError, match="the token service is down"):
        client.get_partition_ids()
    assert hub.server.admin.counters()["cbs_failed"] > 0


async def test_links_identify_their_readers(hub: Hub) -> None:
    async with Reading(hub):
        found = hub.server.admin.links(hub=hub.name, kind="reader")[0]
        assert (found["partition"], found["group"], found["epoch"], found["position"]) == ("0", "$Default", None, 3)
        assert found["events"] == 3
        assert 0 < found["credit"] <= 300
