"""A partition lease as data, whatever the layout of its blobs.

A lease says who owns the partition, under which epoch, and how far it was read (its checkpoint). The epoch rises with
each acquisition and is never reused. A tenure, the time from an acquisition to a release or loss, is known by owner and
token together.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last event that is in a committed file; a hint, the chain of files is the truth."""

    offset: str
    sequence_number: int


@dataclass(frozen=True, slots=True)
class Lease:
    """One partition's lease, as last read or written."""

    partition: str
    owner: str = ""  # empty: released
    token: str = ""  # of the ownership: its holder may take the lease over. Empty: no owner, or it cannot be taken
    epoch: int = 0
    checkpoint: Checkpoint | None = None
    etag: str = ""  # of the blob that names the owner; empty: there is none
    checkpoint_etag: str = ""  # of the checkpoint's blob, where it has one of its own
    leased: bool = False  # somebody's tenure is not over, or the lease is kept for somebody
    camel_case: bool = False  # its keys are spelt as the Java library does


@dataclass(frozen=True, slots=True)
class Taken:
    """A lease just acquired by this host."""

    lease: Lease
    since: float  # when the request that took it was sent, seconds of the host's clock


@dataclass(frozen=True, slots=True)
class Unusable:
    """A lease that cannot be taken as it is."""

    why: str  # names the blob
    remedy: str  # what a user can do
    rebuild: Lease | None = None  # acquire this to have it rewritten; None: something else holds it


@dataclass(frozen=True, slots=True)
class Listing:
    """All leases of a consumer group."""

    leases: Mapping[str, Lease]
    invalid: Mapping[str, Unusable]
