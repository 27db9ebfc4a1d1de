"""Reads the files of a segment and their dead letters, each with one listing."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace

from eventconsumer_host.sink.slots import Slot, slot_of
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.errors import Damaged
from eventconsumer_tools.inspect.storage import Walk

_SLOT = re.compile(r"partition=([^/]+)/from=(\d{20})\.(?:parquet|avro|json)")
_DEAD_LETTER = re.compile(r"partition=([^/]+)/seq=(\d{20})\.json")


async def slots(walk: Walk, prefix: str, segment_id: str) -> AsyncIterator[tuple[str, int, BlobInfo]]:
    """Partition, start and blob of all slots of a segment.

    Args:
        walk: The container of the files.
        prefix: Their folder.
        segment_id: Of the segment.

    Raises:
        StorageError: A request failed.
    """
    folder = f"{prefix}/segment={segment_id}/"
    async for info in walk(folder):
        if name := _SLOT.fullmatch(info.name, len(folder)):
            yield name[1], int(name[2]), info


def file_in(info: BlobInfo, start: int) -> Slot:
    """The file in a slot.

    Args:
        info: The blob.
        start: From its name.

    Raises:
        Damaged: The blob lacks the metadata of a file.
    """
    slot = slot_of(info, start)
    if not info.name.endswith(".json"):
        return slot
    # Layout Capture: the blob is a record that names the file. The chain of that layout would load an encoder.
    facts = {key.lower(): value for key, value in info.metadata.items()}
    try:
        return replace(slot, path=facts["path"], size=0 if slot.tombstone else int(facts["size"]))
    except (KeyError, ValueError) as error:
        raise Damaged(f"commit record {info.name} names no file ({error!r} in its metadata): restore it") from None


async def dead_letters(walk: Walk, prefix: str, segment_id: str) -> dict[str, list[int]]:
    """Sequence numbers of the dead letters of a segment by partition, ascending.

    Args:
        walk: The container of the files.
        prefix: Their folder.
        segment_id: Of the segment.

    Raises:
        StorageError: A request failed.
    """
    folder = f"{prefix}/_deadletters/segment={segment_id}/"
    found: defaultdict[str, list[int]] = defaultdict(list)
    async for info in walk(folder):
        if name := _DEAD_LETTER.fullmatch(info.name, len(folder)):
            found[name[1]].append(int(name[2]))
    return found
