"""The partition manager: scan after scan, leases are listed, taken and given up; each held lease has one pump.

Scans come every sixth of the lease's duration, with jitter so that hosts do not move in step. A pump ends when its
lease is lost (at once, without a commit), when it is told to stop (after flush, commit and checkpoint; the lease is
released then), or when another reader took its link (the lease is released, and taken again under a higher epoch by
whoever is due).
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from eventconsumer_api.conditions import Reason
from eventconsumer_api.host_report import PartitionReport, Problem
from eventconsumer_processor import problems
from eventconsumer_processor.errors import LeaseInvalid, LeaseLost, SourceError, StorageError
from eventconsumer_processor.lease.balance import decide
from eventconsumer_processor.lease.keeper import HeldLease
from eventconsumer_processor.lease.model import Lease
from eventconsumer_processor.lease.store import LeaseStore, Listing
from eventconsumer_processor.pump import CloseReason, Pump
from eventconsumer_processor.sink.slots import Chain
from eventconsumer_processor.work import Work

RELEASE_SECONDS = 3.0  # of the drain time, kept for giving leases up
FAILED_SCANS = 2  # in a row, before it is a problem
HUB_CHECK_SCANS = 6  # partitions may be added: ask the hub every this many scans

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Owned:
    held: HeldLease
    pump: Pump
    task: asyncio.Task[None]


class PartitionManager:
    """All partitions of one host."""

    def __init__(self, work: Work, leases: LeaseStore, chain: Callable[[str], Chain]) -> None:
        self.partition_ids: Sequence[str] = work.info.partition_ids
        self.listing = Listing({}, {})
        self._work = work
        self._leases = leases
        self._chain = chain
        self._owned: dict[str, _Owned] = {}
        self._problems: dict[str, Problem] = {}
        self._scans = 0

    def reports(self) -> list[PartitionReport]:
        """The partitions owned, by id."""
        return sorted((owned.pump.report() for owned in self._owned.values()), key=lambda report: report.id)

    def problems(self) -> list[Problem]:
        """Problems of the leases and of all pumps."""
        pumps = [problem for owned in self._owned.values() for problem in owned.pump.problems.values()]
        return [*self._problems.values(), *pumps]

    async def run(self, beat: Callable[[], None]) -> None:
        """Scan until cancelled; `beat` is called after each scan, failed ones too."""
        failures = 0
        while True:
            try:
                await self._scan()
                failures = 0
                self._problems.pop("leases", None)
            except StorageError as error:
                failures += 1
                log.warning("scan failed", error=str(error), in_a_row=failures)
                if failures >= FAILED_SCANS:
                    self._problems["leases"] = problems.of(self._work.config, problems.LEASES, error)
            beat()
            await asyncio.sleep(self._leases.seconds / 6 * self._work.rng.uniform(0.8, 1.2))

    async def drain(self, seconds: float) -> None:
        """Stop all pumps: flush, commit, checkpoint, release.

        What is not done after `seconds` is left to the leases' expiry: its events will be read again.
        """
        tasks = [owned.task for owned in self._owned.values()]
        for owned in self._owned.values():
            owned.pump.stop.set()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=max(0.0, seconds - RELEASE_SECONDS))
            for task in late:
                task.cancel()
            if late:
                log.error("files could not be committed in time; their events will be read again", partitions=len(late))
                await asyncio.wait(late, timeout=RELEASE_SECONDS)

    async def _scan(self) -> None:
        await self._find_partitions()
        self.listing = await self._leases.list(self.partition_ids)
        self._problems = {key: value for key, value in self._problems.items() if not key.startswith("lease:")}
        for partition, why in self.listing.invalid.items():
            self._problem_lease(partition, why)
        leases = self.listing.leases
        me = self._work.owner
        # A lease in this host's name that it does not hold is left from a process before it in this pod: take it back.
        orphans = [
            lease
            for lease in leases.values()
            if lease.owner == me and lease.leased and lease.partition not in self._owned
        ]
        known = [
            replace(lease, owner=me, leased=True) if lease.partition in self._owned else lease
            for lease in leases.values()
        ]
        decision = decide(me, known, self._work.rng)
        for lease in [*orphans, *(leases[partition] for partition in decision.acquire)]:
            await self._acquire(lease, "acquired")
        if decision.steal is not None and not orphans:
            await self._acquire(leases[decision.steal], "stolen")
        self._work.metrics.leases.set(len(self._owned))

    async def _find_partitions(self) -> None:
        self._scans += 1
        if self._scans % HUB_CHECK_SCANS == 0:
            with contextlib.suppress(SourceError):  # pumps say what is wrong with the hub
                found = await self._work.hub.describe()
                if found.created_at == self._work.info.created_at:
                    self.partition_ids = found.partition_ids

    async def _acquire(self, lease: Lease, how: str) -> None:
        if lease.partition in self._owned:
            return
        try:
            taken = await self._leases.acquire(lease, self._work.owner)
        except LeaseInvalid as error:
            self._problem_lease(lease.partition, str(error))
            return
        if taken is None:
            return
        log.info("lease " + how, partition=lease.partition, epoch=taken.lease.epoch, before=lease.owner or None)
        self._work.metrics.lease_changes.labels(how).inc()
        held = HeldLease(self._leases, taken, self._work.clock)
        pump = Pump(self._work, held, self._chain(lease.partition))
        task = asyncio.create_task(self._pump(held, pump), name=f"partition-{lease.partition}")
        self._owned[lease.partition] = _Owned(held, pump, task)

    async def _pump(self, held: HeldLease, pump: Pump) -> None:
        """Run a pump and its lease's keeper; whatever ends first ends both."""
        reason = CloseReason.LEASE_LOST
        keeping = asyncio.create_task(held.keeper.run())
        pumping = asyncio.create_task(pump.run())
        try:
            await asyncio.wait({keeping, pumping}, return_when=asyncio.FIRST_COMPLETED)
            if pumping.done():
                with contextlib.suppress(LeaseLost):
                    reason = pumping.result()
        except Exception:
            log.exception("pump failed", partition=pump.partition)
        finally:
            await _end(pumping)
            if reason is not CloseReason.LEASE_LOST:
                await held.release()
            await _end(keeping)
            self._owned.pop(pump.partition, None)
            self._work.metrics.leases.set(len(self._owned))
            self._work.metrics.lease_changes.labels(str(reason)).inc()
            log.info("pump closed", partition=pump.partition, reason=str(reason))

    def _problem_lease(self, partition: str, why: str) -> None:
        self._problems[f"lease:{partition}"] = Problem(
            field=f"{problems.LEASES}.container",
            reason=Reason.LEASE_INVALID,
            message=f"partition {partition}: {why}. Delete the blob to have it rebuilt from the drained files",
        )


async def _end(task: asyncio.Task[object]) -> None:
    """Cancel a task and wait for it; its outcome was or will be seen elsewhere."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
