"""What others do to the blobs of leases: administrators, programs that share them, accidents. One class a layout.

Each knows how to undo what it did, as the problem that a host shows tells people to.
"""

import json
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from tests.support.fakes.blobs import FakeBlobStore

T = TypeVar("T")

FOREIGN = "ffffffff-ffff-4fff-8fff-ffffffffffff"
DAMAGE = (b"", b"{", b'"text"', b'{"Owner":7}', b"[" * 20_000, b"x" * 20_000)


class Tampering(Protocol):
    """What can be done to the lease of a partition."""

    def exists(self, partition: str) -> bool:
        """Is there a lease."""

    def expire(self, partition: str) -> None:
        """End the ownership by force."""

    def break_lease(self, partition: str, seconds: float) -> None:
        """End it in a moment."""

    def take(self, partition: str) -> None:
        """Another program takes the lease and keeps it."""

    def delete(self, partition: str) -> None:
        """Delete the blob of the lease."""

    def damage(self, partition: str, how: int) -> None:
        """Make the lease or its checkpoint unreadable."""

    def edit(self, partition: str, change: int) -> int | None:
        """Move the checkpoint, if there is one; where it is then."""

    def repair(self, partition: str, end: int, head: int) -> None:
        """Undo what hosts wait for, where files end at `end` and the hub at `head`."""


class LeaseBlobs:
    """The layout EventProcessorHost: one leased blob in a folder."""

    def __init__(self, store: FakeBlobStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    def exists(self, partition: str) -> bool:
        """See `Tampering`."""
        return self._name(partition) in self._store.blobs

    def expire(self, partition: str) -> None:
        """See `Tampering`."""
        self._store.break_lease(self._name(partition), 0)

    def break_lease(self, partition: str, seconds: float) -> None:
        """See `Tampering`."""
        self._store.break_lease(self._name(partition), seconds)

    def take(self, partition: str) -> None:
        """See `Tampering`."""
        self.expire(partition)
        now(self._store.acquire_lease(self._name(partition), FOREIGN, 10**9))

    def delete(self, partition: str) -> None:
        """See `Tampering`."""
        self._store.delete(self._name(partition))

    def damage(self, partition: str, how: int) -> None:
        """See `Tampering`."""
        self.expire(partition)
        now(self._store.put(self._name(partition), DAMAGE[how % len(DAMAGE)]))

    def edit(self, partition: str, change: int) -> int | None:
        """See `Tampering`."""
        body = self._body(partition)
        if body is None or body.get("offset") is None:
            return None
        edited = max(-1, int(body["sequenceNumber"]) + change)
        self.expire(partition)
        body |= {"sequenceNumber": edited, "offset": str(edited * 10)}
        now(self._store.put(self._name(partition), json.dumps(body).encode()))
        return edited

    def repair(self, partition: str, end: int, head: int) -> None:
        """See `Tampering`."""
        if not self.exists(partition):
            return
        held = self._store.blobs[self._name(partition)].lease
        if held and held.token == FOREIGN:
            self.expire(partition)
        body = self._body(partition)
        if body is None or (body.get("offset") is not None and int(body["sequenceNumber"]) > end):
            self.delete(partition)

    def _body(self, partition: str) -> dict[str, Any] | None:
        try:
            body = json.loads(self._store.blobs[self._name(partition)].data)
            return dict(body) if int(body["sequenceNumber"]) is not None else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def _name(self, partition: str) -> str:
        return f"{self._folder}/{partition}"


class OwnershipBlobs:
    """The layout AzureSdk: an ownership and a checkpoint, both only metadata."""

    def __init__(self, store: FakeBlobStore, folder: str, *, shared: bool) -> None:
        self._store = store
        self._folder = folder
        self._shared = shared

    def exists(self, partition: str) -> bool:
        """See `Tampering`."""
        return self._owner(partition) in self._store.blobs

    def expire(self, partition: str) -> None:
        """See `Tampering`. Another program takes the partition and gives it back."""
        self.take(partition)
        self._set(self._owner(partition), {"ownerid": ""})

    def break_lease(self, partition: str, seconds: float) -> None:
        """See `Tampering`. There is nothing to break: the ownership is given away."""
        self._set(self._owner(partition), {"ownerid": ""})

    def take(self, partition: str) -> None:
        """See `Tampering`."""
        self._set(self._owner(partition), {"ownerid": "another program"})

    def delete(self, partition: str) -> None:
        """See `Tampering`."""
        self._store.delete(self._owner(partition))

    def damage(self, partition: str, how: int) -> None:
        """See `Tampering`."""
        name = self._reached(partition)
        if name in self._store.blobs:
            bad = ({"sequencenumber": "x"}, {"offset": "7"}, {"sequencenumber": "9" * 30}, {})
            self._set(name, bad[how % len(bad)])

    def edit(self, partition: str, change: int) -> int | None:
        """See `Tampering`."""
        number = self._number(partition)
        if number is None:
            return None
        edited = max(-1, number + change)
        self._set(self._reached(partition), {"sequencenumber": str(edited), "offset": str(edited * 10)})
        return edited

    def repair(self, partition: str, end: int, head: int) -> None:
        """See `Tampering`. What another program read is its own, as long as the hub has so much."""
        owner = self._store.blobs.get(self._owner(partition))
        if owner and owner.metadata.get("ownerid") == "another program":
            self._set(self._owner(partition), {"ownerid": ""})
        name, number = self._reached(partition), self._number(partition)
        if name in self._store.blobs and (number is None or number > (head if self._shared else end)):
            self._store.delete(name)

    def _number(self, partition: str) -> int | None:
        blob = self._store.blobs.get(self._reached(partition))
        text = blob.metadata.get("sequencenumber", "") if blob else ""
        return int(text) if text.lstrip("-").isdigit() and len(text) < 20 else None

    def _set(self, name: str, metadata: dict[str, str]) -> None:
        now(self._store.set_metadata(name, metadata))

    def _owner(self, partition: str) -> str:
        return f"{self._folder}/ownership/{partition}"

    def _reached(self, partition: str) -> str:
        return f"{self._folder}/checkpoint/{partition}"


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a request that waits for nothing."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
