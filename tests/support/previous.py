"""The previous release, for tests of upgrades."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def git(*arguments: str) -> str:
    """The output of git in this repository; empty if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def previous() -> str:
    """The commit to upgrade from: UPGRADE_FROM, else the latest tag `v*` below this commit; empty if there is none."""
    if named := os.environ.get("UPGRADE_FROM"):
        return named
    at_a_release = git("tag", "--points-at", "HEAD", "--list", "v*")
    return git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^" if at_a_release else "HEAD")


def need_previous() -> str:
    """The commit to upgrade from; skips the test if there is none."""
    if not (found := previous()):
        pytest.skip(
            "no tag v* below this commit, so there is no release to upgrade from; UPGRADE_FROM=<commit> names one"
        )
    return found


def check_out(commit: str, tree: Path) -> Path:
    """The files of a commit, in a separate clone."""
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(tree)], check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", git("rev-parse", commit)], cwd=tree, check=True)
    return tree
