"""A partition lease as data, independent of the layout of its blobs.

A lease has the owner of the partition, the epoch, and the checkpoint. The epoch rises with each acquisition and is
never reused. Owner and token together identify an ownership, the time from an acquisition to a release or loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.legacylease import LONG_MAX, START_OF_STREAM
from eventconsumer_host.errors import LeaseInvalid

NO_NUMBER = -1  # sequence number of a checkpoint that has only an offset, or is before the first event


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last event that is in a committed file; only a hint, the chain of files decides."""

    offset: str
    sequence_number: int

    def needs_offset(self, layout: LeaseLayout) -> bool:
        """Whether only the offset is a valid position: libraries left the number out, or (leased blobs) wrote 0."""
        if self.offset in {"", START_OF_STREAM}:
            return False
        return self.sequence_number < 0 or (self.sequence_number == 0 and layout is LeaseLayout.EVENT_PROCESSOR_HOST)


@dataclass(frozen=True, slots=True)
class Lease:
    """One partition's lease, as last read or written."""

    partition: str
    owner: str = ""  # empty: released
    token: str = ""  # of the ownership: its holder may take over the lease. Empty: no owner, or not possible
    epoch: int = 0
    checkpoint: Checkpoint | None = None
    etag: str = ""  # of the blob that names the owner; empty: there is none
    checkpoint_etag: str = ""  # of the checkpoint's blob, where it has one of its own
    leased: bool = False  # an ownership has not expired, or the lease is reserved


@dataclass(frozen=True, slots=True)
class Taken:
    """A lease that this host just acquired."""

    lease: Lease
    since: float  # time at which the request was sent, seconds of the host's clock


@dataclass(frozen=True, slots=True)
class Unusable:
    """A lease that cannot be acquired in its present state."""

    why: str  # names the blob
    remedy: str  # the remedy
    rebuild: Lease | None = None  # acquire this to rewrite it; None: another program holds it


@dataclass(frozen=True, slots=True)
class LeaseListing:
    """All leases of a consumer group."""

    leases: Mapping[str, Lease]
    invalid: Mapping[str, Unusable]


def next_epoch(partition: str, epoch: int) -> int:
    """The epoch of the next owner.

    Raises:
        LeaseInvalid: There is no higher one: Event Hubs and all libraries have signed integers of 64 bits.
    """
    if epoch >= LONG_MAX:
        raise LeaseInvalid(
            f"the lease of partition {partition} has the highest epoch, {epoch}, so it can have no next owner: if no "
            "file has this epoch, stop all readers, and set Epoch in the lease blob (layout AzureSdk: the metadata "
            "epoch of the ownership) to 0; hosts raise it above the epochs of the files"
        )
    return epoch + 1
