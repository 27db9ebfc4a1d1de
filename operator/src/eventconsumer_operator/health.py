"""/healthz and /metrics.

A process that lives is not an operator that works: a watcher may have died quietly, or a worker may hang. /healthz
fails then, and the kubelet starts the operator anew, which is always safe.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from eventconsumer_operator.controller import RECONCILE_SECONDS
from eventconsumer_operator.keys import Key
from eventconsumer_operator.workqueue import WorkQueue

# With all workers busy to the time limit of a reconcile, a due key waits this long in a working operator.
_OVERDUE_SECONDS = 3 * RECONCILE_SECONDS
# The watchers start after the CRD and the API server are there; until then waiting for them is what the operator has
# to do.
_START_SECONDS = 300.0


class Health:
    """Judges whether the operator works."""

    def __init__(self, queue: WorkQueue[Key], dead_watchers: Callable[[], list[str]]) -> None:
        """Judge by the queue and by the names of watchers that do not run."""
        self._queue = queue
        self._dead_watchers = dead_watchers
        self._started = asyncio.get_running_loop().time()
        self._watched = False

    def problems(self) -> list[str]:
        """What does not work; empty if all does."""
        found = []
        dead = self._dead_watchers()
        self._watched = self._watched or not dead
        starting = asyncio.get_running_loop().time() - self._started < _START_SECONDS
        if dead and (self._watched or not starting):
            found += [f"{name} does not run" for name in dead]
        if self._queue.overdue() > _OVERDUE_SECONDS:
            found.append(f"the queue stands still: a key is late by {self._queue.overdue():.0f} s")
        return found


async def serve(health: Health, port: int) -> None:
    """Serve both paths until cancelled.

    Raises:
        OSError: The port is taken.
    """

    async def healthz(_: web.Request) -> web.Response:
        problems = health.problems()
        return web.Response(status=500 if problems else 200, text="\n".join(problems) or "ok")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/metrics", metrics)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
