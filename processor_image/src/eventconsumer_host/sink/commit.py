"""Commits one file to a chain, for any response of the storage service.

A put may be applied although its response was lost, and another writer may be faster. So after each failure the slot is
read: our nonce means that the file is committed; another nonce means that another writer's file is in the slot and must
be adopted; an empty slot means that the put is retried; a seal means that the chain was ended. Retries end only
when the lease is lost or the caller cancels.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from random import Random
from typing import Any

from eventconsumer_host.errors import ChainEnded
from eventconsumer_host.sink.content import Content
from eventconsumer_host.sink.slots import Chain, Draft, Slot
from eventconsumer_storage.errors import Conflict, StorageError

BACKOFF_FIRST = 0.2
BACKOFF_MOST = 5.0
RETRY_AFTER_MOST = 30.0  # the longest Retry-After that is respected


async def commit(
    chain: Chain,
    draft: Draft,
    content: Content | bytes,
    *,
    check: Callable[[], None],
    failed: Callable[[StorageError], None],
    rng: Random,
    turn: Callable[[], AbstractAsyncContextManager[Any]] = nullcontext,
) -> Slot | None:
    """Write a file to its slot; None if it is committed, else another writer's file in the slot.

    Args:
        chain: The partition's chain.
        draft: The file's metadata.
        content: The file's content.
        check: Called before each attempt; raises `LeaseLost` if the lease is lost.
        failed: Called with each failure that is retried.
        rng: For the jitter of retries.
        turn: Returns a context manager that is held during each attempt, but not between attempts.

    Raises:
        LeaseLost: From `check`.
        ChainEnded: The chain was ended at this slot.
    """
    pause = BACKOFF_FIRST
    while True:
        try:
            async with turn():
                check()
                await chain.put(draft, content)
            return None
        except StorageError as error:
            failure = error
        try:
            slot = await chain.at(draft.start)
            if slot is None and isinstance(failure, Conflict) and await chain.is_sealed(draft.start):
                raise ChainEnded(chain.partition)
        except StorageError as error:
            slot, failure = None, error if error.retry_after >= failure.retry_after else failure
        if slot is not None and slot.nonce == draft.nonce:
            return None
        if slot is not None:
            await chain.forsake(draft)
            return slot
        failed(failure)
        await asyncio.sleep(min(failure.retry_after, RETRY_AFTER_MOST) + pause * rng.uniform(0.5, 1.5))
        pause = min(BACKOFF_MOST, pause * 2)
