"""Virtual time: a coroutine on a loop whose clock jumps to the next timer."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec
from unittest.mock import patch

import looptime

from eventconsumer_storage.confined.reader import Reader
from tests.support.confined import Here

P = ParamSpec("P")
# The loop's default of 42 idle turns before each jump is for tests with sockets, which answer from outside of it. Here
# nothing does (threads are waited for apart), so that when nothing is ready nothing will be.
_IDLE_TURNS = 0


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a coroutine test run in virtual time: an hour of waiting takes no time."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with (
            patch.object(Reader, "run", Here.run),  # a child process answers from outside
            asyncio.Runner(
                loop_factory=lambda: looptime.new_event_loop(start=1000.0, noop_cycles=_IDLE_TURNS)
            ) as runner,
        ):
            runner.run(test(*args, **kwargs))

    return run
