"""Enters the columns of bodies into the record of all columns (`wire.columns_record`), before a file has them.

A column whose name is taken, by a column of each file or by one of another type, path or form, is refused: the host
writes its files without it, and reports it. A file is final, so another value could never be put right; the body has
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.wire.columns_record import (
    COLUMNS_MAX,
    ColumnsOfFile,
    ColumnsRecord,
    RecordedColumn,
    columns_name,
)
from eventconsumer_api.wire.file_columns import COLUMNS, ERROR
from eventconsumer_api.wire.identity import RECORD_MAX_BYTES
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, Damaged, Unavailable

_FULL = f"files below this prefix have had as many columns as fit ({COLUMNS_MAX}, {RECORD_MAX_BYTES} bytes of names)"
ATTEMPTS = 20  # hosts that start together may all add columns


@dataclass(frozen=True, slots=True)
class RefusedColumn:
    """A column that files do not get, and why."""

    column: BodyColumn
    cause: str


@dataclass(frozen=True, slots=True)
class Entered:
    """The columns of a consumer that are in the record, in the order of the spec."""

    columns: tuple[BodyColumn, ...]
    of_file: ColumnsOfFile | None  # None: there are none
    refused: tuple[RefusedColumn, ...] = ()


NO_COLUMNS = Entered((), None)


def merged(record: ColumnsRecord, columns: Sequence[BodyColumn]) -> tuple[ColumnsRecord, Entered]:
    """PURE: the record with these columns, and what is entered."""
    all_columns = [*record.columns]
    own = {each.name.lower(): each.name for each in (*COLUMNS, ERROR)}
    places = {each.name.lower(): number for number, each in enumerate(all_columns)}
    room = RECORD_MAX_BYTES - len(record.to_json().encode())
    entered: list[tuple[BodyColumn, int]] = []
    refused: list[RefusedColumn] = []
    for column in columns:
        key, wanted = column.name.lower(), RecordedColumn.of(column)
        if key in own:
            refused.append(RefusedColumn(column, "each file has a column of this name"))
            continue
        if key not in places:
            room -= len(ColumnsRecord(columns=[wanted]).to_json().encode())
            if room < 0 or len(all_columns) >= COLUMNS_MAX:
                refused.append(RefusedColumn(column, _FULL))
                continue
            places[key] = len(all_columns)
            all_columns.append(wanted)
        found = all_columns[places[key]]
        if found == wanted:
            entered.append((column, places[key]))
        else:
            refused.append(RefusedColumn(column, f"files have {found}"))
    after = ColumnsRecord(columns=all_columns)
    of_file = ColumnsOfFile.of(after, [number for _, number in entered]) if entered else None
    return after, Entered(tuple(column for column, _ in entered), of_file, tuple(refused))


async def enter(blobs: BlobStore, prefix: str, columns: Sequence[BodyColumn]) -> Entered:
    """Enter columns into the record below a prefix. Sends no request without columns.

    Raises:
        Damaged: The record cannot be read.
        StorageError: A request failed; the next call continues.
    """
    if not columns:
        return NO_COLUMNS
    for _ in range(ATTEMPTS):
        record, etag = await read(blobs, prefix)
        after, entered = merged(record, columns)
        if after == record:
            return entered
        try:
            await blobs.put(columns_name(prefix), after.to_json().encode(), if_match=etag, if_absent=etag is None)
        except Conflict:  # another host has written it
            continue
        return entered
    raise Unavailable(f"blob {columns_name(prefix)} changes all the time")


async def read(blobs: BlobStore, prefix: str) -> tuple[ColumnsRecord, str | None]:
    """The record, and its etag; None: there is none yet.

    Raises:
        Damaged: It cannot be read.
        StorageError: The request failed.
    """
    name = columns_name(prefix)
    blob = await blobs.read(name, RECORD_MAX_BYTES)
    if blob is None:
        return ColumnsRecord(columns=[]), None
    try:
        return ColumnsRecord.model_validate_json(blob.data), blob.info.etag
    except ValidationError:
        raise Damaged(f"the record of columns {name} cannot be read: restore it from a backup") from None
