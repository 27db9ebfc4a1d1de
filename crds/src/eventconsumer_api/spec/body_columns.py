"""Columns that hosts make of the bodies of events (`spec.sink.body`)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules, told
from eventconsumer_api.spec.column_types import (
    NAME,
    NAME_MAX,
    TOLD,
    TYPE_PATTERN,
    DeltaType,
    inner_types,
    naming,
    parse_columns,
    parse_type,
    type_text,
)
from eventconsumer_api.spec.json_columns import TimeForm

COLUMNS_MAX = 200
"""Maximum number of columns."""
INNER_MAX = 500
"""Maximum number of primitive types in all columns: a file has a column for each of them, with buffers in memory."""
STATISTICS_MAX = 8
"""Maximum number of columns with bounds."""
TYPE_TEXT_MAX = 2048
"""Maximum length of the text of a type, characters."""
PATH_TEXT_MAX = 512
"""Maximum length of the text of a path, characters."""
RESERVED = (
    "sequence_number",
    "offset",
    "enqueued_time",
    "partition_key",
    "partition_id",
    "body",
    "properties",
    "system_properties",
    "content_type",
    "message_id",
    "correlation_id",
)
"""Names that no column of a body has: those of `wire.file_columns`, which is above this layer."""

_BOUNDED = "STRING|BIGINT|DOUBLE|DATE|TIMESTAMP|DECIMAL"
"""Types that have bounds in the log of a Delta table: readers use none of BOOLEAN and of nested types.

Source: SkippingEligibleDataType of github.com/delta-io/delta.
"""

# Members alone, of RFC 9535: no indices, wildcards, filters and escapes. In quotes: ASCII without `'` and the
# backslash, and the letters of most scripts without signs of direction. These are characters here, because regular
# expressions of Go and Python write them differently.
_DOTTED = r"\.([A-Za-z_][A-Za-z0-9_]*)"
_IN_QUOTES = r"[ -&(-\[\]-~" + "\u00c0-\u061b\u061d-\u180d\u180f-\u1fff\u2070-\ud7ff]+"
_QUOTED = rf"\[\x27({_IN_QUOTES})\x27\]"
_MEMBER = f"({_DOTTED}|{_QUOTED})"
PATH_PATTERN = rf"^\${_MEMBER}+$"
"""The text of a path: `$.price.cents`, `$['order id'].cents`."""
PATH_TOLD = "use names of members, such as $.price.cents or $['order id'].cents"
"""What to write, for a text that is not of the pattern."""
_DOTTED_FORM, _MEMBER_FORM, _PATH_FORM = (re.compile(each) for each in (_DOTTED, _MEMBER, PATH_PATTERN))


@dataclass(frozen=True, slots=True)
class BodyColumn:
    """A column of a drained file whose values come from the bodies.

    Attributes:
        name: Its name.
        type: Its type, as the Delta table has it. Fields of a struct, elements and values are nullable.
        path: The names of members from the root of the body to the value; not empty.
        form: How the values of TIMESTAMP, also inside of the type, are written.
        required: Whether a body without a value is an error of its row.
        statistics: Whether the Delta table has its bounds in each file.
    """

    name: str
    type: DeltaType
    path: tuple[str, ...]
    form: TimeForm = TimeForm.ISO_8601
    required: bool = False
    statistics: bool = False


class ColumnSpec(Model):
    """A column of the body: a member of its JSON object."""

    model_config = rules(
        (
            f"!(self.name.lowerAscii() in {list(RESERVED)!r})",
            "sink.body.columns: another column of the files has this name, without case: use another name",
        ),
        (
            f"!self.statistics || self.type.matches('^ *(?i:{_BOUNDED})')",
            "sink.body.columns: BOOLEAN, ARRAY, STRUCT and MAP have no bounds: remove statistics",
        ),
        (
            "!has(self.from) || self.type.matches('(?i:TIMESTAMP)')",
            "sink.body.columns: from is for TIMESTAMP: remove from",
        ),
        (
            "self.type.replace(' ', '') == oldSelf.type.replace(' ', '')",
            "sink.body.columns: the type of a column cannot change: files have it already; add a column with another "
            "name",
        ),
        (
            "(has(self.path) ? self.path : '$.' + self.name) == (has(oldSelf.path) ? oldSelf.path : '$.' + self.name)",
            "sink.body.columns: the path of a column cannot change: files have values of the old one; add a column "
            "with another name",
        ),
        (
            "(has(self.from) ? self.from : 'Iso8601') == (has(oldSelf.from) ? oldSelf.from : 'Iso8601')",
            "sink.body.columns: from cannot change: files have values of the old form; add a column with another name",
        ),
    )

    name: str = Field(
        max_length=NAME_MAX,
        pattern=f"^{NAME}$",
        json_schema_extra=told("use letters, digits and _, with a letter first"),
        description="Name of the column, compared without case. Not the name of another column of the files.",
    )
    type: str = Field(
        max_length=TYPE_TEXT_MAX,
        pattern=TYPE_PATTERN,
        json_schema_extra=told(TOLD),
        description="Type as Spark DDL: STRING, BOOLEAN, BIGINT, DOUBLE, DECIMAL(p, s), DATE, TIMESTAMP, ARRAY<…>, "
        "STRUCT<name: type, …> or MAP<STRING, …>.",
    )
    path: str | None = Field(
        default=None,
        max_length=PATH_TEXT_MAX,
        pattern=PATH_PATTERN,
        json_schema_extra=told(PATH_TOLD),
        description="Members of the JSON object from its root to the value, such as $.price.cents or "
        "$['order id'].cents. Absent: the member with the name of the column.",
    )
    from_: TimeForm | None = Field(
        default=None,
        alias="from",
        description="How the times of the column are written, for TIMESTAMP, also inside of a type: Iso8601, such as "
        "2026-01-02T03:04:05.678Z; Iso8601Truncated, which cuts what is below a microsecond, as times of .NET and Go "
        "have; or a number since 1970: EpochSeconds, EpochMillis or EpochMicros. Absent: Iso8601.",
    )
    required: bool = Field(default=False, description="A body without a value is an error of its row.")
    statistics: bool = Field(
        default=False,
        description="Keep the least and the greatest value of each file in the table, so that queries skip files. Not "
        "for BOOLEAN, ARRAY, STRUCT and MAP.",
    )

    def column(self) -> BodyColumn:
        """The column.

        Raises:
            ValueError: It cannot exist; names the column, the cause and the remedy.
        """
        with naming(self.name):
            kind = parse_type(self.type)
            if self.from_ is not None and "timestamp" not in inner_types(kind):
                raise ValueError("from is for TIMESTAMP: remove from")
            path = parse_path(self.path) if self.path else (self.name,)
        return BodyColumn(self.name, kind, path, self.from_ or TimeForm.ISO_8601, self.required, self.statistics)

    @classmethod
    def of(cls, column: BodyColumn) -> Self:
        """The shortest text of a column; equal for equal columns.

        Raises:
            ValueError: The column has a type or a member that no text describes.
        """
        return cls(
            name=column.name,
            type=type_text(column.type),
            path=None if column.path == (column.name,) else path_text(column.path),
            from_=None if column.form is TimeForm.ISO_8601 else column.form,
            required=column.required,
            statistics=column.statistics,
        )


def parse_path(text: str) -> tuple[str, ...]:
    """The names of the members in a path.

    Raises:
        ValueError: It is no path.
    """
    if not _PATH_FORM.fullmatch(text):
        raise ValueError(f"the path {text[:40]!r}: {PATH_TOLD}")
    return tuple(match[2] or match[3] for match in _MEMBER_FORM.finditer(text))


def path_text(path: Iterable[str]) -> str:
    """The text of a path.

    Raises:
        ValueError: A name has a character that no path has.
    """
    members = (f".{name}" if _DOTTED_FORM.fullmatch(f".{name}") else f"['{name}']" for name in path)
    text = f"${''.join(members)}"
    parse_path(text)
    return text


def body_columns(specs: Iterable[ColumnSpec]) -> tuple[BodyColumn, ...]:
    """The columns, in their order.

    Raises:
        ValueError: One of them, or all together, cannot exist; names the column, the cause and the remedy.
    """
    return _checked([each.column() for each in specs])


def schema_columns(text: str) -> tuple[BodyColumn, ...]:
    """The columns of the short form, such as `order STRING, cents BIGINT NOT NULL`.

    Raises:
        ValueError: As `body_columns`.
    """
    return _checked([BodyColumn(name, kind, (name,), required=needed) for name, kind, needed in parse_columns(text)])


def _checked(columns: Sequence[BodyColumn]) -> tuple[BodyColumn, ...]:
    known = set(RESERVED)
    for each in columns:
        with naming(each.name):
            if not re.fullmatch(NAME, each.name) or len(each.name) > NAME_MAX:
                raise ValueError(f"use at most {NAME_MAX} letters, digits and _, with a letter first")
            if each.name.lower() in known:
                raise ValueError("another column of the files has this name, without case: use another name")
            if each.statistics and not (isinstance(each.type, str) and each.type != "boolean"):
                raise ValueError(f"{type_text(each.type)} has no bounds: remove statistics")
        known.add(each.name.lower())
    if len(columns) > COLUMNS_MAX:
        raise ValueError(f"{len(columns)} columns: use at most {COLUMNS_MAX}")
    if (inner := sum(1 for each in columns for _ in inner_types(each.type))) > INNER_MAX:
        raise ValueError(
            f"{inner} columns and fields: use at most {INNER_MAX}: STRING takes an object or array as its text"
        )
    if (bounded := sum(each.statistics for each in columns)) > STATISTICS_MAX:
        raise ValueError(f"{bounded} columns with statistics: use at most {STATISTICS_MAX}")
    return tuple(columns)
