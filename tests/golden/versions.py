"""The versions of the product and their commits, in versions.txt: tags do not reach every clone."""

import re
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("versions.txt")
_LINE = re.compile(r"(?P<name>[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?)( (?P<commit>[0-9a-f]{40}))?")


@dataclass(frozen=True)
class Version:
    """A version.

    Attributes:
        name: As in `Since`.
        order: Its place: 0 is the first version.
        commit: The commit id; empty: it is not released yet.
    """

    name: str
    order: int
    commit: str = ""

    @property
    def folder(self) -> Path:
        """The folder of its documents; those that equal the version before it are not there."""
        return FILE.parent / self.name

    def read(self, name: str) -> str:
        """A document of this version; empty: it has none of this name."""
        for each in versions()[self.order :: -1]:
            if (file := each.folder / name).exists():
                return file.read_text(encoding="utf-8")
        return ""


def parse(text: str) -> tuple[Version, ...]:
    """The versions in the text of the file, oldest first.

    Raises:
        ValueError: A line is none of a version, or a version before the last one has no commit id.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = [_LINE.fullmatch(line) for line in lines]
    for line, match in zip(lines, found, strict=True):
        if match is None:
            raise ValueError(
                f"{FILE.name}: {line!r} is no version and commit id: write `0.1.0 <40 hexadecimal digits>`"
            )
    versions = tuple(Version(match["name"], n, match["commit"] or "") for n, match in enumerate(found) if match)
    if open_ := [each.name for each in versions[:-1] if not each.commit]:
        raise ValueError(f"{FILE.name}: version {open_[0]} has no commit id, but a later version follows: add it")
    return versions


def versions() -> tuple[Version, ...]:
    """All versions, oldest first."""
    return parse(FILE.read_text(encoding="utf-8"))
