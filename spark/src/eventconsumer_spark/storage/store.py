"""The blobs around a batch: manifest, files, claim and commit, and the output's container.

Spark reads and writes the data through ABFS; this module serves what ABFS cannot give: ETags, leases, put-if-absent and
put-if-unchanged. Nothing is overwritten that was not named by its ETag. A request whose answer was lost is repeated by
the client and may meet its own effect: False from a conditional write means "not in this state", not "not by me".
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, Self

from eventconsumer_storage.account import StorageAccount
from eventconsumer_storage.errors import Conflict, NotFound, StorageError, Unauthorized
from eventconsumer_storage.sync_blobs import SyncBlobStore

log = logging.getLogger("eventconsumer.spark")


@dataclass(frozen=True)
class BlobFacts:
    """What storage says about a blob: ETag as storage writes it, size in bytes."""

    etag: str
    size: int


@dataclass(frozen=True)
class Version:
    """A blob as it was at one moment."""

    etag: str
    content: bytes


class BlobStore(Protocol):
    """One container."""

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes of it; None where there is none."""

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None where there is none."""

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if there is none of this name; False where there is one."""


class ClaimStore(BlobStore, Protocol):
    """One container whose blobs can be leased."""

    def load(self, name: str, limit: int) -> Version | None:
        """Content, at most `limit` bytes of it, with the ETag it has; None where there is no such blob."""

    def replace(self, name: str, content: bytes, etag: str, lease: str) -> bool:
        """Put if the blob still is the version `etag` and `lease` is held; False where not."""

    def acquire(self, name: str, seconds: int, lease: str) -> bool:
        """Take a lease of a blob under the id `lease`; False while another one is held, or where there is no blob."""

    def renew(self, name: str, lease: str) -> bool:
        """Start the time of a lease again; False where it is not held. Not repeated, and bounded to a few seconds."""

    def release(self, name: str, lease: str) -> None:
        """End a lease at once; nothing where it is not held."""

    def break_off(self, name: str, seconds: int) -> None:
        """Let the lease of a blob end after `seconds`, whatever becomes of its holder; nothing where there is none."""


class SinkContainer:
    """A container of the sink's storage account.

    Raises:
        StorageError: From every method, where the account refuses or does not answer.
    """

    def __init__(self, account: StorageAccount, container: str) -> None:
        self._place = f"container {container} of {account.endpoint}"
        self._blobs = SyncBlobStore(account, container)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._blobs.close()

    def ensure_container(self) -> bool:
        """Create the container if there is none; False where there is none and none may be created.

        Without the right to look, this leaves it to the first write to find out whether it is there.
        """
        with self._request("create", "the container itself"):
            try:
                self._blobs.create_container()
            except Conflict:
                return True
            except Unauthorized:
                log.info("not allowed to create %s: it must exist", self._place)
                return self._may_exist()
            return True

    def _may_exist(self) -> bool:
        try:
            return self._blobs.container_exists()
        except Unauthorized:
            return True

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes of it; None where there is none."""
        version = self.load(name, limit)
        return None if version is None else version.content

    def load(self, name: str, limit: int) -> Version | None:
        """Content, at most `limit` bytes of it, with the ETag it has; None where there is no such blob."""
        with self._request("read", name):
            blob = self._blobs.read(name, limit)
            return None if blob is None else Version(blob.info.etag, blob.data)

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None where there is none."""
        with self._request("look at", name):
            info = self._blobs.head(name)
            return None if info is None else BlobFacts(info.etag, info.size)

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if there is none of this name; False where there is one."""
        with self._request("write", name):
            try:
                self._blobs.put(name, content, if_absent=True)
            except Conflict:
                return False
            return True

    def replace(self, name: str, content: bytes, etag: str, lease: str) -> bool:
        """Put if the blob still is the version `etag` and `lease` is held; False where not."""
        with self._request("write", name):
            return _unless_refused(lambda: self._blobs.put(name, content, if_match=etag, lease_id=lease))

    def acquire(self, name: str, seconds: int, lease: str) -> bool:
        """Take a lease of a blob under the id `lease`; False while another one is held, or where there is no blob."""
        with self._request("lease", name):
            return _unless_refused(lambda: self._blobs.acquire_lease(name, lease, seconds))

    def renew(self, name: str, lease: str) -> bool:
        """Start the time of a lease again; False where it is not held. Not repeated, and bounded to a few seconds."""
        with self._request("renew the lease of", name):
            return _unless_refused(lambda: self._blobs.renew_lease(name, lease))

    def release(self, name: str, lease: str) -> None:
        """End a lease at once; nothing where it is not held."""
        with self._request("release", name):
            _unless_refused(lambda: self._blobs.release_lease(name, lease))

    def break_off(self, name: str, seconds: int) -> None:
        """Let the lease of a blob end after `seconds`, whatever becomes of its holder; nothing where there is none."""
        with self._request("break the lease of", name):
            _unless_refused(lambda: self._blobs.break_lease(name, seconds))

    @contextmanager
    def _request(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            remedy = "check that the account is reachable from the Spark pods"
            if isinstance(error, Unauthorized):
                remedy = "check that the credential of spec.sink may read and write this container"
            raise type(error)(
                f"cannot {verb} {name} in {self._place}: {error}: {remedy}", error.status, error.code
            ) from error


def _unless_refused(request: Callable[[], None]) -> bool:
    """False where the blob is not in the state that the request asks for: 404, 409 and 412."""
    try:
        request()
    except (NotFound, Conflict) as error:
        if error.code.startswith("Container"):  # one that is missing or being deleted is no state of a blob
            raise
        return False
    return True
