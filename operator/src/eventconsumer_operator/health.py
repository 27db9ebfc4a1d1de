"""/healthz and /metrics.

A running process may still not work: a watcher has ended, a worker hangs, lists fail for long, or the event loop is
overloaded. Then /healthz fails and the kubelet restarts the operator, which is always safe.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from eventconsumer_api.shared.connections import Fresh
from eventconsumer_operator import metrics
from eventconsumer_operator.controller import RECONCILE_SECONDS
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.resync import Resync
from eventconsumer_operator.kube.workqueue import WorkQueue
from eventconsumer_operator.serving import serve_until_cancelled

# If all workers are busy for the time limit of a reconcile, a due key waits this long in a healthy operator.
_OVERDUE_SECONDS = 3 * RECONCILE_SECONDS
# The watchers start when the CRD and the API server are available; until then the operator waits for them.
_START_SECONDS = 300.0
_TICK_SECONDS = 1.0
_LAG_TICKS = 60
# With such a delay, watches, hosts and the leader lease are not served in time.
_LAG_SECONDS = 10.0


class LoopLag:
    """Measures the delay of the event loop. A blocked loop is invisible to the other tasks on it."""

    def __init__(self) -> None:
        """Start without measurements."""
        self._lags: deque[float] = deque(maxlen=_LAG_TICKS)

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _TICK_SECONDS
            await asyncio.sleep(_TICK_SECONDS)
            self._lags.append(max(0.0, loop.time() - due))

    def worst(self) -> float:
        """The longest delay of the last minute, seconds."""
        return max(self._lags, default=0.0)


class Health:
    """Health of an operator that waits for the leader lease."""

    def __init__(self, lag: LoopLag) -> None:
        """Check only the event loop: nothing else runs yet."""
        self._lag = lag

    def problems(self) -> list[str]:
        """What does not work; empty if healthy."""
        return self._lag_problems()

    def measure(self) -> None:
        """Update the metrics of health."""
        metrics.LOOP_LAG.set(self._lag.worst())

    def _lag_problems(self) -> list[str]:
        late = self._lag.worst()
        return [f"the event loop was late by {late:.0f} s"] if late > _LAG_SECONDS else []


class WorkHealth(Health):
    """Health of an operator that reconciles."""

    def __init__(
        self, queue: WorkQueue[Key], resync: Resync, lag: LoopLag, dead_watchers: Callable[[], list[str]]
    ) -> None:
        """Check the queue, the lists, the event loop and the watchers."""
        super().__init__(lag)
        self._queue = queue
        self._resync = resync
        self._dead_watchers = dead_watchers
        self._started = asyncio.get_running_loop().time()
        self._watched = False

    def problems(self) -> list[str]:
        """See `Health`."""
        found = []
        dead = self._dead_watchers()
        self._watched = self._watched or not dead
        starting = asyncio.get_running_loop().time() - self._started < _START_SECONDS
        if dead and (self._watched or not starting):
            found += [f"{name} is not running" for name in dead]
        if self._queue.overdue() > _OVERDUE_SECONDS:
            found.append(f"work queue stalled: the oldest key is overdue by {self._queue.overdue():.0f} s")
        return found + self._lag_problems() + self._resync.problems()

    def measure(self) -> None:
        """See `Health`."""
        super().measure()
        for kind, age in self._resync.ages().items():
            metrics.LISTED.labels(kind.name).set(age)


async def serve(health: Callable[[], Health], port: int) -> None:
    """Serve both paths until cancelled. `health` returns the current health.

    Raises:
        PortTaken: Another program listens on the port.
    """

    def exposition() -> bytes:
        health().measure()
        return generate_latest()

    fresh = Fresh(exposition)

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=fresh.get(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.add_routes([web.get("/healthz", _healthz(health)), web.get("/metrics", scrape)])
    await serve_until_cancelled(application, port, "--health-port")


async def serve_probes(health: Callable[[], Health], port: int) -> None:
    """Serve /healthz alone until cancelled: other clients, on the other port, take no connection of the kubelet's.

    Raises:
        PortTaken: Another program listens on the port.
    """
    application = web.Application()
    application.add_routes([web.get("/healthz", _healthz(health))])
    await serve_until_cancelled(application, port, "--probe-port")


def _healthz(health: Callable[[], Health]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def healthz(_: web.Request) -> web.Response:
        problems = health().problems()
        return web.Response(status=500 if problems else 200, text="\n".join(problems) or "ok")

    return healthz
