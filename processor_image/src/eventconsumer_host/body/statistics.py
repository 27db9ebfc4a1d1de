"""Statistics of columns of bodies: readers of the Delta table skip files by them. Pure.

Bounds may be too wide, and are never too narrow. A text is cut, and raised where it is the upper bound. Times are
rounded to milliseconds, away from the values, because readers cut them. A decimal is rounded away from the values so
that a reader may take it for a binary number of 64 bits. Each column has bounds, unless all its values are null: the
PyArrow reader of delta-rs skips a file that has no bounds where another file has some.

Source: "Per-file Statistics" in PROTOCOL.md of github.com/delta-io/delta.
"""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventconsumer_api.spec.body_columns import BodyColumn

COLUMNS_MAX = 8
BYTES_MAX = 1024  # in the metadata of a slot
TEXT_MAX = (16, 8, 4, 2)  # characters of a bound: fewer, if the statistics would be too long
FRACTION_MAX = 4  # digits of a decimal behind the point
_DECIMAL_END = Decimal(10) ** 11  # with the fraction 15 digits, which a binary number of 64 bits holds
_LARGE_DIGITS = 14  # of a larger decimal
_ESCAPED = re.compile("[ \x7f]")  # HTTP headers have no DEL, and storage may take two spaces for one
_BOUNDED = ("string", "long", "double", "date", "timestamp")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def statistics(columns: Sequence[BodyColumn], numbers: Sequence[int], batches: Sequence[pa.RecordBatch]) -> str:
    """The statistics of a file, as the metadata of its slot has them; empty: none.

    Args:
        columns: The columns of bodies.
        numbers: Their numbers in the record.
        batches: The values, with a column of the same name for each.
    """
    wanted = (
        [(each, number) for each, number in zip(columns, numbers, strict=True) if each.statistics] if batches else []
    )
    text = ""
    for limit in TEXT_MAX:
        found = [
            (number, facts)
            for each, number in wanted[:COLUMNS_MAX]
            if (facts := _facts(each, pa.chunked_array([batch.column(each.name) for batch in batches]), limit))
        ]
        plain = json.dumps({str(number): facts for number, facts in found}, separators=(",", ":"))
        text = _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)
        if len(text) <= BYTES_MAX:
            return text if found else ""
    raise AssertionError(f"statistics of {len(text)} bytes")


def _facts(column: BodyColumn, values: pa.ChunkedArray, limit: int) -> list[Any]:
    """Nulls and bounds of a column; empty: it has no statistics."""
    if values.null_count == len(values):
        return [values.null_count]
    low, high = bounds(column, values, limit)
    return [] if low is None else [values.null_count, low, high]


def bounds(column: BodyColumn, values: pa.ChunkedArray, limit: int = TEXT_MAX[0]) -> tuple[Any, Any]:
    """The lower and the upper bound of a column, as the Delta log has them; both None: there are none.

    Args:
        column: The column.
        values: Its values.
        limit: Characters of a text.
    """
    kind = column.type
    if not isinstance(kind, str) or not (kind in _BOUNDED or kind.startswith("decimal(")):
        return None, None
    if values.null_count == len(values):
        return None, None
    if kind == "double" and pc.any(pc.is_nan(values)).as_py():
        return None, None
    if kind == "timestamp":
        values = values.cast(pa.int64())
    found = pc.min_max(values).as_py()
    low, high = found["min"], found["max"]
    match kind:
        case "string":
            return (None, None) if (top := raised(high, limit)) is None else (low[:limit], top)
        case "timestamp":
            return _time(low // 1000 * 1000), _time(-(-high // 1000) * 1000)
        case "double":
            return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
        case "date":
            return low.isoformat(), high.isoformat()
        case "long":
            return low, high
    return _rounded(low, ROUND_FLOOR), _rounded(high, ROUND_CEILING)


def raised(text: str, limit: int) -> str | None:
    """A text of at most `limit` characters that is not below another one, by code points; None: there is none."""
    if len(text) <= limit:
        return text
    for at in range(limit, 0, -1):
        code = ord(text[at - 1]) + 1
        if code <= 0x10FFFF:
            return text[: at - 1] + chr(0xE000 if code == 0xD800 else code)
    return None


def _rounded(value: Decimal, rounding: str) -> int | float:
    """A decimal as a number of JSON with few digits."""
    if abs(value) < _DECIMAL_END:
        digits = min(FRACTION_MAX, max(0, -int(value.as_tuple().exponent)))
        rounded = value.quantize(Decimal(1).scaleb(-digits), rounding)
        return int(rounded) if rounded == int(rounded) else float(rounded)
    unit: int = 10 ** (value.adjusted() + 1 - _LARGE_DIGITS)
    whole = int((value / unit).to_integral_value(rounding)) + (1 if rounding == ROUND_CEILING else -1)
    return whole * unit


def _time(microseconds: int) -> str:
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)  # has no millisecond above it
    time = min(microseconds, (last - _EPOCH) // timedelta(microseconds=1))
    text = (_EPOCH + timedelta(microseconds=time)).isoformat(timespec="auto" if time % 1000 else "milliseconds")
    return text.replace("+00:00", "Z")
