"""Measures the lag of a consumer: follows its files in storage, and compares them with the ends of the partitions.

The leading host measures, and the probe while no host runs. A measurement writes nothing, opens no link and acquires no
lease. Its state is derived from storage at the start.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.v1alpha1 import CheckpointPolicy, HandlerMode
from eventconsumer_api.wire.batch import BatchManifest, Totals
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import FleetReport, PartitionLag, Problem
from eventconsumer_api.wire.identity import EventMark, HubSegment
from eventconsumer_api.wire.watermark import WatermarkRecord
from eventconsumer_host import problems
from eventconsumer_host.batch.lag import Era, Heads, Ledger, first_wanted, lag_of
from eventconsumer_host.batch.log import BatchLog, BatchState
from eventconsumer_host.batch.plan import Waiting
from eventconsumer_host.batch.rate_limit import start_of, turn
from eventconsumer_host.batch.report import count
from eventconsumer_host.batch.watermark import MARGIN, Complete, later, not_taken, of_partition, without
from eventconsumer_host.errors import SourceError
from eventconsumer_host.lease.model import Lease, Listing
from eventconsumer_host.partition import marks
from eventconsumer_host.sink.chains import chains_of
from eventconsumer_host.sink.slots import Slot
from eventconsumer_host.source.hub import Hub, HubInfo, PartitionInfo
from eventconsumer_host.table.committer import Segment
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Damaged

# Normally the checkpoint after a file reveals the file. If the checkpoint is written later or fails, one request looks
# for the next file of a partition with lag.
RARE_LOOK_SECONDS = 15.0  # after the time within which a file is written
OFTEN_LOOK_SECONDS = 10.0  # for policies that write checkpoints later than files

log = structlog.get_logger(__name__)


def eras_of(config: HostConfig, info: HubInfo, segments: Sequence[HubSegment], blobs: BlobStore) -> list[Era]:
    """The files of each segment, the newest last; sends no request."""
    return [Era(segment.incarnation, chains_of(config, info, segment, blobs)) for segment in segments]


def segments_of(eras: Sequence[Era]) -> list[Segment]:
    """The segments of a chain as the table needs them."""
    return [Segment(era.incarnation, era.chain) for era in eras]


class Measure:
    """The measurement of one consumer."""

    def __init__(
        self,
        config: HostConfig,
        hub: Hub,
        info: HubInfo,
        *,
        batches: BatchLog,
        eras: Sequence[Era],
        now: Callable[[], datetime],
        saved: Callable[[], Awaitable[WatermarkRecord | None]] | None = None,
        identity: str = "",
    ) -> None:
        """Create a measurement without data.

        Args:
            config: The consumer.
            hub: Its hub.
            info: The properties of the hub at registration.
            batches: Its Spark batches.
            eras: Its files, one for each segment, the newest last.
            now: Wall clock, in UTC.
            saved: Reads the watermark, which has the totals of an earlier leader; None: count all files.
            identity: Identity of the consumer's chain.
        """
        self.identity = identity
        self.state = BatchState()
        self.complete: datetime | None = None  # all events that were enqueued before are in the files of `eras`
        self._config = config
        self._hub = hub
        self._info = info
        self._batches = batches
        self.eras = list(eras)
        self._now = now
        self._throttle = LogThrottle(lambda: now().timestamp())
        self._saved = saved
        self._restored = False
        self._counted: WatermarkRecord | None = None  # files that an earlier leader counted
        self._heads: dict[str, Heads] = {}
        self._listed: tuple[datetime, frozenset[str]] | None = (
            None  # the hub's partitions, and when they were requested
        )
        self._turn = 0  # start index of the next round of requests
        self._looked: dict[str, datetime] = {}  # partition -> time of the last request for its next file
        self._replaced = config.processing.handler is not None and (
            config.processing.handler_mode is HandlerMode.REPLACE
        )
        policy = config.processing.checkpoint.policy
        late = policy in {CheckpointPolicy.EVENTS, CheckpointPolicy.INTERVAL}
        self._look_seconds = OFTEN_LOOK_SECONDS if late else config.roll.max_seconds + RARE_LOOK_SECONDS

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """The chains of the newest segment, by partition."""
        return self.eras[-1].ledgers

    async def follow(self, partitions: Sequence[str], listing: Listing) -> None:
        """Find new files, and the commit records of open batches.

        Args:
            partitions: All partition ids.
            listing: Their leases.

        Raises:
            StorageError: A request failed, or a blob is damaged.
        """
        if not self._restored:
            self.state = await self._batches.restore()
            if self.state.last:
                self._begin_at(self.state.last)
            if self._counts_all and self._saved is not None:
                self._continue_from(await self._saved())
            self._restored = True
        for era in self.eras[:-1]:
            if not era.complete:
                for partition in partitions:
                    await self._open(era, partition)
                era.mark_complete()
        for partition in partitions:
            ledger = self.ledgers.get(partition)
            if ledger is None:
                await self._open(self.eras[-1], partition)
            elif self._is_due(ledger, listing.leases.get(partition)):
                await ledger.follow()
                self._looked[partition] = self._now()
            if ledger is not None and self._is_watched:
                await ledger.seek_end()
        await self.poll()

    async def poll(self) -> None:
        """Look for the commit records of open batches.

        Raises:
            StorageError: A request failed.
        """
        self.state = await self._batches.poll(self.state)

    def froze(self, manifest: BatchManifest) -> None:
        """Record that the next batch was frozen."""
        self.state = self.state.then(manifest)
        for era in self.eras:
            if era.incarnation == manifest.incarnation:
                for partition, ledger in era.ledgers.items():
                    ledger.batched(manifest.next.get(partition, ledger.start))

    def due(self) -> Era | None:
        """The segment of the next batch: the oldest segment with files in no batch; None: no such files."""
        return next((era for era in self.eras if any(ledger.pending for ledger in era.ledgers.values())), None)

    def waiting(self) -> Waiting:
        """The files in no batch; none if batches are not configured."""
        if self._config.batches is None:
            return Waiting()
        ledgers = self._all()
        return Waiting(
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
                    error=str(failed[0]), partitions=len(failed), times=times,
                )  # fmt: skip
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

    def without(self, era: Era, taken: Mapping[str, Sequence[Slot]]) -> datetime | None:
        """All events that were enqueued before are in batches, if the next one takes these files; None: unknown.

        Args:
            era: The segment of the files.
            taken: Files in no batch, the first ones of each partition.
        """
        left = (
            slot
            for each in self.eras
            for slot in not_taken(
                {p: ledger.pending for p, ledger in each.ledgers.items()}, taken if each is era else {}
            )
        )
        return without(self.complete, left)

    def completeness(self) -> Complete | None:
        """What is complete; None: unknown."""
        if self.complete is None:
            return None
        newest = self.eras[-1]
        ends = {partition: ledger.next for partition, ledger in sorted(newest.ledgers.items())}
        found = Complete(self.complete, newest.incarnation, ends)
        if self._counts_all:
            return replace(found, totals=self._totals(), gaps=self._gaps())
        if self._config.batches is None:
            return found
        commits = self.state.watermark
        if not self.state.open:
            commits = later(commits, self.without(newest, {}))
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
        return [ledger for era in self.eras for ledger in era.ledgers.values()]

    def _begin_at(self, last: BatchManifest) -> None:
        """Skip the segments before the last batch: all their files are in batches.

        Raises:
            Damaged: The last batch belongs to no segment.
        """
        names = [era.incarnation for era in self.eras]
        if last.incarnation not in names:
            raise Damaged(
                f"batch manifest {last.number} is of incarnation {last.incarnation}, which no segment of the chain "
                "has: another program wrote it, or this host has not registered with the newest segment yet"
            )
        del self.eras[: names.index(last.incarnation)]

    def _continue_from(self, record: WatermarkRecord | None) -> None:
        """Skip the files that an earlier leader counted, if the record has their totals."""
        names = [era.incarnation for era in self.eras]
        if record is not None and record.totals is not None and record.incarnation in names:
            del self.eras[: names.index(record.incarnation)]
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
        if (opening := self.eras[-1].chain(partition).opening) is not None:
            return opening.start
        if checkpoint is not None:  # another program has read the partition
            return checkpoint
        starting = self._config.starting_position
        return first_wanted(starting.partitions.get(partition, starting), info)

    def report(self, partitions: Sequence[str], listing: Listing) -> FleetReport:
        """The report of the consumer.

        Args:
            partitions: All partition ids.
            listing: Their leases.
        """
        totals = self._totals()
        lags = {partition: self.lag(partition, listing.leases.get(partition)) for partition in partitions}
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
            owners={p: lease.owner for p, lease in sorted(listing.leases.items()) if lease.leased and lease.owner},
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

    async def _open(self, era: Era, partition: str) -> None:
        chain = era.chain(partition)
        start = self._ends(era).get(partition)
        counted = start is not None
        if start is None:
            start = await chain.start()
        if start is None:
            return  # no host has opened the partition yet
        ledger = Ledger(chain, start, start, keep=self._config.batches is not None)
        if not counted:  # possibly many files: one listing instead of a request per file
            async for slot in chain.walk():
                if slot.start == ledger.next:
                    ledger.add(slot)
        else:
            await ledger.follow()
        # The last event of an old file limits the age of the next event only loosely: hours may be between them.
        ledger.forget_last_event_time()
        era.add(ledger)

    def _ends(self, era: Era) -> Mapping[str, int]:
        """Partition -> end of the files of a segment that were counted before this host began."""
        record, last = self._counted, self.state.last
        if record is not None:
            return record.next if record.incarnation == era.incarnation else {}
        return last.next if last and last.incarnation == era.incarnation else {}

    def _gaps(self) -> dict[str, str]:
        """Partition -> its last gap."""
        known = (self._counted.gaps if self._counted else None) or {}
        return {**known, **{ledger.chain.partition: ledger.newest_gap for ledger in self._all() if ledger.newest_gap}}

    def _is_due(self, ledger: Ledger, lease: Lease | None) -> bool:
        """Whether to request the next file of a partition."""
        if self._replaced:
            return False  # the consumer writes no files
        if lease and lease.checkpoint and lease.checkpoint.sequence_number >= ledger.next:
            return True
        partition, now = ledger.chain.partition, self._now()
        heads = self._heads.get(partition)
        info = heads.known(now) if heads else None
        if info is None or info.last < ledger.next:
            self._looked[partition] = now  # no newer events
            return False
        looked = self._looked.setdefault(partition, now)
        return (now - looked).total_seconds() >= self._look_seconds

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
