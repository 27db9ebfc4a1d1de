"""Functions that tests run in a child."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from eventconsumer_storage.confined.child import Readable


def copy(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> dict[str, int]:
    """Output all content; the result is its size."""
    size = 0
    for source in sources:
        while data := source.read(300_000):
            size += len(data)
            emit(data)
    return {"size": size}


def surroundings(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> dict[str, object]:
    """What the child has of its parent."""
    descriptors = sorted(str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
    return {"environment": dict(os.environ), "descriptors": descriptors, "nice": os.nice(0)}


def grow(sources: Sequence[Readable], emit: Callable[[bytes], None], size: int) -> None:
    """Take memory."""
    bytearray(size)


def turn(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """Never end."""
    while True:
        pass


def end(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """End the process, as a library that crashes."""
    os.abort()


def fail(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """Raise an error."""
    raise KeyError("x" * 2000)


def beyond(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """Read the same bytes again and again."""
    while True:
        sources[0].seek(0)
        sources[0].read()
