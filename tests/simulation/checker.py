"""The invariants, judged from outside: from every change of every blob, and from what hosts send.

Nothing of the product is used here: names, bodies and metadata are read by what the formats say. Each change is judged
at the moment it is made, so a violation that a later change would hide is seen too.

    S1 a committed slot, genesis record, manifest or commit record never changes; only a tombstone may replace a file
    S2 the first slot starts at genesis, each next one at the last one's end
    S3 the rows rise inside of the slot; first, last, count and hash are right
    S4 rows and gaps cover the slot exactly, with the hub's events; a gap is of events that retention removed
    S5 a checkpoint is the end of a file and never falls; each acquisition raises the epoch by one
    S6 epochs do not fall along a chain
    S7 a link has the epoch of the host's lease, one that no other acquisition had, and starts behind its checkpoint;
       it is not opened again under the epoch it was stolen from
    S8 batches are contiguous, disjoint, and hold each file once, as it is
    F1 a host that does not know by its own clock that its lease holds sends no file
    F2 nothing of a hub that was created again comes into the chain of the old one
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.blobs import Version
from tests.simulation.network import Node

SLOT = re.compile(r"p/inc=(\w+)/partition=(\w+)/from=(\d{20})\.\w+")
GENESIS = re.compile(r"p/_genesis/(\w+)/(\w+)\.json")
RECORD = re.compile(r"p/_(batches|commits)/(\d+)\.json")
TOMBSTONE = "tombstone"
FIRST_ERA = "e0"  # what the bodies of the first hub's events start with


class Violation(Exception):
    """An invariant does not hold."""


@dataclass
class ChainSeen:
    """A partition's files so far."""

    start: int
    era: str
    next: int = 0
    epoch: int = -1
    slots: dict[str, Version] = field(default_factory=dict)
    ends: set[int] = field(default_factory=set)
    rows: int = 0
    gaps: int = 0


@dataclass(frozen=True)
class Owned:
    """Who has a partition's lease."""

    token: str = ""  # empty: nobody
    epoch: int = 0


class Checker:
    """Judges one world. `retained` says from where on the hub holds a partition's events, `head` which was its last."""

    def __init__(self, *, era: Callable[[], str], retained: Callable[[str], int], head: Callable[[str], int]) -> None:
        self.violations: list[str] = []
        self.checks: Counter[str] = Counter()
        self.chains: dict[tuple[str, str], ChainSeen] = {}
        self.batches: list[dict[str, Any]] = []
        self.tampering = False  # the world itself is writing
        self.lease_seconds = 0.0
        self.shared = False  # other programs may process events, and say so by their checkpoints
        self._era, self._retained, self._head = era, retained, head
        self._records: dict[str, bytes] = {}
        self._owned: dict[str, Owned] = {}
        self._reached: dict[str, int | None] = {}  # checkpoints
        self.edited: dict[str, int] = {}  # partition -> highest checkpoint that something else wrote
        self._mine_reached: dict[tuple[str, str], int | None] = {}  # host, partition -> checkpoint it wrote last
        self._mine: dict[tuple[str, str], tuple[int, Owned]] = {}  # host, partition -> what it wrote last, and when
        self._grants: dict[tuple[str, str], float] = {}  # host, partition -> when asked for, on its clock
        self._tied: set[tuple[str, str]] = set()  # host, partition: held as long as the host's session
        self._tying: set[tuple[str, str]] = set()  # that may be so: it asked for it and heard nothing
        self._sessions: dict[str, float] = {}  # host -> when its session was asked for, on its clock
        self._lives: Counter[str] = Counter()  # of a lease blob: how often it was deleted or damaged
        self._attached: dict[tuple[str, int, int], str] = {}
        self._stolen: set[tuple[str, str, int, int]] = set()

    def expect(self, name: str, met: bool, what: str) -> None:
        """Count a check, and keep what it found."""
        self.checks[name] += 1
        if not met:
            self.violations.append(f"{name}: {what}")

    # --- the sink ---

    def sink_changed(self, version: Version, author: str) -> None:
        """A blob of the sink changed."""
        if match := SLOT.fullmatch(version.name):
            self._slot(match[1], match[2], int(match[3]), version, author)
        elif (match := GENESIS.fullmatch(version.name)) or RECORD.fullmatch(version.name):
            known = self._records.get(version.name)
            self.expect("S1", known is None, f"{version.name} was written again by {author}")
            if known is not None or version.data is None:
                return
            self._records[version.name] = version.data
            if match:
                start = int(json.loads(version.data)["start"])
                self.expect("F2", not self.chains or match[1] in {key[0] for key in self.chains}, f"{version.name}")
                self.chains[match[1], match[2]] = ChainSeen(start, FIRST_ERA, next=start)
            elif "_batches/" in version.name:
                self._batch(json.loads(version.data))

    def _slot(self, incarnation: str, partition: str, start: int, version: Version, author: str) -> None:
        what = f"{version.name} by {author}"
        chain = self.chains.get((incarnation, partition))
        self.expect("S2", chain is not None, f"{what} has no genesis record")
        if chain is None:
            return
        if known := chain.slots.get(version.name):
            buried = (
                version.data == b""
                and TOMBSTONE in version.metadata
                and {**version.metadata, TOMBSTONE: ""} == {**known.metadata, TOMBSTONE: ""}
            )
            self.expect("S1", buried, f"{what}: a committed file was changed")
            return
        facts, data = version.metadata, version.data or b""
        self.expect("S2", start == chain.next, f"{what} does not start at the chain's end {chain.next}")
        last, epoch = int(facts["last"]), int(facts["epoch"])
        self.expect("S6", epoch >= chain.epoch, f"{what} has epoch {epoch} behind a file of epoch {chain.epoch}")
        self._rows(partition, start, version, chain, what)
        chain.slots[version.name] = Version(version.name, data, dict(facts), version.etag)
        chain.ends.add(last)
        chain.next = max(chain.next, last + 1)
        chain.epoch = max(chain.epoch, epoch)

    def _rows(self, partition: str, start: int, version: Version, chain: ChainSeen, what: str) -> None:
        facts, data = version.metadata, version.data or b""
        first, last, count = (int(facts[key]) for key in ("first", "last", "count"))
        rows = [(int(number), str(body)) for number, body in json.loads(data)]
        numbers = [number for number, _ in rows]
        right = numbers == sorted(set(numbers)) and bool(numbers) and start <= numbers[0]
        right = right and (numbers[0], numbers[-1], len(numbers)) == (first, last, count)
        right = right and facts["sha256"] == hashlib.sha256(data).hexdigest()
        self.expect("S3", right, f"{what}: {numbers} with {dict(facts)}")
        missing = _gap_numbers(facts.get("gap", ""))
        covered = sorted([*numbers, *missing]) == list(range(start, last + 1))
        self.expect("S4", covered, f"{what}: rows {numbers}, gaps {missing}")
        retained = self._retained(partition) if self._era() == chain.era else 1 << 62
        foreign = self.edited.get(partition, -1) if self.shared and facts.get("gap", "").startswith("foreign:") else -1
        gone = all(number < retained or number <= foreign for number in missing)
        self.expect("S4", gone, f"{what}: gap {missing} is still in the hub")
        true = all(body == f"{chain.era}/{partition}/{number}" for number, body in rows)
        self.expect("F2", true, f"{what}: {rows[:2]} is not of hub {chain.era}")
        chain.rows += len(numbers)
        chain.gaps += len(missing)

    def _batch(self, manifest: dict[str, Any]) -> None:
        before = self.batches[-1] if self.batches else None
        number = manifest["number"]
        self.expect("S8", number == len(self.batches) + 1, f"batch {number} behind {len(self.batches)} batches")
        reached = dict(before["next"]) if before else {}
        for file in manifest["files"]:
            match = SLOT.fullmatch(file["path"])
            chain = self.chains.get((manifest["incarnation"], file["partition"]))
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
        self.batches.append(manifest)

    # --- leases ---

    def lease_changed(self, version: Version, author: str) -> None:
        """A blob of the lease container changed."""
        folder, _, partition = version.name.rpartition("/")
        if folder.endswith("sessions"):
            return
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
        chains = [chain for key, chain in self.chains.items() if key[1] == partition]
        ends = {end for chain in chains for end in chain.ends} | {chain.start - 1 for chain in chains}
        self.expect("S5", after is not None and after in ends, f"no file ends there: {what}")
        self.expect("S5", before is None or after is None or before < after, f"it fell: {what}")

    # --- what hosts send: `network.Witness` ---

    def sent(self, node: Node, operation: str, subject: str) -> None:
        """See `Witness`."""
        match = SLOT.fullmatch(subject)
        if operation.startswith("put") and match:
            held, granted = (node.name, match[2]), float("inf")
            if held not in self._tied:
                granted = self._grants.get(held, float("-inf"))
            if held in self._tied | self._tying:
                granted = min(granted, self._sessions.get(node.name, float("-inf")))
            age = node.machine.time() - granted
            self.expect(
                "F1", age < self.lease_seconds, f"{node.name} sends {subject}; it last had its lease {age:.1f} s ago"
            )

    def granted(self, node: Node, subject: str, since: float, *, tied: bool | None) -> None:
        """See `Witness`."""
        folder, _, name = subject.rpartition("/")
        if folder.endswith("sessions"):
            self._sessions[node.name] = since
            if not tied:  # what was tied, or may be, ended with the session before
                ended = {each for each in self._tied | self._tying if each[0] == node.name}
                self._tied, self._tying = self._tied - ended, self._tying - ended
                self._grants = {each: when for each, when in self._grants.items() if each not in ended}
            return
        held = node.name, name
        if held not in self._tying or tied is not None:
            self._grants[held] = since
        if tied is not None:
            self._tying.discard(held)
            (self._tied.add if tied else self._tied.discard)(held)

    def tying(self, node: Node, subject: str) -> None:
        """See `Witness`."""
        self._tying.add((node.name, subject.rpartition("/")[2]))

    def attaching(self, node: Node, partition: str, after: int, epoch: int) -> None:
        """See `Witness`."""
        what = f"{node.name} attaches to {partition} behind {after} with epoch {epoch}"
        life, lease = self._mine.get((node.name, partition), (0, None))
        self.expect("S7", lease is not None and lease.epoch == epoch, f"{what}; its lease: {lease}")
        if lease is None:
            return
        reached = self._mine_reached.get((node.name, partition))
        self.expect("S7", reached is None or after >= reached, f"{what}; its checkpoint: {reached}")
        token = self._attached.setdefault((partition, life, epoch), lease.token)
        self.expect("S7", token == lease.token, f"{what}, which another acquisition had")
        again = (node.name, partition, life, epoch) in self._stolen
        self.expect("S7", not again, f"{what}, under which its link was stolen")

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
    return Owned(body["Token"], body["Epoch"]), None if body["Offset"] is None else int(body["SequenceNumber"])


def _gap_numbers(text: str) -> list[int]:
    """Numbers in such as `retention:17-20,22-22`."""
    numbers: list[int] = []
    for part in filter(None, text.split(";")):
        for item in part.partition(":")[2].split(","):
            first, _, last = item.partition("-")
            numbers += range(int(first), int(last) + 1)
    return numbers
