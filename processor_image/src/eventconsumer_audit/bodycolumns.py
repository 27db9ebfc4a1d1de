"""The columns that files have of the bodies of their events, from the record `_columns.json` and the slots' metadata.

Written from the published layout, intentionally without the writer's code. The record only grows, so it is read again
where a file names a column that it did not have.
"""

import asyncio
import hashlib
import json
import re

from eventconsumer_audit.container import Container
from eventconsumer_storage.errors import Damaged

RECORD = "_columns.json"
RECORD_BYTES = 1024 * 1024
ERROR = "_error"
_COLUMNS = re.compile(r"(\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*)/([0-9a-f]{16})")


class BadColumns(Exception):  # noqa: N818 - the name describes the state
    """The columns of a file are not those of the record; the message gives the reason."""


class BodyColumns:
    """The record of one prefix.

    Args:
        container: Where the files are.
        root: The prefix with a slash.
    """

    def __init__(self, container: Container, root: str) -> None:
        self._container = container
        self._name = root + RECORD
        self._recorded: list[tuple[str, str]] = []
        self._lock = asyncio.Lock()

    async def names(self, text: str) -> list[str]:
        """The columns of a file behind those of each file.

        Args:
            text: The metadata of its slot; empty: the file has none.

        Raises:
            BadColumns: The record does not have them.
            StorageError: The request failed.
        """
        if not text:
            return []
        async with self._lock:
            try:
                return named(text, self._recorded)
            except BadColumns:
                self._recorded = await self._read()
        return named(text, self._recorded)

    async def _read(self) -> list[tuple[str, str]]:
        try:
            data = await self._container.read(self._name, RECORD_BYTES)
        except Damaged as error:
            raise BadColumns(str(error)) from None
        if data is None:
            raise BadColumns(f"the file has columns of bodies, but {self._name} does not exist")
        try:
            return [(str(each["name"]), str(each["type"])) for each in json.loads(data)["columns"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise BadColumns(f"{self._name} cannot be read") from None


def named(text: str, recorded: list[tuple[str, str]]) -> list[str]:
    """PURE: the names of the columns that the metadata of a slot has: numbers in the record, and a digest.

    Raises:
        BadColumns: The record does not have these columns.
    """
    match = _COLUMNS.fullmatch(text)
    if match is None:
        raise BadColumns(f"metadata columns {text[:100]!r} cannot be read")
    found: list[tuple[str, str]] = []
    for run in match[1].split(","):
        first, _, last = run.partition("-")
        if int(last or first) >= len(recorded):
            raise BadColumns(f"the file has column {last or first}, but {RECORD} has {len(recorded)} columns")
        found += recorded[int(first) : int(last or first) + 1]
    digest = hashlib.sha256("\n".join(f"{name} {kind}" for name, kind in found).encode()).hexdigest()
    if digest[:16] != match[2]:
        raise BadColumns(f"{RECORD} has other columns than when the file was written")
    return [*(name for name, _ in found), ERROR]
