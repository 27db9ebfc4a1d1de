"""The log of a table as its readers see it: the state at each version, checkpoints, and which names are left.

As `checker`, it uses nothing of the product: checkpoints are read by what the format says.
"""

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq

from tests.support.fakes.blobs import Version

BLOB = re.compile(r"\w+/_delta_log/(?:(\d{20})\.(json|checkpoint\.parquet)|_last_checkpoint)")


@dataclass(frozen=True)
class TableAt:
    """The table at one version."""

    transactions: dict[str, int] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    metadata: dict[str, Any] = field(default_factory=dict)

    def after(self, actions: list[dict[str, Any]]) -> "TableAt":
        """The next version."""
        transactions = {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
        added = {a["add"]["path"] for a in actions if "add" in a}
        removed = {a["remove"]["path"] for a in actions if "remove" in a}
        metadata = [a["metaData"] for a in actions if "metaData" in a]
        return TableAt(
            self.transactions | transactions,
            self.files - removed | added,
            self.removed - added | removed,
            metadata[-1] if metadata else self.metadata,
        )


class TableSeen:
    """The log of one table so far."""

    def __init__(self, expect: Callable[[str, bool, str], None]) -> None:
        self.states: list[TableAt] = []  # by version
        self.named = -1  # version in `_last_checkpoint`
        self._expect = expect
        self._versions: set[int] = set()  # that exist
        self._checkpoints: set[int] = set()  # that exist

    @property
    def newest_checkpoint(self) -> int:
        """Version of the newest checkpoint; -1: there is none."""
        return max(self._checkpoints, default=-1)

    def changed(self, blob: Version, author: str) -> list[dict[str, Any]]:
        """A blob of the log changed; the actions, if it is a version that readers apply."""
        what = f"{blob.name} by {author}"
        match = BLOB.fullmatch(blob.name)
        self._expect("T3", match is not None, f"{what} has no name of the log")
        if match is None:
            return []
        if match[1] is None:
            self._name(blob, what)
        elif blob.data is None:
            self._gone(int(match[1]), self._versions if match[2] == "json" else self._checkpoints, what)
        elif match[2] == "json":
            return self._version(int(match[1]), blob.data, what)
        else:
            self._checkpoint(int(match[1]), blob.data, what)
        return []

    def _version(self, number: int, data: bytes, what: str) -> list[dict[str, Any]]:
        free_again = number not in self._versions and number <= self.newest_checkpoint
        self._versions.add(number)
        if free_again:
            return []  # no reader looks at it
        self._expect("T1", number == len(self.states), f"{what} behind {len(self.states)} versions")
        actions: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
        self.states.append((self.states[-1] if self.states else TableAt()).after(actions))
        return actions

    def _checkpoint(self, number: int, data: bytes, what: str) -> None:
        rows = pq.read_table(io.BytesIO(data), use_threads=False).to_pylist()
        found = TableAt().after([{kind: row[kind]} for row in rows for kind in row if row[kind] is not None])
        metadata = found.metadata | {"configuration": dict(found.metadata.get("configuration") or ())}
        paths = [row[kind]["path"] for row in rows for kind in ("add", "remove") if row[kind] is not None]
        wanted = self.states[number] if number < len(self.states) else None
        right = wanted is not None and metadata["configuration"] == wanted.metadata["configuration"]
        right = right and replace(found, metadata={}) == replace(wanted or found, metadata={})
        right = right and len(paths) == len(set(paths)) and sum(row["protocol"] is not None for row in rows) == 1
        self._expect("T3", right, f"{what}: {found} is not {wanted}")
        self._checkpoints.add(number)

    def _name(self, blob: Version, what: str) -> None:
        named = json.loads(blob.data or b"{}")["version"]
        self._expect("T3", self.named < named and named in self._checkpoints, f"{what}: {named} after {self.named}")
        self.named = named

    def _gone(self, number: int, kept: set[int], what: str) -> None:
        covered = any(number < checkpoint <= self.named for checkpoint in self._checkpoints)
        self._expect("T3", covered, f"{what}: removed, but {self.named} is the last checkpoint")
        kept.discard(number)
