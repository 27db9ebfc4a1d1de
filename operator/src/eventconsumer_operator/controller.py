"""Worker loop: reconciles queued keys and schedules the next run of each.

A reconcile that fails or hangs delays only its own key: there are many workers, and each reconcile has a time limit.
Events of children do not shorten the backoff of a failing resource; a change of its spec does.
"""

import asyncio
import random
import time

import structlog

from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_operator import metrics
from eventconsumer_operator.errors import Forbidden, OperatorError
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.denials import Denials
from eventconsumer_operator.kube.workqueue import WorkQueue
from eventconsumer_operator.pace import pause_seconds
from eventconsumer_operator.reconcile import Next, Reconciler

_log = structlog.get_logger(__name__)

RECONCILE_SECONDS = 60.0  # time limit of a reconcile
FORBIDDEN_SECONDS = 60.0


class Controller:
    """Workers over one queue."""

    def __init__(self, queue: WorkQueue[Key], reconciler: Reconciler, workers: int) -> None:
        """Create; `run` starts the workers."""
        self._queue = queue
        self._reconciler = reconciler
        self._workers = workers
        self._repeats = LogThrottle()
        self._denials = Denials()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._workers):
                tasks.create_task(self._work(), name=f"worker {number}")

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            began = time.monotonic()
            try:
                result = await self._handle(key)
            finally:
                self._queue.done(key)
            metrics.SECONDS.labels(result).observe(time.monotonic() - began)
            metrics.RECONCILES.labels(result).inc()

    async def _handle(self, key: Key) -> str:
        try:
            async with asyncio.timeout(RECONCILE_SECONDS):
                result = await self._reconciler.reconcile(key)
        except (OperatorError, TimeoutError) as error:
            # At once it may be a start of the API server, see `denials`.
            if isinstance(error, Forbidden) and error in self._denials.weighed(
                key, (error,), asyncio.get_running_loop().time()
            ):
                self._queue.hold(key, FORBIDDEN_SECONDS)
                if times := self._repeats.again(key, str(error)):
                    _about(key).error(
                        "cannot reconcile: the operator lacks a permission", error=str(error), times=times
                    )
                return "forbidden"
            text = str(error) or f"no result within {RECONCILE_SECONDS:g} s"
            pause = round(self._queue.retry(key), 1)
            if times := self._repeats.again(key, text):
                _about(key).warning("reconcile failed; retrying", error=text, seconds=pause, times=times)
            return "failed"
        except Exception as error:
            # A bug that one resource triggers must not stop the others.
            pause = round(self._queue.retry(key), 1)
            if times := self._repeats.again(key, repr(error)):
                _about(key).exception(
                    "reconcile crashed: a bug of the operator; report it with this entry", seconds=pause, times=times
                )
            return "crashed"
        self._denials.forget(key)
        if times := self._repeats.over(key):
            _about(key).info("reconcile succeeds again", failures=times)
        return self._schedule(key, result)

    def _schedule(self, key: Key, result: Next) -> str:
        if result.failed:
            self._queue.retry(key)
            return "failed"
        self._queue.succeeded(key)
        if result.delay is not None:
            share = random.random()  # noqa: S311 - no secret
            self._queue.add(key, pause_seconds(result.delay, share, asyncio.get_running_loop().time()))
        return "looked" if result.looked else "done"


def _about(key: Key) -> structlog.stdlib.BoundLogger:
    log: structlog.stdlib.BoundLogger = _log.bind(namespace=key.namespace, name=key.name)
    return log
