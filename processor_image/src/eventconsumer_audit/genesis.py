"""Reads the records of the segments and the genesis records: the current segment, and the starts of chains."""

import json

from pydantic import ValidationError

from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_audit import names
from eventconsumer_audit.codes import Code
from eventconsumer_audit.container import Container
from eventconsumer_audit.inorder import in_order
from eventconsumer_audit.model import ChainKey, Findings
from eventconsumer_storage.blobs import BlobInfo


class Genesis:
    """The segments and the starts of the chains.

    Attributes:
        namespace: Of the hub, from the newest segment; empty: no segment.
        hub: Its name.
        segments: In order.
        current: The segment that is drained now; empty: unknown.
        starts: The starts of the chains; None: the record cannot be read.
    """

    def __init__(self, container: Container, root: str, findings: Findings) -> None:
        self.namespace = ""
        self.hub = ""
        self.current = ""
        self.segments: list[SegmentRecord] = []
        self.starts: dict[ChainKey, int | None] = {}
        self._container = container
        self._root = root
        self._findings = findings

    async def read(self) -> None:
        """Read all records.

        Raises:
            StorageError: A request failed.
        """
        await self._read_segments()

        async def read(info: BlobInfo) -> tuple[str, bytes | None]:
            return info.name, await self._container.read(info.name)

        async for name, data in in_order(read, self._container.walk(f"{self._root}_genesis/")):
            place = names.genesis_of(name.removeprefix(self._root))
            if place is not None and data is not None:
                self.starts[place] = self._start(place, name, data)
        eras = {segment_id for segment_id, _ in self.starts}
        if not self.current and len(eras) == 1:
            self.current = eras.pop()

    def is_current(self, segment_id: str) -> bool:
        """Whether this is the current segment."""
        return segment_id == self.current

    async def late(self, place: ChainKey) -> int | None:
        """The start of a chain that may have begun after `read`; None: no record.

        Raises:
            StorageError: The request failed.
        """
        name = f"{self._root}_genesis/{place[0]}/{place[1]}.json"
        data = await self._container.read(name)
        return None if data is None else self._start(place, name, data)

    async def _read_segments(self) -> None:
        folder = f"{self._root}_segments/"
        async for info in self._container.walk(folder):
            number, data = names.segment_of(info.name.removeprefix(self._root)), await self._container.read(info.name)
            if number is None or data is None:
                continue
            try:
                segment = SegmentRecord.model_validate_json(data)
            except ValidationError:
                self._findings.add(Code.GENESIS_DAMAGED, "the record of the segment cannot be read", blob=info.name)
                continue
            self._check(segment, number, info.name)
            self.segments.append(segment)
        if not self.segments:
            self._findings.add(Code.SEGMENT_MISSING, "the record of the first segment does not exist", blob=folder)
            return
        newest = self.segments[-1]
        self.namespace, self.hub, self.current = newest.hub.namespace, newest.hub.name, newest.segment_id

    def _check(self, segment: SegmentRecord, number: int, blob: str) -> None:
        before = self.segments[-1] if self.segments else None
        wrong = ""
        if (segment.number, number) != (len(self.segments) + 1,) * 2:
            wrong = f"it has number {segment.number} in blob {number}, after {len(self.segments)} others"
        elif segment.segment_id in {each.segment_id for each in self.segments}:
            wrong = f"an earlier segment has the id {segment.segment_id} too"
        elif before and _hub(before) != _hub(segment):
            wrong = f"it names hub {segment.hub.name}, but the previous segment names {before.hub.name}"
        if wrong:
            self._findings.add(Code.SEGMENT_WRONG, f"the record of the segment is inconsistent: {wrong}", blob=blob)

    def _start(self, place: ChainKey, name: str, data: bytes) -> int | None:
        try:
            start = json.loads(data)["start"]
        except (ValueError, KeyError, TypeError, RecursionError):
            start = None
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            self._findings.add(Code.GENESIS_DAMAGED, "the genesis record cannot be read", place, blob=name)
            return None
        return start


def _hub(segment: SegmentRecord) -> tuple[str, str]:
    """The hub's names for comparison: Event Hubs does not distinguish case."""
    return segment.hub.namespace.lower(), segment.hub.name.lower()
