"""AMQP over WebSockets in front of the broker, by aiohttp: the WebSocket is of another stack than ours, too.

A message from the broker holds the bytes of one read, so it may hold several AMQP frames, or end within one.
"""

import asyncio
import contextlib

from aiohttp import WSMsgType, web

PATH, SUBPROTOCOL = "/$servicebus/websocket", "AMQPWSB10"
_READ_BYTES = 65_536


async def listen(broker_port: int) -> tuple[web.AppRunner, int]:
    """Serve WebSockets on a free port; each is a connection to the broker."""

    async def relay(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=(SUBPROTOCOL,), max_msg_size=0, compress=False)
        await socket.prepare(request)
        reader, writer = await asyncio.open_connection("127.0.0.1", broker_port)

        async def to_client() -> None:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(_READ_BYTES):
                    await socket.send_bytes(data)
            await socket.close()

        sending = asyncio.create_task(to_client())
        try:
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    writer.write(message.data)
                    await writer.drain()
        except ConnectionError:
            pass  # the broker dropped its connection
        finally:
            writer.close()
            await sending
        return socket

    application = web.Application()
    application.router.add_get(PATH, relay)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, shutdown_timeout=1)
    await site.start()
    return runner, int(runner.addresses[0][1])
