"""Virtual time: a coroutine on a loop whose clock jumps to the next timer."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

import looptime

P = ParamSpec("P")


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a coroutine test run in virtual time: an hour of waiting takes no time."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=1000.0)) as runner:
            runner.run(test(*args, **kwargs))

    return run
