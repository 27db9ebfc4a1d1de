"""The layout of Event Hubs Capture: data files named by time, and a commit record in the slot of each.

    <prefix>/<Namespace>/<EventHub>/<PartitionId>/<Y>/<M>/<D>/<h>/<m>/<s>.avro    the events
    <prefix>/segment=<segment>/partition=<p>/from=<20 digits>.json                the slot: which file, and its facts

Two writers use different names for their data files, because the names contain a time. So the commit record decides
between them: it is written after the data file, and only if no record exists. A data file without a record is not part
of the chain. If a writer loses the slot to another writer, it removes its data file. If a writer dies, its data file
stays, and the auditor reports it.
"""

import contextlib
import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from eventconsumer_api.wire.identity import PartitionBreak
from eventconsumer_host.sink.avro import empty_file
from eventconsumer_host.sink.content import Content, put_if_absent, upload
from eventconsumer_host.sink.slots import Chain, Draft, Slot, utc_now
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.errors import Conflict, Damaged, Refused, StorageError


@dataclass(frozen=True, slots=True)
class _DataFile:
    """The data file of the draft being committed."""

    nonce: str
    time: datetime  # in its name
    etag: str = ""  # empty until the file is known to exist
    size: int = 0
    sha256: str = ""


class CaptureChain(Chain):
    """The files of one partition in the layout Capture."""

    def __init__(
        self,
        blobs: BlobStore,
        prefix: str,
        segment_id: str,
        partition: str,
        hub: HubInfo,
        *,
        opening: PartitionBreak | None = None,
        successor: str = "",
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Create a chain; see `Chain`."""
        super().__init__(
            blobs, prefix, segment_id, partition, suffix=".json", opening=opening, successor=successor, now=now
        )
        self._stem = f"{prefix}/{namespace_name(hub.namespace)}/{hub.name}/{partition}"
        self._file: _DataFile | None = None

    def data_path(self, time: datetime) -> str:
        """Name of the data file for a time, to the second."""
        return f"{self._stem}/{time.astimezone(UTC):%Y/%m/%d/%H/%M/%S}.avro"

    async def put(self, draft: Draft, content: Content | bytes) -> None:
        """See `Chain`. A second attempt for the same draft continues with the data file of the first."""
        content = content if isinstance(content, Content) else Content.of(content)
        facts = draft.metadata()
        file = self._file
        if file is None or file.nonce != draft.nonce:
            file = self._file = _DataFile(draft.nonce, self._now())
        if not file.etag:
            taken = await self._blobs.head(self.path(draft.start))
            if taken is not None and not taken.maybe_staged:
                raise Conflict(f"slot {self.path(draft.start)} is taken")
            file = self._file = await self._put_data(file, content, facts)
        facts |= {"sha256": file.sha256, "path": self.data_path(file.time), "size": str(file.size), "etag": file.etag}
        record = json.dumps({"from": draft.start, **facts}, indent=1).encode()
        await put_if_absent(self._blobs, self.path(draft.start), record, facts)

    async def forsake(self, draft: Draft) -> None:
        """See `Chain`. The slot holds another writer's record, so no record can name the data file of this draft."""
        file, self._file = self._file, None
        if file is None or file.nonce != draft.nonce:
            return
        with contextlib.suppress(StorageError):
            info = await self._blobs.head(self.data_path(file.time))
            if info is not None and _fact(info, "nonce") == draft.nonce:
                await self._blobs.remove(info.name, if_match=info.etag)

    async def seal(self, start: int, content: bytes) -> bool:
        """See `Chain`. The slot holds a record, not a file."""
        return await super().seal(start, json.dumps({"sealed": start}).encode())

    async def put_empty(self) -> None:
        """See `Chain`. If the name is taken, the window was not empty, or another host was faster."""
        name = self.data_path(self._now())
        if await self._blobs.head(name) is None:
            with contextlib.suppress(Conflict):
                await put_if_absent(self._blobs, name, empty_file(name), {"empty": "true"})

    async def _put_data(self, file: _DataFile, content: Content, facts: Mapping[str, str]) -> _DataFile:
        """Upload the data file, or find it; if another file has the name, use the next second."""
        while True:
            name = self.data_path(file.time)
            info = await self._blobs.head(name)
            if info is None:
                try:
                    etag = await upload(self._blobs, name, content, facts)
                    return replace(file, etag=etag, size=content.size, sha256=content.sha256)
                except (Conflict, Refused):
                    info = await self._blobs.head(name)
                    if info is None:
                        raise
            if _fact(info, "nonce") == file.nonce:
                return replace(file, etag=info.etag, size=info.size, sha256=_fact(info, "sha256") or "")
            file = self._file = replace(file, time=file.time + timedelta(seconds=1))

    def _slot(self, info: BlobInfo, start: int) -> Slot:
        slot = super()._slot(info, start)
        facts = {key.lower(): value for key, value in info.metadata.items()}
        try:
            size = 0 if slot.tombstone else int(facts["size"])
            return replace(slot, path=facts["path"], etag=facts["etag"], size=size)
        except (KeyError, ValueError) as error:
            raise Damaged(
                f"commit record {info.name} does not say which file it commits ({error!r} in its metadata): another "
                "program wrote or changed it; restore it"
            ) from None


def namespace_name(host: str) -> str:
    """The name of a namespace in Capture's paths: the first label of its host name."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    return host.partition(".")[0]


def _fact(info: BlobInfo, name: str) -> str | None:
    return next((value for key, value in info.metadata.items() if key.lower() == name), None)
