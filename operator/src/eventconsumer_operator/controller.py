"""Turns the queue: takes keys, reconciles them, and decides from the result when each comes again.

A reconcile that fails or hangs costs its own key a delay and nobody else anything. Every resource is also listed
regularly, so that a lost watch event delays work by minutes at most, never for ever.
"""

import asyncio
import logging
import random
import time

from eventconsumer_operator import metrics
from eventconsumer_operator.api import Api
from eventconsumer_operator.errors import Forbidden, OperatorError
from eventconsumer_operator.keys import Key
from eventconsumer_operator.manifest import EVENT_CONSUMER
from eventconsumer_operator.reconcile import Next, Reconciler
from eventconsumer_operator.settings import Settings
from eventconsumer_operator.workqueue import WorkQueue

_log = logging.getLogger(__name__)

RECONCILE_SECONDS = 60.0  # the longest a reconcile may take
FORBIDDEN_SECONDS = 60.0
_RETRY_LIST_SECONDS = 10.0


class Controller:
    """Workers and the regular listing, over one queue."""

    def __init__(self, api: Api, queue: WorkQueue[Key], reconciler: Reconciler, settings: Settings) -> None:
        """Prepare; `run` starts."""
        self._api = api
        self._queue = queue
        self._reconciler = reconciler
        self._settings = settings

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._resync(), name="resync")
            for number in range(self._settings.workers):
                tasks.create_task(self._work(), name=f"worker {number}")

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            began = time.monotonic()
            try:
                result = await self._handle(key)
            finally:
                self._queue.done(key)
                metrics.SECONDS.observe(time.monotonic() - began)
                metrics.QUEUE_LENGTH.set(len(self._queue))
            metrics.RECONCILES.labels(result).inc()

    async def _handle(self, key: Key) -> str:
        try:
            async with asyncio.timeout(RECONCILE_SECONDS):
                result = await self._reconciler.reconcile(key)
        except Forbidden as error:
            _log.error("%s: %s", key, error)
            self._queue.add(key, FORBIDDEN_SECONDS)
            return "forbidden"
        except (OperatorError, TimeoutError) as error:
            text = str(error) or f"not done within {RECONCILE_SECONDS:g} s"
            _log.warning("%s: %s; again in %.1f s", key, text, self._queue.retry(key))
            return "failed"
        except Exception:
            # A bug that one resource brings to light must not stop the others.
            _log.exception("%s: unexpected; again in %.1f s", key, self._queue.retry(key))
            return "crashed"
        return self._schedule(key, result)

    def _schedule(self, key: Key, result: Next) -> str:
        if result.failed:
            self._queue.retry(key)
            return "failed"
        self._queue.succeeded(key)
        if result.delay is not None:
            # Spread, so that a thousand resources that started together do not stay together.
            self._queue.add(key, result.delay * random.uniform(0.9, 1.1))  # noqa: S311
        return "done"

    async def _resync(self) -> None:
        while True:
            delay = self._settings.resync_seconds
            for namespace in self._settings.namespaces:
                try:
                    found = await self._api.list(EVENT_CONSUMER, namespace)
                except OperatorError as error:
                    _log.warning("listing EventConsumers in namespace %s: %s", namespace, error)
                    delay = _RETRY_LIST_SECONDS
                    continue
                for manifest in found:
                    self._queue.add(Key(namespace, manifest["metadata"]["name"]))
            await asyncio.sleep(delay)
