"""PURE: pairs commit records with the data files of the Capture layout, in whatever order both go by.

A data file without a record is an orphan: what a host left that lost a race. A record without its data file, or with
another one, is a violation. Only what is not paired yet is held, as hashes where that is enough.
"""

from dataclasses import dataclass
from hashlib import blake2b

from eventconsumer_processor.audit.model import Place
from eventconsumer_processor.audit.names import DataFile


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record whose data file was not seen yet."""

    record: str  # its blob
    file: DataFile
    place: Place
    buried: bool = False  # the record is a tombstone: its data file is to be gone


class CapturePairs:
    """Records and data files that wait for each other."""

    def __init__(self) -> None:
        self.records: dict[int, Waiting] = {}
        self.files: dict[int, DataFile] = {}
        self.left: list[Waiting] = []  # tombstones whose data file is still there

    def record(self, waiting: Waiting) -> DataFile | None:
        """Take a record; the data file where it is another one than recorded."""
        key = digest(waiting.file.path)
        found = self.files.pop(key, None)
        if found is None:
            self.records[key] = waiting
            return None
        if waiting.buried:
            self.left.append(waiting)
            return None
        return None if found == waiting.file else found

    def file(self, file: DataFile) -> Waiting | None:
        """Take a data file; the record where it says something else."""
        key = digest(file.path)
        waiting = self.records.pop(key, None)
        if waiting is None:
            self.files[key] = file
            return None
        if waiting.buried:
            self.left.append(waiting)
            return None
        return None if waiting.file == file else waiting

    def claim(self, file: DataFile) -> bool:
        """Whether a data file was waiting for this record, committed while the audit ran."""
        return self.files.pop(digest(file.path), None) is not None


def digest(text: str) -> int:
    """64 bits that stand for a name: a million names then need megabytes."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
