"""PURE: pairs commit records with the data files of the Capture layout, in any order.

A data file without a record is an orphan, left by a host that lost the race for a slot. A record without its data file,
or with another one, is a violation. Only unpaired records and files are in memory, data files under a hash of the name.
"""

from dataclasses import dataclass
from hashlib import blake2b

from eventconsumer_audit.model import ChainKey
from eventconsumer_audit.names import DataFile


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """A record whose data file was not listed yet."""

    record: str  # its blob
    file: DataFile
    place: ChainKey
    tombstone: bool = False  # the record is a tombstone: its data file must not exist


class CapturePairs:
    """Records and data files without their counterpart."""

    def __init__(self) -> None:
        self.records: dict[int, PendingRecord] = {}
        self.files: dict[int, DataFile] = {}
        self.left: list[PendingRecord] = []  # tombstones whose data file still exists

    def record(self, waiting: PendingRecord) -> DataFile | None:
        """Add a record; returns the data file if it differs from the record."""
        key = digest(waiting.file.path)
        found = self.files.pop(key, None)
        if found is None:
            self.records[key] = waiting
            return None
        if waiting.tombstone:
            self.left.append(waiting)
            return None
        return None if found == waiting.file else found

    def file(self, file: DataFile) -> PendingRecord | None:
        """Add a data file; returns the record if it differs from the data file."""
        key = digest(file.path)
        waiting = self.records.pop(key, None)
        if waiting is None:
            self.files[key] = file
            return None
        if waiting.tombstone:
            self.left.append(waiting)
            return None
        return None if waiting.file == file else waiting

    def claim(self, file: DataFile) -> bool:
        """Remove the data file of a record that was committed during the audit; whether there was one."""
        return self.files.pop(digest(file.path), None) is not None


def digest(text: str) -> int:
    """A 64-bit hash of a name, to keep a million names in a few megabytes."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
