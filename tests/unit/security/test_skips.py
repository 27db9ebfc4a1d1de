"""A test that is skipped for a reason that nobody allowed has failed, in its body, by a mark, and as a module."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ALLOWED_SKIPS

ROOT = Path(__file__).parents[3]
TESTS = """
import pytest

def test_in_its_body():
    pytest.skip("cc is not installed")

@pytest.mark.skipif(True, reason="cc is not installed")
def test_by_a_mark():
    pass

@pytest.mark.parametrize("case", [])
def test_without_a_case(case):
    pass

def test_that_may():
    pytest.skip({allowed!r})
"""


@pytest.mark.slow
def test_a_skip_that_nobody_allowed_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_skips.py").write_text(TESTS.format(allowed=min(ALLOWED_SKIPS)))
    (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('absent_module')\n")
    options = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", "--continue-on-collection-errors"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert "1 failed, 1 skipped, 3 errors in" in done.stdout, done.stdout
    assert "skipped: cc is not installed: install what is missing" in done.stdout
