"""PURE: checks the commit records of Spark batches against their manifests and against each other.

The events that were read and the excluded ones must add up to the manifest's events, only files of the manifest may be
excluded, and the running totals must add up. Records are added in order of their numbers, after all manifests. Absent
fields of a record have their defaults, which are not written; those of a record without a chain are not checked:
programs of users may omit them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventconsumer_audit.capture import digest
from eventconsumer_audit.codes import Code
from eventconsumer_audit.frozen import FrozenFiles
from eventconsumer_audit.identity import IdentityAudit
from eventconsumer_audit.model import ChainKey, Findings
from eventconsumer_audit.names import bare

Ranges = Mapping[str, tuple[int, int]]
_TOTALS = ("rowsRead", "rowsWritten", "quarantinedFiles", "quarantinedRows")


@dataclass(frozen=True, slots=True)
class FrozenBatch:
    """The sums of a manifest."""

    segment_id: str
    files: int
    events: int
    bytes: int
    ranges: int  # digest


def ranges_of(body: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Partition id -> first and last sequence number, from JSON."""
    return {str(partition): (int(part["first"]), int(part["last"])) for partition, part in body.items()}


def ranges_digest(ranges: Ranges) -> int:
    """A 64-bit hash of the ranges: each batch has one range for each partition."""
    return digest(json.dumps(sorted(ranges.items())))


_DEFAULTS: dict[str, Any] = {"bytes": 0, "ranges": {}, "totals": {}}


@dataclass(frozen=True, slots=True)
class _Left:
    """Files and events that a batch excluded."""

    number: int
    files: tuple[dict[str, Any], ...]
    rows: int
    message: str
    digest: int

    @property
    def events(self) -> int:
        return sum(int(file["count"]) for file in self.files)


@dataclass(frozen=True, slots=True)
class _Record:
    """A commit record; None: the field is absent."""

    number: int
    files: int
    rows: int
    written: int | None
    bytes: int | None
    ranges: int | None
    left: _Left | None
    totals: tuple[int, ...] | None


@dataclass
class CommitAudit:
    """All commit records of a consumer.

    Args:
        findings: Collects findings.
        batches: Sums of the manifests, by number.
        frozen: Their files, by place.
        identity: Checks the chain that they name.
    """

    findings: Findings
    batches: Mapping[int, FrozenBatch]
    frozen: Mapping[ChainKey, FrozenFiles]
    identity: IdentityAudit
    committed: set[int] = field(default_factory=set)
    left_files: dict[ChainKey, set[int]] = field(default_factory=dict)  # the starts of excluded files
    left_rows: int = 0
    _before: _Record | None = None  # the last record that could be read

    def add(self, number: int, blob: str, data: bytes) -> None:
        """Check the next record."""
        self.committed.add(number)
        try:
            body = json.loads(data)
            record = _record(body)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            self._find(Code.COMMIT_DAMAGED, f"the commit record cannot be read: {error!r}"[:300], blob)
            return
        if record.number != number:
            self._find(Code.COMMIT_DAMAGED, f"the commit record contains the number {record.number}", blob)
            return
        self.identity.commit(number, blob, body)
        before = self._before if self._before and self._before.number == number - 1 else None
        own = record.left if record.left and record.left.number == number else None
        batch = self.batches.get(number)
        if batch:
            self._check_sums(record, own, batch, blob)
        if own and batch:
            self._check_files(own, batch, blob)
        if before or number == 1:
            self._check_left(record, before, blob)
            self._check_totals(record, own, before, blob)
        self._before = record

    def count(self) -> int:
        """The number of excluded files."""
        return sum(map(len, self.left_files.values()))

    def left_out(self, place: ChainKey, start: int) -> bool:
        """Whether the batch excluded the file that starts there."""
        return start in self.left_files.get(place, ())

    def _check_sums(self, record: _Record, own: _Left | None, batch: FrozenBatch, blob: str) -> None:
        left = own.events if own else 0
        differences = [
            f"{name} {said:,} (manifest: {wanted:,})"
            for name, said, wanted in (
                ("files", record.files, batch.files),
                ("events read or excluded", record.rows + left, batch.events),
                ("bytes", record.bytes, batch.bytes),
            )
            if said is not None and said != wanted
        ]
        if record.ranges is not None and record.ranges != batch.ranges:
            differences.append("ranges (manifest: different ones)")
        if differences:
            text = f"batch {record.number} was committed with {', '.join(differences)}"
            self._find(Code.COMMIT_WRONG, text, blob)

    def _check_files(self, own: _Left, batch: FrozenBatch, blob: str) -> None:
        for file in own.files:
            place, start = (batch.segment_id, str(file["partition"])), int(file["first"])
            same = (int(file["last"]), int(file["count"]), digest(str(file["path"])), digest(bare(str(file["etag"]))))
            files = self.frozen.get(place)
            there = [one for one in files.find(start) if one.batch == own.number] if files else []
            named = f"batch {own.number} excluded {file['path']}"
            if not any((one.last, one.count, one.path, one.etag) == same for one in there):
                self._find(Code.QUARANTINE_WRONG, f"{named}, which is not in its manifest", blob)
            elif self.left_out(place, start):
                self._find(Code.QUARANTINE_WRONG, f"{named} twice", blob)
            else:
                self.left_files.setdefault(place, set()).add(start)
        self.left_rows += own.rows
        if own.files or own.rows:
            text = (
                f"batch {own.number} excluded {len(own.files):,} files with {own.events:,} events, and {own.rows:,} "
                f"events of other files: {own.message[:300] or 'no cause recorded'}"
            )
            self._find(Code.QUARANTINED, text, blob)

    def _check_left(self, record: _Record, before: _Record | None, blob: str) -> None:
        """Check that a record repeats the previous exclusions, unless its own batch excluded something."""
        earlier = before.left if before else None
        if record.left and record.left.number == record.number:
            return
        if (record.left.digest if record.left else None) != (earlier.digest if earlier else None):
            named = f"names the exclusions of batch {record.left.number}" if record.left else "names no exclusions"
            text = f"the record of batch {record.number} {named}, but the previous record names other ones"
            self._find(Code.QUARANTINE_WRONG, text, blob)

    def _check_totals(self, record: _Record, own: _Left | None, before: _Record | None, blob: str) -> None:
        base = before.totals if before else (0,) * len(_TOTALS)
        if record.totals is None or record.written is None or base is None:
            return
        added = (record.rows, record.written, len(own.files) if own else 0, own.rows if own else 0)
        wanted = tuple(a + b for a, b in zip(base, added, strict=True))
        if record.totals != wanted:
            text = f"its totals are {record.totals}, but the records add up to {wanted} ({', '.join(_TOTALS)})"
            self._find(Code.COMMIT_TOTALS_WRONG, text, blob)

    def _find(self, code: Code, message: str, blob: str) -> None:
        self.findings.add(code, message, blob=blob)


def _record(body: dict[str, Any]) -> _Record:
    if body.get("chain"):
        body = _DEFAULTS | body
    totals = body.get("totals")
    return _Record(
        number=int(body["number"]),
        files=int(body["files"]),
        rows=int(body["rowsRead"]),
        written=int(body["rowsWritten"]) if "rowsWritten" in body else None,
        bytes=int(body["bytes"]) if "bytes" in body else None,
        ranges=ranges_digest(ranges_of(body["ranges"])) if "ranges" in body else None,
        left=_left(body["quarantine"]) if body.get("quarantine") is not None else None,
        totals=tuple(int(totals.get(name, 0)) for name in _TOTALS) if totals is not None else None,
    )


def _left(body: dict[str, Any]) -> _Left:
    files = tuple(body.get("files", []))
    for file in files:
        int(file["first"]), int(file["last"]), int(file["count"]), file["path"], file["etag"], file["partition"]
    return _Left(
        number=int(body["number"]),
        files=files,
        rows=int(body.get("rows", 0)),
        message=str(body.get("message", "")),
        digest=digest(json.dumps(body, sort_keys=True)),
    )
