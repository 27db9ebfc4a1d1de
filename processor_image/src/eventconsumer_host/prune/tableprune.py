"""Removes files from the Delta table, so that prune may replace them by tombstones.

Everything is decided from the log. It is read, the files that the table still has are removed by a commit at the next
version, put if absent, and the log is read again, until the table has none of them. So neither a lost reply nor a
commit of another program at the same version changes the result, nor a put below a newer checkpoint: the version can be
free again if this program was paused until hosts deleted old commits.
"""

import asyncio
import json
from collections.abc import Iterable
from datetime import datetime

from eventconsumer_audit.model import Place
from eventconsumer_audit.tablelog import TableLog
from eventconsumer_audit.tablestate import Action, TableState, path_of
from eventconsumer_host import deltaprotocol
from eventconsumer_host.errors import CommandError
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, Unavailable

MOST = 1000  # files that one commit removes
ATTEMPTS = 20  # other programs commit too
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0

Key = tuple[Place, int]
"""A file of the consumer: its partition and its start."""


def refusal(state: TableState) -> str:
    """PURE: why no file may be removed from the table; empty: files may be removed."""
    if what := deltaprotocol.unsupported(state.protocol.writer, state.protocol.features):
        return (
            f"the Delta table has {what}, which prune does not support: delete old rows with DELETE in Spark, or "
            "remove the feature with ALTER TABLE ... DROP FEATURE"
        )
    if state.configuration.get("delta.appendOnly", "").lower() == "true":
        return "the property delta.appendOnly of the Delta table is true: set it to false to delete old rows"
    return ""


def removal(state: TableState, keys: Iterable[Key], now: datetime) -> list[Action]:
    """PURE: the actions that remove those of the files that the table has; empty: it has none."""
    moment = int(now.timestamp() * 1000)
    removes: list[Action] = []
    for place, start in keys:
        file = state.find(place, start)
        if file is None or not file.active:
            continue
        body = {
            "path": path_of(place, start),
            "deletionTimestamp": moment,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": file.size,
        }
        vector = state.vectors.get((place, start))
        removes.append({"remove": body | ({"deletionVector": vector} if vector else {})})
    info = {
        "timestamp": moment,
        "operation": "DELETE",
        "operationParameters": {"predicate": "[]"},
        "readVersion": state.version,
        "isBlindAppend": False,
        "engineInfo": "eventconsumer-prune",
    }
    return [{"commitInfo": info}, *removes] if removes else []


async def remove_files(log: TableLog, store: BlobStore, keys: Iterable[Key], now: datetime) -> None:
    """Remove files from the table; afterwards no version of the table has them.

    Args:
        log: Of the table.
        store: The container of the files.
        keys: At most `MOST`.
        now: Wall clock; written into the log.

    Raises:
        CommandError: The table does not allow it, or other programs committed first in all attempts.
        LogGap, LogDamaged: The log cannot be read.
        StorageError: A request failed; run it again.
    """
    keys = list(keys)
    failure: Exception | None = None
    for attempt in range(ATTEMPTS):
        state = await log.read()
        actions = removal(state, keys, now) if state else []
        if state is None or not actions:
            return
        if reason := refusal(state):
            raise CommandError(reason)
        data = "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()
        try:
            await store.put(log.commit_name(state.version + 1), data, if_absent=True)
        except Conflict as error:  # another program's commit, or our own, whose reply was lost
            failure = error
        except Unavailable as error:
            failure = error
            await asyncio.sleep(min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE))
    text = f"{len(keys)} files could not be removed from the Delta table in {ATTEMPTS} attempts; the last error is"
    raise CommandError(f"{text}: {failure}. Run prune again") from failure
