"""The partition manager: scans the leases, and acquires and releases partitions. Each held lease is an ownership.

A scan lists all leases, verifies the leases of this host where the listing names another owner, decides which leases to
acquire and which to release, and starts the acquisitions (`acquisitions`). Each sequence of storage requests has a time
limit, below the two minutes after which a host counts as stuck.

When scans run:

- normally every sixth of the lease duration, at most every four seconds, so that a dead host is detected soon; with
  jitter, so that hosts do not scan at the same time;
- at once when an operator message changes the fleet, and more often while partitions move;
- rarely at rest: the operator confirms all hosts, and every partition is at its assigned host. Each scan is a paid
  request, so with many hosts each host scans more rarely, except the host that should lead. Rest ends when a message
  changes the fleet, or when messages are late.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import structlog

from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.wire.fleet import HUB_QUIET_SECONDS
from eventconsumer_api.wire.host_report import PartitionReport, Problem
from eventconsumer_api.wire.identity import pod_of
from eventconsumer_host import problems
from eventconsumer_host.errors import HubUnreachable, SourceError
from eventconsumer_host.identity.records import others
from eventconsumer_host.lease.balancer import Decision
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.model import Lease, LeaseListing, Taken
from eventconsumer_host.lease.planned_balancer import Balancer, ScanInput, ordinal_of
from eventconsumer_host.lease.store import LeaseStore, bounded, for_each
from eventconsumer_host.partition.acquisitions import Acquisitions
from eventconsumer_host.partition.dependencies import PumpDependencies
from eventconsumer_host.partition.operator_messages import OperatorMessages
from eventconsumer_host.partition.ownership import PartitionOwnership
from eventconsumer_host.sink.slots import Chain
from eventconsumer_storage.errors import NotFound, StorageError

RELEASE_SECONDS = 3.0  # part of the drain time that is reserved for releasing leases
FAILED_SCANS = 2  # consecutive failures before a problem is reported
HUB_CHECK_LEASES = 1.0  # lease durations between two requests for the hub's partitions, which may be added
ACQUIRE_WAIT_SECONDS = 2.0  # how long a scan waits for acquisitions; slower ones continue in the background
HURRY_SECONDS = 0.25  # between scans while a partition is about to move
LOOK_SECONDS = 0.1  # between two looks whether a scan that was asked for is done
LOOKS = 50
LISTEN_SECONDS = 1.0  # between two looks whether the hub is silent
SILENT = "it delivers no events and answers no queries of this host"
SCAN_JITTER = (0.7, 1.0)  # factor of a pause
SCAN_SECONDS = 4.0  # the longest pause between scans, for any lease duration
REST_SCANS = 35  # pauses between two scans at rest: two minutes with the jitter
FEW_HOSTS = 8  # more hosts make as many regular checks at rest as these, all together

log = structlog.get_logger(__name__)


def scan_pause(seconds: float) -> float:
    """The longest pause between two scans, in seconds, for leases of `seconds`."""
    return min(seconds / 6, SCAN_SECONDS)


def rarity(hosts: int) -> float:
    """Factor of the times between regular checks of a host that stands by, with a number of hosts.

    So the requests of a fleet for its partitions do not grow with its hosts.
    """
    return max(1.0, hosts / FEW_HOSTS)


@dataclass(frozen=True)
class _Owned:
    ownership: PartitionOwnership
    task: asyncio.Task[None]


def _orphans(leases: Mapping[str, Lease], owner: str, held: AbstractSet[str]) -> list[Lease]:
    """Leases that an earlier process of this pod left: they name this host as owner but are not held."""
    return [lease for lease in leases.values() if lease.owner == owner and lease.leased and lease.partition not in held]


def _wanted(leases: Mapping[str, Lease], orphans: Sequence[Lease], decision: Decision) -> list[tuple[Lease, str]]:
    """The leases to acquire, each with the kind of its acquisition for logs and metrics."""
    wanted = [(lease, "acquired") for lease in orphans]
    wanted += [(leases[name], "taken over" if leases[name].leased else "acquired") for name in decision.acquire]
    if decision.steal is not None and not orphans:
        wanted.append((leases[decision.steal], "stolen"))
    return wanted


class PartitionManager:
    """All partitions of one host."""

    def __init__(
        self,
        deps: PumpDependencies,
        leases: LeaseStore,
        chain: Callable[[str], Chain],
        messages: OperatorMessages | None = None,
    ) -> None:
        self._partition_ids: Sequence[str] = deps.info.partition_ids
        self._listing = LeaseListing({}, {})
        self._listed = float("-inf")  # when that listing began
        self._scan_now = asyncio.Event()
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
        self._unheard: SourceError | None = None  # the answer to the last query of a silent hub
        self._leases_problem: Problem | None = None  # the leases cannot be listed, or were lost without a renewal
        self._damaged: dict[str, Problem] = {}  # by partition: its lease cannot be used
        self._asked = deps.clock()  # when the hub was last asked for its partitions

    @property
    def partition_ids(self) -> Sequence[str]:
        """Ids of all partitions of the hub."""
        return self._partition_ids

    @property
    def listing(self) -> LeaseListing:
        """The leases at the last scan."""
        return self._listing

    async def scanned(self, since: float) -> bool:
        """Scan now, unless a scan began after `since`, and wait for it; False if it fails or takes too long.

        Args:
            since: On the host's clock, seconds.
        """
        for _ in range(LOOKS):
            if self._listed >= since:
                return True
            self._scan_now.set()
            await asyncio.sleep(LOOK_SECONDS)
        return False

    @property
    def stands_by(self) -> bool:
        """Whether another host should lead: the ready host with the lowest ordinal leads."""
        fleet, pod = self._messages.current(), pod_of(self._deps.owner)
        if fleet is None or self._messages.late() or pod not in fleet.ready:
            return False
        return ordinal_of(pod) != min((ordinal_of(each) or 0 for each in fleet.ready), default=None)

    @property
    def rarity(self) -> float:
        """Factor of the times between regular checks of this host: above 1 while it stands by, one of many hosts."""
        fleet = self._messages.current()
        return rarity(len(fleet.ready)) if fleet and self.stands_by else 1.0

    def allow_rest(self, allowed: bool) -> None:
        """Allow or forbid rare scans: the leader of a consumer with lag needs the current checkpoints."""
        self._rest_allowed = allowed

    def renewals(self) -> int:
        """Number of leases that this host renews."""
        return len(self._owned)

    def in_doubt(self) -> bool:
        """Whether the chain may belong to another EventConsumer, or continue in another segment."""
        met = others([*self.listing.leases.values()], self._deps.config.resource)
        return bool(met) or any(problem.reason == Reason.HUB_DIVERGED for problem in self.problems())

    def reports(self) -> list[PartitionReport]:
        """Reports of the owned partitions, by id."""
        return sorted((owned.ownership.report() for owned in self._owned.values()), key=lambda report: report.id)

    def problems(self) -> list[Problem]:
        """Problems of the leases and of all owned partitions."""
        pumps = [problem for owned in self._owned.values() for problem in owned.ownership.problems()]
        renewals = (owned.ownership.renewal_problem() for owned in self._owned.values())
        own = [problem for problem in (self._leases_problem, *renewals) if problem]
        if self._deps.heard.silent(self._deps.clock()):
            own.append(problems.hub_problem(self._deps.config.event_hub, self._unheard or HubUnreachable(SILENT)))
        return [*own, *self._damaged.values(), *pumps]

    async def run(self, beat: Callable[[], None]) -> None:
        """Scan until cancelled, or until the lease container is deleted; `beat` is called after each scan.

        The next registration creates the container with the record of its owner.
        """
        failures, throttle = 0, LogThrottle(self._deps.clock)
        while True:
            try:
                await self._scan()
                failures = 0
                self._leases_problem = None
                if times := throttle.over("leases"):
                    log.info("leases can be listed again", failures=times)
            except NotFound as error:
                log.warning("the lease container was deleted; registering again", error=str(error))
                return
            except StorageError as error:
                failures += 1
                self._rest = False
                if times := throttle.again("leases", str(error)):
                    log.warning("failed to list leases; retrying", error=str(error), times=times)
                if failures >= FAILED_SCANS:
                    self._leases_problem = problems.of(self._deps.config, problems.LEASES, error)
            beat()
            await self._pause(beat)

    async def listen(self) -> None:
        """Ask the hub while it is silent, until cancelled."""
        heard, clock = self._deps.heard, self._deps.clock
        while True:
            await asyncio.sleep(LISTEN_SECONDS * self._deps.rng.uniform(*SCAN_JITTER))
            fleet = self._messages.current()
            if heard.ask(clock(), fleet.hosts if fleet else 1):
                self._unheard = None
                try:
                    async with asyncio.timeout(HUB_QUIET_SECONDS):
                        await self._deps.hub.partition(next(iter(self._owned), self.partition_ids[0]))
                    heard.hear(clock())
                except SourceError as error:
                    self._unheard = error
                except TimeoutError:
                    pass

    async def _pause(self, beat: Callable[[], None]) -> None:
        """Wait until the next scan is due, or until a change requires a scan now."""
        pause = HURRY_SECONDS if self._hurry else scan_pause(self._leases.seconds)
        held = {*self._owned}
        for _ in range(round(REST_SCANS * self.rarity) if self._rest else 1):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause * self._deps.rng.uniform(*SCAN_JITTER)):
                    await self._woken()
            beat()
            if (
                self._scan_now.is_set()
                or self._messages.changed
                or self._messages.late()
                or not self._rest_allowed
                or not self._rest
            ):
                return
            known = self.partition_ids
            await self._find_partitions()
            if self.partition_ids != known or self._owned.keys() != held:
                return

    async def _woken(self) -> None:
        """Wait until an operator message or the leader requires a scan now."""
        waits = [asyncio.create_task(each) for each in (self._messages.wait_changed(), self._scan_now.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def drain(self, seconds: float) -> None:
        """End all ownerships: flush, commit, checkpoint, release.

        After `seconds` the remaining leases are released without a commit: their events are read again.
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
                log.error(
                    "the drain time is over before all files were committed; their events are read again",
                    partitions=len(late),
                )
                await asyncio.wait(late, timeout=RELEASE_SECONDS)

    async def _scan(self) -> None:
        self._messages.acknowledge()
        self._hurry = self._rest = False
        await self._find_partitions()
        tokens = {partition: owned.ownership.token for partition, owned in self._owned.items()}
        self._scan_now.clear()
        began = self._deps.clock()
        async with bounded("listing the leases"):
            self._listing = await self._leases.list(self.partition_ids)
            self._listed = began
            await self._confirm(tokens)
            rebuild = await self._rebuildable()
        leases = {**self.listing.leases, **rebuild}
        mine = self._acquisitions.partitions | self._owned.keys()
        # A lease that was held when the listing began may have been released in the meantime.
        orphans = _orphans(leases, self._deps.owner, mine | tokens.keys())
        decision = self._decide(leases, mine)
        self._hurry = decision.hurry
        self._rest = decision.rest and not self.listing.invalid and self._owned.keys() == mine  # none in progress
        for lease, how in _wanted(leases, orphans, decision):
            if how == "stolen":
                self._deps.metrics.rebalances.inc()
            self._acquisitions.begin(lease, "rebuilt" if lease.partition in rebuild else how)
        for partition in decision.release:
            self._hand_over(partition)
        await self._acquisitions.settle(HURRY_SECONDS if self._hurry else ACQUIRE_WAIT_SECONDS)
        self._deps.metrics.leases.set(len(self._owned))

    def _decide(self, leases: Mapping[str, Lease], mine: set[str]) -> Decision:
        """The leases to acquire and release; none while the first operator message is expected."""
        if self._messages.expected():
            return Decision(hurry=True)
        held = {partition: Lease(partition, self._deps.owner, leased=True) for partition in mine}
        view = ScanInput(self._deps.clock(), self.partition_ids, {**leases, **held}, mine)
        return self._balancer.decide(view, self._messages.current())

    def _hand_over(self, partition: str) -> None:
        """Release a partition for the host that it is assigned to."""
        owned = self._owned.get(partition)
        if owned and not owned.ownership.stopping:
            log.info("handing over", partition=partition)
            self._deps.metrics.rebalances.inc()
            owned.ownership.stop()

    async def _find_partitions(self) -> None:
        now = self._deps.clock()
        fleet = self._messages.current()
        added = fleet is not None and fleet.partitions not in {None, len(self.partition_ids)}
        if added or now - self._asked >= HUB_CHECK_LEASES * self._leases.seconds:
            self._asked = now
            with contextlib.suppress(SourceError):  # the pumps report problems of the hub
                found = await self._deps.hub.describe()
                if set(found.partition_ids) > set(self.partition_ids):  # partitions are never removed
                    log.info(
                        "partitions were added to the hub", before=len(self.partition_ids), now=len(found.partition_ids)
                    )
                    self._partition_ids = found.partition_ids

    async def _confirm(self, tokens: dict[str, str]) -> None:
        """Verify the leases that another host holds according to the listing: its reader may wait for the link."""
        doubted = [
            self._owned[partition].ownership
            for partition, token in tokens.items()
            if partition in self._owned
            and (partition not in self.listing.leases or self.listing.leases[partition].token != token)
        ]
        await for_each(doubted, PartitionOwnership.confirm)

    async def _rebuildable(self) -> dict[str, Lease]:
        """Damaged leases that can be rewritten because files show how far the partition was read; problems for others.

        Without files of this consumer, the damaged blob may be the only record of another program's progress.
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
            self._leases_problem = ownership.renewal_problem() or self._leases_problem  # until a scan succeeds
            self._deps.metrics.leases.set(len(self._owned))

    def _report_damaged(self, partition: str, why: str) -> None:
        self._damaged[partition] = Problem(
            field=f"{problems.LEASES}.container", reason=Reason.LEASE_INVALID, message=f"partition {partition}: {why}"
        )
