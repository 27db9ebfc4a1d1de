"""The parsers of bodies: a row has the values, and the errors, that the oracle has for its body."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.spec import json_columns as table
from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.column_types import DeltaType
from eventconsumer_host.body.compiled import CompiledBodyParser
from eventconsumer_host.body.parser import BodyParser
from eventconsumer_host.body.plain import PlainBodyParser
from eventconsumer_host.body.plan import FAULTS, Fault
from tests.support import json_oracle
from tests.support.json_bodies import CASES, COLUMNS, MISFIT, PATHS, array, bodies, mapping, mutated, struct

Bodies = Sequence[bytes | None]
PARSERS: list[Callable[[Sequence[BodyColumn]], BodyParser]] = [PlainBodyParser, CompiledBodyParser]


def shown(value: Any, wanted: DeltaType) -> Any:
    """A value of Arrow's as the oracle has it; 0.0 as text, because it is equal to -0.0."""
    if value is None or isinstance(wanted, str):
        return json_oracle.micros(value) if isinstance(value, datetime) else _sign(value)
    match wanted["type"]:
        case "array":
            return [shown(each, wanted["elementType"]) for each in value]
        case "map":
            return {name: shown(each, wanted["valueType"]) for name, each in value}
    return tuple(shown(value[field["name"]], field["type"]) for field in wanted["fields"])


def _sign(value: Any) -> Any:
    match value:
        case float():
            return repr(value)
        case tuple():
            return tuple(map(_sign, value))
        case list():
            return list(map(_sign, value))
        case dict():
            return {name: _sign(each) for name, each in value.items()}
    return value


def parsed(parser: BodyParser, found: Bodies) -> pa.RecordBatch:
    batch = parser.parse(pa.array(found, pa.binary()))
    batch.validate(full=True)
    assert batch.num_rows == len(found)
    return batch


def check(columns: list[BodyColumn], found: Bodies) -> None:
    """Each parser gives what the oracle has, and all parsers the same errors."""
    expected = [json_oracle.row(body, columns) for body in found]
    errors = []
    for make in PARSERS:
        batch = parsed(make(columns), found)
        for column, values in zip(columns, zip(*(values for values, _ in expected), strict=True), strict=True):
            own = [shown(value, column.type) for value in batch[column.name].to_pylist()]
            for body, value, wanted in zip(found, own, values, strict=True):
                assert value == _sign(wanted), (make, column.name, body)
        texts = batch["_error"].to_pylist()
        for body, text, (_, wrong) in zip(found, texts, expected, strict=True):
            assert (text is None) == (not wrong), (make, body, text, wrong)
            assert text is None or len(text.encode()) <= table.ERROR_BYTES_MAX
        errors.append(texts)
    for others in errors[1:]:
        assert others == errors[0]


@given(st.lists(bodies(COLUMNS), min_size=1, max_size=20))
def test_any_bodies_have_the_values_that_python_makes_of_them(found: list[bytes | None]) -> None:
    check(COLUMNS, found)


@given(st.lists(bodies(PATHS), min_size=1, max_size=20))
def test_columns_whose_paths_meet(found: list[bytes | None]) -> None:
    check(PATHS, found)


def test_a_value_is_exact_or_an_error_with_column_and_type() -> None:
    own = {column.name: column for column in COLUMNS if column.name not in ("i8", "inner")}
    own |= {"i8": BodyColumn("i8", "long", ("i8",))}
    cases = [case for case in CASES if case[0] in own]
    assert {name for name, *_ in cases} >= {"s", "b", "i8", "m", "d", "day", "at", "cut", "millis", "list", "map"}
    columns = list(own.values())
    found = [f'{{"{name}": {value}}}'.encode() for name, value, _ in cases]
    for make in PARSERS:
        rows = parsed(make(columns), found).to_pylist()
        for (name, value, wanted), row in zip(cases, rows, strict=True):
            if wanted is MISFIT:
                assert row[name] is None and row["_error"].startswith(f"column {name}: "), (name, value, row)
            else:
                assert row["_error"] is None, (name, value, row)
                assert shown(row[name], own[name].type) == _sign(wanted), (name, value, row)
    check(columns, found)


NESTED = "ARRAY<STRUCT<sku: STRING, `at`: TIMESTAMP>>".replace("`", "")
ID = BodyColumn("id", "long", ("a", "id"), required=True)
ITEMS = BodyColumn("items", array(struct(sku="string", at="timestamp")), ("items",))
DOCUMENT = FAULTS[Fault.NO_DOCUMENT]
TEXTS: dict[bytes | None, str | None] = {
    b'{"a":{"id":1}}': None,
    None: "column id: BIGINT is required, but there is no value",
    b"{}": "column id: BIGINT is required, but there is no value",
    b'{"A":{"id":1}}': "column id: BIGINT is required, but there is no value",
    b'{"a":{"id":null}}': "column id: BIGINT is required, but there is no value",
    b'{"a":null}': "column id: BIGINT is required, but there is no value",
    b'{"a":{"id":1.5}}': "column id: BIGINT has no exact value for this number",
    b'{"a":[5]}': "column id: BIGINT has a path that leads through this array, not through an object",
    b'{"a":{"id":"5"},"items":[{"at":5}]}': "column id: BIGINT has no exact value for this string; "
    f"column items: {NESTED} has no exact value for this array",
    b'{"items":[' + b"null," * 1100 + b"1]}": "column id: BIGINT is required, but there is no value; "
    f"column items: {NESTED} has no exact value for this array",
    b'{"a":{"id":1},"items":[' + b"{}," * 600 + b"{}]}": None,
    b"": DOCUMENT,
    b'{"a":{"id":1}} {}': DOCUMENT,
    b'{"a":{"id":1}}\0': DOCUMENT,
    b'\xef\xbb\xbf{"a":{"id":1}}': DOCUMENT,
    b'{"a":{"id":NaN}}': DOCUMENT,
    b'{"a":{"id":01}}': DOCUMENT,
    b'{"a":{"id":+1}}': DOCUMENT,
    b'{"a":{"id":1,}}': DOCUMENT,
    b"{'a':1}": DOCUMENT,
    b'{"a":"\t"}': DOCUMENT,
    b'{"a":"\\x41"}': DOCUMENT,
    b"[" * 1_000_000: DOCUMENT,
    b'{"a":' * 100_000: DOCUMENT,
    b'{"a":{"id":1},"x":' + b"[" * 998 + b"]" * 998 + b"}": None,
    b'{"a":{"id":1},"x":' + b"[" * 999 + b"]" * 999 + b"}": DOCUMENT,
    b'{"a":{"id":1},"x":' + b"1" * 1000 + b"}": None,
    b'{"a":{"id":1},"x":' + b"1" * 1001 + b"}": DOCUMENT,
    b'{"a":{"id":1},"x":-1.' + b"1" * 998 + b"e-1}": None,
    b'{"a":{"id":1},"x":-1.' + b"1" * 998 + b"e-11}": DOCUMENT,
    b'{"a":{"id":1},"' + "é".encode() * 50_000 + b'":1}': None,
    b'{"a":{"id":1},"' + b"x" * 50_001 + b'":1}': DOCUMENT,
    b'{"a":{"id":1},"x":"\xc3"}': FAULTS[Fault.NO_UTF8],
    b'{"a":{"id":1},"x":"\xed\xa0\x80"}': FAULTS[Fault.NO_UTF8],
    b'{"a":{"id":1},"x":"\\ud800"}': FAULTS[Fault.HALF_PAIR],
    b'{"a":{"id":1},"\\udc00":1}': FAULTS[Fault.HALF_PAIR],
    b'{"a":{"id":1},"x":"\\ud83d\\\\\\ude00"}': FAULTS[Fault.HALF_PAIR],
    b'{"a":{"id":1},"x":"\\ud83d\\ude00\\\\ud800"}': None,
    b'{"a":{"id":1},"x":[{"b":1,"\\u0062":2}]}': FAULTS[Fault.TWICE],
    b'{"a":{"id":1},"a":{"id":2}}': FAULTS[Fault.TWICE],
    b'{"a":{"id":1,"id":2},"a":}': DOCUMENT,
    b'{"x":{' + b",".join(b'"%d":0' % number for number in range(5000)) + b',"77":1}}': FAULTS[Fault.TWICE],
    b"[]": FAULTS[Fault.NO_OBJECT],
    b"null": FAULTS[Fault.NO_OBJECT],
    b'"x"': FAULTS[Fault.NO_OBJECT],
}


@pytest.mark.parametrize("make", PARSERS)
def test_the_error_names_columns_types_and_kinds_or_what_the_body_is(
    make: Callable[[Sequence[BodyColumn]], BodyParser],
) -> None:
    found = parsed(make([ID, ITEMS]), list(TEXTS))["_error"].to_pylist()
    for body, error, wanted in zip(TEXTS, found, TEXTS.values(), strict=True):
        assert error == wanted, (body and body[:60], error, wanted)
    check([ID, ITEMS], list(TEXTS))


def test_an_error_has_the_first_columns_and_the_number_of_the_others() -> None:
    columns = [
        BodyColumn("é" * 100 + str(number), struct(**{"x" * 300: "long"}), (str(number),)) for number in range(9)
    ]
    body = b"{" + b",".join(b'"%d":[]' % number for number in range(9)) + b"}"
    (error,) = parsed(PARSERS[0](columns), [body])["_error"].to_pylist()
    assert error.startswith(f"column {'é' * 48}…: STRUCT<xxx") and error.endswith("this array; and 8 more")
    check(columns, [body])


def test_an_event_of_many_elements_takes_no_more_values_than_its_size_allows() -> None:
    """The values of columns that fit count, in the order of the columns."""
    wide = array(struct(**{f"f{number}": "long" for number in range(60)}))
    columns = [
        BodyColumn("wide", wide, ("x",)),
        BodyColumn("narrow", array(struct(f1="long")), ("x",)),
        BodyColumn("map", mapping(struct(a="long", b=array("long"))), ("m",)),
    ]
    found: list[bytes] = []
    for count in (16, 17, 19, 20, 22, 23, 24, 900, 3_000):
        found.append(b'{"x":[' + b"{}," * (count - 1) + b"{}]}")
    members = [b'"%d":{"b":[%s]}' % (number, b"1," * number + b"1") for number in range(200)]
    found += [b'{"m":{' + b",".join(members[:count]) + b"}}" for count in (10, 50, 100, 200)]
    found += [body[:-1] + b',"m":{"a":{"b":[' + b"1," * 500 + b"1]}}}" for body in found[:5]]
    check(columns, found)
    rows = parsed(PARSERS[0](columns), found).to_pylist()
    assert rows[8]["wide"] is None and rows[8]["narrow"] is not None
    assert rows[8]["_error"].endswith("has more values than a body of this size may have")


GOOD = (
    '{"s":"a\\u00e9\\n","i8":-12,"m":"1.5","d":0.1e3,"at":"2026-01-02T03:04:05.5+01:30", "list":'
    '[{"n":1,"tags":[1.5,null]},null], "map":{"é":1} ,"b":true,"millis":1767323045678,"day":"2024-02-29"}'
).encode()


@pytest.mark.slow
def test_any_changed_byte() -> None:
    """A changed body between two good ones, so that a row with its neighbour's values would be seen."""
    found = []
    for at in range(len(GOOD) + 1):
        for byte in b'0 "\\,}[e\x00\xff':
            found += [mutated(GOOD, at, byte, how) for how in (0, 1)]
        found += [mutated(GOOD, at, 0, 2), GOOD]
    check(COLUMNS, found)


def test_no_rows_and_a_part_of_an_array() -> None:
    for make in PARSERS:
        assert parsed(make(COLUMNS), []).schema == make(COLUMNS).parse(pa.array([GOOD])).schema
        whole = pa.array([b"x", None, GOOD, b'{"i8":7}', None], pa.binary())
        assert make(COLUMNS).parse(whole.slice(2, 2)).equals(make(COLUMNS).parse(whole).slice(2, 2))


@pytest.mark.parametrize(
    "wanted",
    [
        "integer",
        "binary",
        {"type": "array", "elementType": "long", "containsNull": False},
        {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": True},
        {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": False, "metadata": {}}]},
        reduce(lambda inner, _: array(inner), range(40), "long"),
    ],
)
def test_types_that_bodies_cannot_have_are_refused(wanted: DeltaType) -> None:
    for make in PARSERS:
        with pytest.raises(ValueError, match=r"columns of bodies cannot have the type|more than 32 levels|counterpart"):
            make([BodyColumn("x", wanted, ("x",))])
