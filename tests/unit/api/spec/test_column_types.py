"""Types of columns: their texts are exact, and all other texts are refused with the remedy."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.spec.column_types import (
    DEPTH_MAX,
    SCHEMA_PATTERN,
    TYPE_PATTERN,
    DeltaType,
    NamedType,
    inner_types,
    parse_columns,
    parse_type,
    type_text,
)
from eventconsumer_host.source.schema import arrow_type

FIELDS = st.from_regex(r"[A-Za-z0-9_.@$:/#+-]{1,12}", fullmatch=True)
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))
PRIMITIVES = st.sampled_from(["string", "boolean", "long", "double", "date", "timestamp"]) | DECIMALS


def struct(fields: dict[str, DeltaType]) -> DeltaType:
    own = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": own}


def array(element: DeltaType) -> DeltaType:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(value: DeltaType) -> DeltaType:
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}


def nested(inner: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[DeltaType]:
    names = st.lists(FIELDS, min_size=1, max_size=3, unique_by=str.lower)
    structs = names.flatmap(lambda each: st.fixed_dictionaries(dict.fromkeys(each, inner)).map(struct))
    return structs | inner.map(array) | inner.map(map_of)


def depth(kind: DeltaType) -> int:
    match kind:
        case {"type": "struct", "fields": fields}:
            return 1 + max(depth(each["type"]) for each in fields)
        case {"type": "array", "elementType": inner} | {"type": "map", "valueType": inner}:
            return 1 + depth(inner)
    return 0


TYPES = st.recursive(PRIMITIVES, nested, max_leaves=8).filter(lambda kind: depth(kind) <= DEPTH_MAX)


@given(TYPES)
def test_the_text_of_a_type_is_read_as_the_same_type(kind: DeltaType) -> None:
    text = type_text(kind)
    assert parse_type(text) == kind
    assert re.fullmatch(TYPE_PATTERN, text)
    assert arrow_type(kind) is not None, "hosts have each type"


@given(TYPES, st.data())
def test_case_of_words_and_spaces_mean_nothing(kind: DeltaType, data: st.DataObject) -> None:
    tokens = re.findall(r"`[^`]*`|\w+|[<>(),:]", type_text(kind))
    names = {tokens[at - 1] for at, token in enumerate(tokens) if token == ":"}
    spaces = data.draw(st.lists(st.integers(0, 2), min_size=len(tokens), max_size=len(tokens)))
    other = [
        " " * space + (token if token in names else token.lower()) for space, token in zip(spaces, tokens, strict=True)
    ]
    assert parse_type("".join(other)) == kind
    assert re.fullmatch(TYPE_PATTERN, "".join(other))


@given(
    st.lists(st.tuples(st.from_regex("[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True), TYPES, st.booleans()), min_size=1)
)
def test_columns_in_one_text_are_the_columns(columns: list[tuple[str, DeltaType, bool]]) -> None:
    text = ", ".join(f"{name} {type_text(kind)}{' NOT NULL' * needed}" for name, kind, needed in columns)
    assert parse_columns(text) == tuple(NamedType(*each) for each in columns)
    assert re.fullmatch(SCHEMA_PATTERN, text)


WORDS = [
    "STRING",
    "BIGINT",
    "INT",
    "DECIMAL(10, 2)",
    "DECIMAL",
    "ARRAY",
    "STRUCT",
    "MAP",
    "NOT NULL",
    "a",
    "`a-b`",
    "`",
]


@given(st.lists(st.sampled_from([*WORDS, *"<>(),: 7"]), max_size=12).map("".join) | st.text())
def test_a_text_is_a_type_of_the_pattern_or_refused_with_a_sentence(text: str) -> None:
    for parse, pattern in ((parse_type, TYPE_PATTERN), (parse_columns, SCHEMA_PATTERN)):
        try:
            found = parse(text)
        except ValueError as error:
            assert ": " in str(error)
            continue
        assert re.fullmatch(pattern, text), "the API server refuses no type that the operator takes"
        if isinstance(found, tuple):
            assert found == parse_columns(", ".join(f"{n} {type_text(k)}{' NOT NULL' * r}" for n, k, r in found))
        else:
            assert found == parse_type(type_text(found))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INT", "INT is no type of a column: write BIGINT"),
        ("ARRAY<tinyint>", "tinyint is no type of a column: write BIGINT"),
        ("FLOAT", "FLOAT is no type of a column: write DOUBLE"),
        ("VARCHAR(10)", "VARCHAR is no type of a column: write STRING"),
        ("BINARY", "BINARY is no type of a column: write STRING"),
        ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ is no type of a column: write TIMESTAMP"),
        ("VARIANT", "write STRING, which takes an object or array as its text"),
        ("INTERVAL", "INTERVAL is no type of a column: write one of STRING, BOOLEAN"),
        ("", "a type is missing before the end: add it"),
        ("STRING>", "> after the type: remove it"),
        ("STRING COMMENT 'a'", "COMMENT after the type: remove it"),
        ("ARRAY", "< is missing before the end: add it"),
        ("ARRAY<STRING", "> is missing before the end: add it"),
        ("MAP<BIGINT, STRING>", "a MAP whose keys are not STRING: names of JSON are text: write MAP<STRING, …>"),
        ("STRUCT<>", "the name of a field is missing before >: add it"),
        ("STRUCT<a STRING>", ": is missing before STRING: add it"),
        ("STRUCT<a-b: STRING>", ": is missing before -: add it"),
        ("STRUCT<`a b`: STRING>", "the field `a b`: a name in backticks has letters, digits and _ . @ $ : / # + -"),
        ("STRUCT<a: STRING NOT NULL>", "the field a has NOT NULL: fields may be null: remove NOT NULL"),
        ("STRUCT<a: STRING, A: DATE>", "the field A is there twice: names of columns are compared without case"),
        ("DECIMAL", "( is missing before the end: add it"),
        ("DECIMAL(10)", ", is missing before ): add it"),
        ("DECIMAL(010, 2)", "DECIMAL with 010: write DECIMAL(p, s), such as DECIMAL(10, 2)"),
        ("DECIMAL(39, 2)", "DECIMAL(39, 2): write DECIMAL(p, s), where p is 1 to 38 digits, and s of them"),
        ("DECIMAL(0, 0)", "DECIMAL(0, 0): write"),
        ("DECIMAL(2, 3)", "DECIMAL(2, 3): write"),
        ("ARRAY<" * 9 + "DATE" + ">" * 9, "more than 8 levels of ARRAY, STRUCT and MAP: write STRING for the inner"),
        ("ARRAY<" * 100_000, "more than 8 levels"),
        ("STRUCT<" + "a" * 129 + ": DATE>", "a name has at most 128 characters"),
    ],
)
def test_a_text_that_is_no_type_is_refused_with_cause_and_remedy(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a STRING, b INT", "column b: INT is no type of a column: write BIGINT"),
        ("a STRING,", "the name of a column is missing before the end: add it"),
        ("a", "column a: a type is missing before the end: add it"),
        ("a: STRING", "column a: a type is missing before :: add it"),
        ("a STRING NOT", "column a: NULL is missing before the end: add it"),
        ("a STRING NULL", "column a: , is missing before NULL: add it"),
        ("`a` STRING", "the name of a column is missing before `a`: add it"),
    ],
)
def test_a_text_that_is_no_list_of_columns_is_refused_with_the_column(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_columns(text)
    assert not re.fullmatch(SCHEMA_PATTERN, text), "the API server refuses it, too"


@pytest.mark.parametrize(
    "kind",
    [
        "integer",
        "binary",
        "decimal(010,2)",
        "decimal(10, 2)",
        {"type": "array", "elementType": "string", "containsNull": False},
        {"type": "map", "keyType": "long", "valueType": "string", "valueContainsNull": True},
        {"type": "struct", "fields": [{"name": "a", "type": "string", "nullable": False, "metadata": {}}]},
        {"type": "struct", "fields": [{"name": "a", "type": "string", "nullable": True, "metadata": {"x": 1}}]},
        array("byte"),
    ],
)
def test_other_types_have_no_text(kind: Any) -> None:
    with pytest.raises(ValueError, match="no column of a body has the type"):
        type_text(kind)


def test_the_columns_of_parquet_in_a_type() -> None:
    kind = parse_type("ARRAY<STRUCT<a: MAP<STRING, DATE>, b: DECIMAL(3, 1)>>")
    assert [*inner_types(kind)] == ["string", "date", "decimal(3,1)"]
