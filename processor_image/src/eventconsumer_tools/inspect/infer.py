"""Which columns fit bodies: the narrowest types in which the host's own parser takes all of them. Pure.

The parser decides what fits; here are only the candidates and their order. So no proposal contradicts what hosts do.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eventconsumer_api.spec.body_columns import (
    COLUMNS_MAX,
    INNER_MAX,
    RESERVED,
    TYPE_TEXT_MAX,
    BodyColumn,
    ColumnSpec,
    path_text,
)
from eventconsumer_api.spec.column_types import DEPTH_MAX, NAME_MAX, DeltaType, inner_types, parse_type, type_text
from eventconsumer_api.spec.json_columns import TimeForm
from eventconsumer_host.body.document import Number, Unreadable, read
from eventconsumer_host.body.plain import PlainBodyParser
from eventconsumer_host.body.plan import ERROR

_FIELDS_MAX = 100  # of an object; one with more is a map of ids, rather
_NUMBERS = ("long", "decimal(18,2)", "decimal(18,4)", "double", "string")
_TEXTS = ("date", "timestamp", "string")
_OTHERS = ("boolean", "string")


@dataclass(frozen=True)
class Inferred:
    """A proposal.

    Attributes:
        columns: The columns, the most frequent member first.
        omitted: The members without a column, and why.
        errors: By the index of a body: why it does not fit, as `_error` would have it. All other bodies fit exactly.
    """

    columns: tuple[BodyColumn, ...]
    omitted: Mapping[str, str]
    errors: Mapping[int, str]


def infer(bodies: Sequence[bytes | None]) -> Inferred:
    """Propose columns for bodies: one for each member of their objects."""
    objects = [(body, found) for body in bodies if body is not None and (found := _object(body)) is not None]
    counts = Counter(name for _, found in objects for name in found)
    columns, omitted, names, inner = list[BodyColumn](), dict[str, str](), set(RESERVED), 0
    for member, _ in counts.most_common():
        if len(columns) == COLUMNS_MAX:  # first: publishers choose how many members there are
            omitted[member] = f"there are {COLUMNS_MAX} columns"
            continue
        column = _column(_name(member, names), member, [found.get(member) for _, found in objects])
        if column is None:
            omitted[member] = "it is always null or empty"
        elif not _has_path(member):
            omitted[member] = "no path names it"
        else:
            size = sum(1 for _ in inner_types(column.type))
            if size > INNER_MAX - inner - (COLUMNS_MAX - len(columns)) or len(type_text(column.type)) > TYPE_TEXT_MAX:
                column, size = _as_text(column), 1
            columns.append(column)
            names.add(column.name.lower())
            inner += size
    # What candidates cannot tell: whether the text of an object is exact, and whether a body has too many values.
    known = list[bytes | None](body for body, _ in objects)
    if _errors(columns, known):
        for column in tuple(columns):
            at, text = columns.index(column), _as_text(column)
            if not _errors([column], known):
                continue
            if not _errors([text], known):
                columns[at] = text
            else:
                columns.remove(column)
                omitted[column.path[0]] = "no type takes all of its values exactly"
    return Inferred(tuple(columns), omitted, _errors(columns, bodies))


def _as_text(column: BodyColumn) -> BodyColumn:
    return BodyColumn(column.name, "string", column.path)


def _has_path(member: str) -> bool:
    try:
        return bool(path_text([member]))
    except ValueError:
        return False


def spec_of(columns: Iterable[BodyColumn]) -> dict[str, Any]:
    """`spec.sink.body` with columns."""
    texts = [ColumnSpec.of(each).model_dump(mode="json", by_alias=True, exclude_defaults=True) for each in columns]
    return {"type": "Json", "columns": texts}


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = read(body)
    except Unreadable:
        return None
    return found if isinstance(found, dict) else None


def _errors(columns: Sequence[BodyColumn], bodies: Sequence[bytes | None]) -> dict[int, str]:
    """The errors of the host's parser, by the index of the body."""
    found = PlainBodyParser(columns).parse(pa.array(bodies, pa.binary())).column(ERROR)
    return {index: error for index, error in enumerate(found.to_pylist()) if error is not None}


def _name(member: str, taken: set[str]) -> str:
    """A name of a column for a member, which is not taken."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", member)[: NAME_MAX - 10].strip("_")
    if not plain or plain.lower() in RESERVED or not plain[0].isalpha():
        plain = f"body_{plain}".rstrip("_")
    names = (plain, *(f"{plain}_{number}" for number in range(2, len(taken) + 3)))
    exact = [member] if re.fullmatch("[A-Za-z][A-Za-z0-9_]*", member) and len(member) <= NAME_MAX else []
    return next(name for name in (*exact, *names) if name.lower() not in taken)


def _column(name: str, member: str, values: Sequence[Any]) -> BodyColumn | None:
    """The narrowest column of values; None: nothing is in any of them."""
    kind = _narrowest(values, TimeForm.TRUNCATED, 0)
    if kind is None:
        return None
    # .NET and Go write more digits than microseconds have.
    cut = "timestamp" in inner_types(kind) and _narrowest(values, TimeForm.ISO_8601, 0) != kind
    return BodyColumn(name, kind, (member,), TimeForm.TRUNCATED if cut else TimeForm.ISO_8601)


def _narrowest(values: Iterable[Any], form: TimeForm, depth: int) -> DeltaType | None:
    """A type for values of one place; None: there is none but null."""
    found = [each for each in values if each is not None]
    kinds = {type(each) for each in found}
    if not found:
        return None
    if kinds == {dict} and depth < DEPTH_MAX:
        return _struct(found, form, depth)
    if kinds == {list} and depth < DEPTH_MAX:
        element = _narrowest((each for value in found for each in value), form, depth + 1)
        return element and {"type": "array", "elementType": element, "containsNull": True}
    if kinds & {dict, list}:
        return "string"
    candidates = _NUMBERS if kinds == {Number} else _TEXTS if kinds == {str} else _OTHERS
    texts = [b'{"v":%s}' % (each if isinstance(each, Number) else json.dumps(each)).encode() for each in found]
    return next((each for each in candidates if not _errors([BodyColumn("v", each, ("v",), form)], texts)), "string")


def _struct(values: Sequence[Mapping[str, Any]], form: TimeForm, depth: int) -> DeltaType:
    names = dict.fromkeys(name for value in values for name in value)
    if len(names) > _FIELDS_MAX:
        return "string"
    types = {name: _narrowest((value.get(name) for value in values), form, depth + 1) for name in names}
    own = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items() if kind]
    made = {"type": "struct", "fields": own}
    try:
        return parse_type(type_text(made))  # names that no type has, none at all, or two that differ in case only
    except ValueError:
        return "string"


def unfitting(errors: Mapping[int, str]) -> Iterator[tuple[str, int, int]]:
    """Each error once: its text, how many bodies have it, and the index of the first; the most frequent one first."""
    first = {error: index for index, error in sorted(errors.items(), reverse=True)}
    for error, count in Counter(errors.values()).most_common():
        yield error, count, first[error]
