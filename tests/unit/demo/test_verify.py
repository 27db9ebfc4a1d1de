"""The demo's check must fail when an event is lost, doubled, or when one loss hides another's double."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from eventconsumer_api.spec.body_columns import ColumnSpec, body_columns
from eventconsumer_demo.publisher import KEYS, event
from eventconsumer_demo.run import QUERY, RESOURCE, show_query, show_result
from eventconsumer_demo.verify import Result, Tally, differences, query, read_columns, read_result, tallies_of
from tests.unit.host.leader.test_table import Table, dumped

SENT = {"a": Tally(events=3, id_sum=6), "b": Tally(events=2, id_sum=9)}


def test_equal_results_have_no_difference() -> None:
    assert differences(SENT, {"a": Tally(3, 6, 3), "b": Tally(2, 9, 2)}) == []


@pytest.mark.parametrize(
    "result",
    [
        {"a": Tally(3, 6, 3)},  # a key is missing
        {"a": Tally(2, 5, 2), "b": Tally(2, 9, 2)},  # an event is lost
        {"a": Tally(4, 7, 3), "b": Tally(2, 9, 2)},  # an event stands twice
        {"a": Tally(3, 6, 2), "b": Tally(2, 9, 2)},  # one lost, another twice
        {"a": Tally(3, 7, 3), "b": Tally(2, 9, 2)},  # other events than those sent
        {"a": Tally(3, 6, 3), "b": Tally(2, 9, 2), "c": Tally(1, 1, 1)},  # a key nobody sent
    ],
)
def test_any_difference_is_named(result: dict[str, Tally]) -> None:
    assert len(differences(SENT, result)) == 1


def test_rows_are_counted_by_key_with_their_distinct_ids() -> None:
    keys, ids = ["a", "b", "b", "b"], [1, 2, 2, None]
    assert tallies_of(pa.chunked_array([keys]), pa.chunked_array([ids])) == {"a": Tally(1, 1, 1), "b": Tally(3, 4, 1)}


def test_the_table_of_spark_has_ids_in_properties(tmp_path: Path) -> None:
    properties = [[("id", str(i)), ("kind", "paid")] for i in (1, 2, 2)] + [[("kind", "without an id")]]
    kind = pa.map_(pa.string(), pa.string())
    rows = pa.table({"partition_key": ["a", "b", "b", "b"], "properties": pa.array(properties, kind)})
    write_deltalake(str(tmp_path), rows)
    assert read_result(str(tmp_path), {}) == Result(0, {"a": Tally(1, 1, 1), "b": Tally(3, 4, 1)})


async def test_the_table_over_the_files_has_columns_of_the_bodies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the resource, and bodies of the publisher."""
    body = yaml.safe_load(RESOURCE.read_text())["spec"]["sink"]["body"]
    columns = body_columns(map(ColumnSpec.model_validate, body["columns"]))
    assert query(str(tmp_path / "none"), {}, QUERY) is None
    table = Table()
    await table.committer().advance(["0"])
    assert query(str(dumped(table.store, tmp_path)), {}, QUERY) is None
    await table.write_typed("0", columns, [b"".join(event(i).body) for i in range(3 * KEYS)] + [b"no order"])
    await table.committer().advance(["0"])
    root = str(dumped(table.store, tmp_path))
    sent = {f"customer-{i:02d}": Tally(3, 3 * i + 3 * KEYS) for i in range(KEYS)}
    assert differences(sent, read_columns(root, {}).tallies) == [
        "None: sent 0 events (ids add up to 0), the table has 1 with 0 distinct ids (add up to 0)"
    ]
    cents = {i: sum(id * 7919 % 100_000 for id in (i, i + KEYS, i + 2 * KEYS)) for i in range(KEYS)}
    top = sorted(cents, key=lambda i: -cents[i])[:3]
    found = query(root, {}, QUERY)
    assert found == [
        {"customer": f"customer-{i:02d}", "orders": 3, "newest": i + 2 * KEYS, "amount": Decimal(cents[i]) / 100}
        for i in top
    ]
    show_query(found)
    assert f"customer-{top[0]:02d}" in capsys.readouterr().out


def test_waves_add_up() -> None:
    assert Tally(3, 6, 3) + Tally(2, 9, 2) == Tally(5, 15, 5)


def test_the_verdict_is_plain_text_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_result(Result(3, {"a": Tally(3, 6, 3)}), [])
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.endswith("Every one of 3 events is in both Delta tables exactly once (version 3, 1 partition keys).")
