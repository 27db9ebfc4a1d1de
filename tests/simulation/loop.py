"""An event loop on virtual time, shared by hosts that each have a clock of their own and can be stopped.

Time jumps to the next timer. Whose a callback is, is known from its context: tasks that a host starts inherit it. The
callbacks of a paused host are put aside until it is resumed, while its clock and its timers run on: that is what
SIGSTOP does. A host's loop time, and so all its sleeps and time-outs, pass at the rate of its own clock. Executors run
inline, after a moment of virtual time, so there are no threads. Callbacks run in the order in which they became due, so
a run depends on nothing but what was put into it.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

OFFLOAD_SECONDS = 0.01


class Deadlock(Exception):
    """Nothing will ever happen again."""


class Machine:
    """The clock and the tasks of one host; without a name: those of the world around."""

    def __init__(self, name: str, loop: "SimLoop", boot: float = 0.0, rate: float = 1.0) -> None:
        self.name = name
        self.paused = False
        self.parked: deque[asyncio.Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.most_tasks = 200  # then those that ended are dropped
        self._loop = loop
        self._base = loop.now
        self._then = boot
        self._rate = rate
        self.context: Context = copy_context()
        self.context.run(_MACHINE.set, self)

    def time(self) -> float:
        """What its clock says, seconds since it booted."""
        return self._then + (self._loop.now - self._base) * self._rate

    def moment(self, when: float) -> float:
        """The true time at which its clock will say `when`."""
        return self._base + (when - self._then) / self._rate

    def set_rate(self, rate: float) -> None:
        """Let its clock run faster or slower from now on."""
        self._then, self._base, self._rate = self.time(), self._loop.now, rate

    def resume(self) -> None:
        """Run what was put aside."""
        self.paused = False
        self._loop.adopt(self.parked)
        self.parked.clear()


_MACHINE: ContextVar[Machine | None] = ContextVar("machine", default=None)


class SimLoop(asyncio.BaseEventLoop):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.set_task_factory(_own)

    def time(self) -> float:
        """The time on the clock of whoever asks."""
        machine = _MACHINE.get()
        return self.now if machine is None else machine.time()

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at a time on the clock of whoever asks."""
        machine = _MACHINE.get()
        return super().call_at(when if machine is None else machine.moment(when), callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Run now, and answer a moment later."""
        future = self.create_future()
        try:
            result = func(*args)
        except Exception as error:
            failure = error
            self.call_later(OFFLOAD_SECONDS, lambda: future.done() or future.set_exception(failure))
        else:
            self.call_later(OFFLOAD_SECONDS, lambda: future.done() or future.set_result(result))
        return future

    def run_for(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.call_later(seconds, self.stop)
        self.run_forever()

    def adopt(self, handles: deque[asyncio.Handle]) -> None:
        """Make callbacks due."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        if not ready:
            while scheduled and scheduled[0]._cancelled:
                heapq.heappop(scheduled)._scheduled = False
            if not scheduled:
                raise Deadlock
            self.now = max(self.now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self.now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            machine = handle._context.get(_MACHINE)
            if machine is not None and machine.paused:
                machine.parked.append(handle)
            else:
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they come up."""


def _own(loop: asyncio.AbstractEventLoop, coroutine: Any, context: Context | None = None) -> asyncio.Task[Any]:
    """Make a task, and note whose it is."""
    task = asyncio.Task(coroutine, loop=loop, context=context)
    machine = _MACHINE.get() if context is None else context.get(_MACHINE)
    if machine is not None:
        if len(machine.tasks) > machine.most_tasks:
            machine.tasks = [kept for kept in machine.tasks if not kept.done()]
            machine.most_tasks = 200 + 2 * len(machine.tasks)
        machine.tasks.append(task)
    return task
