"""The slot chain: a partition's files, each event in exactly one of them, without a database.

A slot's name is the sequence number that was *expected next* (the previous file's last + 1), never the first one that
was seen; so two hosts that write the same stretch collide on one name, and put-if-absent lets one of them win. A
genesis record, also put-if-absent, fixes where the chain starts. Names are a pure function of the chain: no clock, host
or epoch is in them. Files are never deleted or changed.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from eventconsumer_processor.errors import Conflict, Damaged
from eventconsumer_processor.source.hub import HubInfo
from eventconsumer_processor.storage import BlobInfo, BlobStore

_GENESIS_LIMIT = 4096
NEAR_DIGITS = 16  # the first look is at the 10,000 sequence numbers around


@dataclass(frozen=True, slots=True)
class Draft:
    """A file about to be committed."""

    start: int  # expected sequence number, the slot's name
    first: int
    last: int
    count: int
    epoch: int
    writer: str
    nonce: str
    last_offset: str
    last_enqueued_time: datetime
    gap: str = ""  # why `first` is above `start`

    def metadata(self) -> dict[str, str]:
        """The blob's metadata, and the file's."""
        return {
            "first": str(self.first),
            "last": str(self.last),
            "count": str(self.count),
            "epoch": str(self.epoch),
            "writer": self.writer,
            "nonce": self.nonce,
            "last_offset": self.last_offset,
            "last_enqueued_time": self.last_enqueued_time.isoformat(),
        } | ({"gap": self.gap} if self.gap else {})


@dataclass(frozen=True, slots=True)
class Slot:
    """A committed file."""

    path: str
    etag: str
    size: int  # bytes of the blob
    committed_at: datetime
    start: int
    first: int
    last: int
    count: int
    epoch: int
    nonce: str
    last_offset: str
    last_enqueued_time: datetime
    gap: str = ""


def incarnation(hub: HubInfo) -> str:
    """16 hexadecimal digits that differ when the hub was deleted and created again."""
    created = hub.created_at.astimezone(UTC).isoformat(timespec="milliseconds")
    return hashlib.sha256(f"{hub.namespace}\n{hub.name.lower()}\n{created}".encode()).hexdigest()[:16]


class Chain:
    """The files of one partition."""

    def __init__(self, blobs: BlobStore, prefix: str, incarnation: str, partition: str) -> None:
        self.partition = partition
        self._blobs = blobs
        self._folder = f"{prefix}/inc={incarnation}/partition={partition}/from="
        self._genesis = f"{prefix}/_genesis/{incarnation}/{partition}.json"

    def path(self, start: int) -> str:
        """Name of the slot that starts at `start`."""
        return f"{self._folder}{start:020d}.parquet"

    async def start(self) -> int | None:
        """Where the chain starts; None where that is not decided yet.

        Raises:
            Damaged: The genesis record cannot be read.
            StorageError: The request failed.
        """
        blob = await self._blobs.read(self._genesis, _GENESIS_LIMIT)
        if blob is None:
            return None
        try:
            return int(json.loads(blob.data)["start"])
        except (ValueError, KeyError, TypeError):
            raise Damaged(f"genesis record {self._genesis} cannot be read: restore it from a backup") from None

    async def begin(self, start: int) -> int:
        """Decide where the chain starts; the first host to do so wins, and all get its answer."""
        try:
            await self._blobs.put(self._genesis, json.dumps({"start": start}).encode(), if_absent=True)
        except Conflict:
            decided = await self.start()
            return start if decided is None else decided
        return start

    async def at(self, start: int) -> Slot | None:
        """The slot that starts at `start`, if it is committed."""
        info = await self._blobs.head(self.path(start))
        return None if info is None else slot_of(info, start)

    async def put(self, draft: Draft, data: bytes) -> None:
        """Commit a file.

        Raises:
            Conflict: The slot is taken, perhaps by this very file.
            Unavailable: The outcome is unknown.
            StorageError: It was not committed.
        """
        metadata = draft.metadata() | {"sha256": hashlib.sha256(data).hexdigest()}
        await self._blobs.put(self.path(draft.start), data, metadata=metadata, if_absent=True)

    async def last_before(self, number: int) -> Slot | None:
        """The slot with the greatest start up to `number`.

        Names are numbers of 20 digits, so ever shorter prefixes list ever wider ranges around it: a few short listings
        instead of a long one.
        """
        digits = f"{number:020d}"
        for length in range(NEAR_DIGITS, -1, -1):
            found = await self._blobs.list(f"{self._folder}{digits[:length]}", metadata=True)
            slots = [(int(info.name.removeprefix(self._folder).split(".")[0]), info) for info in found]
            below = [(start, info) for start, info in slots if start <= number]
            if below:
                start, info = max(below, key=lambda slot: slot[0])
                return slot_of(info, start)
        return None

    async def put_empty(self) -> None:
        """Write an empty file, where the layout has such."""

    async def listed(self) -> list[Slot]:
        """All slots, by one listing: cheaper than following a long chain."""
        found = await self._blobs.list(self._folder, metadata=True)
        return [slot_of(info, int(info.name.removeprefix(self._folder).split(".")[0])) for info in found]


def slot_of(info: BlobInfo, start: int) -> Slot:
    """The slot that a blob is.

    Raises:
        Damaged: The blob lacks the metadata of a slot.
    """
    facts: Mapping[str, str] = {key.lower(): value for key, value in info.metadata.items()}
    try:
        return Slot(
            path=info.name,
            etag=info.etag,
            size=info.size,
            committed_at=info.last_modified,
            start=start,
            first=int(facts["first"]),
            last=int(facts["last"]),
            count=int(facts["count"]),
            epoch=int(facts["epoch"]),
            nonce=facts["nonce"],
            last_offset=facts["last_offset"],
            last_enqueued_time=datetime.fromisoformat(facts["last_enqueued_time"]),
            gap=facts.get("gap", ""),
        )
    except (KeyError, ValueError) as error:
        raise Damaged(
            f"blob {info.name} is not a file of the chain ({error!r} in its metadata): it was written or changed by "
            "something else; restore it"
        ) from None
