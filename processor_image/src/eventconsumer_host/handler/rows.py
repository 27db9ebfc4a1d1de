"""The rows that a handler returns in mode Transform, which go to the file in place of the events. Pure.

A row stands for the event with its sequence number; an event without a row is dropped. The columns of the table replace
those of the event, and the others stay. Sequence number, offset, enqueued time and partition are always those of the
event, so the chain of files is the same for every handler.

Everything that the handler returns is copied: a slice keeps no larger table in memory.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_api.wire import file_columns
from eventconsumer_host.source.batch import COLUMNS, KINDS, EventBatch
from eventconsumer_host.source.rows import PropertyKind

NUMBER = "sequence_number"
CHANGEABLE = tuple(each.name for each in file_columns.COLUMNS if each.replaceable)
FIXED = {each.name for each in file_columns.COLUMNS if not each.replaceable} - {NUMBER}
_TEXT = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_TAKEN = {pa.string(): (*_TEXT,), pa.binary(): (*_BYTES, *_TEXT)}  # types that are converted without loss
_REMEDIES = {
    NUMBER: "pa.array(numbers, pa.int64())",
    "properties": "pa.array([list(one.items()) for one in properties], pa.map_(pa.string(), pa.string()))",
}


class InvalidRows(ValueError):  # noqa: N818 - users see the name
    """The handler returned something that cannot go to a file; the message gives the cause and the remedy."""


def rows_of(result: object, events: EventBatch, mode: HandlerMode) -> EventBatch | None:
    """The rows for the file that a call of the handler returned; None: the events as they are.

    Args:
        result: What `process_events` returned.
        events: The events of the call.
        mode: Of the handler: rows are expected with Transform, and refused otherwise.

    Raises:
        InvalidRows: The result does not fit the mode, or is not a part of the events with valid columns.
    """
    is_table = isinstance(result, pa.Table | pa.RecordBatch)
    if mode is not HandlerMode.TRANSFORM:
        if is_table:
            raise InvalidRows(
                f"process_events returned a table, but processing.handlerMode is {mode}: set it to Transform, or "
                "return nothing"
            )
        return None
    if not is_table:
        raise InvalidRows(
            f"process_events returned {'None' if result is None else f'a {type(result).__name__}'}, but "
            "processing.handlerMode is Transform: return a pyarrow.Table with the rows to keep, or set PassThrough"
        )
    table = result if isinstance(result, pa.Table) else pa.Table.from_batches([result])
    _check_names(table.column_names)
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidRows(f"the returned table is not valid: {error}") from error
    kept = _positions(table, events.numbers)
    changed = {name: _column(table, name) for name in CHANGEABLE if name in table.column_names}
    return _applied(events, kept, changed)


def _check_names(names: list[str]) -> None:
    if NUMBER not in names:
        raise InvalidRows(f"the returned table has no column {NUMBER}, which names the event of each row: add it")
    for name in names:
        if names.count(name) > 1:
            raise InvalidRows(f"the returned table has column {name} {names.count(name)} times: rename or remove one")
        if name in FIXED:
            raise InvalidRows(f"column {name} of a row is always that of its event: remove it from the returned table")
        if name != NUMBER and name not in CHANGEABLE:
            raise InvalidRows(
                f"files have no column {name}: remove it from the returned table, or put its values into body or "
                f"properties; columns that can be changed are {', '.join(CHANGEABLE)}"
            )


def _positions(table: pa.Table, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The positions of the kept events among the events of the call."""
    kept = _typed(table, NUMBER, pa.int64()).to_numpy()
    falls = np.flatnonzero(kept[1:] <= kept[:-1])
    if len(falls):
        before, after = kept[falls[0]], kept[falls[0] + 1]
        raise InvalidRows(
            f"in column {NUMBER}, {after} follows {before}: return at most one row for each event, in the order of "
            "the batch"
        )
    positions: npt.NDArray[np.int64] = np.searchsorted(numbers, kept)
    unknown = np.flatnonzero(numbers[np.minimum(positions, len(numbers) - 1)] != kept)
    if len(unknown):
        raise InvalidRows(
            f"column {NUMBER} has {kept[unknown[0]]}, but no event of the batch has this number: return rows of the "
            "batch only"
        )
    return positions


def _column(table: pa.Table, name: str) -> pa.Array:
    """A column of the table, as files have it."""
    found = _typed(table, name, COLUMNS.field(name).type)
    if pa.types.is_map(found.type) and (found.null_count or found.items.null_count):
        raise InvalidRows(f"column {name} has a null: use an empty map, and the text null for a value")
    return found


def _typed(table: pa.Table, name: str, wanted: pa.DataType) -> pa.Array:
    """A copy of a column with a type of the files."""
    column = table.column(name)
    given = column.type
    if given != wanted:
        if not pa.types.is_null(given) and given not in _TAKEN.get(wanted, ()):
            remedy = _REMEDIES.get("properties" if name in KINDS else name, f"pa.array(values, pa.{wanted}())")
            raise InvalidRows(f"column {name} must have the type {wanted}, but has {given}: build it with {remedy}")
        try:
            column = column.cast(wanted)
        except pa.ArrowInvalid as error:
            raise InvalidRows(f"column {name} cannot be converted from {given} to {wanted}: {error}") from error
    if name == NUMBER and column.null_count:
        raise InvalidRows(f"column {name} has a null: each row needs the number of its event")
    return column.combine_chunks().take(pa.array(np.arange(table.num_rows)))


def _applied(events: EventBatch, kept: npt.NDArray[np.int64], changed: Mapping[str, pa.Array]) -> EventBatch:
    """The events at some positions, with changed columns."""
    kept_rows = pa.array(kept, pa.int64())

    def own(name: str) -> pa.Array:
        return events.columns.column(name).take(kept_rows)

    columns = {name: changed[name] if name in changed else own(name) for name in COLUMNS.names if name != "size"}
    for name in KINDS.keys() & changed.keys():
        columns[KINDS[name]] = _kinds(changed[name], own(name), columns[KINDS[name]])
    return EventBatch.of_columns(columns, events.last_enqueued)


def _kinds(properties: pa.MapArray, before: pa.MapArray, kinds: pa.ListArray) -> pa.ListArray:
    """The kinds of changed properties: text, but for those that the event has with the same value."""
    if properties.equals(before):
        return kinds
    found: list[list[int]] = []
    for entries, known, own in zip(properties.to_pylist(), before.to_pylist(), kinds.to_pylist(), strict=True):
        kind_of = dict(zip(known, own, strict=True))
        found.append([kind_of.get(entry, PropertyKind.TEXT) for entry in entries])
    return pa.array(found, pa.list_(pa.uint8()))
