"""Blobs of one container: the few operations the host needs, behind a protocol that tests can fake.

Nothing is retried. Each caller runs in a loop of its own and knows what an unknown outcome means for it: a retried
put-if-absent that fails with "exists" may have been ours. Every failure is one of `errors.StorageError`, with the
service's code. `async_blobs` is the real one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from azure.storage.blob import BlobProperties


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """What storage says about a blob without its content."""

    name: str
    etag: str
    size: int
    last_modified: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
    leased: bool = False  # an unexpired lease, or one that is breaking
    forever: bool = False  # that lease never expires


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob with its content."""

    info: BlobInfo
    data: bytes


class BlobStore(Protocol):
    """One container. All methods raise `StorageError`."""

    @property
    def account(self) -> str:
        """Name of the storage account."""

    async def ensure_container(self) -> None:
        """Create the container where it is missing."""

    async def head(self, name: str) -> BlobInfo | None:
        """Facts about a blob; None where it does not exist."""

    async def read(self, name: str, limit: int) -> Blob | None:
        """A blob with at most `limit` bytes of its content; None where it does not exist."""

    async def put(
        self,
        name: str,
        data: bytes,
        *,
        metadata: Mapping[str, str] | None = None,
        lease_id: str | None = None,
        if_match: str | None = None,
        if_absent: bool = False,
    ) -> str:
        """Write a whole blob in one request (its metadata is replaced too) and return its etag."""

    async def set_metadata(self, name: str, metadata: Mapping[str, str], *, if_match: str | None = None) -> str:
        """Replace the metadata of a blob that is not leased, its content stays, and return its etag."""

    async def put_block(self, name: str, block_id: str, data: bytes) -> None:
        """Put a block that can be made part of a blob; nothing can be seen of it. A blob's ids are equally long."""

    async def put_block_list(
        self, name: str, block_ids: Sequence[str], *, metadata: Mapping[str, str] | None = None, if_absent: bool = False
    ) -> str:
        """Make blocks a whole blob, and return its etag; blocks that are not named are dropped.

        A writer that is overtaken gets `Conflict`, or `Refused` where storage drops its blocks before looking at
        `if_absent`: look at the blob after either.
        """

    async def remove(self, name: str, *, if_match: str) -> None:
        """Delete the version of a blob that has the given etag; `NotFound` or `Conflict` where it is not there."""

    async def list(self, prefix: str, *, metadata: bool = False, limit: int | None = None) -> list[BlobInfo]:
        """The blobs whose names start with `prefix`, in name order: all, or the first `limit`."""

    async def acquire_lease(self, name: str, lease_id: str, seconds: int) -> None:
        """Lease a free blob under the given id, for 15 to 60 s; the same id again restarts its time."""

    async def renew_lease(self, name: str, lease_id: str) -> None:
        """Renew a lease."""

    async def release_lease(self, name: str, lease_id: str) -> None:
        """Release a lease."""

    async def close(self) -> None:
        """Close connections."""


def info_of(properties: BlobProperties) -> BlobInfo:
    """What Azure's client tells about a blob."""
    return BlobInfo(
        name=str(properties.name),
        etag=quoted(properties.etag),
        size=int(properties.size or 0),
        last_modified=properties.last_modified,
        # A listing gives None for an empty value, other answers give "".
        metadata={key: value or "" for key, value in (properties.metadata or {}).items()},
        leased=properties.lease.state in {"leased", "breaking"},
        forever=properties.lease.state == "leased" and properties.lease.duration == "infinite",
    )


def quoted(value: object) -> str:
    """An etag with quotes. Listings give etags without quotes, other answers with them."""
    text = str(value)
    return text if text.startswith(('"', "W/")) else f'"{text}"'
