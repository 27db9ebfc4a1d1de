"""Lists all blobs of a consumer once, and passes each blob to its chain, batch or pair."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from eventconsumer_audit import names
from eventconsumer_audit.batches import BatchAudit
from eventconsumer_audit.capture import CapturePairs, PendingRecord
from eventconsumer_audit.chain import ChainAudit
from eventconsumer_audit.codes import Code
from eventconsumer_audit.container import Container
from eventconsumer_audit.deep import DeepReader, is_tombstone
from eventconsumer_audit.genesis import Genesis
from eventconsumer_audit.identity import IdentityAudit
from eventconsumer_audit.leases import LeaseFacts
from eventconsumer_audit.model import NOWHERE, ChainKey, Findings
from eventconsumer_audit.names import DataFile, SlotFacts, SlotName
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.confined.reader import Confined

SlotSeen = Callable[[SlotName, SlotFacts, int | None], None]
"""Called for each committed slot, with the number of its batch if it is in one."""


@dataclass
class Progress:
    """Callbacks that report progress. The default ones do nothing."""

    listed: Callable[[int], None] = field(default=lambda _: None)  # blobs so far
    read: Callable[[int], None] = field(default=lambda _: None)  # bytes of one file


class FileWalk:
    """One listing of the container.

    Args:
        container: Where the files are.
        root: The prefix with a slash.
        genesis: The starts of the chains.
        leases: As read before.
        batches: With all manifests added.
        identity: Checks the chain that files name.
        findings: Collects findings.
        checkpoints: Whether checkpoints must be at the end of a file.
        shared: Whether other programs move checkpoints too.
        table: Whether there is a Delta table, so that other programs may write its files.
        confined: Reads what others may have written; None: child processes.
        seen: Called for each committed slot.
    """

    def __init__(
        self,
        container: Container,
        root: str,
        *,
        genesis: Genesis,
        leases: dict[str, LeaseFacts],
        batches: BatchAudit,
        identity: IdentityAudit,
        findings: Findings,
        checkpoints: bool = True,
        shared: bool = False,
        table: bool = False,
        confined: Confined | None = None,
        seen: SlotSeen | None = None,
    ) -> None:
        self.chains: dict[ChainKey, ChainAudit] = {}
        self.blobs = 0
        self._container = container
        self._root = root
        self._genesis = genesis
        self._leases = leases
        self._batches = batches
        self._identity = identity
        self._findings = findings
        self._checkpoints = checkpoints
        self._shared = shared
        self._table = table
        self._confined = confined
        self._seen = seen
        self._pairs = CapturePairs()
        self._strays: list[str] = []
        self._stray_count = 0
        for place, start in genesis.starts.items():
            self._open(place, start)

    async def run(self, progress: Progress, *, deep: bool) -> None:
        """List and check all blobs.

        Raises:
            StorageError: A request failed.
        """
        reader = DeepReader(self._container, progress.read, self._confined) if deep else None
        try:
            async for info in self._container.walk(self._root):
                self.blobs += 1
                if self.blobs % 1000 == 0:
                    progress.listed(self.blobs)
                    await asyncio.sleep(0)  # a listing in memory would block the event loop
                await self._blob(info, reader)
            progress.listed(self.blobs)
            if reader:
                await reader.finish()
        finally:
            if reader:
                await reader.close()
        await self._settle_pairs()
        self._finish()

    async def _blob(self, info: BlobInfo, reader: DeepReader | None) -> None:
        name = names.parse(info.name[len(self._root) :])
        match name:
            case SlotName():
                await self._slot(name, info, reader)
            case names.DeadLetterName():
                place = (name.segment_id, name.partition)
                (await self._chain(place)).count_dead_letter()
                self._findings.add(Code.DEAD_LETTERS, "user code could not process an event", place, blob=info.name)
            case names.CaptureName():
                if info.metadata.get("empty", "").lower() != "true":
                    file = DataFile(info.name, info.size, names.bare(info.etag))
                    if waiting := self._pairs.file(file):
                        self._changed(waiting, file)
            case names.TableName() if not self._table:
                self._stray(names.Stray(inside=False), info)
            case names.Stray():
                self._stray(name, info)

    async def _slot(self, name: SlotName, info: BlobInfo, reader: DeepReader | None) -> None:
        chain = await self._chain((name.segment_id, name.partition))
        while (missing := chain.missing_before(name.start)) is not None:
            if chain.went_by(missing):
                break  # the file's metadata says that it ends before it starts
            # A listing is no snapshot: of two files written during the listing, it may contain only the second.
            path = info.name.replace(f"from={name.start:020d}", f"from={missing:020d}")
            late = await self._container.head(path)
            if late is None:
                break
            await self._judge(chain, SlotName(name.segment_id, name.partition, missing, name.extension), late, reader)
        await self._judge(chain, name, info, reader)

    async def _judge(self, chain: ChainAudit, name: SlotName, info: BlobInfo, reader: DeepReader | None) -> None:
        place = (name.segment_id, name.partition)
        if names.is_seal(info.metadata):
            chain.end(name.start, info.name)
            return
        try:
            slot = names.facts(info.name, name.start, info.size, info.etag, info.metadata)
        except names.BadFacts as error:
            chain.damaged(info.name, name.start, str(error))
            self._batches.damaged(place, name.start)
            return
        chain.add(slot)
        self._identity.check_part("the file", slot.chain, info.name, place)
        batch = self._batches.slot(place, slot)
        if slot.data:
            waiting = PendingRecord(info.name, slot.data, place, slot.tombstone)
            if other := self._pairs.record(waiting):
                self._changed(waiting, other)
        if self._seen:
            self._seen(name, slot, batch)
        if reader and not slot.tombstone and slot.size:

            def report(code: Code, message: str) -> None:
                self._findings.add(code, message, place, blob=info.name)

            await reader.check(slot, name.partition, report)

    async def _chain(self, place: ChainKey) -> ChainAudit:
        chain = self.chains.get(place)
        return chain or self._open(place, await self._genesis.late(place))

    def _open(self, place: ChainKey, start: int | None) -> ChainAudit:
        current = self._genesis.is_current(place[0])
        chain = ChainAudit(*place, start, self._leases.get(place[1]) if current else None, self._findings)
        self.chains[place] = chain
        if start is not None:
            self._batches.begins(place, start)
        return chain

    def _changed(self, waiting: PendingRecord, found: DataFile) -> None:
        self._findings.add(
            Code.DATA_FILE_CHANGED,
            f"data file {found.path} has {found.size} bytes and etag {found.etag}, its commit record names "
            f"{waiting.file.size} and {waiting.file.etag}",
            waiting.place,
            blob=waiting.record,
        )

    def _stray(self, name: names.Stray, info: BlobInfo) -> None:
        if info.metadata.get("hdi_isfolder", "").lower() == "true":  # a folder, where names are hierarchical
            return
        if not name.inside:
            self._identity.stray(info.name)
            self._stray_count += 1
            self._strays = [*self._strays, info.name][:3]
            return
        era, _, rest = info.name[len(self._root) :].partition("/partition=")
        place = (era.removeprefix("segment="), rest.partition("/")[0]) if rest else NOWHERE
        if chain := self.chains.get(place):
            chain.count_orphan()
        self._findings.add(Code.ORPHAN, "no consumer writes a blob with this name", place, blob=info.name)

    async def _settle_pairs(self) -> None:
        """Read records and data files without a counterpart again: hosts may have written during the listing."""
        for waiting in self._pairs.records.values():
            if waiting.tombstone:
                continue
            info = await self._container.head(waiting.file.path)
            if info is None and await is_tombstone(self._container, waiting.record):
                continue  # pruned during the audit
            if info is None:
                self._findings.add(
                    Code.DATA_FILE_MISSING,
                    f"data file {waiting.file.path} does not exist",
                    waiting.place,
                    blob=waiting.record,
                )
            elif (found := DataFile(info.name, info.size, names.bare(info.etag))) != waiting.file:
                self._changed(waiting, found)
        if self._pairs.files:
            await self._claim_by_new_records()
        for waiting in self._pairs.left:
            what = "still exists: a host ended while it removed old files, and the next leading host completes it"
            text = f"data file {waiting.file.path} {what}"
            self._findings.add(Code.ORPHAN_DATA_FILE, text, waiting.place, blob=waiting.file.path)
        for file in self._pairs.files.values():
            found_name = names.parse(file.path[len(self._root) :])
            partition = found_name.partition if isinstance(found_name, names.CaptureName) else ""
            place = (self._genesis.current, partition)
            if chain := self.chains.get(place):
                chain.count_orphan()
            self._findings.add(
                Code.ORPHAN_DATA_FILE,
                "no commit record names this data file: another host wrote the slot first",
                place,
                blob=file.path,
            )

    async def _claim_by_new_records(self) -> None:
        for (segment_id, partition), chain in self.chains.items():
            position = chain.next
            while position is not None:
                path = f"{self._root}segment={segment_id}/partition={partition}/from={position:020d}.json"
                info = await self._container.head(path)
                if info is None:
                    break
                try:
                    slot = names.facts(path, position, info.size, info.etag, info.metadata)
                except names.BadFacts:
                    break
                if slot.data:
                    self._pairs.claim(slot.data)
                position = slot.last + 1 if slot.last >= position else None

    def _finish(self) -> None:
        for place, chain in self.chains.items():
            if self._checkpoints:
                chain.finish(shared=self._shared)
            if chain.tombstones:
                text = f"{chain.tombstones} files were removed by retention"
                self._findings.add(Code.TOMBSTONES, text, place, count=chain.tombstones)
        self._batches.finish()
        if self._stray_count:
            self._findings.add(
                Code.FOREIGN_NAMES,
                f"{self._stray_count} blobs outside of the consumer's folders belong to other programs: "
                f"{', '.join(self._strays)}",
                count=self._stray_count,
            )
