"""Statistics of columns of bodies: never narrower than the values, as each way to read JSON numbers has them."""

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.column_types import DeltaType, parse_type
from eventconsumer_api.wire.columns_record import parse_statistics
from eventconsumer_host.body.statistics import BYTES_MAX, COLUMNS_MAX, TEXT_MAX, bounds, raised, statistics
from eventconsumer_host.source.schema import arrow_type

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)
characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("a\ud7ff\ue000\uffff\U0010ffff \x7f\x00'\"")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "STRING": st.text(characters, max_size=20) | st.just("\U0010ffff" * 17) | st.just("b" * 15 + "\ud7ff" + "x"),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_infinity=False) | st.sampled_from([0.0, -0.0]),
    "DECIMAL(38, 10)": st.decimals(-(10**13), 10**13, places=10) | st.decimals(-1, 1, places=10),
    "DECIMAL(5, 0)": st.decimals(-99_999, 99_999, places=0),
    "DATE": st.dates() | st.dates(date(2026, 1, 1), date(2026, 12, 31)),
    "TIMESTAMP": st.datetimes(FIRST, LAST, timezones=st.just(UTC))
    | st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 2), timezones=st.just(UTC)),
}
some = st.sampled_from(sorted(VALUES)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | VALUES[kind]))
)


def column(kind: str, name: str = "c") -> BodyColumn:
    """A column with statistics."""
    return BodyColumn(name, parse_type(kind), (name,), statistics=True)


def array(kind: DeltaType, values: list[Any]) -> pa.Array:
    """Values as a parser gives them."""
    return pa.array(values, arrow_type(kind))


def ways(kind: str, bound: Any) -> list[Any]:
    """A bound in the log as readers understand it, to compare with values."""
    text = json.dumps(bound)
    if kind == "TIMESTAMP":
        return [datetime.fromisoformat(bound)]
    if kind == "DATE":
        return [date.fromisoformat(bound)]
    if kind.startswith("DECIMAL"):  # digits, or a binary number that is rounded to the scale of the column
        places = Decimal(1).scaleb(-int(kind.rstrip(")").split(", ")[1]))
        return [Decimal(text), Decimal(float(text)).quantize(places)]
    return [json.loads(text)]


@given(some)
@example(("DOUBLE", [math.nan, 1.0]))
@example(("DOUBLE", [-0.0]))
@example(("TIMESTAMP", [EPOCH + timedelta(microseconds=1)]))
@example(("TIMESTAMP", [EPOCH - timedelta(microseconds=1)]))
@example(("STRING", ["z" * 17]))
@example(("DECIMAL(38, 10)", [Decimal("0.0000000001"), Decimal("99999999999.9999000001")]))
@example(("DECIMAL(38, 10)", [Decimal("-0.0000000001")]))
def test_bounds_are_never_narrower_than_the_values(found: tuple[str, list[Any]]) -> None:
    kind, values = found
    present = [value for value in values if value is not None]
    low, high = bounds(column(kind), pa.chunked_array([array(parse_type(kind), values)]))
    if low is None or high is None:
        assert low is high is None
        return
    assert present
    for value in present:
        assert all(way <= value for way in ways(kind, low)), f"the lower bound {low!r} is above {value!r}"
        assert all(value <= way for way in ways(kind, high)), f"the upper bound {high!r} is below {value!r}"
    if kind == "DOUBLE" and 0.0 in present:  # readers may order -0.0 before 0.0
        assert (low != 0 or math.copysign(1, low) < 0) and (high != 0 or math.copysign(1, high) > 0)
    if kind == "STRING":
        assert len(low) <= TEXT_MAX[0] and len(high) <= TEXT_MAX[0]  # noqa: PT018


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("BIGINT", [3, None, -(2**63)], (-(2**63), 3)),
        ("BIGINT", [None], (None, None)),
        ("STRING", ["b", "a" * 30], ("a" * 16, "b")),
        ("STRING", ["z" * 30], ("z" * 16, "z" * 15 + "{")),
        ("STRING", ["\U0010ffff" * 30], (None, None)),
        ("DOUBLE", [1.5, math.nan], (None, None)),
        ("DOUBLE", [0.0, 1e300], (-0.0, 1e300)),
        ("DATE", [date(2026, 1, 2)], ("2026-01-02", "2026-01-02")),
        ("DATE", [date(1, 1, 1), date(9999, 12, 31)], ("0001-01-01", "9999-12-31")),
        (
            "TIMESTAMP",
            [datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)],
            ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.679Z"),
        ),
        ("DECIMAL(10, 2)", [Decimal("1.25"), Decimal("-7.00")], (-7, 1.25)),
        ("DECIMAL(20, 10)", [Decimal("0.0000000001")], (0, 0.0001)),
        ("DECIMAL(38, 0)", [Decimal(10**20)], (10**20 - 10**7, 10**20 + 10**7)),
        ("DECIMAL(38, 0)", [Decimal(-(10**38) + 1)], (-(10**38) - 10**24, -(10**38) + 10**24)),
        ("TIMESTAMP", [LAST.replace(tzinfo=UTC)], ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999999Z")),
        ("BOOLEAN", [True], (None, None)),
        ("ARRAY<BIGINT>", [[1]], (None, None)),
    ],
)
def test_bounds(kind: str, values: list[Any], expected: tuple[Any, Any]) -> None:
    assert bounds(column(kind), pa.chunked_array([array(parse_type(kind), values)])) == expected


def test_a_cut_text_is_raised_past_surrogates() -> None:
    assert raised("a" * 15 + "\ud7ff" + "tail", 16) == "a" * 15 + "\ue000"
    assert raised("a" * 15 + "\U0010ffff" + "tail", 16) == "a" * 14 + "b"


texts = st.lists(
    st.none() | st.text(characters, max_size=20).filter(lambda text: text.strip("\U0010ffff")), min_size=1, max_size=3
)


@given(st.lists(texts, min_size=1, max_size=12))
def test_statistics_fit_the_metadata_of_a_blob(columns: list[list[str | None]]) -> None:
    named = [column("STRING", f"c{number}") for number in range(len(columns))]
    rows = [[(values + [None] * 3)[row] for values in columns] for row in range(3)]
    batches = [
        pa.RecordBatch.from_arrays([array("string", [value]) for value in row], names=[each.name for each in named])
        for row in rows
    ]
    text = statistics(named, range(10, 10 + len(named)), batches)
    assert len(text) <= BYTES_MAX
    assert all("!" <= character <= "~" for character in text)
    found = parse_statistics(text)
    assert found.keys() == set(range(10, 10 + min(len(named), COLUMNS_MAX)))
    for number, (nulls, low, high) in found.items():
        values = [row[number - 10] for row in rows]
        assert nulls == values.count(None)
        present = [value for value in values if value is not None]
        assert all(low <= value <= high for value in present)
        assert (low is None) == (not present)


def test_only_columns_that_ask_for_statistics_have_some() -> None:
    columns = [column("BIGINT"), BodyColumn("d", "long", ("d",))]
    batch = pa.RecordBatch.from_arrays([array("long", [1, None]), array("long", [2, 3])], names=["c", "d"])
    assert parse_statistics(statistics(columns, (4, 5), [batch])) == {4: (1, 1, 1)}
    assert statistics(columns, (4, 5), []) == ""


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "[]",
        '{"a":[1]}',
        '{"1":[]}',
        '{"1":[1,2]}',
        '{"1":[1,[],2]}',
        '{"1":[1,true,2]}',
        '{"1":[1,"\\ud800","a"]}',
    ],
)
def test_statistics_that_were_changed_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read|JSON|other facts|value|literal|surrogates"):
        parse_statistics(text)
