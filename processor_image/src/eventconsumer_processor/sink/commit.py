"""Commits one file to a chain, whatever storage answers.

A put may be applied although its answer was lost, and another writer may be faster. After every answer but success the
slot is looked at: our nonce means that it is committed; another nonce means that another writer's file is the truth, to
be adopted; an empty slot means try again; a seal means that the chain was ended. Nothing here gives up: the lease
does, or the caller cancels.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from random import Random
from typing import Any

from eventconsumer_processor.errors import ChainEnded
from eventconsumer_processor.sink.content import Content
from eventconsumer_processor.sink.slots import Chain, Draft, Slot
from eventconsumer_storage.errors import Conflict, StorageError

BACKOFF_FIRST = 0.2
BACKOFF_MOST = 5.0
RETRY_AFTER_MOST = 30.0  # the longest wait that storage may ask for


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
    """Put a file into its slot; None where it is in there now, else the winner's file.

    Args:
        chain: The partition's chain.
        draft: The file's facts.
        content: What it holds.
        check: Asked before every attempt; raises `LeaseLost` when the lease is gone.
        failed: Told of every failure that will be tried again.
        rng: Spreads retries.
        turn: Makes what is held during each attempt, and not between them.

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
