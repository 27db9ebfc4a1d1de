"""Sockets and timers around the protocol: one task reads, one writes, one checks the clock.

The reader stops reading while the writer is behind, so a client that does not read its responses cannot fill the
memory; the writer takes events from the connection only when the last ones are written.
"""

import asyncio
import contextlib
import logging
import ssl

from .broker import Broker
from .connection import Connection
from .errors import ConnectionFailed
from .websocket import Stream, accept

READ_SIZE = 256 * 1024
WRITE_SIZE = 256 * 1024
MAX_PENDING_FRAMES = 5000
"""Frames that may wait to be written before reading stops."""
TICK_SECONDS = 0.5

log = logging.getLogger(__name__)


class AmqpServer:
    """The AMQP endpoint of a namespace.

    Args:
        broker: the namespace.
        idle_ms: milliseconds without a frame after which a client is disconnected.
        max_connections: maximum number of connected clients.
    """

    def __init__(self, broker: Broker, idle_ms: int = 240_000, max_connections: int = 1000) -> None:
        self._broker = broker
        self._idle_ms = idle_ms
        self._max_connections = max_connections
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_number = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listens.

        Returns:
            The port, chosen by the system if ``port`` is 0.
        """
        self._server = await asyncio.start_server(self._serve, host, port, ssl=tls, limit=READ_SIZE)
        self._tasks.add(asyncio.create_task(self._tick()))
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Closes every connection and stops listening."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._broker.connections.values()):
            connection.drop()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._broker.expire()
            for connection in tuple(self._broker.connections.values()):
                connection.tick()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._last_number += 1
        number, wake, written = self._last_number, asyncio.Event(), asyncio.Event()
        connection = Connection(self._broker, number, wake.set, writer.transport.abort, self._idle_ms)
        if len(self._broker.connections) >= self._max_connections:
            log.warning(
                "connection=%d refused: the maximum of %d connections is reached", number, self._max_connections
            )
            writer.transport.abort()
        self._broker.connections[number] = connection
        writer.transport.set_write_buffer_limits(high=4 * WRITE_SIZE)
        writing: asyncio.Task[None] | None = None
        try:
            stream = await accept(reader, writer, READ_SIZE)
            if stream is not None:
                writing = asyncio.create_task(self._write(connection, stream, writer, wake, written))
                await self._read(connection, stream, wake, written)
        except (ConnectionError, TimeoutError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            connection.end()
            with contextlib.suppress(ConnectionError, TimeoutError, ssl.SSLError, asyncio.CancelledError):
                await (writing or writer.drain())
            del self._broker.connections[number]
            self._tasks.discard(task)
            # Python before 3.11.4: the transport of a TLS connection that has ended has no protocol to abort.
            with contextlib.suppress(AttributeError):
                writer.transport.abort()
            log.info("connection=%d ended", number)

    async def _read(self, connection: Connection, stream: Stream, wake: asyncio.Event, written: asyncio.Event) -> None:
        while not connection.closed and (data := await stream.read()):
            try:
                connection.receive(data)
            except Exception:
                log.exception("connection=%d internal error", connection.number)
                connection.fail(ConnectionFailed("amqp:internal-error", "The emulator failed; its log has the cause."))
            wake.set()
            while len(connection.output) > MAX_PENDING_FRAMES and not connection.closed:
                written.clear()
                await written.wait()

    async def _write(
        self,
        connection: Connection,
        stream: Stream,
        writer: asyncio.StreamWriter,
        wake: asyncio.Event,
        written: asyncio.Event,
    ) -> None:
        try:
            while not connection.closed or connection.output:
                await wake.wait()
                wake.clear()
                while data := connection.take_output(WRITE_SIZE):
                    if self._broker.faults.delay:
                        await asyncio.sleep(self._broker.faults.delay)
                    stream.write(data)
                    await writer.drain()
                    written.set()
            writer.close()
        finally:
            # The reader must not wait for a writer that has ended.
            connection.end()
            written.set()
