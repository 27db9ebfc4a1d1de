"""The actions in a blob of the table's log, as far as hosts need them. Pure; the child of `confined` imports it."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from eventconsumer_storage.confined.child import Readable, lines

NEEDED = ("txn", "protocol", "metaData")
"""The actions that hosts need: see `delta.TableState`."""
LINE_BYTES = 1024**2  # of an action: a schema of thousands of columns has 300 KB


def parse_actions(data: bytes) -> Iterator[dict[str, Any]]:
    """The actions of a version.

    Raises:
        ValueError: A line cannot be parsed.
    """
    return _parsed(io.BytesIO(data))


def needed(actions: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What hosts need of actions, without the files of the table."""
    for action in actions:
        if found := {name: action[name] for name in NEEDED if action.get(name)}:
            yield found


def state_of_json(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """In the child: `needed` of a version or of a checkpoint in JSON, an action in each line."""
    emit_actions(needed(_parsed(lines(sources[0], LINE_BYTES))), emit)


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
