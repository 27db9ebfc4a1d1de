"""Audits a consumer: reads its blobs in an order in which a running consumer is consistent, and checks them.

Hosts may write during the audit. A checkpoint, the watermark and the Delta table are read before the files, a manifest
before its files, and the hub's end after the files; files are never removed, so a later read always contains everything
that an earlier read refers to. A blob that can look wrong because of the order (an epoch just raised, a record just
written) is read again.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_audit import heads, names, segments, watermark
from eventconsumer_audit.batches import BatchAudit
from eventconsumer_audit.chain import ChainAudit
from eventconsumer_audit.codes import Code
from eventconsumer_audit.container import Container
from eventconsumer_audit.files import FileWalk, Progress
from eventconsumer_audit.genesis import Genesis
from eventconsumer_audit.identity import IdentityAudit, Outputs
from eventconsumer_audit.inorder import in_order
from eventconsumer_audit.leases import LeaseFacts
from eventconsumer_audit.model import AuditReport, ChainKey, Findings
from eventconsumer_audit.names import SlotFacts, SlotName
from eventconsumer_audit.owners import LeaseReader, LeaseSubject
from eventconsumer_audit.table import TableCheck
from eventconsumer_audit.tablelog import TableLogReader
from eventconsumer_audit.verdict import summary
from eventconsumer_audit.watermark import WatermarkAudit
from eventconsumer_storage.confined.reader import Confined
from eventconsumer_storage.errors import NotFound


@dataclass(frozen=True)
class Subject:
    """The consumer to audit."""

    files: Container
    prefix: str
    leases: LeaseSubject | None = None
    hub: heads.HubQueries | None = None
    resource: ResourceRef | None = None  # the EventConsumer; None: unknown
    outputs: Outputs | None = None  # where Spark writes; None: unknown
    writes_files: bool = True  # False: a handler replaces the files, and no file ends at a checkpoint
    confined: Confined | None = None  # reads what others may have written; None: child processes


async def audit(subject: Subject, *, deep: bool = False, progress: Progress | None = None) -> AuditReport:
    """Audit one consumer. All problems, also failed reads, are in the report; none is raised.

    Args:
        subject: The consumer.
        deep: Read every file, not only the listing.
        progress: Receives the progress.
    """
    return await Audit(subject).run(progress or Progress(), deep=deep)


class Audit:
    """One audit, and everything that it has read."""

    def __init__(self, subject: Subject) -> None:
        self.findings = Findings()
        self.identity = IdentityAudit(subject.files, subject.prefix, subject.resource, self.findings)
        self.watermark = WatermarkAudit(self.findings, self.identity)
        self.batches = BatchAudit(self.findings, self.identity, self.watermark)
        self.leases: dict[str, LeaseFacts] = {}
        self.chains: dict[ChainKey, ChainAudit] = {}
        self._subject = subject
        self._root = f"{subject.prefix}/"
        self.genesis = Genesis(subject.files, self._root, self.findings)
        log = TableLogReader(subject.files, self._root, subject.confined)
        self.table = TableCheck(log, self.identity, self.findings)
        self._heads: dict[str, int] = {}

    async def run(self, progress: Progress, *, deep: bool = False) -> AuditReport:
        """Read, check, report."""
        started, clock = datetime.now(UTC), time.monotonic()
        try:
            await self._read(progress, deep=deep)
        except EventConsumerError as error:
            self.findings.add(Code.UNREADABLE, str(error))
        report = AuditReport(
            verdict=self.findings.worst,
            exit_code=self.findings.exit_code,
            summary="",
            container=self._subject.files.name,
            prefix=self._subject.prefix,
            started_at=started,
            seconds=round(time.monotonic() - clock, 3),
            deep=deep,
            chain=self.identity.chain,
            resource=self.identity.record.resource.path if self.identity.record else "",
            hub="/".join(filter(None, (self.genesis.namespace, self.genesis.hub))),
            segment_id=self.genesis.current,
            partitions=[
                chain.report(
                    current=self.genesis.is_current(place[0]),
                    head=self._heads.get(place[1]) if self.genesis.is_current(place[0]) else None,
                )
                for place, chain in sorted(self.chains.items(), key=lambda item: _natural(item[0]))
            ],
            breaks=segments.breaks(self.genesis.segments),
            batches=self.batches.report(),
            table=self.table.report(),
            findings=self.findings.ordered(),
            counts={str(code): number for code, number in sorted(self.findings.counts.items())},
        )
        return report.model_copy(update={"summary": summary(report, self._subject.resource)})

    async def _read(self, progress: Progress, *, deep: bool) -> None:
        subject = self._subject
        await self.identity.read()
        await self.genesis.read()
        reader = LeaseReader(subject.leases, self.genesis.namespace, self.genesis.hub) if subject.leases else None
        if reader:
            self.leases = await reader.read()
        await self._read_watermark()
        await self._read_batches()
        await self.table.read()

        def checked(name: SlotName, slot: SlotFacts, batch: int | None) -> None:
            self.table.slot((name.segment_id, name.partition), slot)
            self.watermark.slot((name.segment_id, name.partition), slot, batch)

        walk = FileWalk(
            subject.files,
            self._root,
            genesis=self.genesis,
            leases=self.leases,
            batches=self.batches,
            identity=self.identity,
            findings=self.findings,
            checkpoints=subject.writes_files,
            shared=subject.leases is not None and subject.leases.shared,
            table=self.table.exists,
            confined=subject.confined,
            seen=checked,
        )
        self.chains = walk.chains
        await walk.run(progress, deep=deep)
        await self.table.finish(self.chains, self._root)
        self.watermark.finish(self.chains, max(self.batches.commits.committed, default=0))
        segments.judge(self.genesis.segments, self.chains, self.findings, writes_files=subject.writes_files)
        for place, text in segments.unbatched(self.genesis.segments, self.chains, self.batches.reached):
            self.findings.add(Code.BATCH_HOLE, text, place)
        if not walk.blobs:
            raise NotFound(f"no blobs below {self._root} in container {subject.files.name}: check both names")
        if self.batches.used or any(chain.files for chain in self.chains.values()):
            self.identity.check_present()
        await self.identity.check_outputs(subject.outputs)
        if reader is None:
            self.findings.add(
                Code.LEASES_UNREAD, "leases and checkpoints were not checked: no lease container was named"
            )
        else:
            self._check_leases()
            await self._check_identity(reader)
            current = [chain for place, chain in self.chains.items() if self.genesis.is_current(place[0])]
            await reader.check_epochs(self.leases, current, self.findings)
        if subject.hub:
            self._heads = await heads.compare(
                subject.hub,
                self.genesis.segments[-1] if self.genesis.segments else None,
                self.genesis.current,
                self.chains,
                self.findings,
            )
            for partition in self._heads:  # also partitions that no host has opened yet
                place = (self.genesis.current, partition)
                if place not in self.chains:
                    self.chains[place] = ChainAudit(*place, None, self.leases.get(partition), self.findings)

    async def _read_watermark(self) -> None:
        name = self._root + watermark.NAME
        if (data := await self._subject.files.read(name)) is not None:
            self.watermark.record(name, data, [segment.segment_id for segment in self.genesis.segments])

    async def _read_batches(self) -> None:
        files = self._subject.files
        before = {number: name async for number, name in self._numbered("_commits/")}
        manifests: set[int] = set()

        async def read(item: tuple[int, str]) -> tuple[int, str, bytes]:
            return *item, await files.read(item[1]) or b""

        async for number, name, data in in_order(read, self._numbered("_batches/"), at_a_time=2):
            manifests.add(number)
            await asyncio.to_thread(self.batches.manifest, number, name, data)
        for number in sorted(before.keys() - manifests):
            self.batches.unmanifested(number, before[number])
        async for number, name, data in in_order(read, self._numbered("_commits/")):
            if number in manifests:
                self.batches.commit(number, name, data)
        async for number, name, data in in_order(read, self._numbered("_attempts/")):
            self.identity.claim(number, name, data)
        self.batches.check_order(before)

    async def _numbered(self, folder: str) -> AsyncIterator[tuple[int, str]]:
        async for info in self._subject.files.walk(self._root + folder):
            number = names.number_of(info.name.removeprefix(self._root))
            if number is not None:
                yield number, info.name

    async def _check_identity(self, reader: LeaseReader) -> None:
        name, data = await reader.record()
        self.identity.check_leases(
            name, data, self.genesis.namespace, self.genesis.hub, reader.consumer_group, used=bool(self.leases)
        )
        if not reader.shared:
            now = datetime.now(UTC)
            await self.identity.check_owners(self.leases, lambda lease: reader.is_held(lease, now))

    def _check_leases(self) -> None:
        for lease in self.leases.values():
            if lease.damage:
                text = f"the lease cannot be read: {lease.damage}"
                self.findings.add(Code.LEASE_DAMAGED, text, (self.genesis.current, lease.partition), blob=lease.blob)
        for place, chain in self.chains.items():
            if self.genesis.is_current(place[0]) and chain.files and place[1] not in self.leases:
                text = "the partition has files but no lease: hosts create it again"
                self.findings.add(Code.LEASE_MISSING, text, place)


def _natural(place: ChainKey) -> tuple[str, int, str]:
    segment_id, partition = place
    return segment_id, int(partition) if partition.isdigit() else -1, partition
