"""The commit that is released: a clean working copy, its time, and its files in a folder of their own."""

import tarfile
from dataclasses import dataclass
from pathlib import Path

from eventconsumer_release.errors import ReleaseError
from local_cluster.shell import run

_SHOWN = 10


@dataclass(frozen=True)
class Commit:
    """What a release is made of.

    Attributes:
        id: The full hash.
        time: When it was committed, seconds since 1970: the time of every file in the release.
    """

    id: str
    time: int


def head(root: Path) -> Commit:
    """The commit that is checked out.

    Args:
        root: The repository.

    Raises:
        ReleaseError: The working copy differs from it.
    """
    changed = run(["git", "status", "--porcelain"], cwd=root).splitlines()
    if changed:
        more = [f"  and {len(changed) - _SHOWN} more"] if len(changed) > _SHOWN else []
        lines = "\n".join([*(f"  {line}" for line in changed[:_SHOWN]), *more])
        raise ReleaseError(f"A release is made of a commit, and here is what is in none:\n{lines}\nCommit or stash it.")
    name, time = run(["git", "log", "-1", "--format=%H %ct"], cwd=root).split()
    return Commit(name, int(time))


def export(root: Path, commit: Commit, target: Path) -> None:
    """Write a commit's files to an empty folder; nothing that lies about in the working copy gets there."""
    archive = target.with_suffix(".tar")
    run(["git", "archive", "--format=tar", "--output", archive.resolve(), commit.id], cwd=root)
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    archive.unlink()
