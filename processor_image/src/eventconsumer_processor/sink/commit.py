"""Commits one file to a chain, whatever storage answers.

A put may be applied although its answer was lost, and another writer may be faster. After every answer but success the
slot is looked at: our nonce means that it is committed; another nonce means that somebody else's file is the truth, to
be adopted; an empty slot means try again. Nothing here gives up: the lease does, or the caller cancels.
"""

import asyncio
from collections.abc import Callable
from random import Random

from eventconsumer_processor.errors import StorageError
from eventconsumer_processor.sink.slots import Chain, Draft, Slot

BACKOFF_FIRST = 0.2
BACKOFF_MOST = 5.0
RETRY_AFTER_MOST = 30.0  # the longest wait that storage may ask for


async def commit(
    chain: Chain,
    draft: Draft,
    data: bytes,
    *,
    check: Callable[[], None],
    failed: Callable[[StorageError], None],
    rng: Random,
) -> Slot | None:
    """Put a file into its slot; None where it is in there now, else the winner's file.

    Args:
        chain: The partition's chain.
        draft: The file's facts.
        data: Its content.
        check: Asked before every attempt; raises `LeaseLost` when the lease is gone.
        failed: Told of every failure that will be tried again.
        rng: Spreads retries.

    Raises:
        LeaseLost: From `check`.
    """
    pause = BACKOFF_FIRST
    while True:
        check()
        try:
            await chain.put(draft, data)
            return None
        except StorageError as error:
            failure = error
        try:
            if slot := await chain.at(draft.start):
                return None if slot.nonce == draft.nonce else slot
        except StorageError as error:
            failure = error if error.retry_after >= failure.retry_after else failure
        failed(failure)
        await asyncio.sleep(min(failure.retry_after, RETRY_AFTER_MOST) + pause * rng.uniform(0.5, 1.5))
        pause = min(BACKOFF_MOST, pause * 2)
