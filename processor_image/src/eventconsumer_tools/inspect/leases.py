"""Reads all leases of a consumer group, in both layouts, without waiting and without a change.

The checkpoint stores of a host need time to see whether an owner in the layout AzureSdk is alive, create missing
blobs, and skip damaged ones. A command reports immediately: owners by the storage's clock, and damaged leases by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field

from eventconsumer_api.shared.model import Report
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_host.errors import LeaseInvalid
from eventconsumer_host.lease import azuresdk, eventprocessorhost
from eventconsumer_host.lease.azuresdk import Names
from eventconsumer_host.lease.azuresdk_store import FOREIGN_SECONDS
from eventconsumer_host.lease.model import Lease
from eventconsumer_host.lease.spelling import find_groups, spelled
from eventconsumer_host.lease.store import for_each
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.errors import NotFound


class LeaseState(StrEnum):
    """Whether a partition has an owner."""

    HELD = "held"  # it has an owner
    FREE = "free"
    EXPIRED = "expired"  # its owner neither renewed nor released it: the next host takes it
    UNKNOWN = "unknown"  # the lease cannot be read


class CheckpointPosition(Report):
    """The last processed event; sequence number -1: none."""

    sequence_number: int
    offset: str = Field(default="", description="As the hub returns it; empty: absent in the blob.")


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A lease as its blobs show it.

    Attributes:
        lease: Owner, checkpoint and ETag. `leased` is the state of the storage lease.
        blob: Name of the blob with the checkpoint; of the ownership where there is no checkpoint.
        epoch: None: a library without epochs wrote the owner, or the lease cannot be read.
        offset: The checkpoint's offset, also where it has no sequence number.
        damage: Why the lease cannot be read.
        modified: When the blob that names the owner was last written.
        seconds: Layout AzureSdk: an owner that has not renewed for this time has ended.
    """

    lease: Lease
    blob: str = ""
    epoch: int | None = None
    offset: str = ""
    damage: str = ""
    modified: datetime | None = None
    seconds: int | None = None

    @property
    def number(self) -> int | None:
        """The checkpoint's sequence number; None where it has none."""
        return self.lease.checkpoint.sequence_number if self.lease.checkpoint else None

    @property
    def position(self) -> CheckpointPosition | None:
        """The checkpoint; None where it has no sequence number."""
        return None if self.number is None else CheckpointPosition(sequence_number=self.number, offset=self.offset)

    def state(self, now: datetime) -> LeaseState:
        """Whether the partition has an owner.

        Args:
            now: The storage's clock.
        """
        if self.lease.leased:
            return LeaseState.HELD
        if self.damage:
            return LeaseState.UNKNOWN
        if not self.lease.owner:
            return LeaseState.FREE
        if self.seconds is None or self.modified is None:
            return LeaseState.EXPIRED
        return LeaseState.HELD if now - self.modified < timedelta(seconds=self.seconds) else LeaseState.EXPIRED


async def read_leases(blobs: BlobStore, layout: LeaseLayout, names: Names) -> dict[str, LeaseView]:
    """All leases by partition; none where the container does not exist.

    Args:
        blobs: The container.
        layout: Of the blobs.
        names: Their prefix. The layout EventProcessorHost uses only prefix and group.

    Raises:
        StorageError: A request failed.
    """
    try:
        if layout is LeaseLayout.AZURE_SDK:
            return await _azuresdk(blobs, names)
        return await _eventprocessorhost(blobs, names)
    except NotFound:
        return {}


async def read_leases_of_python(blobs: BlobStore, prefix: str, partitions: Sequence[str]) -> dict[str, LeaseView]:
    """Leases of the EventProcessorHost for Python, by partition: it has no folder for the consumer group.

    Source: `get_lease_async` of azure-eventhub 1.0.0 to 1.3.3 (`azure_storage_checkpoint_manager.py`).

    Args:
        blobs: The container.
        prefix: Of their names; the library has none.
        partitions: Of the hub.

    Raises:
        StorageError: A request failed.
    """
    try:
        infos = await for_each([f"{prefix.strip()}{partition}" for partition in partitions], blobs.head)
    except NotFound:  # the container
        return {}
    return await _leased_blobs(blobs, prefix.strip(), [info for info in infos if info is not None])


async def _eventprocessorhost(blobs: BlobStore, names: Names) -> dict[str, LeaseView]:
    folder = eventprocessorhost.blob_prefix(names.prefix, names.group)
    return await _leased_blobs(blobs, folder, await blobs.list(folder, metadata=True))


async def _leased_blobs(blobs: BlobStore, folder: str, infos: Sequence[BlobInfo]) -> dict[str, LeaseView]:
    found: dict[str, LeaseView] = {}

    async def read(info: BlobInfo) -> None:
        partition = info.name.removeprefix(folder)
        if "/" in partition or info.metadata.get("hdi_isfolder"):
            return
        blob = await blobs.read(info.name, eventprocessorhost.MAX_BODY_BYTES + 1)
        if blob is None:
            return
        lease, epoch, damage = Lease(partition), None, ""
        try:
            lease = eventprocessorhost.decode(blob.data, partition)
            epoch = lease.epoch
        except LeaseInvalid as error:
            damage = str(error)
        view = LeaseView(
            replace(lease, etag=info.etag, leased=info.leased),
            info.name,
            epoch,
            lease.checkpoint.offset if lease.checkpoint else "",
            damage,
            info.last_modified,
        )
        found[partition] = _without_negative_number(view)

    await for_each(infos, read)
    return found


async def _azuresdk(blobs: BlobStore, names: Names) -> dict[str, LeaseView]:
    """The leases in the spelling of the record; owners under other spellings count too."""
    names = await spelled(blobs, names)
    found: dict[str, LeaseView] = {}
    groups = await find_groups(blobs, names)
    for group in sorted(groups, key=lambda group: group.names.folder != names.folder):  # the own one first
        own = group.names.folder == names.folder
        for partition, info in group.ownerships.items():
            view = found.get(partition) or LeaseView(Lease(partition), info.name)
            if own or _owns_since(view, info):
                found[partition] = _with_ownership(view, info)
        for partition, info in group.checkpoints.items() if own else ():
            view = found.get(partition) or LeaseView(Lease(partition), info.name)
            found[partition] = _with_checkpoint(view, info)
    return found


def _owns_since(view: LeaseView, info: BlobInfo) -> bool:
    """Whether an ownership has an owner, and was written after the one of the view."""
    later = view.modified is None or view.modified < info.last_modified
    return later and bool(azuresdk.ownership(info.metadata).owner)


def _with_ownership(view: LeaseView, info: BlobInfo) -> LeaseView:
    owned = azuresdk.ownership(info.metadata)
    return replace(
        view,
        lease=replace(view.lease, owner=owned.owner, epoch=owned.epoch or 0, etag=info.etag),
        epoch=owned.epoch,
        modified=info.last_modified,
        seconds=min(owned.seconds, FOREIGN_SECONDS) if owned.ours else FOREIGN_SECONDS,
    )


def _with_checkpoint(view: LeaseView, info: BlobInfo) -> LeaseView:
    """Add a checkpoint."""
    try:
        checkpoint = azuresdk.decode_checkpoint(info.metadata)
    except LeaseInvalid as error:
        return replace(view, blob=info.name, damage=str(error))
    return _without_negative_number(
        replace(
            view,
            lease=replace(view.lease, checkpoint=checkpoint),
            blob=info.name,
            offset=checkpoint.offset if checkpoint else "",
        )
    )


def _without_negative_number(view: LeaseView) -> LeaseView:
    """A negative sequence number means none: the offset alone can name a position."""
    if view.number is None or view.number >= 0:
        return view
    return replace(view, lease=replace(view.lease, checkpoint=None))
