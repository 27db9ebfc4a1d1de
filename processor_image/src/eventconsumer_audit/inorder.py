"""Reads many small blobs, a few at a time, and yields the results in the order of the requests."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
AT_A_TIME = 16


async def in_order(
    read: Callable[[T], Coroutine[Any, Any, R]], items: AsyncIterator[T], at_a_time: int = AT_A_TIME
) -> AsyncGenerator[R, None]:
    """Results in the order of the items; at most `at_a_time` are in memory."""
    pending: list[asyncio.Task[R]] = []
    try:
        async for item in items:
            pending.append(asyncio.create_task(read(item)))
            if len(pending) >= at_a_time:
                yield await pending.pop(0)
        while pending:
            yield await pending.pop(0)
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
