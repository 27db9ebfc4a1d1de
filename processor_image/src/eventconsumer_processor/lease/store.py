"""What a host needs from its leases, whatever the layout of their blobs (`layouts` chooses one).

The order of an acquisition is what keeps epochs and checkpoints safe: take the lease, read what it says *while holding
it*, then write owner and epoch + 1 on the condition that it was not changed in between. The token of the new tenure is
made up before the first request, so that a request repeated after an unknown outcome is the same request.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from eventconsumer_processor.lease.model import Checkpoint, Lease, Listing, Taken
from eventconsumer_storage.errors import Unavailable

ACQUIRE_ATTEMPTS = 2
CONCURRENT_REQUESTS = 8
STORAGE_SECONDS = 60.0  # longest chain of storage calls of a scan
TIDY_SECONDS = 2.0  # for giving back what a failed acquisition took

T = TypeVar("T")
R = TypeVar("R")


class LeaseStore(Protocol):
    """The leases of one consumer group. All methods may raise `StorageError`."""

    @property
    def seconds(self) -> int:
        """Duration of a lease."""

    @property
    def folder(self) -> str:
        """What the names of all blobs start with; the record of the folder stands beside it."""

    async def existing(self) -> Sequence[Lease]:
        """The leases that there are, but for those that cannot be understood; nothing is created."""

    async def list(self, partitions: Iterable[str]) -> Listing:
        """All leases; those of `partitions` that do not exist yet are free.

        Raises:
            NotFound: The container is gone.
        """

    async def read(self, partition: str) -> Lease:
        """One lease as it is now.

        Raises:
            LeaseInvalid: It cannot be understood.
            NotFound: There is none.
        """

    async def acquire(self, seen: Lease, owner: str, *, rebuild: bool = False) -> Taken | None:
        """Take a free lease, or steal one that another host holds.

        Args:
            seen: The lease as listed: leased means steal it.
            owner: The new owner.
            rebuild: Write a lease again that cannot be understood; its checkpoint is then unknown.

        Returns:
            The lease, or None where another host was faster or it cannot be stolen.

        Raises:
            LeaseInvalid: It cannot be understood.
            StorageError: A request failed; what was taken is given back where that is possible.
        """

    async def renew(self, lease: Lease) -> Lease:
        """Go on holding a lease; it may have another etag then.

        Raises:
            LeaseLost: It is not held any more.
        """

    async def advance(self, lease: Lease, checkpoint: Checkpoint) -> Lease:
        """Write a checkpoint; never below one that another program wrote in the meantime.

        Raises:
            LeaseLost: It is not held any more.
            StorageError: The request failed; the outcome may be unknown.
        """

    async def raise_epoch(self, lease: Lease, epoch: int) -> Lease:
        """Write a higher epoch; raises as `advance`."""

    async def release(self, lease: Lease) -> None:
        """Give the partition up.

        Raises:
            LeaseLost: It is not held any more.
            StorageError: A request failed; the lease then runs out by itself.
        """


async def for_each(items: Iterable[T], action: Callable[[T], Awaitable[R]]) -> list[R]:
    """Do something for all items, a few at a time; the results in the order of the items.

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
    """Bound a chain of storage calls.

    Raises:
        Unavailable: It took too long.
    """
    try:
        async with asyncio.timeout(STORAGE_SECONDS):
            yield
    except TimeoutError:
        raise Unavailable(f"{what} took longer than {STORAGE_SECONDS:.0f} s") from None
