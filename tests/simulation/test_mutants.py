"""The mutation gate: each mutant violates an invariant, and the product as it is none in the same runs."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import eventconsumer_host
from tests.simulation.mutants import MOST, MUTANTS, RUNS, make

ROOT = Path(__file__).parents[2]
PROCESSES = 2


def play(name: str, package: Path, runs: int) -> dict[str, str]:
    """Play a mutant's runs in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.mutants", name, "--package", package, "--runs", str(runs)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{package}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1} and done.stdout, done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def test_every_mutant_fits_the_sources() -> None:
    sources = Path(eventconsumer_host.__file__).parents[1]
    counts = {
        (name, change.file, change.old): change.source(sources).read_text().count(change.old) - change.times
        for name, mutant in MUTANTS.items()
        for change in mutant.changes
    }
    assert [place for place, count in counts.items() if count] == []


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_every_mutant_is_killed_and_the_product_lives(tmp_path: Path) -> None:
    def attempt(name: str) -> tuple[str, dict[str, str]]:
        if not name:
            return name, play(name, Path(eventconsumer_host.__file__).parents[1], RUNS)
        package = tmp_path / name.replace(" ", "-")
        make(MUTANTS[name], package)
        return name, play(name, package, MOST)

    with ThreadPoolExecutor(PROCESSES) as pool:
        found = dict(pool.map(attempt, ["", *MUTANTS]))
    product = found.pop("")
    for name, answer in found.items():
        print(f"{name}: {answer['violation'][:90] or 'SURVIVES'} (run {answer['runs']})")
    assert not product["violation"], f"the product itself, {product['seed']}: {product['violation']}"
    assert [name for name, answer in found.items() if not answer["violation"]] == []
    print(f"{len(found)} of {len(MUTANTS)} mutants killed")
