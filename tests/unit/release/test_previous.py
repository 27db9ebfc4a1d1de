"""The commit from which tests of upgrades begin."""

import subprocess
from pathlib import Path

import pytest

from tests.conftest import ALLOWED_SKIPS
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


def test_the_newest_released_version_is_the_previous_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPGRADE_FROM", raising=False)
    found = (Version("0.1.0", 0, "a" * 40), Version("0.2.0", 1, "b" * 40), Version("0.3.0", 2))
    monkeypatch.setattr(previous, "versions", lambda: found)
    assert previous.previous() == "b" * 40
    monkeypatch.setenv("UPGRADE_FROM", "v0.1.0")
    assert previous.previous() == "v0.1.0"


def test_a_commit_that_a_clone_is_expected_to_have_is_not_skipped(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow, export = tmp_path / "shallow", tmp_path / "export"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", repository.as_uri(), str(shallow)], check=True)
    export.mkdir()
    first, second = (previous.git("rev-parse", name, root=repository) for name in ("HEAD^", "HEAD"))
    assert previous.need_commit(first[:12], repository) == first
    assert previous.need_commit(second, shallow) == second
    for root, reason in ((shallow, "this clone is shallow"), (export, "these sources are no git repository")):
        with pytest.raises(pytest.skip.Exception, match=reason) as skipped:
            previous.need_commit(first, root)
        assert str(skipped.value) in ALLOWED_SKIPS
    with pytest.raises(LookupError, match="is not in this clone: fetch it, or correct the id"):
        previous.need_commit("0" * 40, repository)
    (export / ".git").mkdir()  # git cannot read it
    with pytest.raises(LookupError, match="is not in this clone"):
        previous.need_commit(first, export)
    monkeypatch.setenv("UPGRADE_FROM", first)
    with pytest.raises(LookupError, match=f"commit {first} "):
        previous.need_commit(first, shallow)
