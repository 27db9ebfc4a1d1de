"""The ownership of a partition: the time while this host holds the lease, with a keeper and a pump.

Normally an ownership has one pump. The pump ends at a stop (all events are committed and the lease is released) or when
the lease is lost (nothing more is written). If the pump loses its link or its slot while this host holds the lease, the
partition has a rival: another program reads the consumer group, or writes to the same files. The ownership then starts
a new pump with a higher epoch, after a pause that doubles each time. It reports a problem until a pump runs undisturbed
for a minute.
"""

import asyncio
import contextlib

import structlog

from eventconsumer_api.wire.host_report import PartitionReport, Problem
from eventconsumer_host import problems
from eventconsumer_host.errors import LeaseInvalid, LeaseLost
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.partition.dependencies import PumpDependencies
from eventconsumer_host.partition.pump import Pump, PumpEnd
from eventconsumer_host.sink.slots import Chain
from eventconsumer_storage.errors import StorageError

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
HEALED_SECONDS = 60.0  # a pump that runs undisturbed for this long has no rival
RIVAL_LOSSES = 2  # consecutive losses before a problem is reported

log = structlog.get_logger(__name__)


class PartitionOwnership:
    """The ownership of one partition."""

    def __init__(self, deps: PumpDependencies, held: HeldLease, chain: Chain) -> None:
        self._deps = deps
        self._held = held
        self._chain = chain
        self._stop = asyncio.Event()
        self._pump = Pump(deps, held, chain)
        self._pump_since: float | None = None  # None: no pump is running
        self._losses = 0  # consecutive losses to a rival
        self._rival = PumpEnd.STOLEN
        self._taker = ""  # the name of the other reader
        self._log = log.bind(partition=chain.partition)

    @property
    def token(self) -> str:
        """The token of the lease."""
        return self._held.lease.token

    def report(self) -> PartitionReport:
        """The state of the partition for /status."""
        return self._pump.report()

    def problems(self) -> list[Problem]:
        """Problems of the partition that need an action now."""
        found = self._pump.problems()
        if self._losses >= RIVAL_LOSSES and not self._is_undisturbed():
            group = self._deps.config.event_hub.consumer_group
            reader = self._rival is PumpEnd.STOLEN
            found.append(problems.rival(self._chain.partition, group, reader=reader, name=self._taker))
        return found

    def renewal_problem(self) -> Problem | None:
        """The problem of storage because of which the lease cannot be renewed, or could not until it was lost."""
        failure = self._held.keeper.failure
        return problems.of(self._deps.config, problems.LEASES, failure) if failure else None

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Request an orderly end: flush, commit, checkpoint, release."""
        self._stop.set()
        self._pump.end()

    async def confirm(self) -> None:
        """Verify that this host still holds the lease; if not, `run` ends at once."""
        with contextlib.suppress(LeaseLost, StorageError):
            await self._held.refresh()

    async def run(self) -> PumpEnd:
        """Hold the partition until it is stopped or lost; a cancellation releases the lease without a commit."""
        reason = PumpEnd.LEASE_LOST
        keeping = asyncio.create_task(self._held.keeper.run())
        try:
            reason = await self._run_pumps(keeping)
        except asyncio.CancelledError:
            reason = PumpEnd.SHUTDOWN
            raise
        except Exception:
            self._log.exception("internal error: the partition is released; report this log entry as a bug")
        finally:
            if reason is not PumpEnd.LEASE_LOST:
                await self._held.release()
            await _end(keeping)
            self._log.info("pump closed", reason=str(reason))
        return reason

    async def _run_pumps(self, keeping: asyncio.Task[None]) -> PumpEnd:
        """Run pumps, one after another, until the ownership is stopped or the lease is lost."""
        while True:
            reason = await self._run_pump(keeping)
            if reason not in {PumpEnd.STOLEN, PumpEnd.FENCED}:
                return reason
            await self.confirm()  # usually another host took the lease first
            if self._held.keeper.lost.is_set():
                return PumpEnd.LEASE_LOST
            if not await self._retry_with_higher_epoch(reason, keeping):
                return PumpEnd.LEASE_LOST if self._held.keeper.lost.is_set() else PumpEnd.SHUTDOWN
            self._pump = Pump(self._deps, self._held, self._chain)

    async def _run_pump(self, keeping: asyncio.Task[None]) -> PumpEnd:
        self._pump_since = self._deps.clock()
        pumping = asyncio.create_task(self._pump.run())
        try:
            await asyncio.wait({keeping, pumping}, return_when=asyncio.FIRST_COMPLETED)
            return pumping.result() if pumping.done() else PumpEnd.LEASE_LOST
        except LeaseLost:
            return PumpEnd.LEASE_LOST
        finally:
            await _end(pumping)

    async def _retry_with_higher_epoch(self, reason: PumpEnd, keeping: asyncio.Task[None]) -> bool:
        """Pause and raise the epoch; returns whether to start another pump."""
        self._losses = 1 if self._is_undisturbed() else self._losses + 1
        self._rival, self._taker, self._pump_since = reason, self._pump.taker, None
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(self._losses - 1, 10))
        self._log.warning(
            "another reader or writer uses this partition: check whether another program uses the consumer group",
            reason=str(reason),
            in_a_row=self._losses,
            pause=pause,
        )
        self._deps.metrics.lease_changes.labels(str(reason)).inc()
        while True:
            await self._pause(pause, keeping)
            if self._stop.is_set() or self._held.keeper.lost.is_set():
                return False
            try:
                await self._held.raise_epoch(above=self._held.lease.epoch)
            except (LeaseInvalid, LeaseLost):  # LeaseInvalid: there is no higher epoch
                return False
            except StorageError as error:  # a lost epoch must not be used again
                self._log.warning("failed to raise the epoch; retrying", error=str(error))
            else:
                return not self._stop.is_set()  # `stop` reached the previous pump only

    async def _pause(self, seconds: float, keeping: asyncio.Task[None]) -> None:
        """Wait for `seconds`, or until the stop or the loss of the lease."""
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait(
            {keeping, stopping},
            timeout=seconds * self._deps.rng.uniform(0.75, 1.25),
            return_when=asyncio.FIRST_COMPLETED,
        )
        await _end(stopping)

    def _is_undisturbed(self) -> bool:
        return self._pump_since is not None and self._deps.clock() - self._pump_since >= HEALED_SECONDS


async def _end(task: asyncio.Task[object]) -> None:
    """Cancel a task and wait for its end; the caller handles its outcome elsewhere."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
