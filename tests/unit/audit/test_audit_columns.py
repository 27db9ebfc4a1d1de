"""Files with columns of bodies: the audit accepts those that their slots declare, and no others."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.wire.columns_record import ColumnsOfFile, ColumnsRecord, RecordedColumn
from eventconsumer_audit.bodycolumns import named
from eventconsumer_audit.codes import Code
from tests.support.fakes.virtual import virtual
from tests.unit.audit.auditing import AuditedWorld, fake, sample

RECORD: dict[str, Any] = {
    "columns": [
        {"name": "order", "type": "STRING"},
        {"name": "cents", "type": "BIGINT"},
        {"name": "at", "type": "DATE"},
    ]
}


def declared(runs: str, *columns: str) -> dict[str, str]:
    """The metadata of a slot."""
    return {"columns": f"{runs}/{hashlib.sha256(chr(10).join(columns).encode()).hexdigest()[:16]}"}


async def world_with(record: object = RECORD) -> AuditedWorld:
    """A sound consumer with a file of columns 2 and 0."""
    world = await sample()
    await world.put("_columns.json", record)
    facts = declared("2,0", "at DATE", "order STRING")
    await world.file("0", 40, range(40, 50), epoch=2, changes=facts, more=["at", "order", "_error"])
    return world


@virtual
async def test_declared_columns_are_in_order() -> None:
    world = await world_with()
    more = ["order", "cents", "at", "_error"]
    facts = declared("0-2", "order STRING", "cents BIGINT", "at DATE")
    await world.file("0", 50, range(50, 60), epoch=2, changes=facts, more=more)
    report = await world.audit(deep=True)
    assert (report.exit_code, report.counts) == (0, {})


@pytest.mark.parametrize("more", [["at", "order"], ["order", "at", "_error"], ["at", "order", "_error", "cents"], []])
@virtual
async def test_other_columns_than_the_declared_ones_are_a_violation(more: list[str]) -> None:
    world = await world_with()
    facts = declared("2,0", "at DATE", "order STRING")
    await world.file("0", 50, range(50, 60), epoch=2, changes=facts, more=more)
    report = await world.audit(deep=True)
    assert (report.exit_code, report.counts) == (2, {Code.ROWS_WRONG: 1})


@virtual
async def test_columns_that_the_slot_does_not_declare_are_a_violation() -> None:
    world = await sample()
    await world.file("0", 40, range(40, 50), epoch=2, more=["order", "_error"])
    report = await world.audit(deep=True)
    assert (report.exit_code, report.counts) == (2, {Code.ROWS_WRONG: 1})


@pytest.mark.parametrize(
    "record",
    [
        None,
        b"{",
        {"columns": RECORD["columns"][:2]},
        {"columns": RECORD["columns"][::-1]},
        {"columns": [*RECORD["columns"][:2], {"name": "at", "type": "TIMESTAMP"}]},
    ],
)
@virtual
async def test_a_record_that_does_not_have_the_columns_is_a_violation(record: object) -> None:
    world = await world_with(record)
    if record is None:
        fake(world.files).delete("p/_columns.json")
    report = await world.audit(deep=True)
    assert (report.exit_code, report.counts) == (2, {Code.FACTS_WRONG: 1})


@given(st.permutations(range(6)), st.integers(1, 6))
def test_the_auditor_reads_what_hosts_write(order: list[int], count: int) -> None:
    record = ColumnsRecord(columns=[RecordedColumn(name=f"c{number}", type="BIGINT") for number in range(6)])
    text = str(ColumnsOfFile.of(record, order[:count]))
    found = named(text, [(each.name, each.type) for each in record.columns])
    assert found == [*(f"c{number}" for number in order[:count]), "_error"]
