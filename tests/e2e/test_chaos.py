"""Ten minutes of chaos of every part on the demo's cluster: no event is missing or there twice."""

import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT, Demo

SEED, MINUTES = 1, 10

pytestmark = [pytest.mark.timeout(3600), pytest.mark.long]


def test_ten_minutes_of_chaos_lose_and_repeat_no_event(demo: Demo) -> None:
    assert demo.exit_code == 0, demo.output
    result = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "--seed", str(SEED), "--minutes", str(MINUTES)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3300,
        check=False,
    )
    print(result.stdout)
    assert result.returncode == 0, result.stdout[-8000:]
