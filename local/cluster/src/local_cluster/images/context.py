"""PURE except for reading files: the files that a Dockerfile copies, and their hash."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from local_cluster.errors import ClusterError

_IGNORED = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules"}
_COMPILED = {".pyc", ".so"}  # by developers; images compile their own
EPOCH = 315532800  # 1980: old enough for every tool, and the same on every machine


@dataclass(frozen=True)
class Dockerfile:
    """The parts of a Dockerfile that a build needs.

    Attributes:
        sources: Paths that it copies from the context, as written.
        arguments: Names of its build arguments.
    """

    sources: tuple[str, ...]
    arguments: frozenset[str]


def parse_dockerfile(text: str) -> Dockerfile:
    """Read COPY, ADD and ARG instructions; both the plain and the JSON form, with continuation lines."""
    sources: list[str] = []
    arguments: set[str] = set()
    for line in _instructions(text):
        keyword, _, rest = line.partition(" ")
        if keyword.upper() == "ARG":
            arguments |= {word.partition("=")[0] for word in rest.split()}
        elif keyword.upper() in {"COPY", "ADD"}:
            flags = re.match(r"(?:--\S+\s+)*", rest)
            operands = rest[flags.end() if flags else 0 :].strip()
            if "--from=" in rest:
                continue  # from another stage
            words: list[str] = json.loads(operands) if operands.startswith("[") else operands.split()
            sources += words[:-1]
    return Dockerfile(tuple(dict.fromkeys(sources)), frozenset(arguments))


def context_files(root: Path, sources: Iterable[str]) -> list[Path]:
    """All files below the sources, sorted, without caches and compiled files.

    Args:
        root: The build context.
        sources: Files, folders or patterns relative to it.

    Returns:
        Paths relative to `root`.

    Raises:
        ClusterError: A source matches nothing.
    """
    found: set[Path] = set()
    for source in sources:
        matches = list(root.glob(source.strip("/")))
        if not matches:
            raise ClusterError(f"A Dockerfile copies {source}, which does not exist in {root}. Correct its COPY line.")
        for match in matches:
            found |= {path for path in match.rglob("*") if path.is_file()} if match.is_dir() else {match}
    relative = (path.relative_to(root) for path in found)
    return sorted(path for path in relative if not _IGNORED & set(path.parts) and path.suffix not in _COMPILED)


def content_hash(root: Path, files: Iterable[Path], *ingredients: str) -> str:
    """A hash of files and other inputs: 12 hex digits.

    It includes names, contents and the executable bit, but not times and owners, so that two clones have one hash.
    """
    digest = hashlib.sha256(json.dumps(ingredients).encode())
    for file in files:
        content = (root / file).read_bytes()
        executable = bool((root / file).stat().st_mode & 0o100)
        digest.update(f"\0{file}\0{executable}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def stage(root: Path, files: Iterable[Path], target: Path) -> None:
    """Copy files to an empty folder, with uniform times and modes, so that layer caches work across clones."""
    for file in files:
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, copy)
        copy.chmod(0o755 if (root / file).stat().st_mode & 0o100 else 0o644)
    for path in [target, *target.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (EPOCH, EPOCH))


def _instructions(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [line.strip() for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines() if line.strip()]
