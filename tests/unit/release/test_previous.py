"""The commit from which tests of upgrades begin."""

import subprocess
from pathlib import Path

import pytest

from tests.golden.versions import Version
from tests.support import previous


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    for text in ("first", "second"):
        subprocess.run(["git", *who, "commit", "--quiet", "--allow-empty", "-m", text], cwd=root, check=True)
    return root


def test_a_commit_is_found_by_its_id(repository: Path) -> None:
    first = previous.git("rev-parse", "HEAD^", root=repository)
    assert previous.commit_id(first[:12], repository) == first


def test_a_shallow_clone_without_the_commit_is_told_the_remedy(repository: Path, tmp_path: Path) -> None:
    first, shallow = previous.git("rev-parse", "HEAD^", root=repository), tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", repository.as_uri(), str(shallow)], check=True)
    with pytest.raises(LookupError, match=f"commit {first} .* which is shallow: run git fetch --unshallow"):
        previous.commit_id(first, shallow)
    with pytest.raises(LookupError, match="is not in this clone: run git fetch, or correct the id"):
        previous.commit_id("0" * 40, repository)


def test_the_newest_released_version_is_the_previous_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPGRADE_FROM", raising=False)
    found = (Version("0.1.0", 0, "a" * 40), Version("0.2.0", 1, "b" * 40), Version("0.3.0", 2))
    monkeypatch.setattr(previous, "versions", lambda: found)
    assert previous.previous() == "b" * 40
    monkeypatch.setattr(previous, "versions", lambda: found[2:])
    assert previous.previous() == ""
    monkeypatch.setenv("UPGRADE_FROM", "v0.1.0")
    assert previous.previous() == "v0.1.0"
