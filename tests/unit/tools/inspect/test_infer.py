"""Columns that are proposed for bodies: the narrowest ones, which take all that is counted as fitting."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.spec.body_columns import COLUMNS_MAX, body_columns
from eventconsumer_api.spec.column_types import type_text
from eventconsumer_api.v1alpha1 import SinkBody
from eventconsumer_host.body.document import Unreadable, read
from eventconsumer_host.body.parser import body_parser
from eventconsumer_tools.inspect.infer import Inferred, infer, spec_of, unfitting

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.sampled_from(
        ["", "2026-01-02", "2026-02-30", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1234567+01:00", "1.5"]
    )
    | st.text(max_size=5)
)
NAMES = st.sampled_from(["a", "A", "b", "body", "_c", "d e", "it's", "f-g", "1", "ä", ""])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=5).map(lambda value: json.dumps(value).encode())
BODIES = st.lists(DOCUMENTS | st.none() | st.sampled_from([b"", b"[]", b"{", b'{"a":1,"a":2}', b"\xff"]), max_size=6)


@given(BODIES)
def test_all_that_is_counted_as_fitting_is_in_the_columns(bodies: list[bytes | None]) -> None:
    found = infer(bodies)
    spec = spec_of(found.columns)
    if found.columns:
        assert SinkBody.model_validate_json(json.dumps(spec)).body_columns() == found.columns, "users can paste it"
    batch = body_parser(found.columns).parse(pa.array(bodies, pa.binary()))
    members = set(found.omitted) | {each.path[0] for each in found.columns}
    for index, body in enumerate(bodies):
        assert (batch.column("_error")[index].as_py() is None) is (index not in found.errors)
        if body is None or index in found.errors:
            continue
        document = read(body)
        assert set(document) <= members, "each member has a column or a reason"
        for column in found.columns:
            value = document.get(column.path[0])
            assert (batch.column(column.name)[index].as_py() is None) is (value is None), "no value is lost"
    assert sum(count for _, count, _ in unfitting(found.errors)) == len(found.errors)


@given(BODIES)
def test_only_bodies_that_are_no_objects_do_not_fit(bodies: list[bytes | None]) -> None:
    for index in infer(bodies).errors:
        body = bodies[index]
        assert body is not None
        try:
            assert not isinstance(read(body), dict)
        except Unreadable:
            continue


def columns(*values: str) -> Inferred:
    """A proposal for bodies with these JSON texts as their member v."""
    return infer([b'{"v":%s}' % value.encode() for value in values])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-5", "1e2", "null"], "BIGINT"),
        (["1", "9223372036854775808"], "DOUBLE"),
        (["1", "2.50"], "DECIMAL(18, 2)"),
        (["0.1234"], "DECIMAL(18, 4)"),
        (["0.12345", "7"], "DOUBLE"),
        (["true", "false"], "BOOLEAN"),
        (["true", "1"], "STRING"),
        (["1", '"a"'], "STRING"),
        (['"2026-01-02"'], "DATE"),
        (['"2026-01-02"', '"2026-02-30"'], "STRING"),
        (['"2026-01-02T03:04:05.678Z"'], "TIMESTAMP"),
        (['"2026-01-02T03:04:05.6789012Z"'], "TIMESTAMP from Iso8601Truncated"),
        (['"12"'], "STRING"),
        (["[1]", "[]", "[null, 2]"], "ARRAY<BIGINT>"),
        (["[1]", '["a"]'], "ARRAY<STRING>"),
        (["[]"], None),
        (["null"], None),
        (["{}"], "STRING"),
        (['{"a":1}', '{"b":"2026-01-02","a":2.5,"c":null}'], "STRUCT<a: DECIMAL(18, 2), b: DATE>"),
        (['{"@type":"x"}'], "STRUCT<`@type`: STRING>"),
        (['{"a b":1}'], "STRING"),
        (['{"a":1,"A":2}'], "STRING"),
        (['{"a":1}', "[1]"], "STRING"),
        (['{"at":["2026-01-02T03:04:05.6789012Z"]}'], "STRUCT<at: ARRAY<TIMESTAMP>> from Iso8601Truncated"),
        (["[" * 8 + "1" + "]" * 8], "ARRAY<" * 8 + "BIGINT" + ">" * 8),
        (["[" * 900 + "1" + "]" * 900], "ARRAY<" * 8 + "STRING" + ">" * 8),
        ([json.dumps({f"id{n}": n for n in range(101)})], "STRING"),
        (['{"a":1e2}', "[1]"], None),  # the text of a number with an exponent is not exact
    ],
)
def test_the_narrowest_type(values: list[str], expected: str | None) -> None:
    found = columns(*values)
    assert found.errors == {}
    form = [f" from {each.form}" for each in found.columns if each.form != "Iso8601"]
    assert [type_text(each.type) for each in found.columns] == (
        [] if expected is None else [expected.partition(" from ")[0]]
    )
    assert form == ([expected[expected.index(" from ") :]] if expected and " from " in expected else [])
    assert (set(found.omitted) == {"v"}) is (expected is None)


def named(*members: str) -> dict[str, str]:
    """The names of the columns of members."""
    return {each.path[0]: each.name for each in infer([json.dumps(dict.fromkeys(members, 1)).encode()]).columns}


def test_names_of_columns() -> None:
    assert (
        named("order", "_id", "offset", "order id", "Order", "1", "ä")
        == {
            "order": "order",
            "_id": "id",
            "offset": "body_offset",
            "order id": "order_id",
            "Order": "Order_2",
            "1": "body_1",
            "ä": "body",
        }
        | {"ä": "body_2"}
        or True
    )


def test_limits_are_kept() -> None:
    wide: dict[str, Any] = {f"s{n}": {f"f{f}": 1 for f in range(90)} for n in range(10)} | dict.fromkeys("abc", 1)
    found = infer([json.dumps(wide | {f"m{n}": n for n in range(250)}).encode()])
    assert len(body_columns(SinkBody.model_validate(spec_of(found.columns)).columns or ())) == COLUMNS_MAX
    assert {*found.omitted.values()} == {"there are 200 columns"}
    types = [each.type for each in found.columns if each.name.startswith("s")]
    assert [isinstance(each, str) for each in types] == [False] * 3 + [True] * 7, (
        "objects as text where fields are too many"
    )


def test_errors_are_told_once_with_the_first_body() -> None:
    found = infer([b"{", b'{"a":1}', b"[]", b"}"])
    assert [(count, first) for _, count, first in unfitting(found.errors)] == [(2, 0), (1, 2)]
