"""The previous release, for tests of upgrades."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.golden.versions import FILE, versions

ROOT = Path(__file__).parents[2]


def git(*arguments: str, root: Path = ROOT) -> str:
    """The output of git in a repository; empty if it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def previous() -> str:
    """The commit to upgrade from: UPGRADE_FROM, else that of the newest released version; empty if there is none."""
    if named := os.environ.get("UPGRADE_FROM"):
        return named
    return next((each.commit for each in reversed(versions()) if each.commit), "")


def need_previous() -> str:
    """The commit to upgrade from; skips the test if no version is released."""
    if not (found := previous()):
        pytest.skip("no version is released yet, so there is none to upgrade from; UPGRADE_FROM=<commit> names one")
    return commit_id(found)


def commit_id(name: str, root: Path = ROOT) -> str:
    """The id of a commit in a repository.

    Raises:
        LookupError: The repository does not have it.
    """
    if found := git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", root=root):
        return found
    where = f"commit {name} ({FILE.name}, UPGRADE_FROM) is not in this clone"
    if git("rev-parse", "--is-shallow-repository", root=root) == "true":
        raise LookupError(f"{where}, which is shallow: run git fetch --unshallow")
    raise LookupError(f"{where}: run git fetch, or correct the id")


def check_out(commit: str, tree: Path) -> Path:
    """The files of a commit, in a separate clone."""
    found = commit_id(commit)
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(tree)], check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", found], cwd=tree, check=True)
    return tree
