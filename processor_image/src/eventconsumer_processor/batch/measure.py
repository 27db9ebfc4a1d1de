"""Measures a whole consumer: follows its files in storage, asks the hub for its heads, and says how far apart they are.

The leading host does it, and the probe that looks for events while no host runs. Nothing is written, no link is
opened, no lease taken. Whoever begins derives everything from storage again.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from eventconsumer_api.batch import BatchManifest, Totals
from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.host_report import FleetReport, PartitionLag, Problem
from eventconsumer_api.identity import EventMark, HubSegment
from eventconsumer_api.log_throttle import LogThrottle
from eventconsumer_api.v1alpha1 import CheckpointPolicy, HandlerMode
from eventconsumer_processor import problems
from eventconsumer_processor.batch.batches import BatchLog, BatchState
from eventconsumer_processor.batch.batchplan import Waiting
from eventconsumer_processor.batch.batchreport import batch_report
from eventconsumer_processor.batch.lag import Era, Heads, Ledger, first_wanted, lag_of
from eventconsumer_processor.batch.rate_limit import start_of, turn
from eventconsumer_processor.errors import SourceError
from eventconsumer_processor.lease.model import Lease, Listing
from eventconsumer_processor.partition import marks
from eventconsumer_processor.sink.chains import chains_of
from eventconsumer_processor.source.hub import Hub, HubInfo, PartitionInfo
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Damaged

# Files are normally noticed by the checkpoint behind them. Where that is written later than the files, or failed, one
# request looks for the next file of a partition that is behind.
RARE_LOOK_SECONDS = 15.0  # beyond the time in which a file is made
OFTEN_LOOK_SECONDS = 10.0  # where the rule is that checkpoints come later

log = structlog.get_logger(__name__)


def eras_of(config: HostConfig, info: HubInfo, segments: Sequence[HubSegment], blobs: BlobStore) -> list[Era]:
    """The files of each segment, the newest last; nothing is asked of storage yet."""
    return [Era(segment.incarnation, chains_of(config, info, segment, blobs)) for segment in segments]


class Measure:
    """What is known about one consumer, from when this began to measure."""

    def __init__(
        self,
        config: HostConfig,
        hub: Hub,
        info: HubInfo,
        *,
        batches: BatchLog,
        eras: Sequence[Era],
        now: Callable[[], datetime],
        identity: str = "",
    ) -> None:
        """Know nothing yet.

        Args:
            config: The consumer.
            hub: Its hub.
            info: The hub as it was when the consumer was checked against it.
            batches: Its Spark batches.
            eras: Its files, one for each segment, the newest last.
            now: Wall clock, in UTC.
            identity: Of the consumer's chain.
        """
        self.identity = identity
        self.state = BatchState()
        self._config = config
        self._hub = hub
        self._info = info
        self._batches = batches
        self.eras = list(eras)
        self._now = now
        self._throttle = LogThrottle(lambda: now().timestamp())
        self._restored = False
        self._heads: dict[str, Heads] = {}
        self._turn = 0  # where the next round of questions starts
        self._looked: dict[str, datetime] = {}  # partition -> when its next file was last looked for
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
        """Find the files that are new, and what became of the open batch.

        Args:
            partitions: All partition ids.
            listing: Their leases.

        Raises:
            StorageError: A request failed, or a blob is not what it should be.
        """
        if not self._restored:
            self.state = await self._batches.restore()
            if self.state.last:
                self._begin_at(self.state.last)
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
        await self.poll()

    async def poll(self) -> None:
        """Find out what became of the open batch, if there is one: the files may have been asked for before.

        Raises:
            StorageError: A request failed.
        """
        self.state = await self._batches.poll(self.state)

    def froze(self, manifest: BatchManifest) -> None:
        """Go on from the next batch."""
        self.state = self.state.then(manifest)
        for era in self.eras:
            if era.incarnation == manifest.incarnation:
                for partition, ledger in era.ledgers.items():
                    ledger.batched(manifest.next.get(partition, ledger.start))

    def due(self) -> Era | None:
        """The files that the next batch takes from: of the oldest segment that has files in no batch."""
        return next((era for era in self.eras if any(ledger.pending for ledger in era.ledgers.values())), None)

    def waiting(self) -> Waiting:
        """The files in no batch, where there are batches."""
        if self._config.batches is None:
            return Waiting()
        ledgers = self._all()
        return Waiting(
            files=sum(ledger.files for ledger in ledgers),
            bytes=sum(ledger.bytes for ledger in ledgers),
            oldest=min((ledger.pending[0].committed_at for ledger in ledgers if ledger.pending), default=None),
        )

    async def ask_heads(self, partitions: Sequence[str]) -> None:
        """Ask the hub where partitions end, at the pace of `pace`: all of them, or those whose turn it is.

        What it does not answer stays as it was, and grows stale.
        """
        chosen, self._turn = turn(partitions, self._turn)

        async def ask(question: int, partition: str) -> None:
            await asyncio.sleep(start_of(question))
            info = await self._hub.partition(partition)
            self._heads.setdefault(partition, Heads()).see(info, self._now())

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

    def _all(self) -> list[Ledger]:
        return [ledger for era in self.eras for ledger in era.ledgers.values()]

    def _begin_at(self, last: BatchManifest) -> None:
        """Files of segments before that of the last batch are all in batches.

        Raises:
            Damaged: The last batch is of no segment.
        """
        names = [era.incarnation for era in self.eras]
        if last.incarnation not in names:
            raise Damaged(
                f"batch manifest {last.number} is of incarnation {last.incarnation}, which no segment of the chain "
                "has: something else wrote it, or this host has not registered with the newest segment yet"
            )
        del self.eras[: names.index(last.incarnation)]

    def head(self, partition: str) -> int | None:
        """The hub's last sequence number; None where it did not say lately."""
        heads = self._heads.get(partition)
        info = heads.known(self._now()) if heads else None
        return info.last if info else None

    def lag(self, partition: str, lease: Lease | None) -> PartitionLag:
        """How far one partition is behind.

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
        """The problem of a partition that ends before its files do: the hub lost events, or was created again.

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
                return max(ledger.next, checkpoint)  # processed without a file of ours
            return ledger.next
        if (opening := self.eras[-1].chain(partition).opening) is not None:
            return opening.start
        if checkpoint is not None:  # read by another program before
            return checkpoint
        starting = self._config.starting_position
        return first_wanted(starting.partitions.get(partition, starting), info)

    def report(self, partitions: Sequence[str], listing: Listing) -> FleetReport:
        """Everything measured.

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
        batch, oldest = self.state.open, self.waiting().oldest
        pending_files = pending_bytes = 0
        if self._config.batches is not None:
            pending_files = totals.files - self.state.processed_files
            pending_bytes = totals.bytes - self.state.processed_bytes
        return FleetReport(
            chain=self.identity,
            partition_count=len(partitions),
            hub_created_at=self._info.created_at,
            owners={p: lease.owner for p, lease in sorted(listing.leases.items()) if lease.leased and lease.owner},
            lag_events=sum(events) if complete else None,
            lag_seconds=max((lag.seconds or 0.0 for lag in lags.values()), default=0.0) if complete else None,
            lags=lags,
            last_enqueued_time=max((info.last_enqueued_time for info in heads), default=None) if complete else None,
            files=totals.files,
            events=totals.events,
            bytes=totals.bytes,
            gap_events=totals.gap_events,
            gaps={ledger.chain.partition: ledger.newest_gap for ledger in self._all() if ledger.newest_gap},
            last_file_time=max(times, default=self.state.last.created_at if self.state.last else None),
            pending_files=pending_files,
            pending_bytes=pending_bytes,
            pending_seconds=round(max(0.0, (self._now() - oldest).total_seconds()), 1) if oldest else 0.0,
            processed_files=self.state.processed_files,
            committed_batch=self.state.committed_number,
            committed_reason=self.state.committed_reason,
            last_commit=self.state.commit,
            open_batch=batch and batch_report(batch),
        )

    async def _open(self, era: Era, partition: str) -> None:
        chain, last = era.chain(partition), self.state.last
        start = last.next.get(partition) if last and last.incarnation == era.incarnation else None
        batched = start is not None
        if start is None:
            start = await chain.start()
        if start is None:
            return  # no host has opened the partition yet
        ledger = Ledger(chain, start, start, keep=self._config.batches is not None)
        if not batched:  # perhaps many files: one listing instead of a request for each
            slots = {slot.start: slot for slot in await chain.listed()}
            while slot := slots.get(ledger.next):
                ledger.add(slot)
        else:
            await ledger.follow()
        # When that file's last event came bounds the age of the next one only loosely: hours may lie between them.
        ledger.forget_last_event_time()
        era.add(ledger)

    def _is_due(self, ledger: Ledger, lease: Lease | None) -> bool:
        """Whether to look for a partition's next file."""
        if self._replaced:
            return False  # there are none
        if lease and lease.checkpoint and lease.checkpoint.sequence_number >= ledger.next:
            return True
        partition, now = ledger.chain.partition, self._now()
        heads = self._heads.get(partition)
        info = heads.known(now) if heads else None
        if info is None or info.last < ledger.next:
            self._looked[partition] = now  # nothing to look for
            return False
        looked = self._looked.setdefault(partition, now)
        return (now - looked).total_seconds() >= self._look_seconds

    def _totals(self) -> Totals:
        """Of all chains: the files in a manifest, and those behind it."""
        base = self.state.last.totals if self.state.last else Totals()
        ledgers = self._all()
        return Totals(
            files=base.files + sum(ledger.files for ledger in ledgers),
            events=base.events + sum(ledger.events for ledger in ledgers),
            bytes=base.bytes + sum(ledger.bytes for ledger in ledgers),
            gap_events=base.gap_events + sum(ledger.gap_events for ledger in ledgers),
        )
