"""Leases on their way to this host: taken a few at a time, beside the scans that decided so.

A scan waits for them only a little; a slow one continues, and is not begun again. At the end of the host they are not
cancelled at once: a request that was sent has its effect, and only who has its answer can undo it. What is taken then
is given up by the tenure that it becomes.
"""

import asyncio
from collections.abc import Callable

import structlog

from eventconsumer_processor.errors import LeaseInvalid
from eventconsumer_processor.lease.model import Lease, Taken
from eventconsumer_processor.lease.store import CONCURRENT_REQUESTS, LeaseStore, bounded
from eventconsumer_processor.partition.dependencies import PumpDependencies

END_SECONDS = 3.0  # that the host's end waits for them

log = structlog.get_logger(__name__)


class Acquisitions:
    """Those of one host."""

    def __init__(
        self,
        deps: PumpDependencies,
        leases: LeaseStore,
        taken: Callable[[Taken], None],
        invalid: Callable[[str, str], None],
    ) -> None:
        """None yet.

        Args:
            deps: Whose owner takes them.
            leases: Where they are.
            taken: Told of each that succeeded.
            invalid: Told of a partition whose lease cannot be understood, and why.
        """
        self._deps = deps
        self._leases = leases
        self._taken = taken
        self._invalid = invalid
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(CONCURRENT_REQUESTS)
        self._ended = False

    @property
    def partitions(self) -> set[str]:
        """Whose leases are on their way."""
        return {*self._tasks}

    def begin(self, lease: Lease, how: str) -> None:
        """Take a lease, as listed; `how` is said of it. One that is on its way is let go on."""
        if lease.partition not in self._tasks:
            self._tasks[lease.partition] = asyncio.create_task(self._acquire(lease, how))

    async def settle(self, seconds: float) -> None:
        """Give them a little time.

        Raises:
            StorageError: One failed.
        """
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
        ended = {partition: task for partition, task in self._tasks.items() if task.done()}
        for partition in ended:
            del self._tasks[partition]
        for error in [task.exception() for task in ended.values()]:
            if error is not None:
                raise error

    async def end(self) -> None:
        """Begin no more, and wait for those under way, at most `END_SECONDS`."""
        self._ended = True
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=END_SECONDS)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _acquire(self, lease: Lease, how: str) -> None:
        async with self._gate:
            if self._ended:
                return
            try:
                async with bounded(f"acquiring partition {lease.partition}"):
                    taken = await self._leases.acquire(lease, self._deps.owner, rebuild=how == "rebuilt")
            except LeaseInvalid as error:
                self._invalid(lease.partition, str(error))
                return
        if taken is not None:
            log.info("lease " + how, partition=lease.partition, epoch=taken.lease.epoch, before=lease.owner or None)
            self._deps.metrics.lease_changes.labels(how).inc()
            self._taken(taken)
