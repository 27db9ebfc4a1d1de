"""How the names of a consumer group are spelled in the names of its blobs, in the layout of the Azure SDKs.

Event Hubs compares the names of namespace, hub and consumer group without case; storage compares names of blobs with
case. Some SDKs convert these names to lower case, others write them as their user spells them. Source, their code:

    Go          as spelled  azeventhubs 2.0.2, checkpoints/blob_store.go: prefixForOwnershipBlobs; issue 21352
    Rust        as spelled, later lower case: issue 5099, pull request 5109, models.rs: get_ownership_prefix_name
    Java        lower case  EventProcessorClient, the constructor; its BlobCheckpointStore alone as spelled: issue 36325
    C++         lower case  checkpoint_store.cpp: GetOwnershipPrefixName; its first versions as spelled
    .NET        lower case  BlobCheckpointStoreInternal.cs: ToLowerInvariant; issue 8289
    JavaScript  lower case  blobCheckpointStore.ts: getBlobPrefix; issue 5348
    Python      lower case  _blobstoragecs.py; versions before 1.0 as spelled: issue 8535

All hosts of a consumer, and every command, use one spelling: the one in the record of the leases, which the first host
writes. So it never changes. The first host takes the spelling of the blobs that exist, or lower case.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from eventconsumer_api.wire.identity import RECORD_MAX_BYTES, LeaseRecord, lease_record_name
from eventconsumer_host.errors import LeasesAmbiguous
from eventconsumer_host.lease.azuresdk import CHECKPOINT, OWNERSHIP, Names
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.errors import Damaged, NotFound


@dataclass(frozen=True, slots=True)
class Group:
    """The blobs of a consumer group under one spelling, by partition."""

    names: Names
    ownerships: Mapping[str, BlobInfo]
    checkpoints: Mapping[str, BlobInfo]

    @property
    def partitions(self) -> list[str]:
        """Partitions with an ownership or a checkpoint."""
        return [*dict.fromkeys((*self.ownerships, *self.checkpoints))]


async def read_group(blobs: BlobStore, names: Names) -> Group:
    """The blobs under the spelling of `names`, in one listing.

    Raises:
        NotFound: The container does not exist.
        StorageError: The request failed.
    """
    found: dict[str, dict[str, BlobInfo]] = {OWNERSHIP: {}, CHECKPOINT: {}}
    for info in await blobs.list(names.folder, metadata=True):
        kind, _, partition = info.name.removeprefix(names.folder).partition("/")
        if kind in found and partition and "/" not in partition:
            found[kind][partition] = info
    return Group(names, found[OWNERSHIP], found[CHECKPOINT])


async def find_groups(blobs: BlobStore, names: Names) -> list[Group]:
    """The blobs under every spelling that has some, whatever the case; the spelling of `names` does not count.

    Raises:
        NotFound: The container does not exist.
        StorageError: A request failed.
    """
    groups = [await read_group(blobs, replace(names, spelling=each)) for each in await spellings(blobs, names)]
    return [group for group in groups if group.partitions]


async def spellings(blobs: BlobStore, names: Names) -> list[str]:
    """The spellings for which there is a folder; raises as `find_groups`."""
    start = names.prefix.strip()
    found = [start]
    for wanted in names.levels:
        found = [
            folder
            for outer in found
            for folder in await blobs.level(outer)
            if folder.endswith("/") and _is_one(folder.removeprefix(outer).rstrip("/"), wanted)
        ]
    return [folder.removeprefix(start).rstrip("/") for folder in found]


async def spelled(blobs: BlobStore, names: Names) -> Names:
    """The names with the spelling that the record of the leases decides; without a record, that of the blobs.

    Raises:
        LeasesAmbiguous: There is no record, and there are blobs under several spellings.
        StorageError: A request failed, or the record cannot be parsed.
    """
    name = lease_record_name(names.home, names.group)
    try:
        record = await blobs.read(name, RECORD_MAX_BYTES)
        if record is not None:
            return replace(names, spelling=_recorded(LeaseRecord.model_validate_json(record.data), names))
        found = await find_groups(blobs, names)
    except NotFound:  # the container
        return replace(names, spelling="")
    except ValueError:  # also pydantic's
        raise Damaged(f"cannot parse the record {name}: restore it from a backup") from None
    if len(found) > 1:
        raise LeasesAmbiguous([group.names.folder.rstrip("/") for group in found])
    return replace(names, spelling=found[0].names.spelling if found else "")


def _recorded(record: LeaseRecord, names: Names) -> str:
    """The spelling in a record; raises ValueError if it is one of other names."""
    if record.spelling:
        parts = zip(record.spelling.split("/"), names.levels, strict=True)
        if not all(_is_one(name, wanted) for name, wanted in parts):
            raise ValueError("these are other names")
    return record.spelling


def _is_one(name: str, wanted: tuple[str, ...]) -> bool:
    """Whether a name is one of these, which are in lower case; all names of Event Hubs are in ASCII."""
    return name.isascii() and name.lower() in wanted
