"""Small files that need far more memory than they have bytes, and a container's limit of memory."""

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventconsumer_api.kube.quantities import amount
from eventconsumer_operator.resource.pods import DEFAULT_LIMITS

LIMIT_BYTES = int(amount(DEFAULT_LIMITS["memory"]))
"""The memory of a host by default."""

_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64())])
_PROTOCOL = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])


def _written(schema: pa.Schema, batches: Callable[[], Any]) -> bytes:
    content = io.BytesIO()
    with pq.ParquetWriter(content, schema, compression="zstd", store_schema=False) as file:
        for batch in batches():
            file.write_table(batch, row_group_size=1_000_000)
    return content.getvalue()


def repeated_text(groups: int = 24, rows: int = 48) -> bytes:
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


def empty_objects(size: int = 40 * 2**20) -> bytes:
    """A version of the log in JSON: each three bytes are an object of 64."""
    return b'{"txn":{"appId":"a","version":1},"x":[' + b"{}," * (size // 3) + b"{}]}\n"


PLAIN_PARQUET = """
import sys, pyarrow.parquet as pq
rows = []
for batch in pq.ParquetFile(sys.argv[1]).iter_batches(20_000, use_threads=False):
    rows += batch.to_pylist()
"""
PLAIN_AVRO = "import sys, fastavro; rows = list(fastavro.reader(open(sys.argv[1], 'rb')))"
PLAIN_JSON = "import sys, json; rows = [json.loads(line) for line in open(sys.argv[1], 'rb')]"


def read_plainly(program: str, content: bytes, folder: Path) -> bool:
    """Whether a process with the limit of a container ends when it reads a file as programs usually do."""
    file = folder / "plain"
    file.write_bytes(content)
    process = subprocess.Popen([sys.executable, "-c", program, str(file)])
    with Container(process.pid) as container:
        process.wait()
    return container.killed


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
        while not self._ended.wait(0.02):
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
