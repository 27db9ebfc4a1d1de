"""The partition manager: scan after scan, leases are listed, taken and given up; each lease held is an ownership.

Scans come every sixth of the lease's duration, every four seconds at the latest, since a host that died must not be
missed for long; with jitter, so that hosts do not move in step; at once when the operator
says something new about the fleet, and faster while partitions move. While the operator says again and again that all
hosts are well, and each partition is where it should be, there is little to see, and each look is paid for: then scans
are rare. Rest ends when the operator says anything else, or nothing for some seconds. A scan lists all leases, makes
sure of those this host holds where the listing says otherwise, decides which to take and which to give up, and begins
to (`acquisitions`). Every chain of storage calls is bounded in time, below the two minutes after which a host counts as
stuck.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from eventconsumer_api.conditions import Reason
from eventconsumer_api.host_report import PartitionReport, Problem
from eventconsumer_api.identity import pod_of
from eventconsumer_api.log_throttle import LogThrottle
from eventconsumer_processor import problems
from eventconsumer_processor.errors import SourceError
from eventconsumer_processor.identity.records import others
from eventconsumer_processor.lease.balancer import Decision
from eventconsumer_processor.lease.held import HeldLease
from eventconsumer_processor.lease.model import Lease, Listing, Taken
from eventconsumer_processor.lease.planned_balancer import Balancer, View, ordinal_of
from eventconsumer_processor.lease.store import LeaseStore, bounded, for_each
from eventconsumer_processor.partition.acquisitions import Acquisitions
from eventconsumer_processor.partition.dependencies import PumpDependencies
from eventconsumer_processor.partition.operator_messages import OperatorMessages
from eventconsumer_processor.partition.ownership import PartitionOwnership
from eventconsumer_processor.sink.slots import Chain
from eventconsumer_storage.errors import NotFound, StorageError

RELEASE_SECONDS = 3.0  # of the drain time, kept for giving leases up
FAILED_SCANS = 2  # in a row, before it is a problem
HUB_CHECK_LEASES = 1.0  # partitions may be added: ask the hub every so many durations of a lease
ACQUIRE_WAIT_SECONDS = 2.0  # that a scan waits for acquisitions; slower ones go on
HURRY_SECONDS = 0.25  # between scans while a partition is about to move
SCAN_JITTER = (0.7, 1.0)  # of a pause
SCAN_SECONDS = 4.0  # the longest pause between scans, whatever the duration of a lease
REST_SCANS = 30  # a scan at rest comes after so many of the usual pauses

log = structlog.get_logger(__name__)


def scan_pause(seconds: float) -> float:
    """The longest pause between two scans, seconds, for leases of so many seconds."""
    return min(seconds / 6, SCAN_SECONDS)


@dataclass(frozen=True)
class _Owned:
    ownership: PartitionOwnership
    task: asyncio.Task[None]


class PartitionManager:
    """All partitions of one host."""

    def __init__(
        self,
        deps: PumpDependencies,
        leases: LeaseStore,
        chain: Callable[[str], Chain],
        messages: OperatorMessages | None = None,
    ) -> None:
        self.partition_ids: Sequence[str] = deps.info.partition_ids
        self.listing = Listing({}, {})
        self._deps = deps
        self._leases = leases
        self._chain = chain
        self._messages = messages or OperatorMessages(deps.config.resource.path, None, deps.metrics, deps.clock)
        self._balancer = Balancer(deps.owner, deps.rng, shared=deps.config.leases.shared)
        self._hurry = False
        self._rest = False
        self._rest_allowed = True
        self._owned: dict[str, _Owned] = {}
        self._acquisitions = Acquisitions(deps, leases, self._begin, self._report_damaged)
        self._leases_problem: Problem | None = None  # the leases cannot be listed
        self._damaged: dict[str, Problem] = {}  # by partition: its lease cannot be used
        self._asked = deps.clock()  # when the hub was last asked for its partitions

    @property
    def stands_by(self) -> bool:
        """Whether another host is to lead: the operator says so by the first of the hosts that are ready."""
        fleet, pod = self._messages.current(), pod_of(self._deps.owner)
        if fleet is None or self._messages.late() or pod not in fleet.ready:
            return False
        return ordinal_of(pod) != min((ordinal_of(each) or 0 for each in fleet.ready), default=None)

    def allow_rest(self, allowed: bool) -> None:
        """Allow or forbid rare scans: the leader of a consumer with lag needs the current checkpoints."""
        self._rest_allowed = allowed

    def renewals(self) -> int:
        """How many leases it renews."""
        return len(self._owned)

    def in_doubt(self) -> bool:
        """Whether the chain may be another EventConsumer's, or go on in another segment."""
        met = others([*self.listing.leases.values()], self._deps.config.resource)
        return bool(met) or any(problem.reason == Reason.HUB_DIVERGED for problem in self.problems())

    def reports(self) -> list[PartitionReport]:
        """The partitions owned, by id."""
        return sorted((owned.ownership.report() for owned in self._owned.values()), key=lambda report: report.id)

    def problems(self) -> list[Problem]:
        """Problems of the leases and of all pumps."""
        pumps = [problem for owned in self._owned.values() for problem in owned.ownership.problems()]
        own = [self._leases_problem] if self._leases_problem else []
        return [*own, *self._damaged.values(), *pumps]

    async def run(self, beat: Callable[[], None]) -> None:
        """Scan until cancelled, or until the lease container is gone; `beat` is called after each scan.

        Whoever registers again creates the container, and first of all the record of whose leases are in it.
        """
        failures, throttle = 0, LogThrottle(self._deps.clock)
        while True:
            try:
                await self._scan()
                failures = 0
                self._leases_problem = None
                if times := throttle.over("leases"):
                    log.info("leases can be read again", failures=times)
            except NotFound as error:
                log.warning("the lease container is gone, so this host registers again", error=str(error))
                return
            except StorageError as error:
                failures += 1
                self._rest = False
                if times := throttle.again("leases", str(error)):
                    log.warning("failed to read leases; retrying", error=str(error), times=times)
                if failures >= FAILED_SCANS:
                    self._leases_problem = problems.of(self._deps.config, problems.LEASES, error)
            beat()
            await self._pause(beat)

    async def _pause(self, beat: Callable[[], None]) -> None:
        """Wait for the time of the next scan, or for a reason to look now."""
        pause = HURRY_SECONDS if self._hurry else scan_pause(self._leases.seconds)
        held = {*self._owned}
        for _ in range(REST_SCANS if self._rest else 1):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause * self._deps.rng.uniform(*SCAN_JITTER)):
                    await self._messages.wait_changed()
            beat()
            if self._messages.changed or self._messages.late() or not self._rest_allowed or not self._rest:
                return
            known = self.partition_ids
            await self._find_partitions()
            if self.partition_ids != known or self._owned.keys() != held:
                return

    async def drain(self, seconds: float) -> None:
        """End all tenures: flush, commit, checkpoint, release.

        What is not done after `seconds` is released as it is: its events will be read again.
        """
        until = self._deps.clock() + seconds
        for owned in self._owned.values():
            owned.ownership.stop()
        await self._acquisitions.end()
        for owned in self._owned.values():
            owned.ownership.stop()
        tasks = [owned.task for owned in self._owned.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=max(0.0, until - self._deps.clock() - RELEASE_SECONDS))
            for task in late:
                task.cancel()
            if late:
                log.error("files could not be committed in time; their events will be read again", partitions=len(late))
                await asyncio.wait(late, timeout=RELEASE_SECONDS)

    async def _scan(self) -> None:
        self._messages.acknowledge()
        self._hurry = self._rest = False
        await self._find_partitions()
        tokens = {partition: owned.ownership.token for partition, owned in self._owned.items()}
        async with bounded("listing the leases"):
            self.listing = await self._leases.list(self.partition_ids)
            await self._confirm(tokens)
            rebuild = await self._rebuildable()
        leases = {**self.listing.leases, **rebuild}
        me = self._deps.owner
        mine = self._acquisitions.partitions | self._owned.keys()
        # A lease in this host's name that it does not hold is left from a process before it in this pod: take it back.
        # One that it held when the listing began may have been released meanwhile.
        orphans = [
            lease
            for lease in leases.values()
            if lease.owner == me and lease.leased and lease.partition not in mine | tokens.keys()
        ]
        decision = self._decide(leases, mine)
        wanted = [(lease, "acquired") for lease in orphans]
        wanted += [(leases[name], "taken over" if leases[name].leased else "acquired") for name in decision.acquire]
        if decision.steal is not None and not orphans:
            wanted.append((leases[decision.steal], "stolen"))
            self._deps.metrics.rebalances.inc()
        for lease, how in wanted:
            self._acquisitions.begin(lease, "rebuilt" if lease.partition in rebuild else how)
        for partition in decision.release:
            self._give(partition)
        await self._acquisitions.settle(HURRY_SECONDS if self._hurry else ACQUIRE_WAIT_SECONDS)
        self._deps.metrics.leases.set(len(self._owned))

    def _decide(self, leases: dict[str, Lease], mine: set[str]) -> Decision:
        """What to take and give up; nothing yet while the first word about the fleet is about to come."""
        self._hurry = True
        if self._messages.expected():
            return Decision()
        held = {partition: Lease(partition, self._deps.owner, leased=True) for partition in mine}
        view = View(self._deps.clock(), self.partition_ids, leases | held, mine)
        decision = self._balancer.decide(view, self._messages.current())
        self._hurry = decision.hurry
        self._rest = decision.rest and not self.listing.invalid and self._owned.keys() == mine  # nothing under way
        return decision

    def _give(self, partition: str) -> None:
        """Hand a partition over to the host that waits for it."""
        owned = self._owned.get(partition)
        if owned and not owned.ownership.stopping:
            log.info("handing over", partition=partition)
            self._deps.metrics.rebalances.inc()
            owned.ownership.stop()

    async def _find_partitions(self) -> None:
        now = self._deps.clock()
        fleet = self._messages.current()
        news = fleet is not None and fleet.partitions not in {None, len(self.partition_ids)}
        if news or now - self._asked >= HUB_CHECK_LEASES * self._leases.seconds:
            self._asked = now
            with contextlib.suppress(SourceError):  # pumps say what is wrong with the hub
                found = await self._deps.hub.describe()
                if set(found.partition_ids) > set(self.partition_ids):  # a partition never goes away
                    log.info(
                        "the hub has other partitions", before=len(self.partition_ids), now=len(found.partition_ids)
                    )
                    self.partition_ids = found.partition_ids

    async def _confirm(self, tokens: dict[str, str]) -> None:
        """Make sure of leases that another host holds, by what was listed: its reader may be waiting already."""
        doubted = [
            self._owned[partition].ownership
            for partition, token in tokens.items()
            if partition in self._owned
            and (partition not in self.listing.leases or self.listing.leases[partition].token != token)
        ]
        await for_each(doubted, PartitionOwnership.confirm)

    async def _rebuildable(self) -> dict[str, Lease]:
        """Damaged leases to be rewritten, where the files know how far the partition was read; problems else.

        Without a file of ours the damaged blob may have held the only record of what another program did.
        """
        self._damaged = {}
        found: dict[str, Lease] = {}
        for partition, unusable in self.listing.invalid.items():
            if unusable.rebuild is not None and await self._has_begun(partition):
                found[partition] = unusable.rebuild
            else:
                self._report_damaged(partition, f"{unusable.why}. {unusable.remedy}")
        return found

    async def _has_begun(self, partition: str) -> bool:
        with contextlib.suppress(StorageError):
            return await self._chain(partition).start() is not None
        return False

    def _begin(self, taken: Taken) -> None:
        partition = taken.lease.partition
        held = HeldLease(self._leases, taken, self._deps.clock)
        ownership = PartitionOwnership(self._deps, held, self._chain(partition))
        self._owned[partition] = _Owned(
            ownership, asyncio.create_task(self._hold(partition, ownership), name=partition)
        )

    async def _hold(self, partition: str, ownership: PartitionOwnership) -> None:
        try:
            reason = await ownership.run()
            self._deps.metrics.lease_changes.labels(str(reason)).inc()
        finally:
            self._owned.pop(partition, None)
            self._deps.metrics.leases.set(len(self._owned))

    def _report_damaged(self, partition: str, why: str) -> None:
        self._damaged[partition] = Problem(
            field=f"{problems.LEASES}.container", reason=Reason.LEASE_INVALID, message=f"partition {partition}: {why}"
        )
