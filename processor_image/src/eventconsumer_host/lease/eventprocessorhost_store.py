"""Leases in the EventProcessorHost layout: one blob per partition, whose storage lease shows that its owner is alive.

Every write has the storage lease's id *and* the etag on which it is based: without the id it would succeed on an
expired lease, without the etag it could restore an old checkpoint or epoch. Content and the owner's metadata are
written by one request, so that no reader sees one without the other. The metadata has a copy of the body, so a listing
shows all leases. A body is read only where another program wrote it, and only when the listing shows another etag.

An operation on the lease may change the etag: accounts with a hierarchical namespace are not documented to keep it. So
after a refused condition the blob is read again, and the write is repeated if its content is still the same.

All bodies are written in one dialect. `Auto` is the dialect of the blobs that exist. Where some have Java's keys, or
there are none, it is Java's, because the other libraries read them too.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from uuid import uuid4

from eventconsumer_api.v1alpha1 import LeaseDialect
from eventconsumer_host.errors import LeaseInvalid, LeaseLost
from eventconsumer_host.lease import eventprocessorhost as layout
from eventconsumer_host.lease.model import Checkpoint, Lease, LeaseListing, Taken, Unusable, next_epoch
from eventconsumer_host.lease.store import ACQUIRE_ATTEMPTS, TIDY_SECONDS, for_each
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.causes import with_cause
from eventconsumer_storage.errors import Conflict, NotFound, StorageError, Unavailable

WRITE_ATTEMPTS = 3
NAMELESS_LEASES = 2  # lease durations for which a leased blob may lack an owner's name: an acquisition is much faster


class EventProcessorHostStore:
    """`store.LeaseStore` on leased blobs."""

    def __init__(
        self,
        blobs: BlobStore,
        prefix: str,
        consumer_group: str,
        seconds: int,
        clock: Callable[[], float],
        *,
        dialect: LeaseDialect = LeaseDialect.AUTO,
    ) -> None:
        self._blobs = blobs
        self._prefix = prefix
        self._group = consumer_group
        self._seconds = seconds
        self._clock = clock
        self._dialect = dialect
        self._found: set[LeaseDialect] = set()  # in the bodies that were read
        self._seen: dict[str, Lease] = {}
        self._nameless: dict[str, float] = {}  # partition -> start of its lease without an owner's name

    @property
    def seconds(self) -> int:
        """See `LeaseStore`."""
        return self._seconds

    def name(self, partition: str) -> str:
        """Name of a partition's lease blob."""
        return layout.blob_name(self._prefix, self._group, partition)

    @property
    def folder(self) -> str:
        """See `LeaseStore`."""
        return layout.blob_prefix(self._prefix, self._group)

    async def spelling(self) -> str:
        """See `LeaseStore`."""
        return ""

    async def existing(self) -> Sequence[Lease]:
        """See `LeaseStore`."""
        try:
            listed = await self._blobs.list(self.folder)
        except NotFound:  # the container
            return []
        found: list[Lease] = []

        async def look(name: str) -> None:
            with contextlib.suppress(LeaseInvalid, NotFound):
                found.append(await self.read(name.removeprefix(self.folder)))

        await for_each((info.name for info in listed), look)
        return found

    async def list(self, partitions: Iterable[str]) -> LeaseListing:
        """See `LeaseStore`. Missing blobs are created, as that library does at registration."""
        listed = await self._blobs.list(self.folder, metadata=True)
        found = {info.name: info for info in listed}
        leases: dict[str, Lease] = {}
        invalid: dict[str, Unusable] = {}

        async def look(partition: str) -> None:
            lease = await self._look(partition, found.get(self.name(partition)))
            if isinstance(lease, Lease):
                leases[partition] = lease
            else:
                invalid[partition] = lease

        wanted = list(partitions)
        await for_each((partition for partition in wanted if self.name(partition) in found), look)
        # After that the dialect of the others is known.
        await for_each((partition for partition in wanted if self.name(partition) not in found), look)
        return LeaseListing(leases, invalid)

    async def read(self, partition: str) -> Lease:
        """See `LeaseStore`."""
        name = self.name(partition)
        blob = await self._blobs.read(name, layout.MAX_BODY_BYTES + 1)
        if blob is None:
            raise NotFound(f"lease blob {name} was deleted", 404, "BlobNotFound")
        return self._decoded(partition, blob.info, blob.data)

    async def acquire(self, seen: Lease, owner: str, *, rebuild: bool = False) -> Taken | None:
        """See `LeaseStore`."""
        next_epoch(seen.partition, seen.epoch)
        token = str(uuid4())
        try:
            since = await self._take(seen, token)
            if since is None:
                return None
            current = await self._under_lease(seen.partition, rebuild)
            wanted = replace(
                current, owner=owner, token=token, epoch=next_epoch(seen.partition, current.epoch), leased=True
            )
            return Taken(await self._write(current, wanted), since)
        except (StorageError, LeaseInvalid, LeaseLost, asyncio.CancelledError) as error:
            with contextlib.suppress(StorageError, TimeoutError):
                async with asyncio.timeout(TIDY_SECONDS):
                    await self._blobs.release_lease(self.name(seen.partition), token)
            if isinstance(error, Conflict | LeaseLost | NotFound):
                return None
            raise

    async def renew(self, lease: Lease) -> Lease:
        """See `LeaseStore`."""
        try:
            await self._blobs.renew_lease(self.name(lease.partition), lease.token)
        except (Conflict, NotFound) as error:
            raise _lost(lease, error) from error
        return lease

    async def advance(self, lease: Lease, checkpoint: Checkpoint) -> Lease:
        """See `LeaseStore`."""
        return await self._write(lease, replace(lease, checkpoint=checkpoint))

    async def raise_epoch(self, lease: Lease, epoch: int) -> Lease:
        """See `LeaseStore`."""
        return await self._write(lease, replace(lease, epoch=epoch))

    async def release(self, lease: Lease) -> None:
        """See `LeaseStore`. The storage lease is released, then owner and token are emptied."""
        try:
            await self._blobs.release_lease(self.name(lease.partition), lease.token)
        except (Conflict, NotFound) as error:
            raise _lost(lease, error) from error
        await self._write(lease, replace(lease, owner="", token=""))

    async def _look(self, partition: str, info: BlobInfo | None) -> Lease | Unusable:
        if info is None:
            return await self._create(partition)
        seen = self._seen.get(partition)
        if seen is None or seen.etag != info.etag:
            try:
                body = layout.body_in(info.metadata, info.md5)
                seen = self._decoded(partition, info, body) if body else await self.read(partition)
            except LeaseInvalid as error:
                return Unusable(
                    str(error),
                    "Restore or correct its content. If the blob is deleted, hosts begin at the end of the files or, "
                    "without files, at spec.startingPosition; kubectl eventconsumer checkpoint set sets another",
                    rebuild=Lease(partition, etag=info.etag, leased=info.leased),
                )
            except NotFound:  # deleted after it was listed
                return await self._create(partition)
        self._seen[partition] = seen
        if info.forever:
            return Unusable(
                f"lease blob {info.name} has an infinite lease, which hosts cannot acquire",
                "Break the lease of the blob, or stop the program that holds it",
            )
        lease = replace(seen, leased=info.leased)
        return lease if self._has_a_name(lease) else self._held_by_something(info)

    def _decoded(self, partition: str, info: BlobInfo, body: bytes) -> Lease:
        self._found.add(layout.dialect_of(body))
        try:
            lease = layout.decode(body, partition)
        except LeaseInvalid as error:
            raise LeaseInvalid(f"cannot parse lease blob {info.name}: {error}") from None
        return replace(lease, etag=info.etag, leased=info.leased)

    def _has_a_name(self, lease: Lease) -> bool:
        if lease.owner or not lease.leased:
            self._nameless.pop(lease.partition, None)
            return True
        since = self._nameless.setdefault(lease.partition, self._clock())
        return self._clock() - since <= NAMELESS_LEASES * self._seconds

    def _held_by_something(self, info: BlobInfo) -> Unusable:
        return Unusable(
            f"lease blob {info.name} has been leased for longer than an acquisition takes, without an owner's name",
            "Find the program that renews its lease, and stop it",
        )

    async def _create(self, partition: str) -> Lease:
        fresh = Lease(partition)
        body = self._encoded(fresh)
        metadata = layout.encode_metadata(fresh, body)
        try:
            etag = await self._blobs.put(self.name(partition), body, metadata=metadata, if_absent=True)
        except Conflict:  # another host was first; the next listing shows it
            return replace(fresh, leased=True)
        return replace(fresh, etag=etag)

    def _encoded(self, lease: Lease) -> bytes:
        dialects = self._found if self._dialect is LeaseDialect.AUTO else {self._dialect}
        return layout.encode(lease, java=LeaseDialect.JAVA in dialects or LeaseDialect.DOT_NET not in dialects)

    async def _take(self, seen: Lease, token: str) -> float | None:
        """Acquire the storage lease with the id `token`; returns the time of the request, or None.

        A lease of another host is released by the id in its blob, and then acquired.
        """
        if seen.leased and not seen.token:
            return None
        name = self.name(seen.partition)
        for attempt in range(1, ACQUIRE_ATTEMPTS + 1):
            try:
                if seen.leased:
                    with contextlib.suppress(Conflict):  # it has expired meanwhile
                        await self._blobs.release_lease(name, seen.token)
                since = self._clock()
                await self._blobs.acquire_lease(name, token, self._seconds)
            except (Conflict, NotFound):
                return None
            except Unavailable:
                if attempt == ACQUIRE_ATTEMPTS:
                    raise
            else:
                return since
        return None

    async def _under_lease(self, partition: str, rebuild: bool) -> Lease:
        """The lease, read while this host holds the storage lease."""
        try:
            return await self.read(partition)
        except LeaseInvalid:
            info = await self._blobs.head(self.name(partition))
            if not rebuild or info is None:
                raise
            return Lease(partition, etag=info.etag)

    async def _write(self, base: Lease, wanted: Lease) -> Lease:
        """Replace the body of `base`, which must be the present one, under the storage lease of `wanted.token`, if any.

        Raises:
            LeaseLost: The lease is not held, or the body is another one.
            Unavailable: The etag changes continuously.
            StorageError: The request failed.
        """
        etag, body = base.etag, self._encoded(wanted)
        for _ in range(WRITE_ATTEMPTS):
            try:
                etag = await self._blobs.put(
                    self.name(wanted.partition),
                    body,
                    metadata=layout.encode_metadata(wanted, body),
                    lease_id=wanted.token or None,
                    if_match=etag,
                )
            except (Conflict, NotFound) as error:
                if error.code != "ConditionNotMet":
                    raise _lost(wanted, error) from error
                etag = await self._same(base, error)
            else:
                self._seen[wanted.partition] = written = replace(wanted, etag=etag)
                return written
        raise Unavailable(f"lease blob {self.name(base.partition)}: its etag changes continuously")

    async def _same(self, base: Lease, refused: StorageError) -> str:
        """The present etag of the blob, whose body must still be that of `base`."""
        try:
            current = await self.read(base.partition)
        except (LeaseInvalid, NotFound) as error:
            raise LeaseLost(f"partition {base.partition}: {error}") from error
        if current.etag == base.etag or self._encoded(current) != self._encoded(base):
            raise _lost(base, refused) from refused
        return current.etag


def _lost(lease: Lease, error: StorageError) -> LeaseLost:
    return LeaseLost(f"partition {lease.partition}: {with_cause(error)}")
