"""What hosts write stays as it was: files, and the log of the table."""

import pytest

from tests.unit.processor.written import DOCUMENTS, GOLDEN


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_written_bytes_are_those_of_older_hosts(name: str) -> None:
    assert DOCUMENTS[name]() == (GOLDEN / name).read_bytes(), (
        f"hosts write another {name} than before: tables and programs of users hold files of both. If this is intended, "
        "run `python -m tests.unit.processor.written`, and name the change in CHANGELOG.md"
    )
