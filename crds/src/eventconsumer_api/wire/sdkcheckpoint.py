"""The metadata of a checkpoint blob of the Azure SDKs: the one parser of it.

Hosts, commands and the audit read these blobs, which other programs write:

    .NET        offset, sequencenumber, clientidentifier; an absent value is empty
    Go, Rust    offset and sequencenumber, each only if the program gives it
    Java        offset and sequencenumber, each empty if it is null
    JavaScript  offset, sequencenumber
    Python      offset, sequencenumber

All of them continue at the offset if there is one, so a checkpoint without a sequence number is a valid position.
Sources: `BlobCheckpointStoreInternal.cs`, azeventhubs 2.0.2 `checkpoints/blob_store.go`, `BlobCheckpointStore.java`,
`blobCheckpointStore.ts`, `_blobstoragecs.py`, all of the repositories Azure/azure-sdk-for-*.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

NO_OFFSET = "no offset"
OFFSET_MAX_LENGTH = 1024  # metadata has at most 8 KiB
LONG_MAX = 2**63 - 1
_INTEGER = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class CheckpointMetadata:
    """A position: the last processed event. Absent and empty values are the same."""

    offset: str = ""
    number: int | None = None  # sequence number; None: absent


def parse(metadata: Mapping[str, str]) -> CheckpointMetadata | None:
    """The position in the metadata of a checkpoint blob; None if there is none.

    Raises:
        ValueError: It cannot be parsed; the text gives the cause, as a clause about "it".
    """
    values = {key.lower(): value.strip() for key, value in metadata.items()}
    offset, text = values.get("offset", ""), values.get("sequencenumber", "")
    if offset.lower() == NO_OFFSET:
        offset = ""
    if len(offset) > OFFSET_MAX_LENGTH:
        raise ValueError(f"its offset is longer than {OFFSET_MAX_LENGTH} characters")
    if not text:
        return CheckpointMetadata(offset) if offset else None
    if not _INTEGER.fullmatch(text) or not -LONG_MAX - 1 <= int(text) <= LONG_MAX:
        raise ValueError("its sequencenumber is not an integer of 64 bits")
    return CheckpointMetadata(offset, int(text))
