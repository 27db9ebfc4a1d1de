"""The ownership of a partition: while this host holds its lease, with a keeper and one pump after the other.

Normally there is one pump. It ends when it is told to (then everything is committed and the lease released), or when
the lease is lost (then nothing more is written). A pump that lost its link or its slot to somebody while the lease is
still this host's has a rival: something else reads the consumer group, or drains into the same files. The ownership
continues under a higher epoch, but waits for longer and longer, and reports it until a pump was left alone for a while.
"""

import asyncio
import contextlib

import structlog

from eventconsumer_api.host_report import PartitionReport, Problem
from eventconsumer_processor import problems
from eventconsumer_processor.errors import LeaseLost
from eventconsumer_processor.lease.held import HeldLease
from eventconsumer_processor.partition.dependencies import PumpDependencies
from eventconsumer_processor.partition.pump import Pump, PumpEnd
from eventconsumer_processor.sink.slots import Chain
from eventconsumer_storage.errors import StorageError

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
HEALED_SECONDS = 60.0  # a pump that was left alone for so long has no rival
RIVAL_LOSSES = 2  # in a row, before it is a problem

log = structlog.get_logger(__name__)


class PartitionOwnership:
    """One partition while this host holds its lease."""

    def __init__(self, deps: PumpDependencies, held: HeldLease, chain: Chain) -> None:
        self._deps = deps
        self._held = held
        self._chain = chain
        self._stop = asyncio.Event()
        self._pump = Pump(deps, held, chain)
        self._pump_since: float | None = None  # None: no pump runs
        self._losses = 0  # to a rival, in a row
        self._rival = PumpEnd.STOLEN
        self._log = log.bind(partition=chain.partition)

    @property
    def token(self) -> str:
        """Of the lease."""
        return self._held.lease.token

    def report(self) -> PartitionReport:
        """What /status shows."""
        return self._pump.report()

    def problems(self) -> list[Problem]:
        """Problems that a user must fix now."""
        found = self._pump.problems()
        if self._losses >= RIVAL_LOSSES and not self._left_alone():
            group = self._deps.config.event_hub.consumer_group
            found.append(problems.rival(self._chain.partition, group, reader=self._rival is PumpEnd.STOLEN))
        return found

    @property
    def stopping(self) -> bool:
        """Whether it was told to end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End in order: flush, commit, checkpoint, release."""
        self._stop.set()
        self._pump.end()

    async def confirm(self) -> None:
        """Look whether the lease is still this host's; if not, `run` ends at once."""
        with contextlib.suppress(LeaseLost, StorageError):
            await self._held.refresh()

    async def run(self) -> PumpEnd:
        """Hold the partition until stopped or lost; when cancelled, the lease is released without a commit."""
        reason = PumpEnd.LEASE_LOST
        keeping = asyncio.create_task(self._held.keeper.run())
        try:
            reason = await self._pump_on(keeping)
        except asyncio.CancelledError:
            reason = PumpEnd.SHUTDOWN
            raise
        except Exception:
            self._log.exception("the partition is given up, by a fault of the host: report it with this entry")
        finally:
            if reason is not PumpEnd.LEASE_LOST:
                await self._held.release()
            await _end(keeping)
            self._log.info("pump closed", reason=str(reason))
        return reason

    async def _pump_on(self, keeping: asyncio.Task[None]) -> PumpEnd:
        """One pump after the other, until it is stopped or the lease is lost."""
        while True:
            reason = await self._pump_once(keeping)
            if reason not in {PumpEnd.STOLEN, PumpEnd.FENCED}:
                return reason
            await self.confirm()  # usually the lease was taken first, and this host has not heard of it yet
            if self._held.keeper.lost.is_set():
                return PumpEnd.LEASE_LOST
            if not await self._make_way(reason, keeping):
                return PumpEnd.LEASE_LOST if self._held.keeper.lost.is_set() else PumpEnd.SHUTDOWN
            self._pump = Pump(self._deps, self._held, self._chain)

    async def _pump_once(self, keeping: asyncio.Task[None]) -> PumpEnd:
        self._pump_since = self._deps.clock()
        pumping = asyncio.create_task(self._pump.run())
        try:
            await asyncio.wait({keeping, pumping}, return_when=asyncio.FIRST_COMPLETED)
            return pumping.result() if pumping.done() else PumpEnd.LEASE_LOST
        except LeaseLost:
            return PumpEnd.LEASE_LOST
        finally:
            await _end(pumping)

    async def _make_way(self, reason: PumpEnd, keeping: asyncio.Task[None]) -> bool:
        """Pause, then go on under a higher epoch; whether to go on."""
        self._losses = 1 if self._left_alone() else self._losses + 1
        self._rival, self._pump_since = reason, None
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(self._losses - 1, 10))
        self._log.warning(
            "another reader or writer uses this partition: check whether its consumer group is used elsewhere",
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
            except LeaseLost:
                return False
            except StorageError as error:  # never again under an epoch whose link was taken
                self._log.warning("failed to raise the epoch; retrying", error=str(error))
            else:
                return not self._stop.is_set()  # it stopped the pump that was, not the one to come

    async def _pause(self, seconds: float, keeping: asyncio.Task[None]) -> None:
        """Wait; no longer than until the stop, or the end of the lease."""
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait(
            {keeping, stopping},
            timeout=seconds * self._deps.rng.uniform(0.75, 1.25),
            return_when=asyncio.FIRST_COMPLETED,
        )
        await _end(stopping)

    def _left_alone(self) -> bool:
        return self._pump_since is not None and self._deps.clock() - self._pump_since >= HEALED_SECONDS


async def _end(task: asyncio.Task[object]) -> None:
    """Cancel a task and wait for it; its outcome was or will be seen elsewhere."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
