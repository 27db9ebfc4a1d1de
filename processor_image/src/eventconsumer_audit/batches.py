"""PURE: checks the manifests of Spark batches (S8), and compares files with them; commit records: see `commits`.

Manifests are added in order of their numbers. Then every slot is compared with the manifest that names it. Entries
without a slot at the end name missing files.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from eventconsumer_api.spec.spark import IN_FLIGHT_MAX
from eventconsumer_audit.capture import digest
from eventconsumer_audit.codes import Code
from eventconsumer_audit.commits import CommitAudit, FrozenBatch, ranges_digest, ranges_of
from eventconsumer_audit.frozen import FrozenFile, FrozenFiles
from eventconsumer_audit.identity import IdentityAudit
from eventconsumer_audit.model import BatchesAudit, ChainKey, Findings
from eventconsumer_audit.names import SlotFacts, bare
from eventconsumer_audit.watermark import WatermarkAudit


class BatchAudit:
    """All batches of a consumer."""

    def __init__(self, findings: Findings, identity: IdentityAudit, watermark: WatermarkAudit) -> None:
        self._findings = findings
        self._watermark = watermark
        self._identity = identity
        self._files: dict[ChainKey, FrozenFiles] = {}
        self._next: dict[ChainKey, int] = {}
        self._first: dict[ChainKey, int] = {}
        self._sums: dict[int, FrozenBatch] = {}
        self._totals = (0, 0, 0)
        self._known_totals = True
        self._last = 0
        self._parallel: dict[int, bool] = {}
        self.commits = CommitAudit(findings, self._sums, self._files, identity)

    def manifest(self, number: int, blob: str, data: bytes) -> None:
        """Check the next manifest."""
        if number != self._last + 1:
            self._find(
                Code.MANIFEST_MISSING, f"the manifests of batches {self._last + 1} to {number - 1} are missing", blob
            )
            self._known_totals = False
        self._last = number
        try:
            body = json.loads(data)
            named, segment_id = int(body["number"]), str(body["segmentId"])
            files = [_file(file) for file in body["files"]]
            ranges = ranges_of(body["ranges"])
            after = {str(p): int(position) for p, position in body["next"].items()}
            totals = tuple(int(body["totals"].get(key, 0)) for key in ("files", "events", "bytes"))
            parallel = body.get("parallel", False) is True
            self._watermark.manifest(number, body.get("watermark"))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            self._find(Code.MANIFEST_DAMAGED, f"the manifest cannot be read: {error!r}"[:300], blob)
            self._known_totals = False
            return
        if named != number:
            self._find(Code.MANIFEST_DAMAGED, f"the manifest contains the number {named}", blob)
        self._identity.check_part(f"the manifest of batch {number}", str(body.get("chain") or ""), blob)
        self._check_files(number, blob, segment_id, files, ranges)
        for partition, position in after.items():
            key = (segment_id, partition)
            expected = ranges[partition][1] + 1 if partition in ranges else self._next.get(key, position)
            if position != expected:
                self._find(
                    Code.BATCH_WRONG,
                    f"the next batch of partition {partition} starts at {position}, not {expected}",
                    blob,
                )
            self._next[key] = max(position, self._next.get(key, position))
        count, size = sum(file[5] for file in files), sum(file[2] for file in files)
        self._parallel[number] = parallel
        self._sums[number] = FrozenBatch(segment_id, len(files), count, size, ranges_digest(ranges))
        expected_totals = tuple(a + b for a, b in zip(self._totals, (len(files), count, size), strict=True))
        if self._known_totals and totals != expected_totals:
            self._find(
                Code.BATCH_WRONG,
                f"its totals are {totals}, but its files add up to {expected_totals} (files, events, bytes)",
                blob,
            )
        self._totals = (totals[0], totals[1], totals[2])
        self._known_totals = True

    def commit(self, number: int, blob: str, data: bytes) -> None:
        """Check a commit record, after all manifests."""
        self.commits.add(number, blob, data)

    def unmanifested(self, number: int, blob: str) -> None:
        """Add a commit record whose manifest is missing."""
        self._find(Code.COMMIT_WITHOUT_MANIFEST, f"batch {number} is committed but has no manifest", blob)

    def check_order(self, published: Collection[int]) -> None:
        """Check that batches were frozen and committed in order. Call it after all commits.

        A batch is frozen after the commit of the batch before; a parallel one, after that of the 16th batch before.

        Args:
            published: Numbers of the commit records that were listed before the first manifest was read.
        """
        opened = sorted(self._sums.keys() - self.commits.committed)
        for number in opened:
            later = range(number + 1, self._last + 1)
            if found := next((each for each in later if not self._may_follow(each, number)), None):
                self._find(Code.BATCH_TOO_EARLY, f"batch {found} was frozen, but batch {number} is not committed")
            elif found := min((each for each in published if each > number), default=None):
                self._find(Code.BATCH_TOO_EARLY, f"batch {found} is committed, but batch {number} is not")

    def _may_follow(self, number: int, opened: int) -> bool:
        """Whether a batch may be frozen while an earlier one is open."""
        return self._parallel.get(number, False) and number - opened < IN_FLIGHT_MAX

    def slot(self, place: ChainKey, slot: SlotFacts) -> int | None:
        """Compare a committed slot with the manifest that names it.

        Returns:
            The number of its batch; None: it is in no batch.
        """
        files = self._files.get(place)
        found = files.take(slot.start) if files else []
        if not found:
            position = self._next.get(place)
            if position is not None and slot.start < position:
                self._findings.add(
                    Code.FILE_IN_NO_BATCH,
                    f"batches end at {position - 1}, but none of them names this file of {slot.start} to {slot.last}",
                    place,
                    blob=slot.name,
                )
            return None
        entry = found[0]
        if len(found) > 1:
            text = f"the file is in batches {', '.join(str(file.batch) for file in found)}"
            self._findings.add(Code.BATCHES_OVERLAP, text, place, blob=slot.name)
        differences = [
            f"{name} {seen} (manifest: {frozen_as})"
            for name, seen, frozen_as in (
                ("last", slot.last, entry.last),
                ("count", slot.count, entry.count),
                *([] if slot.tombstone else [("size", slot.size, entry.size)]),
            )
            if seen != frozen_as
        ]
        if digest(slot.data.path if slot.data else slot.name) != entry.path:
            differences.append("name (manifest: a different one)")
        if not slot.tombstone and digest(slot.etag) != entry.etag:
            differences.append(f"etag {slot.etag} (manifest: a different one)")
        if differences:
            self._findings.add(
                Code.BATCH_FILE_CHANGED,
                f"the file differs from the manifest of batch {entry.batch}: {', '.join(differences)}",
                place,
                blob=slot.name,
            )
        return entry.batch

    def damaged(self, place: ChainKey, start: int) -> None:
        """Mark a damaged file as present; the damage itself is another finding."""
        if files := self._files.get(place):
            files.take(start)

    def begins(self, place: ChainKey, start: int) -> None:
        """Check that the first batch begins at the chain's start."""
        first = self._first.get(place)
        if first is not None and first != start:
            self._findings.add(
                Code.BATCH_HOLE if first > start else Code.BATCHES_OVERLAP,
                f"the first batch begins at {first}, but the chain at {start}",
                place,
            )

    def finish(self) -> None:
        """Report entries without a file, after all slots."""
        for place, files in self._files.items():
            for file in files.left():
                text = f"batch {file.batch} names a file of {file.start} to {file.last} that does not exist"
                self._findings.add(Code.BATCH_FILE_MISSING, text, place)

    def committed(self, batch: int | None) -> bool:
        """Whether a batch has its commit record."""
        return batch in self.commits.committed

    @property
    def reached(self) -> Mapping[ChainKey, int]:
        """The position after the last batch, for each partition of each segment."""
        return self._next

    @property
    def used(self) -> bool:
        """Whether there is any batch."""
        return self._last > 0

    def report(self) -> BatchesAudit:
        """The batches' part of the report."""
        open_batch = min(self._sums.keys() - self.commits.committed, default=None)
        return BatchesAudit(
            manifests=len(self._sums),
            committed=len(self.commits.committed & self._sums.keys()),
            files=sum(batch.files for batch in self._sums.values()),
            events=sum(batch.events for batch in self._sums.values()),
            open=open_batch,
            quarantined_files=self.commits.count(),
            quarantined_rows=self.commits.left_rows,
        )

    def _check_files(
        self,
        number: int,
        blob: str,
        segment_id: str,
        files: list[tuple[str, str, int, int, int, int, str]],
        ranges: dict[str, tuple[int, int]],
    ) -> None:
        ends: dict[str, int] = {}
        for partition, (first, last) in ranges.items():
            key = (segment_id, partition)
            self._first.setdefault(key, first)
            expected = self._next.get(key, first)
            if first > expected:
                self._find(
                    Code.BATCH_HOLE, f"events {expected} to {first - 1} of partition {partition} are in no batch", blob
                )
            elif first < expected:
                self._find(
                    Code.BATCHES_OVERLAP,
                    f"events {first} to {min(last, expected - 1)} of partition {partition} are in an earlier batch too",
                    blob,
                )
            ends[partition] = first
        for path, partition, size, start, last, count, etag in files:  # in chain order
            if ends.get(partition) != start:
                self._find(
                    Code.BATCH_WRONG,
                    f"its file of {start} to {last} of partition {partition} must start at {ends.get(partition)}",
                    blob,
                )
            ends[partition] = last + 1
            place = (segment_id, partition)
            if place not in self._files:
                self._files[place] = FrozenFiles()
            self._files[place].add(FrozenFile(start, last, count, size, number, digest(path), digest(etag)))
        for partition, (_, end) in ranges.items():
            if ends[partition] != end + 1:
                self._find(
                    Code.BATCH_WRONG,
                    f"its files of partition {partition} end at {ends[partition] - 1}, but its range ends at {end}",
                    blob,
                )

    def _find(self, code: Code, message: str, blob: str = "") -> None:
        self._findings.add(code, message, blob=blob)


def _file(body: dict[str, Any]) -> tuple[str, str, int, int, int, int, str]:
    size, first, last, count = (int(body[key]) for key in ("size", "first", "last", "count"))
    if not all(-(2**63) <= number < 2**63 for number in (size, first, last, count)):
        raise ValueError("a number is out of range")
    return str(body["path"]), str(body["partition"]), size, first, last, count, bare(str(body["etag"]))
