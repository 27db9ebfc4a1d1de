"""The invariants, judged from outside: from every change of every blob, and from what hosts send.

One checker judges one chain: the files of one hub, and its leases. Nothing of the product is used here: names, bodies
and metadata are read by what the formats say. Events are identified by their bodies (`history.py`), never by their
numbers. Each change is judged at the moment it is made, so a violation that a later change would hide is seen too.

    S1 a committed slot, genesis record, manifest or commit record never changes; only a tombstone may replace a file
    S2 the first slot starts at genesis, each next one at the last one's end
    S3 the rows rise inside of the slot; first, last, count and hash are right
    H1 where a handler transforms events, each row is one that the handler of the file's writer returned, and each
       event that a file counts as dropped is one that this handler left out; it is in no file of the chain
    S4 rows, dropped events and gaps cover the slot exactly; a gap is of events that retention or log compaction
       removed; no event is in two files, and in the end each event of the hub is in a file, or counted as dropped,
       unless the hub lost it before or it came before the start
    S5 a checkpoint is the end of a file and never falls; each acquisition raises the epoch by one
    S6 epochs do not fall along a chain
    S7 a link has the epoch of the host's lease, one that no other acquisition had, and starts with the event that its
       checkpoint names, or behind; it is not opened again under the epoch it was stolen from
    S8 batches are contiguous, disjoint, and hold each file once, as it is; one is open at a time, or IN_FLIGHT parallel
       ones, and commits follow each other, with the totals of all before
    F1 a host that does not know by its own clock that its lease holds sends no file
    I1 a host writes only into the folders of its own consumer, and where it finds another's leases it says so
    I2 a chain has one identity, which its manifests name
    I3 a resource takes a chain over only while it leads; of two that live one drains, and the other says why not
    I4 the auditor knows the name of each blob that hosts write
    S9 segments come one after the other; each is ended in all its partitions, for good, before the next one begins
    N1 the cursor of notices passes no file without an acknowledged notice, and in the end each file has one
    N2 the first notice of a file comes after those of all files before it in its partition, over all segments; the
       cursor never moves back
    N3 a host repeats a notice only where it cannot know better: it got no answer, or another host sent it and did not
       write the cursor
    T1 the versions of the table follow each other; each registers files as they are, from where the table ended
    T2 in the end all files are registered
    T3 a checkpoint is the state of the table at its version; `_last_checkpoint` never falls, and nothing is removed
       that a reader needs who begins with the checkpoint that it names
    W1 each event that was enqueued before the watermark is in a file, was removed from the hub, or comes before the
       start; the watermark never falls
    W2 each event that was enqueued before the watermark of a batch, or of commits, is in it or in an earlier one
    W3 the totals of a watermark are those of the files before its ends
    R1 a host removes no file that is in no committed batch, if all hosts freeze batches
    R2 a host removes only files before a cursor that was written before; the cursor never falls, and counts each one
    R3 a host removes neither the last file of a chain nor a file that the table has
    F2 a chain has events of its own hub only, and none from both sides of a break: where the hub's last events vanished
       and it used their numbers again, an event from before is never followed by one from after
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from eventconsumer_audit import names
from tests.simulation.history import Event, History
from tests.simulation.network import Node
from tests.simulation.noticesseen import NoticesSeen
from tests.simulation.tableseen import TableSeen
from tests.support.fakes.blobs import Version

CHAIN, LEADER = "/_chain.json", "/_leader"
IDENTITY = "~identity.json"
SLOT = re.compile(r"\w+/segment=(\w+)/partition=(\w+)/from=(\d{20})\.\w+")
GENESIS = re.compile(r"\w+/_genesis/(\w+)/(\w+)\.json")
RECORD = re.compile(r"\w+/_(batches|commits)/(\d+)\.json")
TABLE = "/_delta_log/"
WATERMARK = "/_watermark.json"
NOTICES = "/_notices.json"
RETENTION = "/_retention.json"
COVERED = re.compile(r"eventconsumer/([\w-]+)/(\w+)/(\w+)")
SEGMENT = re.compile(r"\w+/_segments/\d+\.json")
IN_FLIGHT = 3  # the most that a consumer's configuration allows
TOMBSTONE, SEALED = "tombstone", "sealed"
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Violation(Exception):
    """An invariant does not hold."""


@dataclass
class ChainSeen:
    """A partition's files so far."""

    start: int
    next: int = 0
    born: int = 0  # the last life of the hub's partition in which one of its events was enqueued
    lost: float = float("inf")  # the first life that no longer has one of them
    epoch: int = -1
    slots: dict[str, Version] = field(default_factory=dict)
    ends: set[int] = field(default_factory=set)
    rows: int = 0
    gaps: int = 0
    end: Event | None = None  # the last one in its files
    sealed: bool = False


@dataclass(frozen=True)
class Owned:
    """Who has a partition's lease."""

    token: str = ""  # empty: nobody
    epoch: int = 0


class Checker:
    """Judges one chain, by the history of its hub.

    Attributes:
        only: Invariants whose violations are kept; empty: all.
        latest: Partition -> lowest sequence number at which the position Latest may start; None: the position is
            Earliest.
    """

    def __init__(self, history: History) -> None:
        self.violations: list[str] = []
        self.checks: Counter[str] = Counter()
        self.chains: dict[tuple[str, str], ChainSeen] = {}
        self.batches: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self.tampering = False  # the world itself is writing
        self.lease_seconds = 0.0
        self.transforms = False  # a handler changes and drops events
        self.batched = True  # all hosts freeze batches
        self.shared = False  # other programs may process events, and say so by their checkpoints
        self.latest: Callable[[str], int] | None = None
        self.only: frozenset[str] = frozenset()
        self._history = history
        self.chain = ""  # identity
        self.holder = ""  # uid of the resource that drains, by the chain's record
        self.table = TableSeen(self.expect)
        self.notices = NoticesSeen(self.expect)
        self._covered: dict[tuple[str, str], int] = {}  # chain -> the last number that the table covers
        self._buried: set[str] = set()  # files that were pruned
        self._removed = 0  # files that hosts removed
        self._counted = 0  # files that the cursor of retention counts as removed
        self._cursors: dict[tuple[str, str], int] = {}  # chain -> start of the first file that retention keeps
        self._batched: dict[str, int] = {}  # file -> its batch
        self._committed = 0  # the last committed batch
        self._complete, self._processed = _NEVER, _NEVER  # the watermarks of files and of commits
        self._frozen = _NEVER  # the watermark of the last batch
        self._starts: dict[str, int] = {}  # partition -> where it starts in the newest segment, but for the first
        self._leads: set[str] = set()  # hosts that took the lead and did not give it up
        self._claims: dict[str, bool] = {}  # host -> whether it led when it sent the record of the chain last
        self._records: dict[str, bytes] = {}
        self._owned: dict[str, Owned] = {}
        self._reached: dict[str, int | None] = {}  # checkpoints
        self.edited: dict[str, int] = {}  # partition -> highest checkpoint that something else wrote
        self._mine_reached: dict[tuple[str, str], int | None] = {}  # host, partition -> checkpoint it wrote last
        self._mine: dict[tuple[str, str], tuple[int, Owned]] = {}  # host, partition -> what it wrote last, and when
        self._grants: dict[tuple[str, str], float] = {}  # host, partition -> when asked for, on its clock
        self._granted: dict[str, float] = {}  # partition -> when the newest lease was asked for, true time
        self._lives: Counter[str] = Counter()  # of a lease blob: how often it was deleted or damaged
        self._attached: dict[tuple[str, int, int], str] = {}
        self._stolen: set[tuple[str, str, int, int]] = set()

    def expect(self, name: str, met: bool, what: str) -> None:
        """Count a check, and keep what it found."""
        self.checks[name] += 1
        if not met and (not self.only or name in self.only):
            self.violations.append(f"{name}: {what}")

    # --- the sink ---

    def sink_changed(self, version: Version, author: str) -> None:
        """A blob of the sink changed."""
        if match := SLOT.fullmatch(version.name):
            self._slot(match[1], match[2], int(match[3]), version, author)
        elif version.name.endswith(CHAIN):
            record = json.loads(version.data or b"{}")
            self.expect("I2", self.chain in {"", record["chain"]}, f"{author} changed the identity of the chain")
            uid = record["resource"]["uid"]
            right = self.holder in {"", uid} or self._claims[author]
            self.expect("I3", right, f"{author} took the chain over from {self.holder} without leading")
            self.chain, self.holder = record["chain"], uid
        elif TABLE in version.name:
            if actions := self.table.changed(version, author):
                self._registered(version, actions, author)
        elif version.name.endswith(NOTICES):
            self.notices.cursor(version.data, author)
        elif version.name.endswith(WATERMARK):
            self._watermark(json.loads(version.data or b"{}"), author)
        elif version.name.endswith(RETENTION):
            self._retention(json.loads(version.data or b"{}"), author)
        elif SEGMENT.fullmatch(version.name):
            known = self._records.setdefault(version.name, version.data or b"")
            self.expect("S1", known == version.data, f"{version.name} was written again by {author}")
            self._segment(json.loads(version.data or b"{}"))
        elif (match := GENESIS.fullmatch(version.name)) or RECORD.fullmatch(version.name):
            known = self._records.get(version.name)
            self.expect("S1", known is None, f"{version.name} was written again by {author}")
            if known is not None or version.data is None:
                return
            self._records[version.name] = version.data
            if match:
                start = int(json.loads(version.data)["start"])
                self._start(match[1], match[2], start, f"{version.name} by {author}")
                self.chains[match[1], match[2]] = ChainSeen(start, next=start)
            elif "_batches/" in version.name:
                self._batch(json.loads(version.data))
            else:
                self._commit(json.loads(version.data), author)
        else:
            known_name = not isinstance(names.parse(version.name.partition("/")[2]), names.Stray)
            what = f"{author} wrote {version.name}: add its name to eventconsumer_audit/names.py"
            self.expect("I4", known_name or self.tampering, what)

    def _segment(self, record: dict[str, Any]) -> None:
        number = len(self.segments) + 1
        self.expect(
            "S9", record["number"] == number, f"segment {record['number']} behind {len(self.segments)} segments"
        )
        if self.segments:
            old = self.segments[-1]["segmentId"]
            for partition, each in record.get("breaks", {}).items():
                chain = self.chains.get((old, partition))
                what = f"segment {number}, partition {partition}: {each}"
                self.expect("S9", chain is not None and chain.sealed, f"{what}: the segment before was not ended")
                if chain is None:
                    continue
                self.expect("S9", each["filesEnd"]["sequenceNumber"] == chain.next - 1, f"{what}: {chain.next} is next")
                self._leaves_nothing_out(partition, each["start"], what)
                self._starts[partition] = each["start"]
        self.segments.append(record)
        self.notices.segment(record["segmentId"])

    def _start(self, segment_id: str, partition: str, start: int, what: str) -> None:
        """A chain may leave out only events from before a consumer that starts at the latest.

        The record of a later segment decides the starts of its chains, and is judged when it is written. The hub may
        lose events before a host writes the genesis record, and have others under their numbers then: the host finds
        that the hub has lost the event before the start, and the next segment has these events.
        """
        segment = next((each for each in self.segments if each["segmentId"] == segment_id), None)
        if segment is not None and partition in segment.get("breaks", {}):
            decided = segment["breaks"][partition]["start"]
            self.expect("S9", start == decided, f"{what} starts at {start}, but its segment at {decided}")
            return
        if self.latest is not None and partition not in {name for _, name in self.chains}:
            numbers = [each.number for each in self._history.events(partition)]  # the hub may have lost them since
            right = self.latest(partition) <= start <= max(numbers, default=-1) + 1
            self.expect("S4", right, f"{what} starts at {start}, not at the latest")
            for each in self._omitted(partition, start):
                each.excused = True
            return
        self._leaves_nothing_out(partition, start, what)

    def _omitted(self, partition: str, start: int) -> list[Event]:
        """The events below a start that the hub has now, and that are in no file."""
        held = [each for each in self._history.events(partition) if each.held and each.number < start]
        return [each for each in held if not (each.file or each.excused)]

    def _leaves_nothing_out(self, partition: str, start: int, what: str) -> None:
        skipped = self._omitted(partition, start)
        self.expect("S4", not skipped, f"{what} leaves out {[each.body for each in skipped[:3]]}: it starts at {start}")

    def _slot(self, segment_id: str, partition: str, start: int, version: Version, author: str) -> None:
        what = f"{version.name} by {author}"
        chain = self.chains.get((segment_id, partition))
        self.expect("S2", chain is not None, f"{what} has no genesis record")
        if chain is None:
            return
        if known := chain.slots.get(version.name):
            buried = (
                version.data == b""
                and TOMBSTONE in version.metadata
                and dict(version.metadata)
                == {**known.metadata, TOMBSTONE: version.metadata[TOMBSTONE], "size": str(len(known.data or b""))}
            )
            self.expect("S1", buried, f"{what}: a committed file was changed")
            if author and version.name not in self._buried:
                self._removes((segment_id, partition), start, known, what)
            self._buried.add(version.name)
            self.notices.pruned(segment_id, partition, start)
            return
        self.expect("S2", start == chain.next, f"{what} does not start at the chain's end {chain.next}")
        self.expect("S9", not chain.sealed, f"{what} is behind a seal")
        if SEALED in version.metadata:
            chain.sealed = True
            return
        facts, data = version.metadata, version.data or b""
        last, epoch = int(facts["last"]), int(facts["epoch"])
        self.expect("S6", epoch >= chain.epoch, f"{what} has epoch {epoch} behind a file of epoch {chain.epoch}")
        self._rows(partition, version, chain, author)
        chain.slots[version.name] = Version(version.name, data, dict(facts), version.etag)
        chain.ends.add(last)
        self.notices.file(segment_id, partition, start, version.name)
        chain.next = max(chain.next, last + 1)
        chain.epoch = max(chain.epoch, epoch)

    def _removes(self, place: tuple[str, str], start: int, file: Version, what: str) -> None:
        """A host replaces a file by a tombstone."""
        self._removed += 1
        batch = self._batched.get(file.name, 0)
        right = not self.batched or 0 < batch <= self._committed
        self.expect("R1", right, f"{what}: batch {batch} of {self._committed} committed ones")
        cursor = self._cursors.get(place, -1)
        self.expect("R2", start < cursor, f"{what}: the cursor is {cursor}")
        right = self._removed <= self._counted
        self.expect("R2", right, f"{what}: {self._removed} files were removed, and {self._counted} are counted")
        last = int(file.metadata["last"])
        self.expect("R3", last + 1 < self.chains[place].next, f"{what}: it is the last file of its chain")
        table = self.table.states[-1].files if self.table.states else frozenset()
        self.expect("R3", file.name.partition("/")[2] not in table, f"{what}: the table has it")

    def _retention(self, record: dict[str, Any], author: str) -> None:
        what = f"the cursor of retention by {author}"
        self.expect("I2", record["chain"] == self.chain, f"{what} is of chain {record['chain']}")
        for partition, kept in record.get("partitions", {}).items():
            place = (record["segmentId"], partition)
            before = self._cursors.get(place, -1)
            right = before <= kept["next"] and kept["done"] <= kept["next"]
            self.expect("R2", right, f"{what} moves from {before} to {kept}")
            self._cursors[place] = kept["next"]
        counted = record.get("removed", {}).get("files", 0)
        self.expect("R2", self._counted <= counted, f"{what} counts less than {self._counted}")
        self._counted = counted

    def _forgive(self, partition: str, event: Event | None, chain: ChainSeen) -> None:
        """A break that no host can see: retention or compaction removed the event that has the number of the last one.

        Nothing at that number can be compared then, and the creation time is the same after a failover. A file that was
        read before the break, and lands after it, has none. `event` is the first known one of the next file.
        """
        end = chain.end
        if end is None or end.lost is None or event is None or event.born < end.lost:
            return
        later = [event for event in self._history.numbered(partition, end.number) if event.born >= end.lost]
        if later and not any(event.held for event in later):
            chain.born, chain.lost = end.lost, float("inf")
            for event in self._history.events(partition):
                event.excused = event.excused or (event.born >= end.lost and event.number <= end.number)

    def _rows(self, partition: str, version: Version, chain: ChainSeen, author: str) -> None:
        what, facts, data = f"{version.name} by {author}", version.metadata, version.data or b""
        start = int(SLOT.fullmatch(version.name)[3])  # type: ignore[index]
        first, last, count, dropped = (int(facts.get(key, 0)) for key in ("first", "last", "count", "dropped"))
        rows = [(int(number), str(body)) for number, body in json.loads(data)]
        end = self._end(partition, last, facts["last_offset"]) if dropped else None
        self._forgive(partition, self._history.find(partition, rows[0][1]) if rows else end, chain)
        numbers = [number for number, _ in rows]
        right = numbers == sorted(set(numbers)) and len(numbers) == count and start <= first
        if dropped:
            right = right and self.transforms and all(first <= number <= last for number in numbers)
            right = right and first <= last and end is not None
        else:
            right = right and bool(numbers) and (numbers[0], numbers[-1]) == (first, last)
        right = right and facts["sha256"] == hashlib.sha256(data).hexdigest()
        self.expect("S3", right, f"{what}: {numbers} with {dict(facts)}")
        gaps, left, counted = _missing(facts.get("gap", ""), set(range(start, last + 1)) - set(numbers), dropped)
        missing = [number for each in gaps.values() for number in each]
        covered = sorted([*numbers, *missing, *left]) == list(range(start, last + 1))
        covered = covered and len(left) == dropped + counted
        self.expect("S4", covered, f"{what}: rows {numbers}, gaps {missing}, {dropped} dropped of {sorted(left)}")
        self._events(partition, version.name, rows, chain, author)
        if end is not None:
            self._follows(end, chain, what)
        for number in self._dropped(partition, version.name, left, dropped, chain, author):
            gaps.setdefault("compaction", []).append(number)
        foreign = self.edited.get(partition, -1) if self.shared else -1
        for reason, gap in gaps.items():
            for number in gap:
                under = self._under(partition, number, chain)
                compaction = reason == "compaction"
                gone = any(each.compacted if compaction else each.expired for each in under)
                gone = gone and not any(each.held for each in under)
                gone = gone or (reason == "foreign" and number <= foreign)
                self.expect("S4", gone, f"{what}: {reason} did not remove {number}")
                for each in under:
                    each.excused = True
        chain.rows += len(numbers)
        chain.gaps += last + 1 - start - len(numbers) - dropped

    def _under(self, partition: str, number: int, chain: ChainSeen) -> list[Event]:
        """The events with a number that may be the one that the chain has, or not, under it."""
        under = self._history.numbered(partition, number)
        return [each for each in under if each.consistent(chain.born, chain.lost)]

    def _end(self, partition: str, number: int, offset: str) -> Event | None:
        """The event with a number and an offset."""
        return next(
            (each for each in self._history.numbered(partition, number) if number * 10 + each.born == int(offset)), None
        )

    def _dropped(
        self, partition: str, name: str, left: set[int], dropped: int, chain: ChainSeen, author: str
    ) -> list[int]:
        """Judge the events that a file counts as dropped; returns the numbers that must be in its gap with a count.

        Args:
            partition: Of the file.
            name: Of the file.
            left: Numbers that are neither in rows nor in gaps with ends.
            dropped: How many of them are dropped; log compaction removed the others.
            chain: Of the file.
            author: Its writer.
        """
        events = {number: self._under(partition, number, chain) for number in left}
        by_handler = {n for n, under in events.items() if any(author in each.left_out for each in under)}
        removed = {n for n, under in events.items() if under and not any(each.held for each in under)}
        only_removed = sorted(left - by_handler)
        what = f"{name} by {author}: {dropped} dropped of {sorted(left)}, the handler left out {sorted(by_handler)}"
        right = len(only_removed) <= len(left) - dropped and len(by_handler - removed) <= dropped
        if left:
            self.expect("H1", right, what)
        for under in (events[number] for number in by_handler):
            for each in (each for each in under if author in each.left_out):
                again = each.file if each.file.split("/")[1:3] == name.split("/")[1:3] else ""
                self.expect("H1", not again or len(under) > 1, f"{what}; {each.body} is in {again}")
                each.excused, each.counted = True, name if len(under) == 1 else ""
        return only_removed

    def _follows(self, event: Event, chain: ChainSeen, what: str) -> None:
        """The next known event of a chain."""
        chain.end = event
        chain.born = max(chain.born, event.born)
        chain.lost = min(chain.lost, float("inf") if event.lost is None else event.lost)
        lives = f"from life {chain.born}, and others that vanished in life {chain.lost}"
        self.expect("F2", chain.born < chain.lost, f"{what}: the chain has events {lives}")

    def _events(self, partition: str, name: str, rows: list[tuple[int, str]], chain: ChainSeen, author: str) -> None:
        what = f"{name} by {author}"
        for number, body in rows:
            event = self._history.find(partition, body)
            own = event is not None and event.number == number
            self.expect("F2", own, f"{what}: {body} is not event {number} of partition {partition} of this hub")
            if event is None:
                continue
            self.expect("S4", not event.file, f"{what}: event {body} is in {event.file} too")
            returned = (author, body) in event.returned if self.transforms else body == event.body
            self.expect("H1", returned, f"{what}: no handler of this host returned {body}")
            counted = event.counted if event.counted.split("/")[1:3] == name.split("/")[1:3] else ""
            self.expect("H1", not counted, f"{what}: event {body} counts as dropped in {counted}")
            event.file = name
            self._follows(event, chain, what)

    def account(self) -> None:
        """Judge in the end, when nothing lags: is each event in a file."""
        for partition in self._history.partitions():
            for event in self._history.events(partition):
                excused = event.expired or event.compacted or event.lost is not None or event.excused
                where = f"partition {partition}: event {event.body}, number {event.number}"
                self.expect("S4", bool(event.file) or excused, f"{where}, is in no file")

    def _registered(self, version: Version, actions: list[dict[str, Any]], author: str) -> None:
        what = f"{version.name} by {author}"
        root = version.name.partition("/")[0]
        added = [f"{root}/{a['add']['path']}" for a in actions if a.get("add", {}).get("dataChange")]
        facts = {f"{root}/{a['add']['path']}": a["add"] for a in actions if "add" in a}
        wanted: list[str] = []
        rows: dict[str, int] = {}  # of files
        for transaction in (action["txn"] for action in actions if "txn" in action):
            match = COVERED.fullmatch(transaction["appId"])
            if match is None:
                continue  # totals
            place, last = (match[2], match[3]), int(transaction["version"])
            chain = self.chains.get(place)
            self.expect("T1", match[1] == self.chain and chain is not None, f"{what}: {transaction} is of no chain")
            if chain is None:
                continue
            before = self._covered.get(place, chain.start - 1)
            self.expect("T1", before < last and last in chain.ends, f"{what}: {transaction} behind {before}")
            self._covered[place] = last
            wanted += [name for name in chain.slots if before < int(SLOT.fullmatch(name)[3]) <= last]  # type: ignore[index]
            rows |= {name: int(slot.metadata["count"]) for name, slot in chain.slots.items()}
        missing = [name for name in wanted if name not in added and name not in self._buried and rows[name]]
        self.expect("T1", not missing, f"{what} leaves out {missing}")
        again = sorted(set(added) - set(wanted))
        self.expect("T1", not again and len(added) == len(set(added)), f"{what} registers again {again or added}")
        for name in set(added) & set(wanted):
            slot = next(chain.slots[name] for chain in self.chains.values() if name in chain.slots)
            stats = json.loads(facts[name]["stats"])
            right = facts[name]["size"] in {len(slot.data or b""), 0}
            right = right and stats["numRecords"] == int(slot.metadata["count"])
            self.expect("T1", right, f"{what}: {facts[name]} is not {dict(slot.metadata)}")

    def registered(self) -> bool:
        """Whether the table covers all files."""
        return all(
            self._covered.get(place, -1) == chain.next - 1 for place, chain in self.chains.items() if chain.slots
        )

    def enqueued(self, partition: str, time: int) -> None:
        """A new event: nothing may have said that all events of its time are in files."""
        for name, watermark in (("W1", self._complete), ("W2", self._processed), ("W2", self._frozen)):
            early = watermark.timestamp() * 1000 > time
            self.expect(name, not early, f"an event of partition {partition} comes at {time}, after {watermark}")

    def _watermark(self, record: dict[str, Any], author: str) -> None:
        files = datetime.fromisoformat(record["files"])
        commits = datetime.fromisoformat(record["commits"]) if "commits" in record else _NEVER
        what = f"the watermark by {author}"
        self.expect("I2", record["chain"] == self.chain, f"{what} is of chain {record['chain']}")
        rises = files >= self._complete and commits >= self._processed
        self.expect("W1", rises, f"{what} falls from {self._complete} and {self._processed} to {files} and {commits}")
        self._complete, self._processed = files, commits
        left = self._left_before(files, lambda event: bool(event.file))
        self.expect("W1", not left, f"{what}, {files}, but {left[:3]} are in no file")
        batch = record.get("batch", 0)
        self.expect("W2", batch <= self._committed, f"{what} names batch {batch}, the last one is {self._committed}")
        left = self._left_before(commits, lambda event: self._batched.get(event.file, batch + 1) <= batch)
        self.expect("W2", not left, f"{what}, {commits}, but {left[:3]} are in no batch up to {batch}")

        if "totals" in record:
            self._totals(record, what)

    def _totals(self, record: dict[str, Any], what: str) -> None:
        names = [segment["segmentId"] for segment in self.segments]
        before = names[: names.index(record["segmentId"])]
        files = [
            slot
            for (era, partition), chain in self.chains.items()
            for slot in chain.slots.values()
            if era in before
            or (era == record["segmentId"] and int(slot.metadata["last"]) < record["next"].get(partition, 0))
        ]
        found = {
            "files": len(files),
            "events": sum(int(slot.metadata["count"]) for slot in files),
            "bytes": sum(len(slot.data or b"") for slot in files),
        }
        told = {name: record["totals"].get(name, 0) for name in found}
        self.expect("W3", told == found, f"{what} has the totals {told}, the files {found}")

    def _left_before(self, time: datetime, counts: Callable[[Event], bool]) -> list[str]:
        """Events that were enqueued before a time, and neither count nor are excused."""
        return [
            event.body
            for partition in self._history.partitions()
            for event in self._history.events(partition)
            if event.time < time.timestamp() * 1000
            and not (counts(event) or event.excused or event.file in self._buried)
            and (event.file or event.held)
        ]

    def _commit(self, record: dict[str, Any], author: str) -> None:
        number = record["number"]
        self.expect("S8", number == self._committed + 1, f"commit {number} by {author} after {self._committed}")
        rows = sum(file["count"] for batch in self.batches[:number] for file in batch["files"])
        totals = record.get("totals", {}).get("rowsRead", 0)
        self.expect("S8", totals == rows, f"commit {number} has {totals} rows in all, the batches have {rows}")
        self._committed = max(self._committed, number)

    def _batch(self, manifest: dict[str, Any]) -> None:
        before = self.batches[-1] if self.batches else None
        number = manifest["number"]
        most = IN_FLIGHT if manifest.get("parallel") else 1
        opened = number - self._committed
        self.expect("S8", opened <= most, f"batch {number} is the {opened}th open one, {most} are allowed")
        self.expect("S8", number == len(self.batches) + 1, f"batch {number} behind {len(self.batches)} batches")
        self.expect("I2", manifest["chain"] == self.chain, f"batch {number} is of chain {manifest['chain']}")
        reached = dict(before["next"]) if before and before["segmentId"] == manifest["segmentId"] else {}
        if before and not reached:
            self._left_out(before)
        for file in manifest["files"]:
            match = SLOT.fullmatch(file["path"])
            chain = self.chains.get((manifest["segmentId"], file["partition"]))
            slot = chain.slots.get(file["path"]) if chain and match else None
            self.expect("S8", slot is not None, f"batch {number} names {file['path']}, which is no file")
            if slot is None or chain is None:
                continue
            expected = reached.get(file["partition"], chain.start)
            facts = (slot.etag, int(slot.metadata["last"]), int(slot.metadata["count"]))
            right = file["first"] == expected and (file["etag"], file["last"], file["count"]) == facts
            self.expect("S8", right, f"batch {number}: {file} where {expected} is next and the file is {facts}")
            reached[file["partition"]] = file["last"] + 1
        self.expect("S8", {**manifest["next"], **reached} == manifest["next"], f"batch {number} ends before its files")
        self._batched |= {file["path"]: number for file in manifest["files"]}
        if "watermark" in manifest:
            self._frozen = datetime.fromisoformat(manifest["watermark"])
            left = self._left_before(self._frozen, lambda event: self._batched.get(event.file, number + 1) <= number)
            self.expect("W2", not left, f"batch {number} has {self._frozen}, but {left[:3]} are in no batch up to it")
        self.batches.append(manifest)

    def _left_out(self, last: dict[str, Any]) -> None:
        """The batch is the last one of its segment, and of those before."""
        names = [segment["segmentId"] for segment in self.segments]
        for (era, partition), chain in self.chains.items():
            reached = last["next"].get(partition, chain.start) if era == last["segmentId"] else chain.start
            old = era in names and names.index(era) == names.index(last["segmentId"])
            self.expect(
                "S8", not old or reached == chain.next, f"no batch has files of {era}/{partition} from {reached}"
            )

    # --- leases ---

    def lease_changed(self, version: Version, author: str) -> None:
        """A blob of the lease container changed."""
        if version.name.endswith(IDENTITY):
            before = self._records.setdefault(version.name, version.data or b"")
            self.expect("S1", self.tampering or before == version.data, f"{author} changed {version.name}")
            if self.tampering:
                self._records.pop(version.name, None)
            return
        partition = version.name.rpartition("/")[2]
        try:
            owned, reached = _lease_of(version)
        except (ValueError, KeyError, TypeError, RecursionError):
            self.expect("S5", self.tampering, f"{author} wrote no lease into {version.name}")
            if "/checkpoint/" not in version.name:
                self._owned.pop(partition, None)
                self._lives[partition] += 1
            if "/ownership/" not in version.name:
                self._reached.pop(partition, None)
            return
        if owned is not None:
            if not self.tampering:
                self._owner_step(partition, self._owned.get(partition), owned, author)
                if owned.token:
                    self._mine[author, partition] = (self._lives[partition], owned)
            self._owned[partition] = owned
        if owned is None or "/ownership/" not in version.name:
            if not self.tampering:
                self._checkpoint_step(partition, self._reached.get(partition), reached, author)
                self._mine_reached[author, partition] = reached
            elif reached is not None:
                self.edited[partition] = max(reached, self.edited.get(partition, -1))
            self._reached[partition] = reached

    def _owner_step(self, partition: str, before: Owned | None, after: Owned, author: str) -> None:
        what = f"lease of {partition}, by {author}: {before} -> {after}"
        if before is None:
            return
        if after.token and after.token != before.token:
            right = after.epoch == before.epoch + 1 or (self._lives[partition] and after.epoch > before.epoch)
            self.expect("S5", bool(right), f"acquired without raising the epoch by one: {what}")
        else:
            highest = max((chain.epoch for key, chain in self.chains.items() if key[1] == partition), default=-1)
            right = before.epoch <= after.epoch <= max(before.epoch, highest) + 1
            self.expect("S5", right, f"epoch out of order: {what}")

    def _checkpoint_step(self, partition: str, before: int | None, after: int | None, author: str) -> None:
        if after == before:
            return
        what = f"checkpoint of {partition}, by {author}: {before} -> {after}"
        if after is None:  # a segment begins at an event whose offset is unknown, so there is no checkpoint yet
            newest = self.chains.get((self.segments[-1]["segmentId"], partition)) if self.segments else None
            begins = len(self.segments) > 1 and not (newest and newest.slots)
            self.expect("S5", begins, f"it vanished: {what}")
            return
        chains = [chain for key, chain in self.chains.items() if key[1] == partition]
        ends = {end for chain in chains for end in chain.ends} | {chain.start - 1 for chain in chains}
        ends |= {start - 1 for name, start in self._starts.items() if name == partition}
        self.expect("S5", after in ends, f"no file ends there: {what}")
        begins = self._starts.get(partition) == after + 1  # the next segment does
        self.expect("S5", before is None or before < after or begins, f"it fell: {what}")

    # --- what hosts send: `network.Witness` ---

    def sent(self, node: Node, operation: str, subject: str) -> None:
        """See `Witness`."""
        if subject.endswith(LEADER) and operation == "release_lease":
            self._leads.discard(node.name)
        if subject.endswith(CHAIN) and operation == "put":
            self._claims[node.name] = node.name in self._leads
        match = SLOT.fullmatch(subject)
        if operation.startswith("put") and match and int(match[3]) >= self._cursors.get((match[1], match[2]), -1):
            age = node.machine.time() - self._grants.get((node.name, match[2]), float("-inf"))
            self.expect(
                "F1", age < self.lease_seconds, f"{node.name} sends {subject}; it last had its lease {age:.1f} s ago"
            )

    def granted(self, node: Node, subject: str, since: float) -> None:
        """See `Witness`."""
        if subject.endswith(LEADER):
            self._leads.add(node.name)
        self._grants[node.name, subject.rpartition("/")[2]] = since
        self._granted[subject.rpartition("/")[2]] = node.machine.moment(since)

    def read(self, node: Node, subject: str, data: bytes) -> None:
        """See `Witness`."""
        if subject.endswith(NOTICES):
            self.notices.read(node.name, data)

    def attaching(self, node: Node, partition: str, after: int, epoch: int) -> None:
        """See `Witness`."""
        what = f"{node.name} attaches to {partition} behind {after} with epoch {epoch}"
        life, lease = self._mine.get((node.name, partition), (0, None))
        owned = self._owned.get(partition)
        anew = lease is None or life < self._lives[partition]  # it never had this lease, or one that was deleted since
        if anew and (owned is None or self._unread(node, partition, owned) or epoch < owned.epoch):
            return  # it looks whether a checkpoint that nobody had is of this hub; a new owner's epoch is above it
        self.expect("S7", lease is not None and lease.epoch == epoch, f"{what}; its lease: {lease}")
        if lease is None:
            return
        reached = self._mine_reached.get((node.name, partition))
        right = reached is None or after >= reached - 1 or after >= self._starts.get(partition, after + 1) - 2
        self.expect("S7", right, f"{what}; its checkpoint: {reached}")
        token = self._attached.setdefault((partition, life, epoch), lease.token)
        self.expect("S7", token == lease.token, f"{what}, which another acquisition had")
        again = (node.name, partition, life, epoch) in self._stolen
        self.expect("S7", not again, f"{what}, under which its link was stolen")

    def tampered(self, partition: str) -> None:
        """Somebody changed a lease from outside: it may have ended before its time."""
        self._granted.pop(partition, None)

    def _unread(self, node: Node, partition: str, owned: Owned) -> bool:
        """Whether nobody may read under a lease: it has no owner, or it has expired."""
        now = node.machine.moment(node.machine.time())
        return not owned.token or now - self._granted.get(partition, float("-inf")) >= self.lease_seconds

    def stolen(self, node: Node, partition: str, epoch: int) -> None:
        """See `Witness`."""
        self._stolen.add((node.name, partition, self._mine.get((node.name, partition), (0, None))[0], epoch))


def _lease_of(version: Version) -> tuple[Owned | None, int | None]:
    """Ownership and checkpoint in a blob of either layout."""
    if version.data is None:
        raise ValueError("deleted")
    facts = version.metadata
    if "/ownership/" in version.name:
        return Owned(facts["token"], int(facts["epoch"])), None
    if "/checkpoint/" in version.name:
        number = None if facts == {"offset": "no offset"} else int(facts["sequencenumber"])
        if number is not None and number >= 1 << 63:
            raise ValueError("no sequence number")
        return None, number
    body = json.loads(version.data)
    # The libraries ignore the sequence number of a lease without an offset.
    return Owned(body["token"], body["epoch"]), int(body["sequenceNumber"]) if body.get("offset") else None


def _missing(text: str, missing: set[int], dropped: int) -> tuple[dict[str, list[int]], set[int], int]:
    """What is missing in a file.

    Args:
        text: Gaps by reason, such as `retention:17-20`; with a count, those that are in no other gap.
        missing: Numbers that are in no row.
        dropped: How many of them a handler dropped.

    Returns:
        Numbers by reason; those for which there are only counts: dropped, or removed by log compaction; and how many
        the latter are.
    """
    found: dict[str, list[int]] = {}
    counted: list[tuple[str, int, int, int]] = []
    for part in filter(None, text.split(";")):
        reason, _, ranges = part.partition(":")
        for item in ranges.split(","):
            first, _, rest = item.partition("-")
            last, _, count = rest.partition("/")
            if count:
                counted.append((reason, int(first), int(last), int(count)))
            else:
                found.setdefault(reason, []).extend(range(int(first), int(last) + 1))
    left = missing - {number for each in found.values() for number in each}
    if dropped:
        return found, left, sum(size for *_, size in counted)
    for reason, first_number, last_number, size in counted:
        numbers = [number for number in range(first_number, last_number + 1) if number in left]
        if len(numbers) != size:
            raise ValueError(f"{text}: {len(numbers)} numbers are missing")
        found.setdefault(reason, []).extend(numbers)
        left -= set(numbers)
    return found, left, 0
