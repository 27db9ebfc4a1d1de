"""Measures the lag of a consumer: counts its files in storage, and compares them with the ends of the partitions.

The leading host measures, and the probe while no host runs. A measurement writes nothing, opens no link and acquires no
lease. Its state is derived from storage at the start. Other tasks read it: `batches` takes the files that are in no
batch, `watermark` what is complete, and `notices` and `retention` wait for the first report.

Tasks run side by side. So what another task computes from more than one value is taken from here at once, without a
pause in between: `complete` never counts a file that `accounts` do not have.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.v1alpha1 import CheckpointPolicy, HandlerMode
from eventconsumer_api.wire.batch import BatchManifest, Totals
from eventconsumer_api.wire.host_report import FleetReport, PartitionLag, Problem
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_api.wire.watermark import WatermarkRecord
from eventconsumer_host import problems
from eventconsumer_host.batch.log import BatchState
from eventconsumer_host.batch.plan import WaitingFiles, later
from eventconsumer_host.batch.report import count
from eventconsumer_host.errors import SourceError
from eventconsumer_host.leader.ledger import Account, Heads, Ledger, first_wanted, lag_of
from eventconsumer_host.leader.rate_limit import start_of, turn
from eventconsumer_host.leader.stage import Stage, view_of
from eventconsumer_host.leader.tail import LookPace
from eventconsumer_host.leader.task import Partitions, Task, View
from eventconsumer_host.leader.watermark import MARGIN, Complete, not_taken, of_partition, without
from eventconsumer_host.lease.model import Lease
from eventconsumer_host.partition import marks
from eventconsumer_host.sink.slots import Slot
from eventconsumer_host.source.hub import HubInfo, PartitionInfo
from eventconsumer_storage.errors import Damaged

# Normally the checkpoint after a file reveals the file. If the checkpoint is written later or fails, one request looks
# for the next file of a partition with lag.
RARE_LOOK_SECONDS = 15.0  # after the time within which a file is written
OFTEN_LOOK_SECONDS = 10.0  # for policies that write checkpoints later than files

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Backlog:
    """The files in no batch at one moment.

    Attributes:
        account: The segment of the next batch: the oldest one with such files.
        pending: Its files, in chain order, by partition.
        others: Those of the other segments.
        complete: All events that were enqueued before are in files; None: unknown.
    """

    account: Account
    pending: Mapping[str, Sequence[Slot]]
    others: Sequence[Mapping[str, Sequence[Slot]]]
    complete: datetime | None

    def without(self, taken: Mapping[str, Sequence[Slot]]) -> datetime | None:
        """All events that were enqueued before are in batches, if the next one takes these files; None: unknown.

        Args:
            taken: The first files of partitions in `pending`.
        """
        left = [*not_taken(self.pending, taken), *(slot for each in self.others for slot in not_taken(each, {}))]
        return without(self.complete, left)


class Measure:
    """The measurement of one consumer."""

    def __init__(
        self,
        stage: Stage,
        *,
        saved: Callable[[], Awaitable[WatermarkRecord | None]] | None = None,
    ) -> None:
        """Create a measurement without data.

        Args:
            stage: The consumer and its files.
            saved: Reads the watermark, which has the totals of an earlier leader; None: count all files.
        """
        config, now, tail = stage.config, stage.now, stage.tail
        self.identity = stage.chain
        self.state = BatchState()
        self.complete: datetime | None = None  # all events that were enqueued before are in files that are counted
        self.fleet: FleetReport | None = None  # of the last round that is reported
        self.restored = False  # whether the batches and the totals of an earlier leader are known
        self._config = config
        self._hub = stage.hub
        self._info = stage.info
        self._batches = stage.batches
        self._tail = tail
        self.accounts = [Account(segment) for segment in tail.segments]  # without segments whose files are in batches
        self._now = now
        self._throttle = LogThrottle(lambda: now().timestamp())
        self._saved = saved
        self._counted: WatermarkRecord | None = None  # files that an earlier leader counted
        self._heads: dict[str, Heads] = {}
        self._listed: tuple[datetime, frozenset[str]] | None = (
            None  # the hub's partitions, and when they were requested
        )
        self._turn = 0  # start index of the next round of requests
        self._replaced = config.processing.handler is not None and (
            config.processing.handler_mode is HandlerMode.REPLACE
        )
        policy = config.processing.checkpoint.policy
        late = policy in {CheckpointPolicy.EVENTS, CheckpointPolicy.INTERVAL}
        self._pace = LookPace(OFTEN_LOOK_SECONDS if late else config.roll.max_seconds + RARE_LOOK_SECONDS)

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """The files of the newest segment, by partition."""
        return self.accounts[-1].ledgers

    async def follow(self, view: View) -> None:
        """Find and count new files.

        Raises:
            StorageError: A request failed, or a blob is damaged.
        """
        if not self.restored:
            state = await self._batches.restore()
            if state.last:
                self._begin_at(state.last)
            self.state = state
            if self._counts_all and self._saved is not None:
                self._continue_from(await self._saved())
            self.restored = True
        for account in self.accounts[:-1]:
            if not account.complete:
                for partition in view.partitions:
                    await self._open(account, partition)
                account.mark_complete()
        if not self._replaced:  # else the consumer writes no files
            await self._tail.follow(view, self._pace)
        for partition in view.partitions:
            ledger = self.ledgers.get(partition)
            if ledger is None:
                await self._open(self.accounts[-1], partition)
                continue
            await ledger.count()
            if self._is_watched:
                await ledger.seek_end()

    async def poll(self) -> None:
        """Look for the commit records of open batches.

        Raises:
            StorageError: A request failed.
        """
        self.state = await self._batches.poll(self.state)

    def froze(self, manifest: BatchManifest) -> None:
        """Record that the next batch was frozen."""
        self.state = self.state.then(manifest)
        for account in self.accounts:
            if account.segment_id == manifest.segment_id:
                for partition, ledger in account.ledgers.items():
                    ledger.batched(manifest.next.get(partition, ledger.start))

    def backlog(self) -> Backlog | None:
        """The files in no batch as they are now; None: no such files."""
        pending = [account.pending for account in self.accounts]
        number = next((number for number, each in enumerate(pending) if each), None)
        if number is None:
            return None
        others = [*pending[:number], *pending[number + 1 :]]
        return Backlog(self.accounts[number], pending[number], others, self.complete)

    def waiting(self) -> WaitingFiles:
        """The files in no batch; none if batches are not configured."""
        if self._config.batches is None:
            return WaitingFiles()
        ledgers = self._all()
        return WaitingFiles(
            files=sum(ledger.files for ledger in ledgers),
            bytes=sum(ledger.bytes for ledger in ledgers),
            oldest=min((ledger.pending[0].committed_at for ledger in ledgers if ledger.pending), default=None),
        )

    async def ask_heads(self, partitions: Sequence[str]) -> None:
        """Request the ends of the partitions of this round (see `rate_limit`).

        After a failed request the previous response stays until it is stale.
        """
        chosen, self._turn = turn(partitions, self._turn)

        async def ask(question: int, partition: str) -> None:
            await asyncio.sleep(start_of(question))
            sent = self._now()
            info = await self._hub.partition(partition)
            self._heads.setdefault(partition, Heads()).see(info, self._now(), sent)
            self._tail.hear(partition, info.last, sent)

        asking = (ask(question, partition) for question, partition in enumerate(chosen, start=1))
        answers = await asyncio.gather(*asking, return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in failed:
            if not isinstance(error, SourceError):
                raise error
        if failed:
            if times := self._throttle.again("heads", str(failed[0])):
                log.warning(
                    "could not read the end offsets of partitions; their lag is unknown",
                    error=str(failed[0]),
                    partitions=len(failed),
                    times=times,
                )
        elif times := self._throttle.over("heads"):
            log.info("end offsets of partitions can be read again", failures=times)

    async def ask_partitions(self) -> HubInfo:
        """Request the partitions that the hub has now.

        Raises:
            SourceError: The hub did not answer.
        """
        sent = self._now()
        info = await self._hub.describe()
        self._listed = (sent, frozenset(info.partition_ids))
        return info

    def advance(self, partitions: Sequence[str]) -> None:
        """Determine `complete` again, from the files and the answers of the hub; see `watermark`.

        Args:
            partitions: All partition ids that hosts know.
        """
        if self._listed is None or not self._is_watched:
            return
        sent, listed = self._listed
        if not listed <= set(partitions):
            return  # hosts do not know a new partition yet; its events are later than `complete`
        times: list[datetime | None] = [sent - MARGIN]  # events of partitions that are added are not older
        for partition in partitions:
            ledger, heads = self.ledgers.get(partition), self._heads.get(partition, Heads())
            times.append(of_partition(ledger, heads.info, heads.sent))
        known = [time for time in times if time is not None]
        if len(known) == len(times):
            self.complete = later(self.complete, min(known))

    def completeness(self) -> Complete | None:
        """What is complete; None: unknown."""
        if self.complete is None:
            return None
        ends = {partition: ledger.next for partition, ledger in sorted(self.ledgers.items())}
        found = Complete(self.complete, self._tail.newest.segment_id, ends)
        if self._counts_all:
            return replace(found, totals=self._totals(), gaps=self._gaps())
        if self._config.batches is None:
            return found
        commits = self.state.watermark
        if not self.state.open:
            backlog = self.backlog()
            commits = later(commits, backlog.without({}) if backlog else self.complete)
        return found if commits is None else replace(found, commits=commits, batch=self.state.committed_number)

    @property
    def _is_watched(self) -> bool:
        """Whether there is a watermark: not without files, and not for a part of the events."""
        return not self._replaced and self._config.replay is None

    @property
    def _counts_all(self) -> bool:
        """Whether the totals are of all files. Batches leave out files that were pruned before the first one."""
        return self._config.batches is None and self.state.last is None

    def _all(self) -> list[Ledger]:
        return [ledger for account in self.accounts for ledger in account.ledgers.values()]

    def _begin_at(self, last: BatchManifest) -> None:
        """Skip the segments before the last batch: all their files are in batches.

        Raises:
            Damaged: The last batch belongs to no segment.
        """
        names = [account.segment_id for account in self.accounts]
        if last.segment_id not in names:
            raise Damaged(
                f"batch manifest {last.number} is of segment {last.segment_id}, which is not in the chain"
                ": another program wrote it, or this host has not registered with the newest segment yet"
            )
        del self.accounts[: names.index(last.segment_id)]

    def _continue_from(self, record: WatermarkRecord | None) -> None:
        """Skip the files that an earlier leader counted, if the record has their totals."""
        names = [account.segment_id for account in self.accounts]
        if record is not None and record.totals is not None and record.segment_id in names:
            del self.accounts[: names.index(record.segment_id)]
            self._counted = record

    def head(self, partition: str) -> int | None:
        """The last sequence number in the hub; None if it is unknown."""
        heads = self._heads.get(partition)
        info = heads.known(self._now()) if heads else None
        return info.last if info else None

    def lag(self, partition: str, lease: Lease | None) -> PartitionLag:
        """The lag of one partition.

        Args:
            partition: Its id.
            lease: Its lease, if there is one.
        """
        now = self._now()
        heads = self._heads.get(partition)
        info = heads.known(now) if heads else None
        if heads is None or info is None:
            return PartitionLag()
        ledger = self.ledgers.get(partition)
        return lag_of(heads, self._reached(partition, lease, info), ledger.last_event_time if ledger else None, now)

    def shorter(self, partition: str, lease: Lease | None) -> Problem | None:
        """The problem of a partition that ends before its files: the hub lost events, or was created again.

        Args:
            partition: Its id.
            lease: Its lease, if there is one.
        """
        heads = self._heads.get(partition)
        info = heads.known(self._now()) if heads else None
        if info is None or info.last + 1 >= (reached := self._reached(partition, lease, info)):
            return None
        ours = EventMark(sequence_number=reached - 1)
        why = f"the Event Hub ends before sequence number {reached - 1}"
        return problems.diverged(partition, ours, marks.end_of(info), why)

    def _reached(self, partition: str, lease: Lease | None, info: PartitionInfo) -> int:
        """Sequence number of the first event that is in no file."""
        checkpoint = lease.checkpoint.sequence_number + 1 if lease and lease.checkpoint else None
        ledger = self.ledgers.get(partition)
        if ledger is not None:
            if checkpoint and (self._replaced or self._config.leases.shared):
                return max(ledger.next, checkpoint)  # processed without a file of this consumer
            return ledger.next
        if (opening := self._tail.newest.follower(partition).chain.opening) is not None:
            return opening.start
        if checkpoint is not None:  # another program has read the partition
            return checkpoint
        starting = self._config.starting_position
        return first_wanted(starting.partitions.get(partition, starting), info)

    def report(self, view: View) -> FleetReport:
        """The report of the consumer, which other tasks complete."""
        totals, partitions, leases = self._totals(), view.partitions, view.leases
        lags = {partition: self.lag(partition, leases.get(partition)) for partition in partitions}
        events = [lag.events for lag in lags.values() if lag.events is not None]
        complete = len(events) == len(lags)
        times = [ledger.last_file_time for ledger in self._all() if ledger.last_file_time]
        heads = [info for each in self._heads.values() if (info := each.info) and info.last >= 0]
        oldest = self.waiting().oldest
        pending_files = pending_bytes = 0
        if self._config.batches is not None:
            pending_files = totals.files - self.state.processed_files
            pending_bytes = totals.bytes - self.state.processed_bytes
        return FleetReport(
            chain=self.identity,
            partition_count=len(partitions),
            hub_namespace=self._info.namespace,
            hub_name=self._info.name,
            hub_created_at=self._info.created_at,
            owners={p: lease.owner for p, lease in sorted(leases.items()) if lease.leased and lease.owner},
            lag_events=sum(events) if complete else None,
            lag_seconds=max((lag.seconds or 0.0 for lag in lags.values()), default=0.0) if complete else None,
            lags=lags,
            last_enqueued_time=max((info.last_enqueued_time for info in heads), default=None) if complete else None,
            files=count(totals.files),
            events=count(totals.events),
            bytes=count(totals.bytes),
            gap_events=count(totals.gap_events),
            gaps=self._gaps(),
            last_file_time=max(times, default=self.state.last.created_at if self.state.last else None),
            pending_files=count(pending_files),
            pending_bytes=count(pending_bytes),
            pending_seconds=round(max(0.0, (self._now() - oldest).total_seconds()), 1) if oldest else 0.0,
            processed_files=count(self.state.processed_files),
            committed_batch=self.state.committed_number,
            committed_reason=self.state.committed_reason,
            last_commit=self.state.commit,
            open_batches=[batch.report for batch in self.state.open],
        )

    async def _open(self, account: Account, partition: str) -> None:
        follower = account.segment.follower(partition)
        start = self._ends(account).get(partition)
        counted = start is not None
        if start is None:
            start = await follower.start()
        if start is None:
            return  # no host has opened the partition yet
        ledger = Ledger(follower, start, start, keep=self._config.batches is not None)
        await ledger.count(look=True, many=not counted)
        # The last event of an old file limits the age of the next event only loosely: hours may be between them.
        ledger.forget_last_event_time()
        account.ledgers[partition] = ledger

    def _ends(self, account: Account) -> Mapping[str, int]:
        """Partition -> end of the files of a segment that were counted before this host began."""
        record, last = self._counted, self.state.last
        if record is not None:
            return record.next if record.segment_id == account.segment_id else {}
        return last.next if last and last.segment_id == account.segment_id else {}

    def _gaps(self) -> dict[str, str]:
        """Partition -> its last gap."""
        known = dict((self._counted.gaps if self._counted else None) or {})
        for account in self.accounts:
            known |= {name: ledger.newest_gap for name, ledger in account.ledgers.items() if ledger.newest_gap}
        return known

    def _totals(self) -> Totals:
        """The totals of all chains: the files that were counted before, and the files after them."""
        base = self.state.last.totals if self.state.last else Totals()
        if self._counted and self._counted.totals:
            base = self._counted.totals
        ledgers = self._all()
        return Totals(
            files=base.files + sum(ledger.files for ledger in ledgers),
            events=base.events + sum(ledger.events for ledger in ledgers),
            bytes=base.bytes + sum(ledger.bytes for ledger in ledgers),
            gap_events=base.gap_events + sum(ledger.gap_events for ledger in ledgers),
        )


class LagTask(Task):
    """Measures the lag, and reports it."""

    name = "measure lag"

    def __init__(self, measure: Measure, partitions: Partitions, since: float) -> None:
        """Create; sends no request.

        Args:
            measure: The measurement.
            partitions: The partitions of this host, which scan the leases.
            since: When this host began to lead, on its clock, seconds.
        """
        self._measure = measure
        self._partitions = partitions
        self._since = since

    async def step(self, view: View) -> None:
        """See `LeaderTask`."""
        measure = self._measure
        # A scan from before this host led may show owners of long ago.
        scanned = await self._partitions.scanned(self._since)
        view = view_of(self._partitions)
        await measure.follow(view)
        with contextlib.suppress(SourceError):  # the pumps report problems of the hub
            await measure.ask_partitions()
        await measure.ask_heads(view.partitions)
        measure.advance(view.partitions)
        if scanned:  # else the owners are not known
            measure.fleet = measure.report(view)
            self._partitions.allow_rest(measure.fleet.lag_events == 0)  # new files are noticed by their checkpoints
