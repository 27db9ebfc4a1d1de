"""PURE: parses the names and the metadata of a consumer's blobs.

Written from the published layout, intentionally without the writer's code: the auditor must not share its mistakes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

_SLOT = re.compile(r"segment=([^/]+)/partition=([^/]+)/from=(\d{20})\.(parquet|avro|json)")
_GENESIS = re.compile(r"_genesis/([^/]+)/([^/]+)\.json")
_NUMBERED = re.compile(r"_(batches|commits|attempts)/(\d{10})\.json")
_REPROCESS = re.compile(r"_reprocess/[a-z0-9-]{1,20}/_(commits|attempts)/\d{10}\.json")
_DEAD_LETTER = re.compile(r"_deadletters/segment=([^/]+)/partition=([^/]+)/seq=(\d{20})\.json")
_DEAD_LETTER_RECORD = re.compile(
    r"_deadletters/segment=[^/]+/(?:redrive/partition=[^/]+/seq=\d{20}|dropped/\d{8}T\d{6}Z-[0-9a-f]{8})\.json"
)
_CAPTURE = re.compile(r"([^/]+)/([^/]+)/([^/]+)/(\d{4})/(\d\d)/(\d\d)/(\d\d)/(\d\d)/(\d\d)\.avro")
_SEGMENT = re.compile(r"_segments/(\d{10})\.json")
_GAPS = re.compile(r"(?:([A-Za-z][\w-]*):)?(\d+-\d+(?:/\d+)?(?:,\d+-\d+(?:/\d+)?)*)")
_REPLAY = re.compile(r"_replays/[a-z0-9-]{1,20}/(.+)")
# Files that Delta programs other than a host write: data files and deletion vectors, also in a folder with a random
# name, and change data. Source: "File Types" in github.com/delta-io/delta/blob/master/PROTOCOL.md.
_TABLE = re.compile(r"(?:[A-Za-z0-9]{1,8}/)?(?:part-[^/]+\.parquet|deletion_vector_[^/]+\.bin)|_change_data/.+")
_TABLE_LOG = "_delta_log/"
_OWN_FOLDERS = (
    "segment=",
    "_genesis/",
    "_batches/",
    "_commits/",
    "_attempts/",
    "_reprocess/",
    "_deadletters/",
    "_replays/",
    "_segments/",
)
_SINGLE = frozenset(
    {
        "_chain.json",
        "_columns.json",
        "_leader",
        "_notices.json",
        "_replay.json",
        "_retention.json",
        "_watermark.json",
    }
)


@dataclass(frozen=True, slots=True)
class SlotName:
    """A place in a chain."""

    segment_id: str
    partition: str
    start: int
    extension: str


@dataclass(frozen=True, slots=True)
class DeadLetterName:
    """An event that user code could not process."""

    segment_id: str
    partition: str


@dataclass(frozen=True, slots=True)
class CaptureName:
    """A data file in the layout of Event Hubs Capture."""

    partition: str


@dataclass(frozen=True, slots=True)
class Known:
    """A blob of the consumer that is read separately, or not audited here.

    Genesis, manifest, commit, claim of an attempt, records of chain, segments and columns, the leader's lease, the
    watermark, the cursors of notices and of retention; requests to pass dead letters again, and records of dropped
    ones; commits and claims of reprocessing; all blobs of a replay, which is audited under its own prefix; and the log
    of a table.
    """


@dataclass(frozen=True, slots=True)
class TableName:
    """A file that another program writes into a Delta table; a stray if there is no table."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A name that no consumer writes; `inside` one of the consumer's own folders, or outside of them."""

    inside: bool


Name = SlotName | DeadLetterName | CaptureName | Known | TableName | Stray
_KNOWN = Known()


def parse(name: str) -> Name:
    """The kind of a blob, from its name below the prefix."""
    if found := _SLOT.fullmatch(name):
        return SlotName(found[1], found[2], int(found[3]), found[4])
    if (
        name.startswith(_TABLE_LOG)
        or name in _SINGLE
        or any(one.fullmatch(name) for one in (_GENESIS, _SEGMENT, _NUMBERED, _REPROCESS, _DEAD_LETTER_RECORD))
    ):
        return _KNOWN
    if found := _DEAD_LETTER.fullmatch(name):
        return DeadLetterName(found[1], found[2])
    if found := _REPLAY.fullmatch(name):
        return Stray(inside=True) if isinstance(parse(found[1]), Stray) else _KNOWN
    if found := _CAPTURE.fullmatch(name):
        return CaptureName(found[3])
    return TableName() if _TABLE.fullmatch(name) else Stray(name.startswith(_OWN_FOLDERS))


def genesis_of(name: str) -> tuple[str, str] | None:
    """Segment and partition of a genesis record."""
    found = _GENESIS.fullmatch(name)
    return (found[1], found[2]) if found else None


def segment_of(name: str) -> int | None:
    """Number of a segment's record."""
    found = _SEGMENT.fullmatch(name)
    return int(found[1]) if found else None


def is_seal(metadata: Mapping[str, str]) -> bool:
    """Whether the blob in a slot ends the chain."""
    return "sealed" in {key.lower() for key in metadata}


def number_of(name: str) -> int | None:
    """Number of a batch manifest, commit record or claim."""
    found = _NUMBERED.fullmatch(name)
    return int(found[2]) if found else None


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that are in no file for a recorded reason; inclusive. With a count, only that many of these numbers."""

    first: int
    last: int
    reason: str
    count: int | None = None

    @property
    def events(self) -> int:
        """The number of events."""
        return self.last - self.first + 1 if self.count is None else self.count


@dataclass(frozen=True, slots=True)
class DataFile:
    """The data file that a commit record names."""

    path: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """A committed slot, from its blob's name and properties."""

    name: str  # of the blob
    start: int
    first: int
    last: int
    count: int
    epoch: int
    last_offset: str
    sha256: str
    gaps: tuple[Gap, ...]
    tombstone: bool
    size: int  # of the data
    etag: str  # of the data
    data: DataFile | None = None  # layout Capture
    chain: str = ""  # identity of the chain; empty: absent
    earliest: datetime | None = None  # enqueued time of the earliest row; None: no rows, or written by an old version
    dropped: int = 0  # events that the handler dropped
    columns: str = ""  # of bodies, in the file: see `bodycolumns`


class BadFacts(Exception):  # noqa: N818 - the name describes the state
    """The metadata is not valid for a slot; the message gives the reason."""


def facts(name: str, start: int, size: int, etag: str, metadata: Mapping[str, str]) -> SlotFacts:
    """Parse a slot's metadata.

    Args:
        name: The blob's name.
        start: From its name.
        size: Of the blob, bytes.
        etag: Of the blob.
        metadata: Keys in any case.

    Raises:
        BadFacts: A value is missing or malformed.
    """
    values = {key.lower(): value for key, value in metadata.items()}
    try:
        data = None
        if name.endswith(".json"):
            data = DataFile(values["path"], int(values["size"]), bare(values["etag"]))
        for key in ("writer", "nonce"):
            if not values[key]:
                raise BadFacts(f"metadata {key} is empty")
        datetime.fromisoformat(values["last_enqueued_time"])
        if len(bytes.fromhex(values["sha256"])) != 32:
            raise BadFacts("metadata sha256 is not 64 hexadecimal digits")
        return SlotFacts(
            name=name,
            start=start,
            first=int(values["first"]),
            last=int(values["last"]),
            count=int(values["count"]),
            epoch=int(values["epoch"]),
            last_offset=values["last_offset"],
            sha256=values["sha256"].lower(),
            gaps=gaps(values.get("gap", "")),
            tombstone="tombstone" in values,
            size=data.size if data else size,
            etag=data.etag if data else bare(etag),
            data=data,
            chain=values.get("chain", ""),
            earliest=_aware(values["min_enqueued_time"]) if "min_enqueued_time" in values else None,
            dropped=int(values.get("dropped", 0)),
            columns=values.get("columns", ""),
        )
    except KeyError as error:
        raise BadFacts(f"metadata {error.args[0]} is missing") from None
    except ValueError as error:
        raise BadFacts(f"metadata cannot be read: {error}") from None


def _aware(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"the time {text!r} has no time zone")
    return found


def gaps(text: str) -> tuple[Gap, ...]:
    """The ranges in a gap record such as `retention:17-20,22-22;compaction:30-90/31`.

    Raises:
        ValueError: It is malformed.
    """
    found: list[Gap] = []
    for part in filter(None, text.split(";")):
        match = _GAPS.fullmatch(part)
        if match is None:
            raise ValueError(f"gap {part[:100]!r}")
        for piece in match[2].split(","):
            numbers, _, count = piece.partition("/")
            first, _, last = numbers.partition("-")
            found.append(Gap(int(first), int(last), match[1] or "", int(count) if count else None))
    return tuple(sorted(found, key=lambda gap: gap.first))


def bare(etag: str) -> str:
    """An etag without quotes, which only some of listings, responses and manifests contain."""
    return etag.strip('"')
