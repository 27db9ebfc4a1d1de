"""The inputs that fuzzing has found, played without it: each holds the properties of its target."""

import pytest

from tests.fuzz import corpus
from tests.fuzz.engines import COMPILED
from tests.fuzz.targets import TARGETS, load


@pytest.mark.parametrize("target", TARGETS)
def test_all_inputs_hold_the_properties(target: str) -> None:
    play, inputs = load(target), corpus.read(target)
    assert inputs
    for data in inputs:
        try:
            play(data)
        except Exception as error:
            raise AssertionError(f"{target}: {data!r}") from error


def test_each_target_has_a_corpus() -> None:
    assert {path.stem for path in corpus.FOLDER.glob("*.txt")} == {*COMPILED, *TARGETS}


def test_the_corpus_is_small_and_without_duplicates() -> None:
    paths = sorted(corpus.FOLDER.glob("*.txt"))
    assert sum(path.stat().st_size for path in paths) < 200_000
    for path in paths:
        lines = path.read_text().splitlines()
        assert len(lines) == len(set(lines))
        assert [corpus.encode(corpus.decode(line)) for line in lines] == lines
