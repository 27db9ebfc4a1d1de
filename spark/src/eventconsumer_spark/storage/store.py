"""The blobs of a batch: manifest, files, claim and commit, and the output's container.

Spark reads and writes the data through ABFS; this module provides operations that ABFS lacks: ETags, leases,
put-if-absent and put-if-unchanged. A blob is overwritten only if its ETag is given. The client repeats a request
without a response, and the repetition may find the effect of the first: False from a conditional write does not mean
that another writer was first.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, Self

from eventconsumer_storage.account import StorageAccount
from eventconsumer_storage.causes import cause_of, with_cause
from eventconsumer_storage.errors import Conflict, NotFound, StorageError, Unauthorized
from eventconsumer_storage.sync_blobs import SyncBlobStore

log = logging.getLogger(__name__)

CHECKS = 16
"""Checks of files at the same time: they are bound by latency."""


@dataclass(frozen=True)
class BlobFacts:
    """Properties of a blob: ETag in the form of storage, size in bytes."""

    etag: str
    size: int


@dataclass(frozen=True)
class Version:
    """A version of a blob."""

    etag: str
    content: bytes


class SparkBlobStore(Protocol):
    """One container."""

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes of it; None if it does not exist."""

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None if it does not exist."""

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if it does not exist; False if it exists."""


class ClaimStore(SparkBlobStore, Protocol):
    """One container whose blobs can be leased."""

    def load(self, name: str, limit: int) -> Version | None:
        """Content, at most `limit` bytes of it, with its ETag; None if the blob does not exist."""

    def replace(self, name: str, content: bytes, etag: str, lease: str) -> bool:
        """Put if the blob still has the version `etag` and `lease` is held; otherwise False."""

    def acquire(self, name: str, seconds: int, lease: str) -> bool:
        """Acquire a lease of a blob with the id `lease`; False if another lease is held, or the blob does not exist."""

    def renew(self, name: str, lease: str) -> bool:
        """Renew a lease; False if it is not held. Not repeated, with a time limit of a few seconds."""

    def release(self, name: str, lease: str) -> None:
        """Release a lease; no effect if it is not held."""

    def break_off(self, name: str, seconds: int) -> None:
        """Break the lease of a blob after `seconds`, whatever its holder does; no effect without a lease."""


class SinkContainer:
    """A container of the sink's storage account.

    Raises:
        StorageError: From every method, if the account refuses or does not respond.
    """

    def __init__(self, account: StorageAccount, container: str) -> None:
        self._place = f"container {container} of {account.endpoint}"
        self._blobs = SyncBlobStore(account, container, CHECKS + 1)  # and the renewal of the claim

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._blobs.close()

    def ensure_container(self) -> bool:
        """Create the container if it is missing; False if it is missing and may not be created.

        Without the permission to read it, the first write detects whether it exists.
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

    def is_hierarchical(self) -> bool | None:
        """Whether the account has a hierarchical namespace; None if the credential may not ask."""
        with self._request("ask for the kind of the account of", "the container"):
            return self._blobs.is_hierarchical()

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes of it; None if it does not exist."""
        version = self.load(name, limit)
        return None if version is None else version.content

    def load(self, name: str, limit: int) -> Version | None:
        """Content, at most `limit` bytes of it, with its ETag; None if the blob does not exist."""
        with self._request("read", name):
            blob = self._blobs.read(name, limit)
            return None if blob is None else Version(blob.info.etag, blob.data)

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None if it does not exist."""
        with self._request("look at", name):
            info = self._blobs.head(name)
            return None if info is None else BlobFacts(info.etag, info.size)

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if it does not exist; False if it exists."""
        with self._request("write", name):
            try:
                self._blobs.put(name, content, if_absent=True)
            except Conflict:
                return False
            return True

    def replace(self, name: str, content: bytes, etag: str, lease: str) -> bool:
        """Put if the blob still has the version `etag` and `lease` is held; otherwise False."""
        with self._request("write", name):
            return _unless_refused(lambda: self._blobs.put(name, content, if_match=etag, lease_id=lease))

    def acquire(self, name: str, seconds: int, lease: str) -> bool:
        """Acquire a lease of a blob with the id `lease`; False if another lease is held, or the blob does not exist."""
        with self._request("lease", name):
            return _unless_refused(lambda: self._blobs.acquire_lease(name, lease, seconds))

    def renew(self, name: str, lease: str) -> bool:
        """Renew a lease; False if it is not held. Not repeated, with a time limit of a few seconds."""
        with self._request("renew the lease of", name):
            return _unless_refused(lambda: self._blobs.renew_lease(name, lease))

    def release(self, name: str, lease: str) -> None:
        """Release a lease; no effect if it is not held."""
        with self._request("release", name):
            _unless_refused(lambda: self._blobs.release_lease(name, lease))

    def break_off(self, name: str, seconds: int) -> None:
        """Break the lease of a blob after `seconds`, whatever its holder does; no effect without a lease."""
        with self._request("break the lease of", name):
            _unless_refused(lambda: self._blobs.break_lease(name, seconds))

    @contextmanager
    def _request(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            remedy = "check that the account is reachable from the Spark pods"
            if isinstance(error, Unauthorized):
                remedy = "check that the credential of spec.sink can read and write this container"
            if cause := cause_of(error):
                remedy = cause.remedy
            raise type(error)(
                f"cannot {verb} {name} in {self._place}: {with_cause(error)}: {remedy}", error.status, error.code
            ) from error


def _unless_refused(request: Callable[[], None]) -> bool:
    """False if the blob is not in the state that the request requires: 404, 409 and 412."""
    try:
        request()
    except (NotFound, Conflict) as error:
        if error.code.startswith("Container"):  # a missing or deleted container is not a state of a blob
            raise
        return False
    return True
