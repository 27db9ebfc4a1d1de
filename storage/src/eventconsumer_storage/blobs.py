"""Blobs of one container: the operations that hosts need, as a protocol that tests can fake.

Operations are not retried. Each caller has its own retry loop and handles an unknown outcome: after a retried
put-if-absent, "exists" may refer to the caller's own first request. Every failure is a subclass of
`errors.StorageError`, with the service's code. `async_blobs` is the implementation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from azure.storage.blob import BlobProperties


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """Properties and metadata of a blob, without its content."""

    name: str
    etag: str
    size: int
    last_modified: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
    leased: bool = False  # leased, or the lease is breaking
    forever: bool = False  # the lease never expires
    md5: bytes = b""  # of the content, where storage knows it: after `BlobStore.put`, and not after blocks
    versioned: bool = field(default=False, compare=False)  # the account keeps old versions; listings do not tell

    @property
    def maybe_staged(self) -> bool:
        """Whether the name may have uncommitted blocks only: accounts with a hierarchical namespace may show it empty.

        No source says that they do not: learn.microsoft.com/rest/api/storageservices/put-block names listings only.
        """
        return not self.size and not self.metadata


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

    @property
    def url(self) -> str:
        """URL of the container, without a credential and a slash at the end."""

    async def ensure_container(self) -> None:
        """Create the container if it does not exist."""

    async def head(self, name: str) -> BlobInfo | None:
        """Properties of a blob; None if it does not exist."""

    async def read(self, name: str, limit: int) -> Blob | None:
        """A blob with at most `limit` bytes of its content; None if it does not exist."""

    async def read_range(self, name: str, start: int, size: int, *, if_match: str) -> bytes:
        """A range that is inside of a blob, of the version with this etag; `NotFound` or `Conflict` without one."""

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
        """Replace the metadata of a blob that is not leased, keep its content, and return its etag."""

    async def put_block(self, name: str, block_id: str, data: bytes) -> None:
        """Put an uncommitted block, which is not visible to readers. All ids of a blob have the same length."""

    async def put_block_list(
        self, name: str, block_ids: Sequence[str], *, metadata: Mapping[str, str] | None = None, if_absent: bool = False
    ) -> str:
        """Commit blocks as a blob, and return its etag; other blocks are discarded.

        If another writer was first, the call raises `Conflict`, or `Refused` if storage discards the blocks before it
        checks `if_absent`: read the blob after either.
        """

    async def remove(self, name: str, *, if_match: str) -> None:
        """Delete the version of a blob with the given etag; `NotFound` or `Conflict` if it does not exist."""

    async def list(self, prefix: str, *, metadata: bool = False, limit: int | None = None) -> list[BlobInfo]:
        """Blobs whose names start with `prefix`, in name order: all, or the first `limit`."""

    async def level(self, prefix: str) -> Sequence[str]:
        """Names that start with `prefix`, up to their next slash, each once: those of folders end with it."""

    async def list_page(self, prefix: str, token: str = "", *, limit: int = 5000) -> tuple[Sequence[BlobInfo], str]:
        """Some of the blobs whose names start with `prefix`, in name order, with metadata: one response of storage.

        Args:
            prefix: Of the names.
            token: Of the page before; empty: the first page.
            limit: Of the number of blobs; storage returns 5,000 at most.

        Returns:
            The blobs, and the token of the next page; empty: this is the last one.
        """

    async def acquire_lease(self, name: str, lease_id: str, seconds: int) -> None:
        """Lease a free blob under the given id, for 15 to 60 s; a repeated call with the same id renews it."""

    async def renew_lease(self, name: str, lease_id: str) -> None:
        """Renew a lease."""

    async def release_lease(self, name: str, lease_id: str) -> None:
        """Release a lease."""

    async def close(self) -> None:
        """Close connections."""


def info_of(properties: BlobProperties) -> BlobInfo:
    """Properties of a blob from Azure's client."""
    return BlobInfo(
        name=str(properties.name),
        etag=quoted(properties.etag),
        size=int(properties.size or 0),
        last_modified=properties.last_modified,
        # Listings return None for an empty value, other responses "".
        metadata={key: value or "" for key, value in (properties.metadata or {}).items()},
        leased=is_held(properties.lease.state),
        forever=properties.lease.state == "leased" and properties.lease.duration == "infinite",
        md5=bytes(properties.content_settings.content_md5 or b""),
        versioned=bool(properties.version_id),
    )


def is_held(state: str) -> bool:
    """Whether a lease in this state prevents writes without it."""
    return state in {"leased", "breaking"}


def hierarchical_in(account: Mapping[str, Any]) -> bool | None:
    """Whether an account has a hierarchical namespace, from the client's answer to Get Account Information."""
    value = account.get("is_hns_enabled")
    return None if value is None else str(value).lower() == "true"


def quoted(value: object) -> str:
    """An etag with quotes. Listings return etags without quotes, other responses with quotes."""
    text = str(value)
    return text if text.startswith(('"', "W/")) else f'"{text}"'
