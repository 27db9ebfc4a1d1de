"""The actions in a blob of the table's log, as far as hosts need them. Pure; the child of `confined` imports it."""

import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from eventconsumer_storage.confined.child import Readable, lines

NEEDED = ("txn", "protocol", "metaData")
"""The actions that hosts need: see `delta.TableState`."""
FILES = ("add", "remove")
"""The actions of files, which hosts need of the files that they remove."""
LINE_BYTES = 1024**2  # of an action: a schema of thousands of columns has 300 KB


def parse_actions(data: bytes) -> Iterator[dict[str, Any]]:
    """The actions of a version.

    Raises:
        ValueError: A line cannot be parsed.
    """
    return _parsed(io.BytesIO(data))


def needed(actions: Iterable[dict[str, Any]], watched: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """What hosts need of actions.

    Args:
        actions: The actions of a version or of a checkpoint.
        watched: Paths of files that are needed, too; and then also the blobs of a checkpoint that has files elsewhere.
    """
    names = (*NEEDED, "sidecar") if watched else NEEDED
    for action in actions:
        found = {name: action[name] for name in names if action.get(name)}
        for name in FILES if watched else ():
            if (file := action.get(name)) and path_of(file) in watched:
                found[name] = {key: file[key] for key in _OF_FILES if file.get(key) is not None}
        if found:
            yield found


_OF_FILES = ("path", "size", "partitionValues", "deletionVector")


def path_of(file: Mapping[str, Any]) -> str:
    """The path of an `add` or `remove`, which is a URI: "Add File and Remove File" in the protocol.

    Raises:
        ValueError: It has none.
    """
    path = file.get("path") if isinstance(file, Mapping) else None
    if not isinstance(path, str):
        raise ValueError("a file has no path")
    return unquote(path)


def logical_file(path: str, vector: Mapping[str, Any] | None) -> tuple[str, str]:
    """A file and its deletion vector: "Deletion Vectors" in the protocol, uniqueId."""
    if not vector:
        return path, ""
    offset = vector.get("offset")
    return path, f"{vector['storageType']}{vector['pathOrInlineDv']}{'' if offset is None else f'@{offset}'}"


def state_of_json(sources: Sequence[Readable], emit: Callable[[bytes], None], watched: Sequence[str] = ()) -> None:
    """In the child: `needed` of a version or of a checkpoint in JSON, an action in each line."""
    emit_actions(needed(_parsed(lines(sources[0], LINE_BYTES)), frozenset(watched)), emit)


def emit_actions(actions: Iterable[dict[str, Any]], emit: Callable[[bytes], None]) -> None:
    """In the child: output actions; `parse_actions` reads them."""
    for action in actions:
        emit(json.dumps(action, separators=(",", ":")).encode() + b"\n")


def _parsed(found: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in found:
        if line.strip():
            try:
                action = json.loads(line)
            except RecursionError as error:
                raise ValueError(str(error)) from None
            if not isinstance(action, dict):
                raise ValueError("a line is not an object")
            yield action
