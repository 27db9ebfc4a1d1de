"""PURE: parses owners, epochs and checkpoints of lease blobs, in both layouts.

The parser accepts the differences between libraries that share these blobs (key order and case, absent values, an epoch
of -1). Everything else is reported as damage.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from eventconsumer_api.wire import legacylease, sdkcheckpoint
from eventconsumer_api.wire.legacylease import START_OF_STREAM
from eventconsumer_api.wire.sdkcheckpoint import CheckpointMetadata

_DIGITS = 9  # maximum of a time in seconds


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """One partition's lease and checkpoint."""

    partition: str
    blob: str
    checkpoint: int | None = None
    offset: str = ""
    owner: str | None = None  # empty: released; None: it was never owned
    epoch: int | None = None  # None: the owner's library has no epochs
    held: bool = False  # by a storage lease that has not expired
    etag: str = ""
    damage: str = ""  # why it cannot be read
    modified: datetime | None = None  # when the blob that names the owner was last written
    seconds: int | None = None  # without a renewal, after which an owner has ended; None: another library's


def legacy(
    partition: str, blob: str, data: bytes, *, held: bool, etag: str, modified: datetime | None = None
) -> LeaseFacts:
    """A lease in the EventProcessorHost layout: one JSON body."""
    found = LeaseFacts(partition, blob, held=held, etag=etag, modified=modified)
    try:
        body = legacylease.parse(data)
    except ValueError as error:
        return replace(found, damage=str(error))
    if body.partition and body.partition != partition:
        return replace(found, damage=f"its PartitionId is {body.partition!r}")
    number = None if body.offset in {"", START_OF_STREAM} else body.number
    return replace(found, checkpoint=number, offset=body.offset, owner=body.owner, epoch=body.epoch)


def ownership(
    found: LeaseFacts, metadata: Mapping[str, str], *, etag: str, modified: datetime | None = None
) -> LeaseFacts:
    """Add an ownership blob of the AzureSdk layout: only metadata."""
    values = _lower(metadata)
    try:
        epoch = int(values["epoch"]) if values.get("epoch") else None
    except ValueError:
        return replace(found, damage="the ownership's epoch is not an integer")
    text = values.get("seconds", "")
    seconds = int(text) if epoch is not None and text.isdecimal() and len(text) <= _DIGITS else None
    owner = values.get("ownerid") or ""
    return replace(found, owner=owner, epoch=epoch, etag=etag, modified=modified, seconds=seconds)


def rival(found: LeaseFacts, blob: str, metadata: Mapping[str, str], modified: datetime) -> LeaseFacts:
    """Add an ownership blob under another spelling of the names: a later owner counts, its epoch does not."""
    owner = _lower(metadata).get("ownerid") or ""
    if not owner or (found.modified is not None and found.modified >= modified):
        return found
    return replace(found, blob=blob, owner=owner, modified=modified, seconds=None)


def checkpoint(found: LeaseFacts, blob: str, metadata: Mapping[str, str]) -> LeaseFacts:
    """Add a checkpoint blob of the AzureSdk layout: only metadata."""
    try:
        position = sdkcheckpoint.parse(metadata) or CheckpointMetadata()
    except ValueError as error:
        return replace(found, blob=blob, damage=f"the checkpoint cannot be parsed: {error}")
    number = position.number if position.number is not None and position.number >= 0 else None
    if found.checkpoint is not None and (number is None or number < found.checkpoint):
        return found  # another library, which spells names differently, wrote a later checkpoint
    return replace(found, blob=blob, checkpoint=number, offset=position.offset)


def _lower(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in metadata.items()}
