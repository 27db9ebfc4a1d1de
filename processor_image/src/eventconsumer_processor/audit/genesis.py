"""Reads the record of the hub and the genesis records: which incarnation is drained now, and where chains start."""

import json
from datetime import UTC, datetime
from hashlib import sha256

from eventconsumer_processor.audit import names
from eventconsumer_processor.audit.codes import Code
from eventconsumer_processor.audit.container import Container
from eventconsumer_processor.audit.inorder import in_order
from eventconsumer_processor.audit.model import Findings, Place
from eventconsumer_processor.storage import BlobInfo


class Genesis:
    """Where everything begins.

    Attributes:
        namespace: Of the hub, from its record; empty where there is none.
        hub: Its name.
        current: The incarnation that is drained now; empty where that is not known.
        starts: Where the chains start; None where the record cannot be read.
    """

    def __init__(self, container: Container, root: str, findings: Findings) -> None:
        self.namespace = ""
        self.hub = ""
        self.current = ""
        self.starts: dict[Place, int | None] = {}
        self._container = container
        self._root = root
        self._findings = findings

    async def read(self) -> None:
        """Read all records.

        Raises:
            StorageError: A request failed.
        """
        await self._read_hub()

        async def read(info: BlobInfo) -> tuple[str, bytes | None]:
            return info.name, await self._container.read(info.name)

        async for name, data in in_order(read, self._container.walk(f"{self._root}_genesis/")):
            place = names.genesis_of(name.removeprefix(self._root))
            if place is not None and data is not None:
                self.starts[place] = self._start(place, name, data)
        eras = {incarnation for incarnation, _ in self.starts}
        if not self.current and len(eras) == 1:
            self.current = eras.pop()

    def is_current(self, incarnation: str) -> bool:
        """Whether this incarnation is the one that is drained now."""
        return incarnation == self.current

    async def late(self, place: Place) -> int | None:
        """Where a chain starts that was perhaps begun after `read`; None where there is no record.

        Raises:
            StorageError: The request failed.
        """
        name = f"{self._root}_genesis/{place[0]}/{place[1]}.json"
        data = await self._container.read(name)
        return None if data is None else self._start(place, name, data)

    async def _read_hub(self) -> None:
        name = f"{self._root}_hub.json"
        data = await self._container.read(name)
        if data is None:
            self._findings.add(Code.HUB_RECORD_MISSING, "the record of the hub is not there", blob=name)
            return
        try:
            body = json.loads(data)
            namespace, hub, created = str(body["namespace"]), str(body["name"]), str(body["createdAt"])
            self.current = incarnation_of(namespace, hub, datetime.fromisoformat(created))
        except (ValueError, KeyError, TypeError, RecursionError):
            self._findings.add(Code.GENESIS_DAMAGED, "the record of the hub cannot be read", blob=name)
            return
        self.namespace, self.hub = namespace, hub

    def _start(self, place: Place, name: str, data: bytes) -> int | None:
        try:
            start = json.loads(data)["start"]
        except (ValueError, KeyError, TypeError, RecursionError):
            start = None
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            self._findings.add(Code.GENESIS_DAMAGED, "the genesis record cannot be read", place, blob=name)
            return None
        return start


def incarnation_of(namespace: str, hub: str, created: datetime) -> str:
    """The 16 hexadecimal digits that stand for a hub created at this time."""
    text = f"{namespace}\n{hub.lower()}\n{created.astimezone(UTC).isoformat(timespec='milliseconds')}"
    return sha256(text.encode()).hexdigest()[:16]
