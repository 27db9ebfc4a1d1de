"""The broker as a process: a JSON object a line on the standard input is a call, and one on the output its answer.

It ends when its standard input does.
"""

import asyncio
import json
import sys
from dataclasses import replace
from typing import Any

from tests.support.peer import gateway, mixed
from tests.support.peer.broker import Broker, Reader
from tests.support.peer.hub import Event, Hub, Partition, Refused


class Calls:
    """What may be called, by name."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def _partition(self, hub: str, partition: str) -> Partition:
        return self._broker.hubs[hub].partitions[partition]

    def _readers(self, hub: str, partition: str) -> list[Reader]:
        found = self._partition(hub, partition)
        return [reader for reader in self._broker.readers() if reader.partition is found]

    def reset(self) -> None:
        """Forget all hubs and options, and lose all connections."""
        self._broker.drop()
        self._broker.hubs.clear()
        self._broker.wire = type(self._broker.wire)()
        self._broker.tokens = 0

    def wire(self, **options: Any) -> None:
        """Set options of connections that are opened from now on."""
        self._broker.wire = replace(self._broker.wire, **options)

    def create(self, hub: str, partitions: int) -> None:
        """Create a hub."""
        self._broker.hubs[hub] = Hub(hub, partitions)

    def recreate(self, hub: str) -> None:
        """Delete a hub with its links, and create it again."""
        former = self._broker.hubs[hub]
        for reader in self._broker.readers():
            if reader.hub == hub:
                reader.client.close_reader(reader, Refused("amqp:resource-deleted", f"'{hub}' was deleted."))
        self._broker.hubs[hub] = Hub(hub, len(former.partitions), former.created_ms)

    def grow(self, hub: str) -> None:
        """Add a partition."""
        self._broker.hubs[hub].grow()

    def produce(self, hub: str, partition: str, sections: list[str], drain: bool = False) -> None:
        """Enqueue events, by the hexadecimal bytes of their sections.

        With `drain`, the events are sent, and then all credit that is left is used up, before anything else is read.
        """
        self._partition(hub, partition).add(Event(bytes.fromhex(text)) for text in sections)
        if drain:
            for reader in self._readers(hub, partition):
                reader.pump()
                reader.drain()
        self._broker.pump()

    def produce_mixed(self, hub: str, partition: str, count: int, start: int = 0) -> None:
        """Enqueue events of all forms."""
        self._partition(hub, partition).add(mixed.events(count, start))
        self._broker.pump()

    def retain_from(self, hub: str, partition: str, number: int) -> None:
        """Remove the events below a number."""
        self._partition(hub, partition).retain_from(number)

    def redeliver(self, hub: str, partition: str, number: int) -> None:
        """Let readers continue from a number."""
        for reader in self._readers(hub, partition):
            reader.next = number
        self._broker.pump()

    def start_early(self, hub: str, partition: str, events: int) -> None:
        """Let new readers start so many numbers before their position."""
        self._partition(hub, partition).early = events

    def freeze(self, hub: str, partition: str) -> None:
        """Send nothing to the present readers any more."""
        for reader in self._readers(hub, partition):
            reader.frozen = True

    def drop(self) -> None:
        """Lose all connections."""
        self._broker.drop()

    def detach_service(self, name: str) -> None:
        """Detach the links of `$cbs` or `$management`."""
        for client in tuple(self._broker.clients):
            client.close_service(name)

    def expire(self) -> None:
        """Let the tokens of all present connections expire."""
        for client in tuple(self._broker.clients):
            client.expire()

    def heads(self, hub: str) -> dict[str, int]:
        """Last sequence numbers, by partition."""
        return {name: partition.last for name, partition in self._broker.hubs[hub].partitions.items()}

    def seen(self) -> dict[str, Any]:
        """Tokens that were put, and the handles of all attaches of each connection, in their order."""
        return {"tokens": self._broker.tokens, "handles": [client.client_handles for client in self._broker.clients]}


async def serve() -> None:
    """Answer calls until the input ends."""
    broker = Broker()
    calls = Calls(broker)
    server, port = await broker.listen()
    sockets, socket_port = await gateway.listen(port)
    print(json.dumps({"port": port, "websocket_port": socket_port}), flush=True)
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 28)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        call = json.loads(line)
        try:
            answer = {"answer": getattr(calls, call.pop("call"))(**call)}
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)
    server.close()
    broker.drop()
    await sockets.cleanup()


asyncio.run(serve())
