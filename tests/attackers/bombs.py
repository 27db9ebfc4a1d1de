"""Small files that need far more memory than they have bytes, and a container's limit of memory."""

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventconsumer_api.quantities import amount
from eventconsumer_operator.resource.pods import DEFAULT_LIMITS

LIMIT_BYTES = int(amount(DEFAULT_LIMITS["memory"]))
"""The memory of a host by default."""

_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64())])
_PROTOCOL = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])


def _written(schema: pa.Schema, batches: Callable[[], Any]) -> bytes:
    content = io.BytesIO()
    with pq.ParquetWriter(content, schema, compression="zstd", compression_level=19, store_schema=False) as file:
        for batch in batches():
            file.write_table(batch, row_group_size=1_000_000)
    return content.getvalue()


def repeated_text(groups: int = 90, rows: int = 96) -> bytes:
    """A checkpoint with one text of 1 MiB in each row: it is in the file once for each row group, compressed."""
    schema = pa.schema([("txn", _TXN), ("protocol", _PROTOCOL)])
    text = "x" * 2**20

    def batches() -> Any:
        txn = pa.array([{"appId": text, "version": row} for row in range(rows)], _TXN)
        for _ in range(groups):
            yield pa.table([txn, pa.nulls(rows, _PROTOCOL)], schema=schema)

    return _written(schema, batches)


def nested_list(entries: int = 60_000_000) -> bytes:
    """A checkpoint with one list of millions of empty texts: their levels take a few bytes."""
    kind = pa.struct([("readerFeatures", pa.list_(pa.string()))])
    schema = pa.schema([("protocol", kind)])
    texts = pa.ListArray.from_arrays(pa.array([0, entries], pa.int32()), pa.nulls(entries, pa.string()))
    row = pa.StructArray.from_arrays([texts], fields=list(kind))
    return _written(schema, lambda: [pa.table([row], schema=schema)])


def many_columns(columns: int = 3000, groups: int = 100) -> bytes:
    """A checkpoint whose footer describes hundreds of thousands of column chunks."""
    schema = pa.schema([("txn", _TXN), *((f"c{number}", pa.int64()) for number in range(columns))])
    row = pa.table([pa.nulls(1, kind.type) for kind in schema], schema=schema)
    return _written(schema, lambda: (row for _ in range(groups)))


def large_page() -> bytes:
    """A checkpoint whose page claims to have 2 GiB when it is decompressed."""
    schema = pa.schema([("txn", _TXN)])
    content = io.BytesIO()
    text = "x" * (140 * 2**20)
    rows = pa.array([{"appId": text, "version": 1}], _TXN)
    with pq.ParquetWriter(
        content, schema, compression="zstd", use_dictionary=False, write_statistics=False, store_schema=False
    ) as file:
        file.write_table(pa.table([rows], schema=schema))
    data, size = content.getvalue(), _varint(2 * (len(text) + 4 + 6))
    at = next(place for place in range(200) if data[place] == 0x15 and data[place + 1 : place + 6][-1:] < b"\x10"
              and data[place + 1 : place + 4] == _near(data, place, size))  # fmt: skip
    return data[: at + 1] + _varint(2 * (2**31 - 1)) + data[at + 1 + len(size) :]


def _near(data: bytes, place: int, size: bytes) -> bytes:
    """What is there, if it is the varint of a size close to the given one; the levels take a few bytes."""
    found = data[place + 1 : place + 1 + len(size)]
    return found[:3] if found[2:] == size[2:] else b""


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def empty_objects(size: int = 48 * 2**20) -> bytes:
    """A version of the log in JSON: each three bytes are an object of 64."""
    return b'{"txn":{"appId":"a","version":1},"x":[' + b"{}," * (size // 3) + b"{}]}\n"


def empty_lines(size: int = 48 * 2**20) -> bytes:
    """A version of the log with an empty action in each line."""
    return b"{}\n" * (size // 3)


class Container:
    """A container's limit of memory on a process and its children: all are killed where they have more together.

    This is what the kernel does with a container of Kubernetes (memory.oom.group of cgroup v2). Anonymous memory
    counts: the kernel takes pages of files back first.
    """

    def __init__(self, pid: int, limit: int = LIMIT_BYTES) -> None:
        self.pid = pid
        self.limit = limit
        self.peak = 0
        self.killed = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Container":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.005):
            tree = _tree(self.pid)
            used = sum(map(_anonymous, tree))
            self.peak = max(self.peak, used)
            if used > self.limit:
                self.killed = True
                for pid in tree:
                    _kill(pid)
                return


def _tree(pid: int) -> list[int]:
    found, todo = [], [pid]
    while todo:
        each = todo.pop()
        found.append(each)
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                todo += map(int, task.read_text().split())
            except OSError:  # it ended
                continue
    return found


def _anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return
