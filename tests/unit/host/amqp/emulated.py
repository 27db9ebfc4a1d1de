"""The emulator inside the test: its own protocol on the clock of the loop, with pipes in memory for sockets."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from eventconsumer_host.amqp import cbs
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.credentials import HubAccess
from eventhubs_emulator.broker import Broker
from eventhubs_emulator.connection import Connection

START = 1_700_000_000  # seconds since 1970 at the loop's time 0
TICK_SECONDS = 5.0
KEY = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"


class Emulated:
    """A namespace for the running loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._loop = asyncio.get_running_loop()
        self.broker = Broker(clock=lambda: int(self.now() * 1000))
        self.connections = 0  # that were ever made
        monkeypatch.setattr(cbs, "time", SimpleNamespace(time=self.now))
        self._loop.create_connection = self._connect  # type: ignore[assignment, method-assign]

    def now(self) -> float:
        """Seconds since 1970."""
        return START + self._loop.time()

    def hub(self, name: str = "orders", credential: str = KEY) -> AmqpHub:
        """A client of a hub."""
        text = f"Endpoint=sb://shop.servicebus.windows.net;{credential};EntityPath={name};UseDevelopmentEmulator=true"
        return AmqpHub(HubAccess("shop.servicebus.windows.net", name, "$Default", text))

    async def _connect(self, make: Callable[[], asyncio.BufferedProtocol], *_: Any, **__: Any) -> None:
        self.connections += 1
        Pipe(self._loop, self.broker, self.connections, make())


class Pipe(asyncio.WriteTransport):
    """One connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, broker: Broker, number: int, wire: asyncio.BufferedProtocol
    ) -> None:
        super().__init__()
        self._loop, self._wire, self._broker = loop, wire, broker
        self._ended = False
        self._server = Connection(broker, number, self._wake, self._end)
        broker.connections[number] = self._server
        wire.connection_made(self)
        self._tick()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """From the client."""
        self._loop.call_soon(self._server.receive, bytes(data))
        self._wake()

    def close(self) -> None:
        """The client ends the connection."""
        self._loop.call_soon(self._end)

    abort = close

    def _wake(self) -> None:
        self._loop.call_soon(self._answer)

    def _tick(self) -> None:
        if not self._ended:
            self._server.tick()
            self._loop.call_later(TICK_SECONDS, self._tick)

    def _answer(self) -> None:
        while not self._ended and (data := self._server.take_output(1 << 18)):
            while data:
                room = self._wire.get_buffer(-1)
                part, data = data[: len(room)], data[len(room) :]
                room[: len(part)] = part
                self._wire.buffer_updated(len(part))
        if self._server.closed:
            self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._server.end()
            self._broker.connections.pop(self._server.number)
            self._wire.connection_lost(None)
