"""What hosts write stays as it was: files, and the log of the table."""

import json

import pytest

from eventconsumer_api.wire.file_columns import COLUMNS
from tests.unit.host import written
from tests.unit.host.written import DOCUMENTS, GOLDEN


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_written_bytes_are_those_of_older_hosts(name: str) -> None:
    assert DOCUMENTS[name]() == (GOLDEN / name).read_bytes(), (
        f"hosts write another {name} than before, but users have files of both in one table. If this is intended, run "
        "`python -m tests.unit.host.written`, and name the change in CHANGELOG.md"
    )


def test_the_table_has_the_bounds_of_each_column_that_is_to_have_them() -> None:
    stats = json.loads(json.loads(written.registered().splitlines()[4])["add"]["stats"])
    for bounds in ("minValues", "maxValues", "nullCount"):
        assert stats[bounds].keys() == {each.name for each in COLUMNS if each.statistics}, (
            "`file_columns` says which columns have bounds: give them in `table.delta._add`, of what the slot records"
        )
