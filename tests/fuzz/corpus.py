"""Inputs of the targets, which `make fuzz` has found: each reaches code that the others do not.

One file per target, `corpus/<target>.txt`, with an input a line: printable ASCII as it is, other bytes as `\\xff`.
"""

from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")


def read(target: str) -> list[bytes]:
    """The inputs of a target; none if it has no file."""
    path = FOLDER / f"{target}.txt"
    return [decode(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(target: str, inputs: Iterable[bytes]) -> None:
    """Replace the inputs of a target, shortest first."""
    lines = (encode(data) for data in sorted(set(inputs), key=lambda data: (len(data), data)))
    (FOLDER / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines))


def encode(data: bytes) -> str:
    """An input as a line."""
    return data.decode("latin-1").encode("unicode_escape").decode()


def decode(line: str) -> bytes:
    """The input in a line."""
    return line.encode().decode("unicode_escape").encode("latin-1")
