"""Columns of bodies in the table: added with the first file that has them, never taken away, exact or refused."""

import json
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, QueryBuilder

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.body_columns import schema_columns
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.wire.columns_record import columns_name
from tests.unit.host.leader.test_table import LOG, Table, dumped
from tests.unit.host.leader.values import VALUES, bounded, write_values

CENTS, NOTE, ITEMS = schema_columns("cents BIGINT, note STRING, items ARRAY<STRUCT<sku: STRING, qty: BIGINT>>")
RECORD = columns_name("p")


def bodies(*values: Any) -> list[bytes]:
    """Bodies in JSON."""
    return [json.dumps(value).encode() for value in values]


def rows(table: Table, folder: Path, *names: str) -> list[dict[str, Any]]:
    """The rows of partition 0, as delta-rs reads them."""
    found = DeltaTable(str(dumped(table.store, folder))).to_pyarrow_table()
    sorted_rows: list[dict[str, Any]] = found.sort_by("sequence_number").select(names).to_pylist()
    return sorted_rows


def schema(table: Table) -> list[str]:
    """The columns of the table behind those of each file."""
    texts = [a["metaData"]["schemaString"] for version in table.versions() for a in version if "metaData" in a]
    return [field["name"] for field in json.loads(texts[-1])["fields"]][11:]


async def test_the_table_has_each_column_with_the_first_file_that_has_it_and_keeps_it(tmp_path: Path) -> None:
    table = Table()
    await table.write_typed("0", (), bodies({"cents": 1}))
    await table.committer().advance(["0"])
    await table.write_typed("0", [CENTS], bodies({"cents": 2, "note": "b"}, {"cents": "no"}))
    await table.write_typed("0", [ITEMS, NOTE], bodies({"note": "c", "items": [{"sku": "s", "qty": 3}]}))
    await table.write_typed("0", (), bodies({"cents": 4}))
    await table.committer().advance(["0"])  # by another host: it needs no configuration
    first, second, third = table.versions()
    assert [next(iter(action)) for action in third if "metaData" in action or "add" in action] == [
        "metaData",
        "add",
        "add",
        "add",
    ]
    assert not any("metaData" in action for action in second)
    assert schema(table) == ["cents", "_error", "items", "note"]
    assert third[1]["metaData"]["id"] == first[2]["metaData"]["id"]
    found = rows(table, tmp_path, "cents", "note", "items")
    assert found == [
        {"cents": None, "note": None, "items": None},
        {"cents": 2, "note": None, "items": None},
        {"cents": None, "note": None, "items": None},
        {"cents": None, "note": "c", "items": [{"sku": "s", "qty": 3}]},
        {"cents": None, "note": None, "items": None},
    ]
    errors = [row["_error"] for row in rows(table, tmp_path / "again", "_error")]
    assert [error is not None for error in errors] == [False, False, True, False, False]
    await table.write_typed("0", [CENTS], bodies({"cents": 5}))
    await table.committer().advance(["0"])
    assert not any("metaData" in action for action in table.versions()[3])


async def test_a_table_without_columns_of_bodies_is_as_before() -> None:
    table = Table()
    await table.write_typed("0", (), bodies({}))
    await table.committer().advance(["0"])
    assert schema(table) == []
    assert RECORD not in table.store.blobs
    (facts,) = (blob.metadata for name, blob in table.store.blobs.items() if "/from=" in name)
    assert not {"columns", "statistics"} & facts.keys()


async def test_the_columns_of_a_checkpoint_are_kept(tmp_path: Path) -> None:
    table = Table()
    columns = bounded([CENTS])
    for number in range(4):
        await table.write_typed("0", columns, bodies({"cents": number}))
        await table.committer(versions=1).advance(["0"])
    assert any("checkpoint.parquet" in name for name in table.store.blobs)
    for name in [name for name in table.store.blobs if name.startswith(LOG) and name.endswith(".json")][:-1]:
        if name.removeprefix(LOG)[:20].isdigit():
            del table.store.blobs[name]  # readers and the next committer begin with the checkpoint
    await table.write_typed("0", [*columns, NOTE], bodies({"cents": 4, "note": "n"}))
    await table.committer(versions=1).advance(["0"])
    assert schema(table) == ["cents", "_error", "note"]
    root = dumped(table.store, tmp_path)
    found = DeltaTable(str(root)).to_pyarrow_table(columns=["cents", "note"], filters=[("cents", ">=", 3)])
    assert found.sort_by("cents").to_pylist() == [{"cents": 3, "note": None}, {"cents": 4, "note": "n"}]


async def test_a_column_that_another_program_added_stays_and_one_of_another_type_is_refused() -> None:
    table = Table()
    await table.write_typed("0", (), bodies({}))
    await table.committer().advance(["0"])
    metadata = next(action["metaData"] for action in table.versions()[0] if "metaData" in action)
    wide = json.loads(metadata["schemaString"])
    wide["fields"] += [
        {"name": "region", "type": "string", "nullable": True, "metadata": {"comment": "theirs"}},
        {"name": "CENTS", "type": "string", "nullable": True, "metadata": {}},
    ]
    configuration = metadata["configuration"] | {"owner": "them"}
    action = {"metaData": metadata | {"schemaString": json.dumps(wide), "configuration": configuration}}
    table.store._write(f"{LOG}{2:020d}.json", json.dumps(action).encode(), None)
    await table.write_typed("0", bounded([NOTE]), bodies({"note": "x"}))
    await table.committer().advance(["0"])
    assert schema(table) == ["region", "CENTS", "note", "_error"]
    kept = next(action["metaData"] for action in table.versions()[3] if "metaData" in action)
    assert kept["configuration"]["owner"] == "them"
    assert kept["configuration"]["delta.dataSkippingStatsColumns"].endswith("partition_id,note")
    assert json.loads(kept["schemaString"])["fields"][11]["metadata"] == {"comment": "theirs"}
    await table.write_typed("0", [CENTS], bodies({"cents": 1}))
    with pytest.raises(Blocked, match=r"column CENTS with type string, and files have cents with type long") as refused:
        await table.committer().advance(["0"])
    assert refused.value.problem.reason == Reason.TABLE_INVALID
    assert len(table.versions()) == 4


async def test_a_record_of_columns_that_is_lost_or_another_one_is_a_fault_until_it_is_restored() -> None:
    table = Table()
    await table.write_typed("0", [CENTS, NOTE], bodies({"cents": 1, "note": "x"}))
    lost = table.store.blobs.pop(RECORD)
    with pytest.raises(Blocked, match=r"the record p/_columns\.json does not have"):
        await table.committer().advance(["0"])
    await table.write_typed("1", [NOTE, CENTS], bodies({"cents": 1, "note": "x"}))  # begins another record
    with pytest.raises(Blocked, match=r"the record p/_columns\.json does not have"):
        await table.committer().advance(["0"])
    table.store.blobs[RECORD] = lost
    await table.committer().advance(["0"])
    assert schema(table) == ["cents", "note", "_error"]


@pytest.mark.parametrize(("key", "text"), [("columns", "x"), ("statistics", "x"), ("statistics", '{"7":[0]}')])
async def test_metadata_of_columns_that_was_changed_is_a_fault(key: str, text: str) -> None:
    table = Table()
    await table.write_typed("0", bounded([CENTS]), bodies({"cents": 1}))
    name = next(name for name in table.store.blobs if "/from=" in name)
    blob = table.store.blobs[name]
    table.store.blobs[name] = replace(blob, metadata={**blob.metadata, key: text})
    with pytest.raises(Blocked, match=r"the columns of file .* cannot be read"):
        await table.committer().advance(["0"])


@pytest.mark.parametrize("column", VALUES)
async def test_delta_rs_finds_each_value_by_its_bounds(column: str, tmp_path: Path) -> None:
    """By the readers of PyArrow and of DataFusion; tests/outsiders has other programs."""
    name, values = column.split(maxsplit=1)[0], VALUES[column]
    table = Table()
    written = await write_values(table, column)
    await table.committer().advance(["0"])
    root = str(dumped(table.store, tmp_path))
    found = DeltaTable(root)
    sql = "CAST({} AS DECIMAL(38, 10))" if "DECIMAL" in column else "CAST({} AS DATE)" if "DATE" in column else "{}"
    for value in values:
        expected = written.count(value)
        assert expected >= 2
        assert found.to_pyarrow_table(columns=[name], filters=[(name, "=", value)]).num_rows == expected
        literal = sql.format(_sql(value))
        query = f"SELECT {name} FROM t WHERE {name} = {literal}"  # noqa: S608 - a test
        batches = QueryBuilder().register("t", DeltaTable(root)).execute(query).read_all()
        assert batches.num_rows == expected, query
    nulls = QueryBuilder().register("t", DeltaTable(root)).execute(f"SELECT {name} FROM t WHERE {name} IS NULL")  # noqa: S608
    assert nulls.read_all().num_rows == written.count(None)


def _sql(value: Any) -> str:
    if isinstance(value, datetime):
        return f"""arrow_cast('{value.isoformat()}', 'Timestamp(Microsecond, Some("UTC"))')"""
    if isinstance(value, date | str):
        return "'" + str(value).replace("'", "''") + "'"
    return f"'{value:f}'" if isinstance(value, Decimal) else repr(value)
