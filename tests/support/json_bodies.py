"""Bodies with JSON for tests: good ones and such that are nearly right, and columns of hosts for them."""

import base64
import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.column_types import DeltaType
from eventconsumer_api.spec.json_columns import TimeForm

DIGITS = st.text("0123456789", min_size=1, max_size=20)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from([str(2**n + d) for n in (7, 15, 31, 53, 63) for d in (-1, 0, 1)]),
    st.sampled_from(
        ["-0", "-0.0", "0e9", "5e-324", "3.4028235677973366e38", "1.7976931348623157e308", "1e99", "1E-99"]
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds(lambda a, b: f"{int(a)}.{b}", DIGITS, DIGITS),
    st.builds(lambda a, b, c: f"{int(a)}.{b}e{c}", DIGITS, DIGITS, st.integers(-40, 40)),
    st.builds(lambda a, c: f"-{a}e{c}", st.integers(0, 999), st.integers(-5, 20)),
    st.integers(-63_000_000_000, 260_000_000_000).map(str),
    st.decimals(-1000, 1000, places=3).map(lambda each: format(each, "f")),
)
_CLOCK = r"[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,8})?"
_ISO = st.datetimes(timezones=st.timezones()).map(lambda each: each.isoformat())
TEXTS = st.one_of(
    st.text(max_size=8),
    NUMBERS,
    st.datetimes().map(lambda each: each.isoformat()),
    st.datetimes(timezones=st.timezones()).map(lambda each: each.isoformat(sep=" ")),
    st.dates().map(str),
    st.binary(max_size=6).map(lambda each: base64.b64encode(each).decode()),
    st.from_regex(
        rf"\A[0-2][0-9]{{3}}-[01][0-9]-[0-3][0-9]([T ]{_CLOCK}(\.[0-9]{{1,8}})?(Z|[+-][01][0-9]:[0-6][0-9])?)?\Z"
    ),
)
QUOTED = st.one_of(TEXTS.map(json.dumps), TEXTS.map(lambda each: json.dumps(each, ensure_ascii=False)))
SCALARS = st.one_of(NUMBERS, QUOTED, st.sampled_from(["true", "false", "null"]))
INSERTED = [
    "",
    ",",
    "]",
    '"',
    "\\",
    "\\ud800",
    "}",
    "{",
    ' "end"',
    "],[",
    "\0",
    "e5",
    "\ufeff",
    "0",
    "-",
    "\x7f",
    "NaN",
]
"""What makes a document hostile; empty: nothing."""


def compound(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(["n", "t", "tags", "a", "\\u0061"])
    members = st.lists(st.tuples(names, values), max_size=3)
    return st.one_of(
        st.lists(values, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        members.map(lambda each: "{" + ",".join(f'"{name}":{value}' for name, value in each) + "}"),
    )


VALUES = st.recursive(SCALARS, compound, max_leaves=5)


def hostile(documents: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Documents, half of them with something put in."""
    more = st.one_of(st.just(""), st.sampled_from(INSERTED))
    return st.builds(lambda text, at, more: text[:at] + more + text[at:], documents, st.integers(0, 30), more)


# --- values -----------------------------------------------------------------------------------------------------------

MISFIT = object()
CASES = [
    ("at", "1767323045678", MISFIT),
    ("at", '"03:04"', MISFIT),
    ("at", '"2026-01-02"', MISFIT),
    ("at", '"2026-01-02T03:04:05.1234567Z"', MISFIT),
    ("at", '"2026-01-02T03:04:05.1234560Z"', 1_767_323_045_123_456),
    ("cut", '"2026-01-02T03:04:05.1234569Z"', 1_767_323_045_123_456),
    ("cut", '"1969-12-31T23:59:59.999999999Z"', -1),
    ("cut", '"2026-01-02T04:04:05.5+01:00"', 1_767_323_045_500_000),
    ("cut", '"2026-01-02"', MISFIT),
    ("cut", "1767323045", MISFIT),
    ("at", '"2026-01-02 03:04:05+01:00"', 1_767_319_445_000_000),
    ("at", '"0001-01-01T00:00:00+18:00"', MISFIT),
    ("at", '"2026-02-30T00:00:00Z"', MISFIT),
    ("millis", "1767323045678", 1_767_323_045_678_000),
    ("millis", "1767323045678.1234", MISFIT),
    ("millis", '"1767323045678"', MISFIT),
    ("seconds", "1767323045678", MISFIT),
    ("seconds", "1767323045.5", 1_767_323_045_500_000),
    ("seconds", "1.767323045e9", 1_767_323_045_000_000),
    ("micros", "-62135596800000000", -62_135_596_800_000_000),
    ("micros", "-62135596800000001", MISFIT),
    ("micros", "253402300799999999", 253_402_300_799_999_999),
    ("micros", "253402300800000000", MISFIT),
    ("day", '"20455"', MISFIT),
    ("day", "20455", MISFIT),
    ("day", '"2026-01-02"', date(2026, 1, 2)),
    ("day", '"0000-01-02"', MISFIT),
    ("m", "1.239", MISFIT),
    ("m", "1.2300", Decimal("1.23")),
    ("m", "12345678.9", Decimal("12345678.9")),
    ("m", "123456789", MISFIT),
    ("m", '"1.23"', Decimal("1.23")),
    ("m", '"1,000.5"', MISFIT),
    ("m", "1.25e1", Decimal("12.5")),
    ("m", "1.239e0", MISFIT),
    ("f", "1e300", MISFIT),
    ("f", "16777217.0", 16777216.0),
    ("f", "1.00000017881393432617187499", 1.0000001192092896),
    ("d", "1e300", 1e300),
    ("d", "1e400", MISFIT),
    ("d", "0.1", 0.1),
    ("d", "12345678901234567890123", 1.2345678901234568e22),
    ("d", '"NaN"', MISFIT),
    ("d", "true", MISFIT),
    ("i8", "1.0", 1),
    ("i8", "1e2", 100),
    ("i8", "1.5", MISFIT),
    ("i8", "1e-400", MISFIT),
    ("i8", "1.00000000000000000001e0", MISFIT),
    ("i8", "9007199254740993e0", MISFIT),
    ("i8", "9223372036854775807", 2**63 - 1),
    ("i8", "9223372036854775808", MISFIT),
    ("i8", '"5"', MISFIT),
    ("i8", "true", MISFIT),
    ("i1", "200", MISFIT),
    ("s", "1.10", "1.1"),
    ("s", "1e400", MISFIT),
    ("s", '{"b":1.10,"a":[1,"x"]}', '{"a":[1,"x"],"b":1.1}'),
    ("s", '[1,"x",1e9]', MISFIT),
    ("s", '"\\ud83d\\ude00\\\\ud800"', "\U0001f600\\ud800"),
    ("raw", '"QQ=="', b"A"),
    ("raw", '"QR=="', MISFIT),
    ("raw", '"Q Q=="', MISFIT),
    ("b", '"true"', MISFIT),
    ("inner", "{}", MISFIT),
    ("inner", '{"n":null}', MISFIT),
    ("inner", '{"n":1,"t":5}', (1, 5000)),
    ("list", '[null,{"n":1,"tags":[1.5,"2",null]}]', [None, (1, [Decimal("1.5"), Decimal(2), None])]),
    ("list", '[{"n":1,"tags":[1.55]}]', MISFIT),
    ("list", '{"n":1}', MISFIT),
    ("map", '{"a":1,"b":null}', {"a": 1, "b": None}),
    ("map", '{"a":"1"}', MISFIT),
]
"""Column, value, and what it becomes; the columns are Spark's, those of hosts have the same names."""


# --- columns of a host ------------------------------------------------------------------------------------------------


def struct(**fields: DeltaType) -> DeltaType:
    own = [{"name": name, "type": each, "nullable": True, "metadata": {}} for name, each in fields.items()]
    return {"type": "struct", "fields": own}


def array(element: DeltaType) -> DeltaType:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(value: DeltaType) -> DeltaType:
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}


COLUMNS = [
    BodyColumn("s", "string", ("s",)),
    BodyColumn("b", "boolean", ("b",)),
    BodyColumn("i8", "long", ("i8",), required=True),
    BodyColumn("m", "decimal(10,2)", ("m",)),
    BodyColumn("big", "decimal(38,18)", ("big",)),
    BodyColumn("d", "double", ("d",)),
    BodyColumn("day", "date", ("day",)),
    BodyColumn("at", "timestamp", ("at",)),
    BodyColumn("cut", "timestamp", ("cut",), TimeForm.TRUNCATED),
    BodyColumn("seconds", "timestamp", ("seconds",), TimeForm.SECONDS),
    BodyColumn("millis", "timestamp", ("millis",), TimeForm.MILLIS),
    BodyColumn("micros", "timestamp", ("micros",), TimeForm.MICROS),
    BodyColumn("inner", struct(n="long", t="timestamp", tags=array("boolean")), ("inner",), TimeForm.MILLIS),
    BodyColumn("list", array(struct(n="long", tags=array("decimal(4,1)"))), ("list",)),
    BodyColumn("cuts", array(struct(t="timestamp", of="string")), ("cuts",), TimeForm.TRUNCATED),
    BodyColumn("lists", array(array("string")), ("lists",)),
    BodyColumn("map", mapping("long"), ("map",)),
    BodyColumn("maps", mapping(struct(d="double", b="boolean", day="date", of=mapping("string"))), ("maps",)),
]
"""A column of each type."""

PATHS = [
    BodyColumn("whole", "string", ("p",)),
    BodyColumn("q", "string", ("p", "q")),
    BodyColumn("r", "long", ("p", "q", "r"), required=True),
    BodyColumn("again", mapping("string"), ("p", "q")),
    BodyColumn("kept", "decimal(20,1)", ("p", "q", "r")),
    BodyColumn("empty", "string", ("",)),
    BodyColumn("far", "date", ("é", "p", "\U0001f600"), required=True),
]
"""Columns whose paths meet."""


def fitting(wanted: DeltaType, form: TimeForm) -> st.SearchStrategy[str]:
    """JSON that fits a type, mostly."""
    if isinstance(wanted, str):
        if wanted.startswith("decimal"):
            return st.decimals(-999, 999, places=1).map(lambda each: format(each, "f"))
        if wanted == "timestamp":
            iso = st.one_of(_ISO, _ISO.map(lambda each: each.replace("T", " ").replace("+", "123+"))).map(json.dumps)
            return iso if "Iso" in form else st.integers(-(10**11), 10**11).map(str)
        return _FITTING[wanted]
    if wanted["type"] == "struct":
        own = {field["name"]: or_null(fitting(field["type"], form)) for field in wanted["fields"]}
        return objects(own)
    inner = or_null(fitting(wanted["elementType" if wanted["type"] == "array" else "valueType"], form))
    if wanted["type"] == "array":
        return st.lists(inner, max_size=4).map(lambda each: f"[{','.join(each)}]")
    return st.dictionaries(st.text(max_size=3), inner, max_size=3).map(_object)


_FITTING: Mapping[str, st.SearchStrategy[str]] = {
    "string": st.one_of(QUOTED, NUMBERS, VALUES),
    "boolean": st.sampled_from(["true", "false"]),
    "long": st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9)).map(str),
    "double": NUMBERS,
    "date": st.dates().map(lambda each: f'"{each}"'),
}


def or_null(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(values, values, values, st.just("null"))


def objects(own: Mapping[str, st.SearchStrategy[str]]) -> st.SearchStrategy[str]:
    """Objects with all of these members, or with some of them, others, and in another order."""
    known = st.fixed_dictionaries({}, optional={**own, "other": VALUES})
    mixed = st.builds(_turned, known, st.integers(0, 9), st.booleans())
    return st.one_of(st.fixed_dictionaries({**own}), mixed).map(_object)


def _turned(members: Mapping[str, str], first: int, back: bool) -> Mapping[str, str]:
    names = list(members)[first:] + list(members)[:first]
    return {name: members[name] for name in (reversed(names) if back else names)}


def _object(members: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}:{value}" for name, value in members.items()) + "}"


def documents(columns: list[BodyColumn]) -> st.SearchStrategy[str]:
    """Documents whose members mostly fit the columns."""
    tree: dict[str, Any] = {}
    for column in columns:
        node: dict[str, Any] = {"members": tree}
        for name in column.path:
            node = node.setdefault("members", {}).setdefault(name, {})
        node.setdefault("values", []).append(fitting(column.type, column.form))
    return _members(tree)


def _members(tree: Mapping[str, Any]) -> st.SearchStrategy[str]:
    own = {}
    for name, node in tree.items():
        inner = [_members(node["members"])] if "members" in node else []
        fit = [*inner, *node.get("values", [])]
        own[name] = st.one_of(*fit * 12, VALUES)
    return objects(own)


def mutated(body: bytes, at: int, byte: int, how: int) -> bytes:
    """A body with one byte changed, put in or taken out."""
    at %= len(body) + 1
    return [
        body[:at] + bytes([byte]) + body[at + 1 :],
        body[:at] + bytes([byte]) + body[at:],
        body[:at] + body[at + 1 :],
    ][how]


def bodies(columns: list[BodyColumn]) -> st.SearchStrategy[bytes | None]:
    """Good bodies, hostile ones, and none."""
    good = documents(columns).map(str.encode)
    changed = st.builds(
        mutated, good, st.integers(0, 400), st.sampled_from(b' "\\,:[]{}0-.eE1\x00\xff\xc3n'), st.integers(0, 2)
    )
    return st.one_of(good, good, changed, hostile(documents(columns)).map(str.encode), st.none())
