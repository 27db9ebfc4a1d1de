"""In the child of `confined`: the actions of the table's log, as far as the audit needs them, one in each line of JSON.

It imports nothing that takes time or memory. `tablestate` applies the actions.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eventconsumer_storage.confined.child import Readable, lines

LINE_BYTES = 1024**2  # of an action
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "txn": ("appId", "version"),
    "protocol": ("readerFeatures", "writerFeatures", "minReaderVersion", "minWriterVersion"),
    "metaData": ("configuration",),
    "sidecar": ("path",),
    "add": ("path", "size", "deletionVector", "dataChange", "stats_parsed"),
    "remove": ("path", "size", "deletionVector"),
    "commitInfo": ("operation",),
}


def of_json(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """Of a commit, or of a V2 checkpoint in JSON."""
    for line in lines(sources[0], LINE_BYTES):
        if line.strip():
            action = json.loads(line)
            if not isinstance(action, dict):
                raise ValueError(f"a line is no action: {line[:100]!r}")
            emit_needed(action, emit)


def emit_needed(action: Mapping[str, Any], emit: Callable[[bytes], None]) -> None:
    """Output what the audit needs of an action, if it needs any."""
    found = {}
    for kind, fields in _FIELDS.items():
        content = action.get(kind)
        if not content:
            continue
        if not isinstance(content, Mapping):
            raise TypeError(f"{kind} is no object")
        found[kind] = {name: content[name] for name in fields if name in content}
        if kind == "add" and content.get("stats"):
            found[kind]["stats_parsed"] = _stats(content["stats"])
    if found:
        emit(json.dumps(found, separators=(",", ":")).encode() + b"\n")


def _stats(text: object) -> dict[str, Any] | None:
    """The statistics that the audit needs; None: they cannot be read."""
    try:
        values = json.loads(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    bounds = {
        key: {"sequence_number": values[key].get("sequence_number")}
        for key in ("minValues", "maxValues")
        if isinstance(values.get(key), dict)
    }
    return {"numRecords": values.get("numRecords"), **bounds}
