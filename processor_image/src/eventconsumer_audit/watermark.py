"""PURE: checks the watermark, and those in batch manifests, against the enqueued times of the files (S11); also the
totals of the files that a watermark counts.

The record is read before all other blobs. So files, manifests and commit records that it refers to exist when they are
read, and a file that it does not refer to may only have later events.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate

from eventconsumer_audit.chain import ChainAudit
from eventconsumer_audit.codes import Code
from eventconsumer_audit.identity import IdentityAudit
from eventconsumer_audit.model import ChainKey, Findings
from eventconsumer_audit.names import SlotFacts

NAME = "_watermark.json"
_NEVER = datetime.min.replace(tzinfo=UTC)


class WatermarkAudit:
    """The watermark of a consumer."""

    def __init__(self, findings: Findings, identity: IdentityAudit) -> None:
        self._findings = findings
        self._identity = identity
        self._blob = ""
        self._totals: tuple[int, int] | None = None  # files and events before `_ends`
        self._seen = (0, 0)  # the same, as found
        self._earlier: set[str] = set()  # segments before that of the record
        self._files: datetime = _NEVER
        self._ends: dict[ChainKey, int] = {}
        self._named: set[str] = set()  # segments whose files it can miss: its own, and later ones
        self._commits: datetime = _NEVER
        self._batch = 0
        self._manifests: dict[int, datetime] = {}
        self._before: list[datetime] | None = None  # by number of a batch: the watermark of the batches before it

    def record(self, blob: str, data: bytes, segment_ids: Sequence[str]) -> None:
        """Add the record.

        Args:
            blob: Its name.
            data: Its content.
            segment_ids: Of the segments, in order.
        """
        self._blob = blob
        try:
            body = json.loads(data)
            segment_id, files = str(body["segmentId"]), _time(body["files"])
            ends = {(segment_id, str(partition)): int(end) for partition, end in body["next"].items()}
            commits = _time(body["commits"]) if body.get("commits") is not None else _NEVER
            batch = int(body.get("batch") or 0)
            totals = body.get("totals")
            counted = (int(totals.get("files", 0)), int(totals.get("events", 0))) if totals is not None else None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            self._findings.add(Code.WATERMARK_DAMAGED, f"the watermark cannot be read: {error!r}"[:300], blob=blob)
            return
        self._identity.check_part("the watermark", str(body.get("chain") or ""), blob)
        self._files, self._ends, self._commits, self._batch = files, ends, commits, batch
        position = segment_ids.index(segment_id) if segment_id in segment_ids else len(segment_ids)
        self._totals, self._earlier = counted, {*segment_ids[:position]}
        self._named = {segment_id, *segment_ids[position:]}

    def manifest(self, number: int, text: object) -> None:
        """Add the watermark of a batch.

        Raises:
            ValueError, TypeError: It cannot be read.
        """
        if text is not None:
            self._manifests[number] = _time(text)

    def slot(self, place: ChainKey, slot: SlotFacts, batch: int | None) -> None:
        """Check a file, after all manifests.

        Args:
            place: Its partition.
            slot: Its facts.
            batch: The number of its batch; None: it is in no batch.
        """
        if place[0] in self._earlier or slot.start < self._ends.get(place, 0):
            files, events = self._seen
            self._seen = (files + 1, events + slot.count)
        earliest = slot.earliest
        if earliest is None:
            return
        if earliest < self._files and place[0] in self._named and slot.start >= self._ends.get(place, 0):
            self._find(f"files were complete up to {_text(self._files)}, and this file has", earliest, place, slot)
        if slot.tombstone and batch is None:
            return  # batches do not contain files that were pruned before the first batch
        if earliest < self._commits and (batch is None or batch > self._batch):
            self._find(
                f"batches up to {self._batch} were complete up to {_text(self._commits)}, and this file of "
                f"{f'batch {batch}' if batch else 'no batch'} has",
                earliest,
                place,
                slot,
            )
        if earliest < (frozen := self._frozen_before(batch)):
            self._find(f"earlier batches were complete up to {_text(frozen)}, and this file has", earliest, place, slot)

    def finish(self, chains: Mapping[ChainKey, ChainAudit], last_batch: int) -> None:
        """Check that the record refers to nothing that is missing, after all files.

        Args:
            chains: All chains.
            last_batch: The last committed batch; 0: none.
        """
        for place, end in self._ends.items():
            reached = chains[place].next if place in chains else None
            if end > (reached or 0):
                text = (
                    f"the files ended at {end - 1} when the watermark was written, but they end at {(reached or 0) - 1}"
                )
                self._findings.add(Code.WATERMARK_WRONG, text, place, blob=self._blob)
        if self._totals is not None and self._totals != self._seen:
            (files, events), (found, rows) = self._totals, self._seen
            text = f"the watermark counts {files} files with {events} events, and there are {found} with {rows}"
            self._findings.add(Code.TOTALS_WRONG, text, blob=self._blob)
        if self._batch > last_batch:
            text = f"the watermark names batch {self._batch}, but the last committed batch is {last_batch}"
            self._findings.add(Code.WATERMARK_WRONG, text, blob=self._blob)

    def _frozen_before(self, batch: int | None) -> datetime:
        """The watermark of all batches before a batch; of all batches for None."""
        if self._before is None:
            last = max(self._manifests, default=0)
            times = (self._manifests.get(number, _NEVER) for number in range(last + 1))
            self._before = list(accumulate(times, max))
        number = len(self._before) if batch is None else batch
        return self._before[min(number, len(self._before)) - 1]

    def _find(self, text: str, earliest: datetime, place: ChainKey, slot: SlotFacts) -> None:
        message = f"{text} an event that was enqueued at {_text(earliest)}"
        self._findings.add(Code.WATERMARK_WRONG, message, place, blob=slot.name)


def _time(text: object) -> datetime:
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a time")
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return found


def _text(time: datetime) -> str:
    return time.isoformat()
