"""The commit of a release: a clean working copy, its time, and its files in a separate folder."""

import tarfile
from dataclasses import dataclass
from pathlib import Path

from eventconsumer_release.errors import ReleaseError
from local_cluster.shell import run

_SHOWN = 10


@dataclass(frozen=True)
class Commit:
    """The source of a release.

    Attributes:
        id: The full hash.
        time: Time of the commit, seconds since 1970: the time of every file in the release.
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
        raise ReleaseError(
            f"A release is built from a commit; these changes are not committed:\n{lines}\nCommit or stash them."
        )
    name, time = run(["git", "log", "-1", "--format=%H %ct"], cwd=root).split()
    return Commit(name, int(time))


def export(root: Path, commit: Commit, target: Path) -> None:
    """Write a commit's files to an empty folder, without other files of the working copy."""
    archive = target.with_suffix(".tar")
    run(["git", "archive", "--format=tar", "--output", archive.resolve(), commit.id], cwd=root)
    with tarfile.open(archive) as tar:
        # Python before 3.11.4 has no filters: docs.python.org/3/library/tarfile.html#supporting-older-python-versions
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        tar.extractall(target)  # noqa: S202 - made by the line above
    archive.unlink()
