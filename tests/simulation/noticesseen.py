"""The notices of one chain, as their receiver and the cursor in storage show them.

As `checker`, it uses nothing of the product: identities of notices and the cursor are read by what the documents say.
A place is a segment and the start of a file in it; places of a partition are compared in this order.
"""

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

Place = tuple[int, int]  # number of the segment, start of the file


class NoticesSeen:
    """Judges N1 to N3; see `checker`."""

    def __init__(self, expect: Callable[[str, bool, str], None]) -> None:
        self._expect = expect
        self._segments: list[str] = []
        self._files: dict[str, dict[Place, str]] = defaultdict(dict)  # partition -> place -> name
        self._done: dict[str, set[Place]] = defaultdict(set)  # acknowledged, or pruned before
        self._begin: dict[str, Place] | None = None  # where notices begin
        self._default: Place = (0, -1)  # the begin of other partitions
        self._cursor: dict[str, Place] = {}
        self._read: dict[str, dict[str, Place]] = {}  # host -> the cursor that it has read last

    def segment(self, segment_id: str) -> None:
        """The next segment began."""
        self._segments.append(segment_id)

    def file(self, segment_id: str, partition: str, start: int, name: str) -> None:
        """A file was committed."""
        self._files[partition][self._segments.index(segment_id), start] = name

    def pruned(self, segment_id: str, partition: str, start: int) -> None:
        """A file was pruned: it has no notice any more, unless its notice is under way."""
        self._done[partition].add((self._segments.index(segment_id), start))

    def cursor(self, data: bytes | None, author: str) -> None:
        """The cursor was written."""
        places, default = self._places(json.loads(data or b"{}"))
        what = f"the cursor of notices by {author}"
        if self._begin is None:
            self._begin, self._default = places, default
        for partition, place in places.items():
            before = self._cursor.get(partition, place)
            self._expect("N2", before <= place, f"{what} goes from {before} back to {place} in partition {partition}")
            self._cursor[partition] = place
            left = self._left(partition, place)
            self._expect("N1", not left, f"{what} is at {place} of partition {partition}; {left[:3]} have no notice")

    def read(self, host: str, data: bytes) -> None:
        """A host has read the cursor."""
        self._read[host], _ = self._places(json.loads(data))

    def sent(self, host: str, notice: str, known: set[str]) -> None:
        """A host sends a notice.

        Args:
            host: Its name.
            notice: Identity of the notice.
            known: Notices that the same process sent in this session, and for which it got an acknowledgement.
        """
        partition, place = self._place(notice)
        self._expect("N3", notice not in known, f"{host} sends {notice} again after the acknowledgement")
        passed = self._read.get(host, {}).get(partition, place) > place
        self._expect("N3", not passed, f"{host} sends {notice}, which the cursor that it has read has passed")

    def acknowledged(self, host: str, notice: str) -> None:
        """The receiver accepts a notice."""
        partition, place = self._place(notice)
        self._expect("N1", place in self._files[partition], f"{notice} of {host} announces no file")
        left = self._left(partition, place)
        self._expect("N2", not left, f"{notice} of {host} comes before those of {left[:3]}")
        self._done[partition].add(place)

    def complete(self) -> bool:
        """Whether each file has had its notice."""
        end = (len(self._segments), -1)
        return self._begin is not None and not any(self._left(partition, end) for partition in self._files)

    def _left(self, partition: str, end: Place) -> list[str]:
        """Files before a place without a notice."""
        begin = (self._begin or {}).get(partition, self._default)
        files = self._files[partition].items()
        return [name for place, name in files if begin <= place < end and place not in self._done[partition]]

    def _place(self, notice: str) -> tuple[str, Place]:
        _, segment_id, partition, start = notice.split("/")
        return partition, (self._segments.index(segment_id), int(start))

    def _places(self, record: dict[str, Any]) -> tuple[dict[str, Place], Place]:
        default, segments, starts = record["segmentId"], record.get("segments", {}), record["next"]
        places = {
            partition: (self._segments.index(segments.get(partition, default)), starts.get(partition, -1))
            for partition in starts.keys() | segments.keys()
        }
        return places, (self._segments.index(default), -1)
