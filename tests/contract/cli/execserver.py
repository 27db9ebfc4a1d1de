"""What API server and kubelet do with pods/exec: the channels of its web socket, around a program on this machine."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator

from aiohttp import WSMsgType, web


class ExecServer:
    """Runs the commands that it is asked for, each in a session of its own as container runtimes do.

    Attributes:
        protocol: The subprotocol it speaks: v4.channel.k8s.io or v5.channel.k8s.io.
        url: Where it listens.
        ended: Exit codes of the programs that ended.
        breaks: Whether it closes the connection before it tells the exit code.
        late: Seconds by which stderr comes later than stdout.
    """

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.url = ""
        self.ended: list[int] = []
        self.breaks = False
        self.late = 0.0
        self._loop = asyncio.new_event_loop()

    @contextlib.contextmanager
    def running(self) -> Iterator["ExecServer"]:
        """Serve in a thread."""
        ready, stop = threading.Event(), asyncio.Event()

        async def serve() -> None:
            app = web.Application()
            app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/exec", self._exec)
            runner = web.AppRunner(app, shutdown_timeout=2)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            ready.set()
            await stop.wait()
            await runner.cleanup()
            await asyncio.sleep(0.2)  # transports are closed in the rounds that follow

        thread = threading.Thread(target=self._loop.run_until_complete, args=(serve(),))
        thread.start()
        try:
            assert ready.wait(30)
            yield self
        finally:
            self._loop.call_soon_threadsafe(stop.set)
            thread.join(30)
            self._loop.close()

    async def _exec(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=(self.protocol,))
        await socket.prepare(request)
        with_stdin = request.query.get("stdin", "").lower() == "true"
        process = await asyncio.create_subprocess_exec(
            *request.query.getall("command"),
            stdin=asyncio.subprocess.PIPE if with_stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout and process.stderr
        reading = asyncio.create_task(self._stdin(socket, process))
        await asyncio.gather(self._send(socket, 1, process.stdout), self._send(socket, 2, process.stderr, self.late))
        code = await process.wait()
        self.ended.append(code)
        reading.cancel()
        with contextlib.suppress(ConnectionError):
            if not self.breaks:
                await socket.send_bytes(b"\x03" + json.dumps(_status(code)).encode())
            await socket.close()
        return socket

    @staticmethod
    async def _stdin(socket: web.WebSocketResponse, process: asyncio.subprocess.Process) -> None:
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[:1] == b"\x00" and process.stdin:
                with contextlib.suppress(ConnectionError):  # a program need not read all of it
                    process.stdin.write(message.data[1:])
                    await process.stdin.drain()

    @staticmethod
    async def _send(
        socket: web.WebSocketResponse, channel: int, stream: asyncio.StreamReader, late: float = 0.0
    ) -> None:
        await asyncio.sleep(late)
        while data := await stream.read(32_768):
            with contextlib.suppress(ConnectionError):
                await socket.send_bytes(bytes([channel]) + data)


def _status(code: int) -> dict[str, object]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
