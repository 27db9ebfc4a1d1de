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


def release(monkeypatch: pytest.MonkeyPatch, commit: str) -> None:
    monkeypatch.delenv("UPGRADE_FROM", raising=False)
    monkeypatch.setattr(previous, "versions", lambda: (Version("0.1.0", 0, commit), Version("0.2.0", 1)))


def test_the_newest_released_version_is_the_previous_one(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = previous.git("rev-parse", "HEAD^", root=repository)
    release(monkeypatch, first)
    assert previous.need_previous(repository) == first
    monkeypatch.setenv("UPGRADE_FROM", "HEAD")
    assert previous.need_previous(repository) == previous.git("rev-parse", "HEAD", root=repository) != first


def test_a_commit_that_a_clone_is_expected_to_have_is_not_skipped(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow, export = tmp_path / "shallow", tmp_path / "export"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", repository.as_uri(), str(shallow)], check=True)
    export.mkdir()
    first = previous.git("rev-parse", "HEAD^", root=repository)
    release(monkeypatch, first)
    for root, reason in ((shallow, "this clone is shallow"), (export, "these sources are no git repository")):
        with pytest.raises(pytest.skip.Exception, match=reason) as skipped:
            previous.need_previous(root)
        assert str(skipped.value) in ALLOWED_SKIPS
    release(monkeypatch, previous.git("rev-parse", "HEAD", root=repository))
    assert previous.need_previous(shallow) == previous.previous()  # a shallow clone may have it
    release(monkeypatch, "0" * 40)
    with pytest.raises(LookupError, match="is not in this clone: fetch it, or correct the id"):
        previous.need_previous(repository)
    (export / ".git").mkdir()  # git cannot read it
    with pytest.raises(LookupError, match="is not in this clone"):
        previous.need_previous(export)
    monkeypatch.setenv("UPGRADE_FROM", first)
    with pytest.raises(LookupError, match=f"commit {first} "):
        previous.need_previous(shallow)
