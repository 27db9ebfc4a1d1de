"""A container that behaves: new ETags at each write, put-if-absent, and an answer that can be lost."""

import itertools

from eventconsumer_spark.store import BlobFacts


class FakeBlobStore:
    """In memory; `lose_next_answer` makes the next put succeed and be repeated, as after a broken connection."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[str, bytes]] = {}
        self.lose_next_answer = False
        self._versions = itertools.count(1)

    def put(self, name: str, content: bytes) -> None:
        """Write or overwrite, as somebody outside of the job may."""
        self.blobs[name] = (f'"0x{next(self._versions):016X}"', content)

    def delete(self, name: str) -> None:
        """Delete, as somebody outside of the job may."""
        del self.blobs[name]

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes of it; None where there is none."""
        return self.blobs[name][1][:limit] if name in self.blobs else None

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None where there is none."""
        if name not in self.blobs:
            return None
        etag, content = self.blobs[name]
        return BlobFacts(etag, len(content))

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if there is none of this name; False where there is one."""
        if name in self.blobs:
            return False
        self.put(name, content)
        if self.lose_next_answer:
            self.lose_next_answer = False
            return self.create(name, content)
        return True
