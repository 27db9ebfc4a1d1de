"""The program of the child process: runs functions on blobs whose bytes it asks its parent for.

It is started by its path with `python -I`: it imports nothing of this project but the module of the function, has no
credential, no variables of the parent and no descriptor but its pipes. Modules are imported before the limits are set;
then the address space may grow by the allowance. Unlike RLIMIT_DATA, RLIMIT_AS also holds where the kernel is emulated
(gVisor applies RLIMIT_DATA to brk only: github.com/google/gvisor, pkg/sentry/mm/syscalls.go).

Messages of the child have a header: kind, source, start, size. `R` asks for a range, `O` is output, `E` the end with
the result, `F` a failure with its text, `M` the end of the memory. Jobs come as JSON after their size.
"""

import importlib
import io
import json
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

HEADER = struct.Struct(">cHQI")
SIZE = struct.Struct(">I")
PIECE_BYTES = 4 * 1024**2  # of output, at most
NICE = 10  # a tenth of the CPU time of the host where both want it: sched(7), "The nice value"
_TEXT = 500  # characters of a failure
_READ_BYTES = 16 * 1024**2  # of one request


class Pipes:
    """The pipes to the parent."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers

    def send(self, kind: bytes, data: bytes = b"", source: int = 0, start: int = 0, size: int | None = None) -> None:
        """Send a message."""
        self._requests.write(HEADER.pack(kind, source, start, len(data) if size is None else size) + data)
        self._requests.flush()

    def receive(self, size: int) -> bytes:
        """Exactly `size` bytes; ends the process where the parent has none."""
        data = self._answers.read(size)
        if len(data) != size:
            os._exit(0)
        return data


class BlobFile(io.RawIOBase):
    """A blob, as the binary file that parsers need. Reads are ranges."""

    def __init__(self, pipes: Pipes, number: int, size: int) -> None:
        super().__init__()
        self._size = size
        self._pipes = pipes
        self._number = number
        self._at = 0

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        parts = []
        while wanted:
            piece = min(wanted, _READ_BYTES)
            self._pipes.send(b"R", source=self._number, start=self._at, size=piece)
            parts.append(self._pipes.receive(piece))
            self._at += piece
            wanted -= piece
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position."""
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True


Readable = io.RawIOBase | io.BytesIO
"""What functions of the child read."""


class ChildOutput:
    """Takes the output, and passes it on in pieces."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._parts: list[bytes] = []
        self._bytes = 0

    def __call__(self, data: bytes) -> None:
        """Append output."""
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            part = bytes(view[start : start + PIECE_BYTES])
            if self._bytes + len(part) > PIECE_BYTES:
                self.flush()
            self._parts.append(part)
            self._bytes += len(part)

    def flush(self) -> None:
        """Pass on what is left."""
        if self._parts:
            self._send(b"".join(self._parts))
            self._parts, self._bytes = [], 0


def lines(source: Readable, longest: int) -> Iterator[bytes]:
    """The lines of a text; a longer one than `longest` bytes is refused.

    Raises:
        ValueError: A line is too long.
    """
    begun = b""
    while piece := source.read(1024**2):
        *whole, begun = (begun + piece).split(b"\n")
        yield from whole
        if len(begun) > longest:
            raise ValueError(f"a line has more than {longest} bytes")
    if begun:
        yield begun


def main() -> None:
    """Do jobs until the parent closes the pipe."""
    pipes = Pipes(os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb", buffering=1024**2))
    os.dup2(2, 1)  # what a library prints is no message
    sys.path.append(str(Path(__file__).parents[2]))
    os.nice(NICE)
    while True:
        job = json.loads(pipes.receive(*SIZE.unpack(pipes.receive(SIZE.size))))
        module, _, name = job["target"].partition(":")
        function = getattr(importlib.import_module(module), name)
        _limit(job["allowance"], job["seconds"])
        sources = [BlobFile(pipes, number, size) for number, size in enumerate(job["sizes"])]
        output = ChildOutput(lambda data: pipes.send(b"O", data))
        try:
            result = function(sources, output, **job["arguments"])
            output.flush()
        except MemoryError:
            pipes.send(b"M")
        except Exception as error:  # parsers raise errors of any type for damaged bytes
            # Arrow reports the end of the memory as a failure of its own in some places.
            text = f"{type(error).__name__}: {error}"[:_TEXT]
            memory = "ArrowMemoryError" in text or "bad_alloc" in text or "malloc of size" in text
            pipes.send(b"M" if memory else b"F", text.encode(errors="replace"))
        else:
            pipes.send(b"E", json.dumps(result).encode())


_limited: list[int] = []


def _limit(allowance: int, seconds: int) -> None:
    if not _limited:  # of the process: the modules of later jobs count, which are the same ones
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _limited.append(pages * resource.getpagesize() + allowance)
        resource.setrlimit(resource.RLIMIT_AS, (_limited[0], _limited[0]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
