"""One hub and the chain that it is drained into: what happens to them, and what must be true of them.

Consumers (`consumer.py`) drain it: mostly one, two where two resources name one chain.
"""

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from functools import partial
from random import Random
from typing import Any

from eventconsumer_api.wire.batch import BatchCommit, attempt_name, commit_name
from eventconsumer_host.sink.slots import Chain
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_host.table.checkpoint_file import encode
from eventconsumer_storage.errors import Conflict
from tests.simulation.checker import SLOT, ChainSeen, Checker
from tests.simulation.history import History
from tests.simulation.receiver import REFUSALS, Receiver
from tests.simulation.tampering import LeaseBlobs, OwnershipBlobs, Tampering, now
from tests.support.fakes.blobs import EPOCH, FakeBlobStore
from tests.support.fakes.hub import FakeHub, FakeSource
from tests.unit.host.chains import tombstone

MOST_PARTITIONS = 6
RETENTIONS = ("interval 0 seconds", "interval 20 seconds", "interval 1 days")  # of old versions of the table


SKEW_SECONDS = 29.0  # of the clocks of brokers and hosts: together less than `watermark.MARGIN`
FAILOVER_MILLISECONDS = 1500  # the shortest failover


class Spark(Enum):
    """Which hosts freeze batches; with `SOMETIMES` some, as while `spec.spark` is added and removed."""

    ALWAYS = "always"
    NEVER = "never"
    SOMETIMES = "sometimes"


class NamedHub(FakeHub):
    """A hub with a name of its own, whose brokers have clocks."""

    def __init__(self, name: str, partitions: int, clock: Callable[[], float]) -> None:
        super().__init__(partitions)
        self.name = name
        self._clock = clock
        self._skews: dict[str, float] = {}  # partition -> seconds by which the clock of its broker is ahead
        self._since: dict[str, int] = {}  # partition -> when its last failover ended, milliseconds since 1970
        self.set_clocks()

    def set_clocks(self) -> None:
        """Give each partition the clock of its broker; again when partitions were added or made again."""
        for name, partition in self.partitions.items():
            partition.clock = partial(self.time, name)

    def time(self, partition: str) -> int:
        """The time of a partition's broker, milliseconds since 1970."""
        seconds = EPOCH.timestamp() + self._clock() + self._skews.get(partition, 0.0)
        return max(int(seconds * 1000), self._since.get(partition, 0))

    def move(self, partition: str, skew: float) -> None:
        """Another broker takes a partition over; its clock is so many seconds ahead."""
        self._skews[partition] = skew

    def fails_over(self, partition: str) -> None:
        """The partition has lost events; new ones come after the failover."""
        lost = self.partitions[partition].times.values()
        self._since[partition] = max(lost, default=0) + FAILOVER_MILLISECONDS

    async def describe(self) -> HubInfo:
        """See `Hub`."""
        return replace(await super().describe(), name=self.name)


class Stream:
    """See the module."""

    def __init__(
        self,
        name: str,
        prefix: str,
        partitions: int,
        leases: FakeBlobStore,
        sink: FakeBlobStore,
        *,
        layout: str,
        clock: Callable[[], float],
    ) -> None:
        """Begin without events.

        Args:
            name: The hub's.
            prefix: Folder of the files.
            partitions: How many the hub has.
            leases: Container of the leases.
            sink: Container of the files.
            layout: Of the leases.
            clock: True time, in seconds.
        """
        self.name, self.prefix, self.layout = name, prefix, layout
        self.hub = NamedHub(name, partitions, clock)
        self.history = History(name)
        self.checker = Checker(self.history)
        self.compacted: set[str] = set()  # partitions whose holes are believed
        self.rivals: list[FakeSource] = []
        self._leases, self._sink = leases, sink
        self._skipped: set[tuple[str, int]] = set()
        self._began: dict[str, int] = {}  # partition -> where it ended when the first host started
        self._least: dict[str, int] = {}  # partition -> the lowest end that a failover left
        self._pruned: dict[str, int] = {}  # partition -> the last event in a tombstone
        self.receiver = Receiver(self.checker.notices)
        self.notices = False  # whether hosts send notices about its files
        self.retention = False  # whether the leading host removes old files
        self.spark = Spark.ALWAYS  # which hosts freeze batches
        self.table = False  # whether its files are registered in a table
        self.transforms = False  # whether a handler changes and drops events
        self.position = "Earliest"
        self.folder, self.tampering = "", LeaseBlobs(leases, "")  # see `place_leases`

    def place_leases(self, folder: str, *, shared: bool) -> None:
        """Say where the leases are, without a slash at the end, and whether other programs share them."""
        self.folder = folder
        self.checker.shared = shared
        self.tampering: Tampering = LeaseBlobs(self._leases, folder)
        if self.layout == "AzureSdk":
            self.tampering = OwnershipBlobs(self._leases, folder, shared=shared)

    def start_at(self, position: str) -> None:
        """Say where the consumer starts: Earliest or Latest."""
        self.position = position
        if position == "Latest":
            self.checker.latest = lambda partition: self._began.get(partition, 0)

    def begin(self) -> None:
        """A host starts; the first one of all cannot start behind what the hub has then."""
        if not self._began:
            self._began = {name: seen.last + 1 for name, seen in self.hub.partitions.items()}

    def partition(self, number: int) -> str:
        """A partition's id."""
        return str(number % len(self.hub.partitions))

    def link(self, number: int) -> Any:
        """The link that is attached to a partition."""
        return self.hub.partitions[self.partition(number)].reader

    # --- what happens to the hub ---

    def produce(self, number: int, count: int) -> None:
        """New events."""
        name = self.partition(number)
        partition = self.hub.partitions[name]
        for _ in range(count):
            time = self.hub.time(name)
            partition.add(self.history.produce(name, partition.last + 1, time))
            self.checker.enqueued(name, time)

    def move(self, number: int, step: int) -> None:
        """Another broker takes a partition over, with a clock of its own."""
        self.hub.move(self.partition(number), SKEW_SECONDS * (step - 2) / 2)

    def retain(self, number: int, kept: int) -> None:
        """Retention removes all but the newest events."""
        partition = self.hub.partitions[self.partition(number)]
        first = max(partition.last + 1 - kept, 0)
        partition.retain_from(first)
        self.history.expire(self.partition(number), first)

    def redeliver(self, number: int, back: int) -> None:
        """A link gives old events again."""
        if reader := self.link(number):
            reader.position -= back

    def start_early(self, number: int, count: int) -> None:
        """The next links start before their position."""
        self.hub.partitions[self.partition(number)].early = count

    def skip(self, number: int, count: int) -> None:
        """A link leaves events out, once."""
        reader = self.link(number)
        if self.partition(number) in self.compacted:
            return
        if reader and (self.partition(number), reader.position) not in self._skipped:
            self._skipped |= {(self.partition(number), reader.position + step) for step in range(-20, 21)}
            reader.position += count

    def drop(self, number: int) -> None:
        """A link is lost."""
        if reader := self.link(number):
            reader.broken = True

    def freeze(self, number: int) -> None:
        """A link gives nothing any more."""
        if reader := self.link(number):
            reader.frozen = True

    def recreate(self) -> None:
        """The hub is deleted and created again."""
        # Where checkpoints of others lie behind the files, nobody can accept this. Hosts remove old files after seconds
        # here, and with them the events by which a person finds where files and hub agree.
        if self.checker.shared or self.retention:
            return
        for partition in self.hub.partitions:
            self.hub.fails_over(partition)
        self.hub.recreate()
        self.hub.set_clocks()
        for partition in self.hub.partitions:
            self.history.truncate(partition, -1)
            self._ends_at(partition, -1)

    def fail_over(self, number: int, lost: int) -> None:
        """A forced failover: a partition loses its newest events, and uses their numbers again."""
        name = self.partition(number)
        partition = self.hub.partitions[name]
        # Files are pruned after days, and a failover loses the last seconds.
        count = min(lost, partition.last - self._pruned.get(name, -1))
        if self.checker.shared or self.retention or count <= 0:
            return
        self.hub.fails_over(name)
        partition.forget_last(count)
        self.history.truncate(name, partition.last)
        self._ends_at(name, partition.last)
        self._least[name] = min(self._least.get(name, partition.last), partition.last)

    def _ends_at(self, partition: str, last: int) -> None:
        """The hub lost events, so a host that has not looked yet may find an earlier end than the first host could."""
        if partition in self._began:
            self._began[partition] = min(self._began[partition], last + 1)

    def promote(self) -> None:
        """A failover that loses nothing: the hub has another creation time."""
        if not self.checker.shared:
            self.hub.promote()

    def compact(self, number: int, seed: int) -> None:
        """Log compaction removes events in the middle of a partition."""
        name = self.partition(number)
        partition, rng = self.hub.partitions[name], Random(seed)
        gone = [number for number in sorted(partition.events)[1:-1] if rng.random() < 0.4]
        self.compacted.add(name)
        partition.compact(gone)
        for number in gone:
            self.history.compact(name, number)

    def rival(self, number: int, above: int) -> None:
        """Another program attaches to a partition, under the epoch of the reader there or a higher one."""
        partition = self.partition(number)
        found = self.hub.partitions[partition]
        epoch = found.reader.epoch if found.reader else 0
        self.rivals.append(now(self.hub.open(partition, found.last, epoch + above, 1)))

    def rivals_leave(self) -> None:
        """The other programs end."""
        for rival in self.rivals:
            rival.closed = True
        self.rivals.clear()

    def add_partition(self) -> None:
        """The hub gets one more partition."""
        if len(self.hub.partitions) < MOST_PARTITIONS:
            self.hub.add_partition()
            self.hub.set_clocks()

    # --- what others do to leases ---

    def tamper(self, number: int, act: Callable[[Tampering, str], object]) -> None:
        """Do something to a lease from outside."""
        partition = self.partition(number)
        if self.tampering.exists(partition):
            with self.from_outside():
                act(self.tampering, partition)
            self.checker.tampered(partition)

    @contextmanager
    def from_outside(self) -> Iterator[None]:
        """What is changed here, no host changes."""
        self.checker.tampering = True
        try:
            yield
        finally:
            self.checker.tampering = False

    # --- what others do to files ---

    def clean_up(self, count: int) -> None:
        """Files that Spark has read become tombstones, but not the last one of a chain: retention keeps it."""
        old = sorted(file["path"] for batch in self.checker.batches[: self._done()] for file in batch["files"])
        for name in old[:count]:
            segment_id, partition, start = SLOT.fullmatch(name).groups()  # type: ignore[union-attr]
            chain = Chain(self._sink, self.prefix, segment_id, partition)  # type: ignore[arg-type]
            slot = now(chain.at(int(start)))
            if slot and now(chain.at(slot.last + 1)) and slot.last <= self._least.get(partition, slot.last):
                self._pruned[partition] = max(self._pruned.get(partition, -1), slot.last)
                now(tombstone(self._sink, chain, slot))

    def commit_batch(self, which: int) -> None:
        """Spark finishes an open batch; the record of a parallel one is left for the leading host to publish."""
        done, open_batches = self._done(), self.checker.batches[self._done() :]
        if not open_batches:
            return
        batch = open_batches[which % len(open_batches)]
        record = BatchCommit(
            number=batch["number"],
            committed_at=EPOCH,
            application="app",
            attempt="a",
            output="out",
            files=len(batch["files"]),
            rows_read=sum(file["count"] for file in batch["files"]),
            rows_written=1,
            seconds=1.0,
        )
        name = attempt_name(self.prefix, record.number)
        if not batch.get("parallel"):
            before = self._sink.blobs.get(commit_name(self.prefix, done))
            record = record.after(BatchCommit.model_validate_json(before.data) if before else None)
            name = commit_name(self.prefix, record.number)
        with contextlib.suppress(Conflict):
            now(self._sink.put(name, record.model_dump_json(by_alias=True).encode(), if_absent=True))

    def _done(self) -> int:
        return sum(name.startswith(f"{self.prefix}/_commits/") for name in self._sink.blobs)

    # --- the end ---

    def repair(self) -> None:
        """Undo what hosts wait for."""
        self.receiver.refused.clear()
        self.rivals_leave()
        for found in self.hub.partitions.values():  # of machines that are gone, too: the hub ends their links in time
            if found.reader:
                found.reader.broken = found.reader.closed = True
        chains = self.newest()
        with self.from_outside():
            for partition, seen in self.hub.partitions.items():
                end = chains[partition].next - 1 if partition in chains else 1 << 62
                self.tampering.repair(partition, end, seen.last)

    # --- what the receiver of notices does ---

    def refuse_notices(self, number: int, how: int) -> None:
        """The receiver refuses the notices of a partition, or accepts them again."""
        partition = self.partition(number)
        if how < len(REFUSALS):
            self.receiver.refused[partition] = how
        else:
            self.receiver.refused.pop(partition, None)

    # --- what others do to the table ---

    def optimize(self, rounds: int) -> None:
        """Another program replaces files of the table by one of its own, in the next version."""
        if seen := self.checker.table.states:
            chosen = sorted(seen[-1].files)[: rounds + 1]
            removed = {"deletionTimestamp": 1, "dataChange": False}
            merged = {"path": f"part-{len(seen)}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
            lines: list[dict[str, Any]] = [{"commitInfo": {"operation": "OPTIMIZE"}}]
            lines += [{"remove": removed | {"path": path}} for path in chosen]
            lines += [{"add": merged | {"dataChange": False}}] if chosen else []
            self._next_version(lines)

    def alter_table(self, retention: int) -> None:
        """Another program says how long old versions are kept."""
        if seen := self.checker.table.states:
            changed = {"delta.logRetentionDuration": RETENTIONS[retention]}
            metadata = dict(seen[-1].metadata)
            self._next_version([{"metaData": metadata | {"configuration": metadata["configuration"] | changed}}])

    def tidy_table(self, kept: int) -> None:
        """Another program writes a checkpoint, and removes all but some of the versions before it."""
        seen = self.checker.table
        last = len(seen.states) - 1
        if last < 0:
            return
        blobs = self._sink.blobs
        if last > (before := seen.newest_checkpoint):
            previous = [blobs[self._log_blob(before, "checkpoint.parquet")].data] if before >= 0 else []
            versions = [blobs[self._log_blob(number, "json")].data for number in range(before + 1, last + 1)]
            pieces: list[bytes] = []
            encode([io.BytesIO(data) for data in [*previous, *versions]], pieces.append, len(previous))
            content = b"".join(pieces)
            self._sink._write(self._log_blob(last, "checkpoint.parquet"), content, {})
        if seen.named < last:
            self._sink._write(f"{self.prefix}/_delta_log/_last_checkpoint", json.dumps({"version": last}).encode(), {})
        for number in range(last - kept):
            for kind in ("json", "checkpoint.parquet"):
                if (name := self._log_blob(number, kind)) in blobs:
                    self._sink.delete(name)

    def _next_version(self, actions: list[dict[str, Any]]) -> None:
        name = self._log_blob(len(self.checker.table.states), "json")
        self._sink._write(name, b"\n".join(json.dumps(action).encode() for action in actions), {})

    def _log_blob(self, version: int, kind: str) -> str:
        return f"{self.prefix}/_delta_log/{version:020d}.{kind}"

    # --- how it is ---

    def parted(self) -> set[str]:
        """Partitions whose newest file ends with an event that vanished: they must not continue."""
        return {partition for partition, chain in self.newest().items() if chain.end and chain.end.lost is not None}

    def newest(self) -> dict[str, ChainSeen]:
        """The chain of each partition in the newest segment."""
        newest = self.checker.segments[-1]["segmentId"] if self.checker.segments else ""
        return {name: chain for (era, name), chain in self.checker.chains.items() if era == newest}

    def drained(self) -> bool:
        """Whether the files reach the hub's end."""
        chains = self.newest()
        return all(
            partition in chains and chains[partition].next == seen.last + 1
            for partition, seen in self.hub.partitions.items()
        )
