"""The host's HTTP server: /healthz, /status, /metrics, and /fleet for operator messages.

/healthz returns 200 while the host's loops run, even if a problem that a user must fix blocks the host: a restart would
not help. It returns 503 when no loop has run for two minutes, so that the kubelet restarts a stuck process.
"""

import asyncio
import traceback
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from eventconsumer_api.shared.connections import Fresh
from eventconsumer_api.shared.limited_http import LimitedRunner
from eventconsumer_api.wire.fleet import FLEET_MAX_BYTES, FLEET_PATH, FLEET_SIGNATURE_HEADER
from eventconsumer_api.wire.host_report import HostReport
from eventconsumer_host.errors import PortTaken
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.partition.operator_messages import MessageRefused, OperatorMessages

BODY_SECONDS = 5.0  # within which a message must arrive completely
REQUEST_BYTES = 2 * FLEET_MAX_BYTES  # a longer message is refused first, with a cause
STUCK_SECONDS = 120.0  # above the longest scan of a storage account that does not respond


class Heartbeat:
    """The time of the last iteration of the host's loops."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()

    def beat(self) -> None:
        """Record an iteration."""
        self._last = self._clock()

    @property
    def age(self) -> float:
        """Seconds since the last iteration."""
        return self._clock() - self._last


class HealthServer:
    """Serves the endpoints on one port."""

    def __init__(
        self,
        heartbeat: Heartbeat,
        report: Callable[[], HostReport],
        metrics: Metrics,
        messages: OperatorMessages | None = None,
    ) -> None:
        self._heartbeat = heartbeat
        self._report = report
        self._exposed = Fresh(metrics.text)
        app = web.Application(client_max_size=FLEET_MAX_BYTES)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/status", self._status)
        app.router.add_get("/metrics", self._exposition)
        if messages is not None:
            self._messages = messages
            app.router.add_post(FLEET_PATH, self._fleet)
        self._runner = LimitedRunner(app, REQUEST_BYTES)

    async def start(self, port: int) -> int:
        """Listen on all addresses.

        Args:
            port: 0: any free port.

        Returns:
            The port.

        Raises:
            PortTaken: Another program uses the port, or the process may not use it.
        """
        try:
            return await self._runner.listen(port)
        except OSError as error:
            raise PortTaken(error.strerror) from None

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        age = self._heartbeat.age
        if age > STUCK_SECONDS:
            return web.Response(status=503, text=f"no loop has run for {age:.0f} s\n")
        return web.Response(text="ok\n")

    async def _status(self, _: web.Request) -> web.Response:
        return web.json_response(text=self._report().to_json())

    async def _exposition(self, _: web.Request) -> web.Response:
        return web.Response(body=self._exposed.get(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _fleet(self, request: web.Request) -> web.Response:
        """Receive an operator message: 204 if it is accepted, else the cause of the rejection.

        The response is the report if the operator prefers that (RFC 7240), which saves a request.
        """
        try:
            body = await self._body(request)
            self._messages.receive(body, request.headers.get(FLEET_SIGNATURE_HEADER, ""))
        except MessageRefused as error:
            return web.Response(status=error.status, text=f"{error}\n")
        if request.headers.get("Prefer") == "return=representation":
            return await self._status(request)
        return web.Response(status=204)

    async def _body(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            error = MessageRefused(413, "too large", f"the message has more than {FLEET_MAX_BYTES} bytes")
        except ConnectionError as lost:
            traceback.clear_frames(lost.__traceback__)  # the message is in a circle of references
            raise
        except TimeoutError:
            error = MessageRefused(408, "too slow", f"the message did not arrive within {BODY_SECONDS:.0f} s")
        self._messages.count_refused(error)
        raise error
