"""Starts the child, and passes it the ranges of the blobs that it asks for.

The memory of the child: Python and Arrow take about 25 MiB, and the address space may grow by the allowance after that.
It has to fit into the container beside the host: `allowance` takes what the host's program and its files
(`BESIDE_BYTES`) and the buffers leave. While the child runs, the host lends it a part of `spec.processing.bufferBytes`.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.confined import child
from eventconsumer_storage.confined.child import HEADER, PIECE_BYTES, SIZE
from eventconsumer_storage.errors import Conflict, NotFound

MIB = 1024**2
BASE_BYTES = 25 * MIB  # of the child: measured, Python, Arrow and numpy without what they share with the host
MOST_BYTES = 128 * MIB  # allowance: 20,000 rows of a checkpoint take 30 MiB, commits of 24 MiB take 80
LEAST_BYTES = 32 * MIB  # allowance: one checkpoint's state needs 10 MiB
BESIDE_BYTES = 250 * MIB  # the host's program and its files in progress (docs/how-to/tuning.md)
CPU_SECONDS = 120  # of one job; a checkpoint of a million files needs 20
SILENCE_SECONDS = 300.0  # between two messages of the child, which gets little CPU time beside a busy host
BLOCK_BYTES = MIB  # of a blob that are read at once
_END_SECONDS = 5.0  # for the end of a child that closed its pipe
_BLOCKS = 8  # of a blob that are kept
_READ_TIMES, _READ_MORE = 4, 64 * MIB  # bytes that the child may ask for, beside the size of the blobs
_PROGRAM = str(Path(child.__file__))
# cgroup v2, and v1: https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C.UTF-8",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve addresses beyond what they use
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",  # numpy starts its threads when it is imported
}


class Unreadable(ValueError):
    """A blob cannot be read within the limits, or is damaged."""


class Vanished(Unreadable):
    """A blob was deleted or replaced while it was read."""


class Blobs(Protocol):
    """The bytes of one blob."""

    @property
    def size(self) -> int:
        """Bytes."""

    async def read(self, start: int, size: int) -> bytes:
        """A range, which is inside of the blob.

        Raises:
            Vanished: It was deleted or replaced.
            StorageError: The request failed.
        """


class Whole:
    """A blob that was read before."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    async def read(self, start: int, size: int) -> bytes:
        """See `Blobs`."""
        return self._data[start : start + size]


class Ranges:
    """A blob whose ranges are read when they are needed. A part of it is kept, so that requests are few."""

    def __init__(self, size: int, fetch: Callable[[int, int], Any]) -> None:
        """Create one.

        Args:
            size: Of the blob.
            fetch: Reads a range, by start and size.
        """
        self.size = size
        self._fetch = fetch
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    async def read(self, start: int, size: int) -> bytes:
        """See `Blobs`."""
        first, last = start // BLOCK_BYTES, (start + size - 1) // BLOCK_BYTES
        if size > _BLOCKS * BLOCK_BYTES // 2:
            return bytes(await self._fetch(start, size))
        parts = []
        for number in range(first, last + 1):
            if number not in self._blocks:
                at = number * BLOCK_BYTES
                self._blocks[number] = await self._fetch(at, min(BLOCK_BYTES, self.size - at))
                while len(self._blocks) > _BLOCKS:
                    self._blocks.popitem(last=False)
            self._blocks.move_to_end(number)
            parts.append(self._blocks[number])
        begin = start - first * BLOCK_BYTES
        return b"".join(parts)[begin : begin + size]


def blob(store: BlobStore, info: BlobInfo) -> Ranges:
    """A blob of a store, in the version of `info`."""

    async def fetch(start: int, size: int) -> bytes:
        try:
            return await store.read_range(info.name, start, size, if_match=info.etag)
        except (NotFound, Conflict):
            raise Vanished(f"blob {info.name} was deleted or replaced while it was read") from None

    return Ranges(info.size, fetch)


class Confined(Protocol):
    """Runs functions on blobs of others."""

    def run(
        self,
        target: str,
        sources: Sequence[Blobs],
        *,
        most: int,
        done: Callable[[Any], None] = ...,
        arguments: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The output of a function, in pieces.

        Args:
            target: `module:function` of this project. The function takes sources, output, and the arguments by name.
            sources: What it reads.
            most: Bytes of output, at most.
            done: Receives its result.
            arguments: Its arguments.

        Raises:
            Unreadable: The function failed, or needs more than it may use.
            StorageError: A range could not be read.
        """


async def whole(running: AsyncGenerator[bytes, None]) -> bytes:
    """All output of a function; raises as `Confined.run`."""
    async with contextlib.aclosing(running):
        return b"".join([piece async for piece in running])


def container_memory() -> int | None:
    """The memory limit of the container, bytes; None: none, or unknown."""
    for file in map(Path, _LIMITS):
        try:
            return int(file.read_text())
        except (OSError, ValueError):  # absent, or "max"
            continue
    return None


def lent(buffer: int) -> int:
    """The bytes of the buffers that a host lends the child."""
    return min(buffer // 2, MOST_BYTES)


def allowance(memory: int | None, buffer: int) -> int:
    """By how much the memory of the child may grow, bytes.

    Args:
        memory: Memory limit of the container; None: none.
        buffer: Bytes that the process uses besides `BESIDE_BYTES` when the child begins.
    """
    if memory is None:
        return MOST_BYTES
    left = memory - BESIDE_BYTES - BASE_BYTES - buffer + lent(buffer)
    return min(MOST_BYTES, max(LEAST_BYTES, left))


class _Child:
    """One child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
        self.process = process
        self.stdin = process.stdin
        self.stdout = process.stdout

    @classmethod
    async def start(cls) -> "_Child":
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-I", _PROGRAM,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=dict(_ENVIRONMENT),
                close_fds=True,
                start_new_session=True,  # a signal of a terminal is for its parent
            )
        )  # fmt: skip

    async def send(self, data: bytes) -> None:
        self.stdin.write(data)
        with contextlib.suppress(ConnectionError):  # it has ended: the next read says how
            await self.stdin.drain()

    async def ended(self) -> int:
        """The exit code of a child that closed its pipe. It is not killed: that may lose the code.

        Source: `subprocess.Popen.send_signal` polls first, and then asyncio finds no process and reports 255.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self.process.wait()
        return await self.end()

    async def end(self) -> int:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        self.stdin.close()
        code = await self.process.wait()
        # The transport of a process that is killed while its pipe has data is closed by no one else.
        self.process._transport.close()  # type: ignore[attr-defined]
        return code


class Reader:
    """`Confined` in child processes."""

    def __init__(
        self,
        allowed: int | None = None,
        *,
        children: int = 1,
        keep: bool = False,
        lend: Callable[[], AbstractContextManager[object]] = nullcontext,
        seconds: int = CPU_SECONDS,
    ) -> None:
        """Create a reader; starts nothing.

        Args:
            allowed: By how much the memory of a child may grow; None: what the container has left for one.
            children: Most children at a time; more wait.
            keep: Whether a child does further jobs; then call `close`.
            lend: Makes room for a child while it runs.
            seconds: Most CPU time of one job.
        """
        self.allowed = allowance(container_memory(), 0) if allowed is None else allowed
        self._places = asyncio.Semaphore(children)
        self._keep = keep
        self._idle: dict[str, list[_Child]] = {}  # by the target whose modules are loaded
        self._lend = lend
        self._seconds = seconds

    async def close(self) -> None:
        """End the children that wait for jobs."""
        for children in self._idle.values():
            while children:
                await children.pop().end()

    async def run(
        self,
        target: str,
        sources: Sequence[Blobs],
        *,
        most: int,
        done: Callable[[Any], None] = lambda _: None,
        arguments: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """See `Confined`."""
        async with self._places:
            with self._lend():
                idle = self._idle.setdefault(target, [])
                running = idle.pop() if idle else await _Child.start()
                kept = False
                try:
                    async with contextlib.aclosing(self._do(running, target, sources, most, arguments or {})) as pieces:
                        async for kind, data in pieces:
                            if kind == b"E":
                                done(json.loads(data))
                                kept = self._keep
                            else:
                                yield data
                finally:
                    if kept:
                        idle.append(running)
                    else:
                        await asyncio.shield(running.end())

    async def _do(
        self, running: _Child, target: str, sources: Sequence[Blobs], most: int, arguments: Mapping[str, Any]
    ) -> AsyncGenerator[tuple[bytes, bytes], None]:
        job = {
            "target": target, "sizes": [source.size for source in sources], "arguments": arguments,
            "allowance": self.allowed, "seconds": self._seconds,
        }  # fmt: skip
        text = json.dumps(job).encode()
        await running.send(SIZE.pack(len(text)) + text)
        asked, out = sum(source.size for source in sources) * _READ_TIMES + _READ_MORE, most
        while True:
            kind, number, start, size = await self._header(running)
            if kind == b"R" and number < len(sources) and size <= asked and start + size <= sources[number].size:
                asked -= size
                await running.send(await sources[number].read(start, size))
            elif kind == b"R":
                raise Unreadable("its parser reads more than the blob has")
            elif kind == b"M":
                raise self._memory()
            elif size > PIECE_BYTES:
                raise Unreadable("the program that reads it failed")
            else:
                data = await self._exactly(running, size)
                out -= size if kind == b"O" else 0
                if kind == b"F":
                    raise Unreadable(data.decode(errors="replace"))
                if out < 0:
                    raise Unreadable(f"it has more content than the {most} bytes that are read of such a blob")
                yield kind, data
                if kind == b"E":
                    return

    async def _header(self, running: _Child) -> tuple[bytes, int, int, int]:
        kind, number, start, size = HEADER.unpack(await self._exactly(running, HEADER.size))
        return kind, number, start, size

    async def _exactly(self, running: _Child, size: int) -> bytes:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                return await running.stdout.readexactly(size)
        except TimeoutError:
            raise Unreadable(f"it was not read within {SILENCE_SECONDS:.0f} s") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await running.ended()
        if code == -signal.SIGXCPU:
            raise Unreadable(f"it needs more than {self._seconds} s of CPU time to read")
        if code in (-signal.SIGABRT, -signal.SIGKILL):  # a failed allocation in a library; and the kernel's
            raise self._memory()
        raise Unreadable(f"the program that reads it ended with {code}")

    def _memory(self) -> Unreadable:
        return Unreadable(f"it needs more than {self.allowed // MIB} MiB of memory to read")
