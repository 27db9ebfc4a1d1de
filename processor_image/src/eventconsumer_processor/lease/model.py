"""A partition lease as data.

A lease is one blob: its body says who owns the partition, under which epoch, and how far it was read (so it is the
checkpoint too); the blob's own storage lease says whether the owner is alive. The epoch rises with each acquisition and
is never reused.
"""

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
    token: str = ""  # the storage lease's id
    epoch: int = 0
    checkpoint: Checkpoint | None = None
    etag: str = ""
    leased: bool = False  # the storage lease is unexpired, or breaking


@dataclass(frozen=True, slots=True)
class Taken:
    """A lease just acquired by this host."""

    lease: Lease
    since: float  # when the request that took it was sent, seconds of the host's clock
