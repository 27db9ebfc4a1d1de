"""Leases in the layout of the current Azure SDKs: ownership is claimed by rewriting a blob's metadata under its etag.

This layout has no storage leases. The owner of a partition rewrites the ownership regularly, and is considered dead
when an observing host has *seen* no change for long enough by its own clock: clocks are never compared, so a skew has
no effect. Hosts of this project write this time into the blob. For another program it follows from the intervals
between its claims (`Rhythm`), which its settings decide and its blobs do not name.

Owners under another spelling of the names (`spelling`) do not see the owners under this one. So a partition with such
an owner that lives is left to it, and reported.

An SDK processor attaches with epoch 0 directly after its claim, is refused while the former owner still reads, and
releases the partition. So a partition that is released shortly after a host of this project owned it is reserved for
the claimant, which finds no reader at its next attempt.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from eventconsumer_api.wire.sdkcheckpoint import NO_OFFSET
from eventconsumer_host.errors import LeaseInvalid, LeaseLost
from eventconsumer_host.lease import azuresdk as layout
from eventconsumer_host.lease.azuresdk import Names, Ownership
from eventconsumer_host.lease.model import Checkpoint, Lease, LeaseListing, Taken, Unusable, next_epoch
from eventconsumer_host.lease.spelling import Group, read_group, spelled, spellings
from eventconsumer_host.lease.store import ACQUIRE_ATTEMPTS, for_each
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.errors import Conflict, NotFound, StorageError, Unavailable

FOREIGN_SECONDS = 120  # longest time without a change after which another program's ownership expires
MISSED = 2.5  # intervals: one claim may fail
SPELLINGS_SECONDS, SPELLINGS_LISTS = 600.0, 5  # least time, and listings, between two looks for other spellings
HANDOVER_SECONDS = 45.0  # above the maximum time between two claims of an SDK processor
REWRITE_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The claims of another program, seconds of the observer's clock.

    By default the SDKs claim every 30 s (JavaScript: 10 s), and expect a claim within 120 s (Python: 180 s, JavaScript:
    60 s); see `EventProcessorClientOptions` (.NET), `EventProcessorClientBuilder` (Java), `EventHubConsumerClient`
    (Python), and `LoadBalancingOptions` (JavaScript). While a processor acquires its share, it can claim much faster.
    """

    first: float  # first claim seen
    last: float  # last claim seen
    longest: float = 0.0  # between two claims on a partition

    def claimed(self, now: float, before: float) -> "Rhythm":
        """With a claim at `now` on a partition that it claimed at `before`."""
        return Rhythm(self.first, now, max(self.longest, now - before))

    def patience(self, least: float) -> float:
        """Time without a claim after which it is considered dead, seconds; not less than `least`."""
        if self.last - self.first < FOREIGN_SECONDS:
            return FOREIGN_SECONDS  # too few were seen
        return min(FOREIGN_SECONDS, max(least, MISSED * self.longest))


@dataclass(frozen=True, slots=True)
class _Sight:
    """Observation of an ownership."""

    etag: str
    owner: str
    since: float  # first seen with this etag
    ours: float | None  # last time it was seen with an owner of this project


class AzureSdkStore:
    """`store.LeaseStore` on ownership and checkpoint blobs."""

    def __init__(self, blobs: BlobStore, names: Names, seconds: int, clock: Callable[[], float]) -> None:
        self._blobs = blobs
        self._given = names
        self._found: Names | None = None  # with their spelling
        self._others: list[Names] = []  # other spellings
        self._looked, self._lists = float("-inf"), SPELLINGS_LISTS  # for them: when, and listings since then
        self._seconds = seconds
        self._clock = clock
        self._sights: dict[str, _Sight] = {}  # by name of the ownership
        self._rhythms: dict[str, Rhythm] = {}  # by owner; of other programs
        self._writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # one write of an ownership at a time
        self._epochs: dict[str, int] = {}  # partition -> highest epoch seen: foreign claims drop it from the blob

    @property
    def seconds(self) -> int:
        """See `LeaseStore`."""
        return self._seconds

    @property
    def folder(self) -> str:
        """See `LeaseStore`."""
        return self._given.home

    async def spelling(self) -> str:
        """See `LeaseStore`."""
        return (await self._names()).spelling

    async def existing(self) -> Sequence[Lease]:
        """See `LeaseStore`. Liveness of an owner is only visible over time, so no lease counts as leased."""
        try:
            group = await read_group(self._blobs, await self._names())
        except NotFound:  # the container
            return []
        found: list[Lease] = []
        for partition in group.partitions:
            with contextlib.suppress(LeaseInvalid):
                lease = _lease(partition, group.ownerships.get(partition))
                found.append(self._with_checkpoint(lease, group.checkpoints.get(partition)))
        return found

    async def list(self, partitions: Iterable[str]) -> LeaseListing:
        """See `LeaseStore`."""
        names = await self._names()
        group = await read_group(self._blobs, names)
        rivals = await self._rivals(group)
        leases: dict[str, Lease] = {}
        invalid: dict[str, Unusable] = {}
        for partition in partitions:
            owned = group.ownerships.get(partition)
            lease = _lease(partition, owned)
            lease = replace(lease, leased=self._is_leased(names.ownership(partition), owned))
            self._remember(lease)
            try:
                leases[partition] = self._with_checkpoint(lease, group.checkpoints.get(partition))
            except LeaseInvalid as error:
                invalid[partition] = Unusable(
                    str(error), "Delete the blob to start without it, or set its metadata", rebuild=lease
                )
            if rival := rivals.get(partition):
                leases.pop(partition, None)
                invalid[partition] = _left_to(rival, names)
        owners = {sight.owner for sight in self._sights.values()}
        self._rhythms = {owner: rhythm for owner, rhythm in self._rhythms.items() if owner in owners}
        return LeaseListing(leases, invalid)

    async def read(self, partition: str) -> Lease:
        """See `LeaseStore`."""
        names = await self._names()
        name = names.ownership(partition)
        info, reached = await for_each([name, names.checkpoint(partition)], self._blobs.head)
        if info is None:
            raise NotFound(f"ownership blob {name} was deleted", 404, "BlobNotFound")
        lease = replace(_lease(partition, info), leased=True)
        self._remember(lease)
        return self._with_checkpoint(lease, reached)

    async def acquire(self, seen: Lease, owner: str, *, rebuild: bool = False) -> Taken | None:
        """See `LeaseStore`."""
        epoch = next_epoch(seen.partition, max(seen.epoch, self._epochs.get(seen.partition, 0)))
        wanted = Lease(seen.partition, owner, str(uuid4()), epoch, etag=seen.etag, leased=True)
        since = self._clock()
        claimed = await self._claim(wanted)
        if claimed is None:
            return None
        await self._noted(claimed)
        try:
            reached = await self._blobs.head((await self._names()).checkpoint(seen.partition))
            try:
                return Taken(self._with_checkpoint(claimed, reached), since)
            except LeaseInvalid:
                if not rebuild:
                    raise
                return Taken(await self._forget_checkpoint(claimed, reached.etag if reached else ""), since)
        except (StorageError, LeaseInvalid):
            with contextlib.suppress(StorageError, LeaseLost):
                await self.release(claimed)
            raise

    async def renew(self, lease: Lease) -> Lease:
        """See `LeaseStore`."""
        return await self._rewrite(lease, lease.owner)

    async def advance(self, lease: Lease, checkpoint: Checkpoint) -> Lease:
        """See `LeaseStore`. The SDKs write checkpoints unconditionally; here, conditional writes raise them."""
        name, etag = (await self._names()).checkpoint(lease.partition), lease.checkpoint_etag
        for _ in range(REWRITE_ATTEMPTS):
            try:
                etag = await self._put(name, layout.encode_checkpoint(checkpoint), etag)
                return replace(lease, checkpoint=checkpoint, checkpoint_etag=etag)
            except (Conflict, NotFound):
                info = await self._blobs.head(name)
                etag = info.etag if info else ""
                found = self._lenient(info)
                if found is not None and found.sequence_number >= checkpoint.sequence_number:
                    return replace(lease, checkpoint=found, checkpoint_etag=etag)
                await self._tenure(lease)
        raise Unavailable(f"checkpoint of partition {lease.partition}: other programs write it continuously")

    async def raise_epoch(self, lease: Lease, epoch: int) -> Lease:
        """See `LeaseStore`."""
        return await self._rewrite(replace(lease, epoch=epoch), lease.owner)

    async def release(self, lease: Lease) -> None:
        """See `LeaseStore`. The epoch stays in the blob, so that the next owner continues from it."""
        await self._rewrite(lease, owner="")

    # --- spelling ---

    async def _names(self) -> Names:
        if self._found is None:
            self._found = await spelled(self._blobs, self._given)
        return self._found

    async def _rivals(self, own: Group) -> dict[str, BlobInfo]:
        """Ownerships under other spellings whose owners live, by partition."""
        self._lists += 1
        if self._lists > SPELLINGS_LISTS and self._clock() - self._looked >= SPELLINGS_SECONDS:
            found = [replace(self._given, spelling=each) for each in await spellings(self._blobs, self._given)]
            self._others = [names for names in found if names.folder != own.names.folder]
            self._looked, self._lists = self._clock(), 0
        newest = max((info.last_modified for info in own.ownerships.values()), default=None)
        rivals: dict[str, BlobInfo] = {}
        for names in self._others:
            for partition, info in (await read_group(self._blobs, names)).ownerships.items():
                # By storage's clock alone: an owner that ended long ago is no rival to a host that starts.
                over = newest is not None and (newest - info.last_modified).total_seconds() > FOREIGN_SECONDS
                if self._is_leased(info.name, info) and not over:
                    rivals[partition] = info
        return rivals

    # --- ownership ---

    async def _claim(self, wanted: Lease) -> Lease | None:
        """Become the owner if the blob is unchanged; otherwise None."""
        name, etag = (await self._names()).ownership(wanted.partition), wanted.etag
        for attempt in range(1, ACQUIRE_ATTEMPTS + 1):
            try:
                etag = await self._put(name, self._metadata(wanted, wanted.owner), etag)
                return replace(wanted, etag=etag)
            except (Conflict, NotFound):
                current = _lease(wanted.partition, await self._blobs.head(name))
                # An earlier request may have been applied without a response.
                return replace(wanted, etag=current.etag) if current.token == wanted.token else None
            except Unavailable:
                if attempt == ACQUIRE_ATTEMPTS:
                    raise
        return None

    async def _rewrite(self, lease: Lease, owner: str) -> Lease:
        """Write the ownership again, also over writes of the same ownership in between."""
        name = (await self._names()).ownership(lease.partition)
        async with self._writing[lease.partition]:
            for _ in range(REWRITE_ATTEMPTS):
                try:
                    etag = await self._put(name, self._metadata(lease, owner), lease.etag)
                except (Conflict, NotFound):
                    current = await self._tenure(lease)
                    lease = replace(lease, etag=current.etag, epoch=max(lease.epoch, current.epoch))
                else:
                    return await self._noted(replace(lease, etag=etag))
        raise Unavailable(f"ownership of partition {lease.partition}: it changes continuously")

    async def _tenure(self, lease: Lease) -> Lease:
        """The present ownership, which must be the same one.

        Raises:
            LeaseLost: It is another one.
        """
        name = (await self._names()).ownership(lease.partition)
        current = _lease(lease.partition, await self._blobs.head(name))
        if (current.owner, current.token) != (lease.owner, lease.token):
            raise LeaseLost(f"partition {lease.partition} now belongs to {current.owner or 'no host'}")
        return current

    async def _put(self, name: str, metadata: Mapping[str, str], etag: str) -> str:
        """Write a blob if it has the etag, or does not exist."""
        if etag:
            return await self._blobs.set_metadata(name, metadata, if_match=etag)
        return await self._blobs.put(name, b"", metadata=metadata, if_absent=True)

    def _metadata(self, lease: Lease, owner: str) -> dict[str, str]:
        return Ownership(owner, lease.epoch, lease.token if owner else "", self._seconds).encode()

    async def _noted(self, lease: Lease) -> Lease:
        """Record this host's write as an observation."""
        self._remember(lease)
        now = self._clock()
        self._sights[(await self._names()).ownership(lease.partition)] = _Sight(lease.etag, lease.owner, now, now)
        return lease

    def _remember(self, lease: Lease) -> None:
        self._epochs[lease.partition] = max(lease.epoch, self._epochs.get(lease.partition, 0))

    def _is_leased(self, name: str, info: BlobInfo | None) -> bool:
        """Whether an owner is alive, or the partition is reserved for a claimant, by this host's observations."""
        now = self._clock()
        before = self._sights.get(name)
        if info is None:
            self._sights.pop(name, None)
            return False
        found = layout.ownership(info.metadata)
        since = before.since if before and before.etag == info.etag else now
        last_ours = before.ours if before else None
        if found.ours:
            last_ours = now if found.owner else None
        self._sights[name] = _Sight(info.etag, found.owner, since, last_ours)
        if not found.owner:
            return not found.ours and last_ours is not None and now - last_ours < HANDOVER_SECONDS
        if found.ours:
            return now - since < min(found.seconds, FOREIGN_SECONDS)
        rhythm = self._rhythms.get(found.owner, Rhythm(now, now))
        if before and before.owner == found.owner and before.etag != info.etag:
            rhythm = rhythm.claimed(now, before.since)
        self._rhythms[found.owner] = rhythm
        return now - since < rhythm.patience(self._seconds)

    # --- checkpoints ---

    def _with_checkpoint(self, lease: Lease, info: BlobInfo | None) -> Lease:
        if info is None:
            return lease
        try:
            checkpoint = layout.decode_checkpoint(info.metadata)
        except LeaseInvalid as error:
            raise LeaseInvalid(f"cannot parse checkpoint blob {info.name}: {error}") from None
        return replace(lease, checkpoint=checkpoint, checkpoint_etag=info.etag)

    async def _forget_checkpoint(self, lease: Lease, etag: str) -> Lease:
        """Replace a checkpoint that cannot be parsed by an empty one."""
        name = (await self._names()).checkpoint(lease.partition)
        etag = await self._put(name, {"offset": NO_OFFSET}, etag)
        return replace(lease, checkpoint_etag=etag)

    def _lenient(self, info: BlobInfo | None) -> Checkpoint | None:
        """A checkpoint to overwrite; None if it cannot be parsed."""
        try:
            return layout.decode_checkpoint(info.metadata) if info else None
        except LeaseInvalid:
            return None


def _left_to(rival: BlobInfo, names: Names) -> Unusable:
    owner = layout.ownership(rival.metadata).owner
    return Unusable(
        f"{owner} owns it by blob {rival.name}, whose name differs in case from the blobs of this consumer in "
        f"{names.folder}, so neither sees the other",
        "Stop that program; or give it the namespace, the hub and the consumer group in exactly this spelling, so that "
        "both use the same blobs",
    )


def _lease(partition: str, info: BlobInfo | None) -> Lease:
    """The ownership as a lease; the etag identifies an ownership of another program."""
    if info is None:
        return Lease(partition)
    found = layout.ownership(info.metadata)
    token = found.token if found.ours else f"etag:{info.etag}"
    return Lease(partition, found.owner, token if found.owner else "", found.epoch or 0, etag=info.etag)
