"""The previous release, for tests of upgrades."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.golden.versions import FILE, versions

ROOT = Path(__file__).parents[2]


def git(*arguments: str, root: Path = ROOT) -> str:
    """The output of git in a repository; empty if it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def previous() -> str:
    """The commit to upgrade from: UPGRADE_FROM, else that of the newest released version."""
    return os.environ.get("UPGRADE_FROM") or next(each.commit for each in reversed(versions()) if each.commit)


def need_previous() -> str:
    """The id of the commit to upgrade from, as `need_commit`."""
    return need_commit(previous())


def need_commit(name: str, root: Path = ROOT) -> str:
    """The id of a commit.

    The test is skipped where a repository is not expected to have it: in a shallow clone, and in sources without git.

    Raises:
        LookupError: It is missing for another reason.
    """
    if commit := git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", root=root):
        return commit
    if name != os.environ.get("UPGRADE_FROM"):
        if not (root / ".git").exists():
            pytest.skip("these sources are no git repository, so they lack earlier releases")
        if git("rev-parse", "--is-shallow-repository", root=root) == "true":
            pytest.skip("this clone is shallow and lacks earlier releases: run git fetch --unshallow")
    raise LookupError(f"commit {name} ({FILE.name}, UPGRADE_FROM) is not in this clone: fetch it, or correct the id")


def check_out(commit: str, tree: Path) -> Path:
    """The files of a commit, by its id, in a separate clone."""
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(tree)], check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=tree, check=True)
    return tree


def python_path(tree: Path) -> str:
    """The value of PYTHONPATH with which Python runs the packages of a tree, with the libraries of this one."""
    return os.pathsep.join(str(path) for pattern in ("*/src", "local/*/src") for path in tree.glob(pattern))


@dataclass(frozen=True)
class Previous:
    """The code of the previous release, with the libraries of this tree.

    Attributes:
        tree: Its sources.
        environment: Variables with which Python runs it.
    """

    tree: Path
    environment: dict[str, str]

    @classmethod
    def check_out(cls, folder: Path) -> "Previous":
        """Its code in a folder; Python finds all packages there."""
        tree = check_out(need_previous(), folder / "tree")
        found = cls(tree, {"PYTHONPATH": python_path(tree)})
        names = [path.parent.name for path in tree.glob("*/src/*/__init__.py")]
        origins = found.run(_ORIGINS, names)
        assert names and all(each.startswith(f"{tree}/") for each in origins), origins
        return found

    def run(self, code: str, given: object) -> Any:
        """Run a program, which may also import the tests of that release.

        Args:
            code: The program; it reads JSON and prints JSON.
            given: Its input.
        """
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(given),
            cwd=self.tree,
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)


_ORIGINS = """
import json
import sys
from importlib.util import find_spec

print(json.dumps([find_spec(name).origin for name in json.load(sys.stdin)]))
"""
