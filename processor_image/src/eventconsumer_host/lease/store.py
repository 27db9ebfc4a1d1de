"""Operations on leases, independent of the layout of their blobs (`layouts` selects it).

The order of an acquisition keeps epochs and checkpoints safe: acquire the lease, read it *while holding it*, then write
owner and epoch + 1 if it is unchanged. The token of the new ownership is generated before the first request, so that a
repeated request after an unknown outcome is the same request.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from eventconsumer_host.lease.model import Checkpoint, Lease, LeaseListing, Taken
from eventconsumer_storage.errors import Unavailable

ACQUIRE_ATTEMPTS = 2
CONCURRENT_REQUESTS = 8
STORAGE_SECONDS = 60.0  # time limit of the storage calls of a scan
TIDY_SECONDS = 2.0  # time limit for the release after a failed acquisition

T = TypeVar("T")
R = TypeVar("R")


class LeaseStore(Protocol):
    """The leases of one consumer group. All methods may raise `StorageError`."""

    @property
    def seconds(self) -> int:
        """Duration of a lease."""

    @property
    def folder(self) -> str:
        """Prefix of the names of all blobs, or the same in lower case; the record of the folder is beside it."""

    async def spelling(self) -> str:
        """For the record of the folder: see `LeaseRecord.spelling`.

        Raises:
            LeasesAmbiguous: There are blobs under several spellings.
        """

    async def existing(self) -> Sequence[Lease]:
        """Existing leases, without those that cannot be parsed; creates none."""

    async def list(self, partitions: Iterable[str]) -> LeaseListing:
        """All leases; missing ones of `partitions` are free.

        Raises:
            NotFound: The container does not exist.
        """

    async def read(self, partition: str) -> Lease:
        """One lease in its present state.

        Raises:
            LeaseInvalid: It cannot be parsed.
            NotFound: It does not exist.
        """

    async def acquire(self, seen: Lease, owner: str, *, rebuild: bool = False) -> Taken | None:
        """Acquire a free lease, or steal one that another host holds.

        Args:
            seen: The lease as listed: leased means steal it.
            owner: The new owner.
            rebuild: Rewrite a lease that cannot be parsed; its checkpoint is then unknown.

        Returns:
            The lease, or None if another host was first or it cannot be stolen.

        Raises:
            LeaseInvalid: It cannot be parsed.
            StorageError: A request failed; an acquired lease is released if possible.
        """

    async def renew(self, lease: Lease) -> Lease:
        """Renew a lease; its etag may change.

        Raises:
            LeaseLost: It is no longer held.
        """

    async def advance(self, lease: Lease, checkpoint: Checkpoint) -> Lease:
        """Write a checkpoint; never below one that another program wrote meanwhile.

        Raises:
            LeaseLost: It is no longer held.
            StorageError: The request failed; the outcome may be unknown.
        """

    async def raise_epoch(self, lease: Lease, epoch: int) -> Lease:
        """Write a higher epoch; raises as `advance`."""

    async def release(self, lease: Lease) -> None:
        """Release the partition.

        Raises:
            LeaseLost: It is no longer held.
            StorageError: A request failed; the lease then expires by itself.
        """


async def for_each(items: Iterable[T], action: Callable[[T], Awaitable[R]]) -> list[R]:
    """Run an action for all items, a few at a time; results are in the order of the items.

    Raises:
        Exception: The first error, after all actions ended.
    """
    gate = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def one(item: T) -> R:
        async with gate:
            return await action(item)

    results = await asyncio.gather(*map(one, items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


@asynccontextmanager
async def bounded(what: str) -> AsyncIterator[None]:
    """Limit the time of a sequence of storage calls.

    Raises:
        Unavailable: It took too long.
    """
    try:
        async with asyncio.timeout(STORAGE_SECONDS):
            yield
    except TimeoutError:
        raise Unavailable(f"{what} took longer than {STORAGE_SECONDS:.0f} s") from None
