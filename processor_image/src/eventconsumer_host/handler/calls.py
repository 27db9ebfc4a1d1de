"""Calls the methods of one handler instance, one at a time; methods may be `async def` or `def`.

An `async def` method runs on the host's event loop. A `def` method runs in a thread of the instance: it may block, may
use thread-local objects, and does not delay other partitions. A cancelled call is cancelled inside an `async def`; a
thread cannot be cancelled, so the next call waits for it. The thread is a daemon: a method that never returns does not
prevent the end of the process.
"""

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any

from eventconsumer_host.handler.api import Batch, CloseReason, EventProcessor, PartitionContext

SLOW_SECONDS = 60.0
CANCEL_SECONDS = 2.0  # for an `async def` to end after it is cancelled


class Ended(RuntimeError):
    """The handler tried to end the process or cancelled itself: a failure like any other."""


class Calls:
    """The calls to one handler instance."""

    def __init__(self, processor: EventProcessor, name: str, slow: Callable[[str, float], None]) -> None:
        """Wrap an instance.

        Args:
            processor: The instance; `open` and `close` may be missing.
            name: Name of its thread.
            slow: Called every `SLOW_SECONDS` while a method has not returned, with its name and duration in seconds.
        """
        self._processor = processor
        self._name = name
        self._slow = slow
        self._thread: _Thread | None = None

    async def open(self, context: PartitionContext) -> None:
        """Call `open`; raises what it raises."""
        await self._call("open", context)

    async def process_events(self, context: PartitionContext, batch: Batch) -> object:
        """Call `process_events`; returns what it returns, and raises what it raises."""
        return await self._call("process_events", context, batch)

    async def close(self, context: PartitionContext, reason: CloseReason) -> None:
        """Call `close`; raises what it raises."""
        await self._call("close", context, reason)

    def end(self) -> None:
        """End the thread after its last call."""
        if self._thread is not None:
            self._thread.end()

    async def _call(self, name: str, *arguments: object) -> object:
        method = getattr(self._processor, name, None)
        if method is None:  # open and close are optional
            return None
        call = asyncio.create_task(self._run(method, arguments))
        began = asyncio.get_running_loop().time()
        try:
            while not (await asyncio.wait({call}, timeout=SLOW_SECONDS))[0]:
                self._slow(name, asyncio.get_running_loop().time() - began)
        except asyncio.CancelledError:
            call.cancel()
            await asyncio.wait({call}, timeout=CANCEL_SECONDS)
            if call.done() and not call.cancelled():
                call.exception()  # retrieved, because no caller is left
            raise
        if call.cancelled():
            raise Ended(f"{name} cancelled itself")
        return call.result()

    async def _run(self, method: Callable[..., Any], arguments: tuple[object, ...]) -> object:
        try:
            if inspect.iscoroutinefunction(method):
                return await method(*arguments)
            if self._thread is None:
                self._thread = _Thread(self._name)
            result = await self._thread.run(method, arguments)
            return await result if inspect.isawaitable(result) else result  # such as a decorated `async def`
        except SystemExit as error:
            raise Ended(f"it called exit({error.code!r})") from error


class _Thread:
    """Runs functions in a thread, one after another."""

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._loop, name=name, daemon=True).start()

    async def run(self, function: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
        """Run a function after all earlier ones."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: object, error: BaseException | None) -> None:
            if future.done():  # cancelled in the meantime
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def work() -> None:
            result, failure = None, None
            try:
                result = context.run(function, *arguments)
            except Exception as error:
                # A future refuses StopIteration.
                failure = Ended("it raised StopIteration") if isinstance(error, StopIteration) else error
            except BaseException as error:
                failure = Ended(f"it raised {type(error).__name__}")
                failure.__cause__ = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: no task is waiting
                loop.call_soon_threadsafe(settle, result, failure)

        self._work.put(work)
        return await future

    def end(self) -> None:
        """End after the queued functions."""
        self._work.put(None)

    def _loop(self) -> None:
        while (work := self._work.get()) is not None:
            work()
