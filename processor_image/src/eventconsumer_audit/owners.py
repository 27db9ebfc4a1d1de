"""Reads the leases of a consumer group in both layouts, and compares their epochs with the files (S5).

A host raises its lease's epoch above the chain's epoch soon after it acquired the lease and before it writes, so a
lease whose epoch is behind is read again for some seconds. If it has no owner, it is only a note: its next owner raises
the epoch.
"""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.identity import (
    LEASE_RECORD,
    LeaseRecord,
    lease_prefix,
    lease_record_name,
    lease_record_names,
)
from eventconsumer_audit import leases
from eventconsumer_audit.chain import ChainAudit
from eventconsumer_audit.codes import Code
from eventconsumer_audit.container import Container
from eventconsumer_audit.inorder import in_order
from eventconsumer_audit.leases import LeaseFacts
from eventconsumer_audit.model import Findings
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.errors import NotFound

LOOKS = 10
PAUSE = 1.0  # seconds between them
SDK_SECONDS = (
    120  # the longest time after which an Azure SDK claims an ownership that is not renewed (.NET, Java: 2 min)
)


@dataclass(frozen=True)
class LeaseSubject:
    """The location of the leases."""

    container: Container
    prefix: str | None  # None: the default of the layout
    consumer_group: str
    layout: LeaseLayout = LeaseLayout.EVENT_PROCESSOR_HOST
    shared: bool = False  # other programs own partitions and move checkpoints too
    replay: str = ""  # name of the replay that the leases belong to; empty: none


class LeaseReader:
    """Reads the leases and their record."""

    def __init__(self, subject: LeaseSubject, namespace: str, hub: str) -> None:
        self._subject = subject
        self._namespace = namespace
        self._hub = hub

    @property
    def consumer_group(self) -> str:
        """The consumer group."""
        return self._subject.consumer_group

    @property
    def shared(self) -> bool:
        """Whether other programs own partitions too."""
        return self._subject.shared

    def is_held(self, lease: LeaseFacts, now: datetime) -> bool:
        """Whether the owner of a lease is alive: it holds a storage lease, or (AzureSdk) renewed it recently."""
        if self._subject.layout is LeaseLayout.EVENT_PROCESSOR_HOST or lease.modified is None:
            return lease.held
        return now - lease.modified < timedelta(seconds=lease.seconds or SDK_SECONDS)

    async def record(self) -> tuple[str, bytes | None]:
        """Name and content of the record of the leases, which is beside their folder; None: it does not exist.

        Raises:
            StorageError: A request failed.
        """
        group, container = self._subject.consumer_group, self._subject.container
        if self._subject.layout is LeaseLayout.EVENT_PROCESSOR_HOST:
            name, data = "", None
            for name in lease_record_names(f"{self._prefix}{group}", group):
                data = await container.read(name)
                if data is not None:
                    break
            return name, data
        start, rest = (
            f"{self._prefix}{self._namespace.lower()}",
            lease_record_name(f"/{self._hub}/{group}".lower(), group),
        )
        with_port = re.compile(rf"{re.escape(start)}:\d+{re.escape(rest)}")
        names = [info.name async for info in container.walk(f"{start}:") if with_port.fullmatch(info.name)]
        name = names[0] if names else start + rest
        return name, await container.read(name)

    async def read(self) -> dict[str, LeaseFacts]:
        """All leases by partition; none if the container was deleted, because hosts create it again.

        Raises:
            StorageError: A request failed.
        """
        try:
            if self._subject.layout is LeaseLayout.AZURE_SDK:
                return await self._sdk()
            return await self._legacy()
        except NotFound:
            return {}

    async def check_epochs(
        self, first: dict[str, LeaseFacts], chains: Iterable[ChainAudit], findings: Findings
    ) -> None:
        """Report leases whose epoch is below the highest one in the files.

        Args:
            first: The leases as read at the beginning.
            chains: The chains of the hub's current segment.
            findings: Collects findings.

        Raises:
            StorageError: A request failed.
        """
        highest = {chain.partition: (chain, chain.highest_epoch) for chain in chains if chain.highest_epoch is not None}
        for look in range(LOOKS):
            now = await self.read()
            behind = {
                partition: lease
                for partition, lease in now.items()
                if lease.epoch is not None and partition in highest and lease.epoch < highest[partition][1]
            }
            held = {p for p, lease in behind.items() if lease.held or p not in first or lease.etag != first[p].etag}
            if not held or look == LOOKS - 1:
                break
            await asyncio.sleep(PAUSE)
        for partition, lease in behind.items():
            chain, epoch = highest[partition]
            findings.add(
                Code.EPOCH_BEHIND if partition in held else Code.EPOCH_UNRAISED,
                f"the lease's epoch is {lease.epoch}, but the files' epoch is {epoch}"
                + ("" if partition in held else ": the lease is free, and its next owner raises the epoch"),
                (chain.segment_id, partition),
                blob=lease.blob,
            )

    @property
    def _prefix(self) -> str:
        return lease_prefix(
            self._subject.prefix, self._subject.layout, self._namespace.lower(), self._hub, self._subject.replay
        )

    async def _legacy(self) -> dict[str, LeaseFacts]:
        container = self._subject.container
        folder = f"{self._prefix}{self._subject.consumer_group}/"

        async def read(info: BlobInfo) -> LeaseFacts | None:
            partition = info.name.removeprefix(folder)
            if "/" in partition or info.metadata.get("hdi_isfolder"):
                return None
            data = await container.read(info.name)
            if data is None:
                return None
            return leases.legacy(
                partition, info.name, data, held=info.leased, etag=info.etag, modified=info.last_modified
            )

        found = [lease async for lease in in_order(read, container.walk(folder)) if lease is not None]
        return {lease.partition: lease for lease in found}

    async def _sdk(self) -> dict[str, LeaseFacts]:
        found: dict[str, LeaseFacts] = {}
        if not self._hub:
            return found
        # The host name may have a port, and some libraries do not convert names to lower case.
        blob = re.compile(
            rf"({re.escape(self._namespace)}(?::\d+)?/{re.escape(self._hub)}/"
            rf"{re.escape(self._subject.consumer_group)})/(ownership|checkpoint)/([^/]+)",
            re.IGNORECASE,
        )
        prefix, spelling = self._prefix, await self._spelling()
        rivals: list[tuple[str, BlobInfo]] = []
        first = self._namespace[:1]
        for start in dict.fromkeys((prefix + first.upper(), prefix + first.lower())):
            async for info in self._subject.container.walk(start):
                match = blob.fullmatch(info.name[len(prefix) :])
                if match is None:
                    continue
                folder, kind, partition = match.groups()
                lease = found.get(partition, LeaseFacts(partition, info.name))
                if spelling not in {None, folder}:
                    rivals += [(partition, info)] if kind.lower() == "ownership" else []
                elif kind.lower() == "ownership":
                    found[partition] = leases.ownership(
                        lease, info.metadata, etag=info.etag, modified=info.last_modified
                    )
                else:
                    found[partition] = leases.checkpoint(lease, info.name, info.metadata)
        for partition, info in rivals:
            lease = found.get(partition, LeaseFacts(partition, info.name))
            found[partition] = leases.rival(lease, info.name, info.metadata, info.last_modified)
        return found

    async def _spelling(self) -> str | None:
        """Folder of the leases that hosts use, from the record; None: all count, because there is no record."""
        name, data = await self.record()
        if data is None:
            return None
        try:
            spelling = LeaseRecord.model_validate_json(data).spelling
        except ValidationError:
            return None
        return spelling or name.removeprefix(self._prefix).removesuffix(LEASE_RECORD)
