"""Columns of bodies, of what users write: exact, or refused with column, cause and remedy."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from eventconsumer_api.spec.body_columns import (
    COLUMNS_MAX,
    INNER_MAX,
    PATH_PATTERN,
    RESERVED,
    STATISTICS_MAX,
    BodyColumn,
    ColumnSpec,
    body_columns,
    parse_path,
    path_text,
    schema_columns,
)
from eventconsumer_api.spec.column_types import inner_types
from eventconsumer_api.spec.json_columns import TimeForm
from eventconsumer_api.wire.file_columns import COLUMNS
from tests.unit.api.spec.test_column_types import TYPES

NAMES = st.from_regex("[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True)
MEMBERS = st.from_regex("[a-z_][a-z0-9_]*", fullmatch=True) | st.text(
    st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="'\\") | st.sampled_from("äß名"), min_size=1
)
PATHS = st.lists(MEMBERS, min_size=1, max_size=4).filter(lambda path: len(path_text(path)) < 500).map(tuple)


def specs(*columns: dict[str, Any]) -> list[ColumnSpec]:
    return [ColumnSpec.model_validate(each) for each in columns]


@st.composite
def columns(draw: st.DrawFn) -> BodyColumn:
    kind = draw(TYPES)
    form = draw(st.sampled_from(TimeForm)) if "timestamp" in inner_types(kind) else TimeForm.ISO_8601
    return BodyColumn(draw(NAMES), kind, draw(PATHS), form, draw(st.booleans()), draw(st.booleans()))


@given(columns())
def test_the_text_of_a_column_is_read_as_the_same_column(column: BodyColumn) -> None:
    text = ColumnSpec.of(column).model_dump_json(by_alias=True, exclude_defaults=True)
    assert ColumnSpec.model_validate_json(text).column() == column


def test_columns_of_the_spec() -> None:
    found = body_columns(
        specs(
            {"name": "order", "type": "string"},
            {"name": "cents", "type": "BIGINT", "path": "$.price['in cents']", "required": True, "statistics": True},
            {"name": "at", "type": "ARRAY<TIMESTAMP>", "from": "EpochMillis"},
        )
    )
    times = {"type": "array", "elementType": "timestamp", "containsNull": True}
    assert found == (
        BodyColumn("order", "string", ("order",)),
        BodyColumn("cents", "long", ("price", "in cents"), required=True, statistics=True),
        BodyColumn("at", times, ("at",), form=TimeForm.MILLIS),
    )


def test_the_short_form_is_the_same_columns() -> None:
    long = specs(
        {"name": "order", "type": "STRING"},
        {"name": "items", "type": "ARRAY<STRUCT<sku: STRING>>"},
        {"name": "cents", "type": "BIGINT", "required": True},
    )
    assert schema_columns("order STRING, items ARRAY<STRUCT<sku: STRING>>, cents BIGINT NOT NULL") == body_columns(long)


@given(PATHS)
@example(("c d", "a'"[:1], "[", "]", "$", "."))
def test_the_text_of_a_path_is_read_as_the_same_path(path: tuple[str, ...]) -> None:
    assert parse_path(path_text(path)) == path
    assert re.fullmatch(PATH_PATTERN, path_text(path))


@given(st.text("$.a_1['] \\\n*", max_size=12))
@example("$")
@example("a")
@example("$.a[0]")
@example("$..a")
@example("$.*")
@example("$['a\\'b']")
@example('$["a"]')
@example("$.1a")
@example("$.a\n")
def test_a_text_is_a_path_of_the_pattern_or_refused(text: str) -> None:
    try:
        path = parse_path(text)
    except ValueError as error:
        assert "use names of members" in str(error)
    else:
        assert parse_path(path_text(path)) == path


@pytest.mark.parametrize("name", ["", "it's", "back\\slash", "line\n", "\u202e", "\u061c", "\ufeff"])
def test_a_member_that_no_path_names_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="use names of members"):
        path_text(("a", name))


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ([{"name": "a", "type": "MAP<DATE, DATE>"}], "column a: a MAP whose keys are not STRING"),
        ([{"name": "a", "type": "DATE", "from": "Iso8601"}], "column a: from is for TIMESTAMP: remove from"),
        (
            [{"name": "a", "type": "STRUCT<timestamp: DATE>", "from": "EpochMillis"}],
            "column a: from is for TIMESTAMP: remove from",
        ),
        ([{"name": "a", "type": "DATE"}, {"name": "A", "type": "DATE"}], "column A: another column of the files has"),
        ([{"name": "Body", "type": "DATE"}], "column Body: another column of the files has this name, without case"),
        ([{"name": "a", "type": "boolean", "statistics": True}], "column a: BOOLEAN has no bounds: remove statistics"),
        (
            [{"name": "a", "type": "ARRAY<DATE>", "statistics": True}],
            "column a: ARRAY<DATE> has no bounds: remove statistics",
        ),
        (
            [{"name": f"a{n}", "type": "DATE", "statistics": True} for n in range(STATISTICS_MAX + 1)],
            "9 columns with statistics: use at most 8",
        ),
        ([{"name": f"a{n}", "type": "DATE"} for n in range(COLUMNS_MAX + 1)], "201 columns: use at most 200"),
        (
            [{"name": f"a{n}", "type": f"STRUCT<{', '.join(f'f{f}: DATE' for f in range(100))}>"} for n in range(6)],
            f"600 columns and fields: use at most {INNER_MAX}",
        ),
    ],
)
def test_columns_that_cannot_exist_are_refused_with_column_and_remedy(
    given_: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        body_columns(specs(*given_))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1a DATE", "column 1a: use at most 128 letters, digits and _, with a letter first"),
        ("_error STRING", "column _error: use at most 128 letters"),
        ("offset STRING", "column offset: another column of the files has this name"),
        ("a DATE, A DATE", "column A: another column of the files has this name"),
        (f"{'a' * 129} DATE", "use at most 128 letters"),
    ],
)
def test_the_short_form_is_refused_likewise(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        schema_columns(text)


@pytest.mark.parametrize("name", ["_a", "1a", "a-b", "", "a" * 129, "ä"])
def test_names_that_the_schema_refuses(name: str) -> None:
    with pytest.raises(ValidationError):
        specs({"name": name, "type": "DATE"})


def test_all_names_of_the_files_are_reserved() -> None:
    assert tuple(each.name for each in COLUMNS) == RESERVED
