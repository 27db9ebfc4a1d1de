"""A container in memory: ETags, conditional writes, leases on a clock, and lost responses."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from eventconsumer_spark.storage.store import BlobFacts, Version


@dataclass
class _Lease:
    id: str
    seconds: float
    end: float
    broken: bool = False


class FakeSparkBlobStore:
    """In memory; `lose_next_answer` makes the next write succeed and be repeated, as after a broken connection.

    Args:
        clock: Seconds; leases end by it.
        lease_changes_etag: Whether operations on a lease change the ETag of the blob.
    """

    def __init__(self, clock: Callable[[], float] = lambda: 0.0, *, lease_changes_etag: bool = False) -> None:
        self._lease_changes_etag = lease_changes_etag
        self.blobs: dict[str, tuple[str, bytes]] = {}
        self.lose_next_answer = False
        self._clock = clock
        self._leases: dict[str, _Lease] = {}
        self._versions = itertools.count(1)

    def put(self, name: str, content: bytes) -> None:
        """Write or overwrite, as a program outside of the job can."""
        self.blobs[name] = (f'"0x{next(self._versions):016X}"', content)

    def delete(self, name: str) -> None:
        """Delete, as a program outside of the job can."""
        del self.blobs[name]

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes; None: no such blob."""
        return self.blobs[name][1][:limit] if name in self.blobs else None

    def load(self, name: str, limit: int) -> Version | None:
        """Content and ETag of a blob; None: no such blob."""
        if name not in self.blobs:
            return None
        etag, content = self.blobs[name]
        return Version(etag, content[:limit])

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None: no such blob."""
        if name not in self.blobs:
            return None
        etag, content = self.blobs[name]
        return BlobFacts(etag, len(content))

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if it does not exist; False: it exists."""
        if name in self.blobs:
            return False
        self.put(name, content)
        return self._answer(lambda: self.create(name, content))

    def replace(self, name: str, content: bytes, etag: str, lease: str) -> bool:
        """Put if the blob still has `etag` and `lease` is held; False otherwise."""
        held = self._held(name)
        if name not in self.blobs or self.blobs[name][0] != etag or held is None or held.id != lease:
            return False
        self.put(name, content)
        return self._answer(lambda: self.replace(name, content, etag, lease))

    def acquire(self, name: str, seconds: int, lease: str) -> bool:
        """Acquire a lease of a blob; False: another one is held, or the blob does not exist."""
        held = self._held(name)
        if name not in self.blobs or (held is not None and (held.id != lease or held.broken)):
            return False
        self._leases[name] = _Lease(lease, seconds, self._clock() + seconds)
        self._leased(name)
        return self._answer(lambda: self.acquire(name, seconds, lease))

    def renew(self, name: str, lease: str) -> bool:
        """Renew a lease, also after its end if no other was acquired; False: another lease is held."""
        held = self._leases.get(name)
        if held is None or held.id != lease or held.broken:
            return False
        held.end = self._clock() + held.seconds
        self._leased(name)
        return True

    def release(self, name: str, lease: str) -> None:
        """End a lease immediately; no effect if it is not held."""
        held = self._leases.get(name)
        if held is not None and held.id == lease:
            del self._leases[name]

    def break_off(self, name: str, seconds: int) -> None:
        """Make the lease of a blob end after `seconds`."""
        if held := self._held(name):
            held.end = min(held.end, self._clock() + seconds)
            held.broken = True

    def _leased(self, name: str) -> None:
        if self._lease_changes_etag:
            self.put(name, self.blobs[name][1])

    def _held(self, name: str) -> _Lease | None:
        held = self._leases.get(name)
        return held if held is not None and self._clock() < held.end else None

    def _answer(self, repeat: Callable[[], bool]) -> bool:
        if not self.lose_next_answer:
            return True
        self.lose_next_answer = False
        return repeat()
