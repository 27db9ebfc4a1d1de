"""/healthz and /metrics.

A process that lives is not an operator that works: a watcher may have died quietly, a worker may hang, lists may fail
for long, or the event loop may be too busy to do anything in time. /healthz fails then, and the kubelet restarts
the operator, which is always safe.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from eventconsumer_operator import metrics
from eventconsumer_operator.controller import RECONCILE_SECONDS
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.resync import Resync
from eventconsumer_operator.kube.workqueue import WorkQueue
from eventconsumer_operator.serving import serve_until_cancelled

# With all workers busy to the time limit of a reconcile, a due key waits this long in a working operator.
_OVERDUE_SECONDS = 3 * RECONCILE_SECONDS
# The watchers start after the CRD and the API server are there; until then waiting for them is what the operator has
# to do.
_START_SECONDS = 300.0
_TICK_SECONDS = 1.0
_LAG_TICKS = 60
# A loop that is this late once a minute serves neither watches nor hosts nor its own lease in time.
_LAG_SECONDS = 10.0


class LoopLag:
    """Measures how late the event loop is: something that blocks it is invisible to everything else on it."""

    def __init__(self) -> None:
        """Start with no lag."""
        self._lags: deque[float] = deque(maxlen=_LAG_TICKS)

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _TICK_SECONDS
            await asyncio.sleep(_TICK_SECONDS)
            self._lags.append(max(0.0, loop.time() - due))

    def worst(self) -> float:
        """The longest lag of the last minute, seconds."""
        return max(self._lags, default=0.0)


class Health:
    """Judges whether the operator works, at what it does at the moment."""

    def __init__(self, lag: LoopLag) -> None:
        """Judge by the event loop alone: an operator that waits for the lead has nothing else to do."""
        self._lag = lag

    def problems(self) -> list[str]:
        """What does not work; empty if all does."""
        return self._lag_problems()

    def measure(self) -> None:
        """Bring the metrics of what is judged here up to date."""
        metrics.LOOP_LAG.set(self._lag.worst())

    def _lag_problems(self) -> list[str]:
        late = self._lag.worst()
        return [f"the event loop was late by {late:.0f} s"] if late > _LAG_SECONDS else []


class WorkHealth(Health):
    """Judges an operator that reconciles."""

    def __init__(
        self, queue: WorkQueue[Key], resync: Resync, lag: LoopLag, dead_watchers: Callable[[], list[str]]
    ) -> None:
        """Judge by the queue, the lists, the event loop, and the names of watchers that do not run."""
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
            found += [f"{name} does not run" for name in dead]
        if self._queue.overdue() > _OVERDUE_SECONDS:
            found.append(f"work queue stalled: the oldest key is overdue by {self._queue.overdue():.0f} s")
        return found + self._lag_problems() + self._resync.problems()

    def measure(self) -> None:
        """See `Health`."""
        super().measure()
        for kind, age in self._resync.ages().items():
            metrics.LISTED.labels(kind.name).set(age)


async def serve(health: Callable[[], Health], port: int) -> None:
    """Serve both paths until cancelled, by what `health` gives at the time.

    Raises:
        PortTaken: Another program listens there.
    """

    async def healthz(_: web.Request) -> web.Response:
        problems = health().problems()
        return web.Response(status=500 if problems else 200, text="\n".join(problems) or "ok")

    async def scrape(_: web.Request) -> web.Response:
        health().measure()
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/metrics", scrape)])
    await serve_until_cancelled(application, port, "--health-port")
