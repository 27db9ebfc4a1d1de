"""The log of the table, which Spark and other programs write too."""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow.parquet as pq

from eventconsumer_audit import parquetrows, tablelog, tablerows, tablestate
from eventconsumer_audit.codes import Code
from eventconsumer_host.table import actions, checkpoint_file, delta
from tests.fuzz.targets.allow import allow

T = TypeVar("T")

SEPARATOR = b"\xfe\xff"
_PLACE = delta.TablePartition("a" * 16, "0")
_PATH = f"segment={_PLACE.segment_id}/partition=0/from={{:020d}}.parquet"


def versions(data: bytes) -> None:
    """Versions of the log: refused, or a state that is the same from their checkpoint; no file is in it twice.

    Input: versions between separators. In each one `@` stands for the path of a file of the consumer.
    """
    delta.parse_last_checkpoint(data)
    delta.parse_name(data.decode(errors="replace"))
    log = [part.replace(b"@", _PATH.format(0).encode()) for part in data.split(SEPARATOR)]
    state = allow(ValueError, _state, log)
    if state is not None:
        _use(state)
    content = _allow(partial(_encoded, (), log))
    if content is not None:
        _check(content, state)
        again = _encoded((content,), ())
        _check(again, state)
        assert _files(again) == _files(content)
    _audit(log)


def _state(log: list[bytes]) -> delta.TableState:
    state = delta.TableState()
    for version, data in enumerate(log):
        state = state.after(version, actions.parse_actions(data))
    return state


def _use(state: delta.TableState) -> None:
    assert isinstance(state.unsupported, str)
    assert state.covered("chain", _PLACE) is None or state.total("chain", "files") is not None
    assert state.log_retention is None or state.log_retention.total_seconds() >= 0


def _encoded(previous: tuple[bytes, ...], log: list[bytes] | tuple[()]) -> bytes:
    pieces: list[bytes] = []
    checkpoint_file.encode([io.BytesIO(data) for data in (*previous, *log)], pieces.append, len(previous))
    return b"".join(pieces)


def _output(read: Callable[..., object], content: bytes) -> bytes:
    """The output of a function of the child."""
    pieces: list[bytes] = []
    read([io.BytesIO(content)], pieces.append)
    return b"".join(pieces)


def _actions_of(content: bytes) -> list[dict[str, Any]]:
    return list(actions.parse_actions(_output(checkpoint_file.state_of_parquet, content)))


def _files(content: bytes) -> Counter[tuple[str, str, str]]:
    """Kind, path and deletion vector of each file in a checkpoint, read without the code of hosts."""
    rows = pq.read_table(io.BytesIO(content), columns=["add", "remove"], use_threads=False).to_pylist()
    found = ((kind, row[kind]) for row in rows for kind in ("add", "remove") if row[kind] is not None)
    return Counter((kind, file["path"], json.dumps(file["deletionVector"])) for kind, file in found)


def _check(content: bytes, state: delta.TableState | None) -> None:
    keys = Counter((path, vector) for _, path, vector in _files(content).elements())
    assert not keys or max(keys.values()) == 1, f"a file is in the checkpoint twice: {keys}"
    read = delta.TableState().after(0, _actions_of(content))
    _use(read)
    if state is not None:
        assert read.transactions == state.transactions, f"{read.transactions} != {state.transactions}"
        assert (read.unsupported, read.log_retention) == (state.unsupported, state.log_retention)


def _audit(log: list[bytes]) -> None:
    """The audit refuses the versions, or finds each file that they add twice."""
    state, reduced, there, twice = tablestate.TableState(), tablestate.TableState(), False, False
    for version, data in enumerate(log):
        try:
            found = tablelog.Actions(data)
            state.apply(version, found)
            reduced.apply(version, tablelog.Actions(_output(tablerows.of_json, data)))
            assert _content(reduced) == _content(state), "the child leaves out what the audit needs"
            assert state.rows is None or isinstance(state.rows, int)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return
        if any(action.get("remove") for action in found) or any(_shared(action) for action in found):
            return  # `tests/unit/audit` has cases of removed files and of deletion vectors
        for add in _adds(found):
            twice = twice or (there and bool(add.get("dataChange", True)))
            there = True
        added = sum(1 for _ in _adds(found))
        twice = twice or added > 1
    assert not twice or state.findings.counts[Code.TABLE_FILE_TWICE], "a file that is added twice is accepted"


def _content(state: tablestate.TableState) -> tuple[object, ...]:
    slots = {place: list(each) for place, each in state.slots.items()}
    parts = (state.version, state.protocol, state.configuration, state.positions, state.vectors, state.others)
    return *parts, slots, state.findings.counts


def _adds(actions: Iterable[tablestate.Action]) -> Iterator[Mapping[str, Any]]:
    return (a["add"] for a in actions if a.get("add") and unquote(a["add"]["path"]) == _PATH.format(0))


def _shared(action: tablestate.Action) -> bool:
    return bool((action.get("add") or {}).get("deletionVector"))


def checkpoints(data: bytes) -> None:
    """A damaged checkpoint: hosts and audit refuse it with their own errors, or read it.

    Input: changes of a checkpoint, three bytes each: the position and the new value; what is left is appended.
    """
    content = bytearray(_SAMPLE)
    for start in range(0, len(data) - 2, 3):
        content[int.from_bytes(data[start : start + 2]) % len(content)] = data[start + 2]
    damaged = bytes(content) + data[len(data) // 3 * 3 :]
    for read in (_actions_of, _taken):
        found = _allow(partial(read, damaged))
        if read is _actions_of and found is not None:
            state = allow(ValueError, delta.TableState().after, 0, found)
            if state is not None:
                _use(state)
    rows = _allow(partial(_output, parquetrows.checkpoint, damaged))
    if rows is not None:
        allow(tablelog.LogDamaged, tablelog._parsed, "blob", tablelog._load, tablestate.TableState(), rows, [])


def _allow(read: Callable[[], T]) -> T | None:
    """Any error of Python: the child reports it."""
    try:
        return read()
    except Exception:
        return None


def _taken(damaged: bytes) -> bytes:
    return _encoded((damaged,), [b'{"txn":{"appId":"a","version":1}}'])


def _sample() -> bytes:
    """A checkpoint of a table with two files."""
    add = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, "stats": "{}"}
    lines = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "schemaString": "{}", "configuration": dict(delta.PROPERTIES)}},
        {"txn": {"appId": f"eventconsumer/chain/{_PLACE.segment_id}/0", "version": 7}},
        *({"add": add | {"path": _PATH.format(start)}} for start in (0, 4)),
    ]
    return _encoded((), [b"\n".join(json.dumps(line).encode() for line in lines)])


_SAMPLE = _sample()
