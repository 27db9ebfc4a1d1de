"""Statistics of columns of bodies: readers of the Delta table skip files by them. Pure.

Bounds may be too wide, and are never too narrow: a text is cut to `TEXT_MAX` characters, and raised where it is the
upper bound; times are rounded to milliseconds and decimals to `FRACTION_MAX` digits, away from the values, because
readers cut times and some read decimals as binary numbers. What cannot be bounded in this way has no bounds: NaN, times
that some readers cannot represent, long decimals. Each column has the number of its nulls.

Source: "Per-file Statistics" in PROTOCOL.md of github.com/delta-io/delta.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventconsumer_api.spec.body_columns import BodyColumn

COLUMNS_MAX = 8
BYTES_MAX = 1024  # in the metadata of a slot
TEXT_MAX = 16  # characters of a bound
FRACTION_MAX = 4  # digits of a decimal behind the point
_DECIMAL_END = Decimal(10) ** 11  # with the fraction 15 digits, which a binary number of 64 bits holds
_TIMES = datetime(1678, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)  # that fit 64 bits of nanoseconds
_ESCAPED = re.compile("[ \x7f]")  # HTTP headers have no DEL, and storage may take two spaces for one
_BOUNDED = ("string", "long", "double", "date", "timestamp")

Statistics = Mapping[int, tuple[int, Any, Any]]
"""Number of a column in the record -> number of nulls, lower and upper bound as the Delta log has them (None: none)."""


def statistics(columns: Sequence[BodyColumn], numbers: Sequence[int], batches: Sequence[pa.RecordBatch]) -> str:
    """The statistics of a file, as the metadata of its slot has them; empty: none.

    Args:
        columns: The columns of bodies.
        numbers: Their numbers in the record.
        batches: The values, with a column of the same name for each.
    """
    found: dict[str, list[Any]] = {}
    text = ""
    for column, number in zip(columns, numbers, strict=True):
        if not column.statistics or not batches or len(found) == COLUMNS_MAX:
            continue
        values = pa.chunked_array([batch.column(column.name) for batch in batches])
        low, high = bounds(column, values)
        found[str(number)] = [values.null_count] if low is None else [values.null_count, low, high]
        longer = _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(found, separators=(",", ":")))
        if len(longer) > BYTES_MAX:
            del found[str(number)]
        else:
            text = longer
    return text


def parse(text: str) -> Statistics:
    """The statistics in the metadata of a slot.

    Raises:
        ValueError: The text cannot be read.
    """
    try:
        found = json.loads(text) if text else {}
        each = {int(number): (int(nulls), *(bounds or (None, None))) for number, (nulls, *bounds) in found.items()}
        for facts in each.values():
            if len(facts) != 3 or not all(type(bound) in {str, int, float, type(None)} for bound in facts[1:]):
                raise ValueError("a column has other facts than its nulls and two bounds")
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"the statistics cannot be read ({error})") from None
    return each


def bounds(column: BodyColumn, values: pa.ChunkedArray) -> tuple[Any, Any]:
    """The lower and the upper bound of a column, as the Delta log has them; both None: there are none."""
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
    low, high = _lower(kind, found["min"]), _upper(kind, found["max"])
    return (None, None) if low is None or high is None else (low, high)


def _lower(kind: str, value: Any) -> Any:
    match kind:
        case "string":
            return value[:TEXT_MAX]
        case "timestamp":
            return _time(value // 1000)
        case "double":
            return _double(-0.0 if value == 0 else value)
    return _exact(value, ROUND_FLOOR)


def _upper(kind: str, value: Any) -> Any:
    match kind:
        case "string":
            return raised(value)
        case "timestamp":
            return _time(-(-value // 1000))
        case "double":
            return _double(0.0 if value == 0 else value)
    return _exact(value, ROUND_CEILING)


def raised(text: str) -> str | None:
    """A text of at most `TEXT_MAX` characters that is not below another one, by code points; None: there is none."""
    if len(text) <= TEXT_MAX:
        return text
    for at in range(TEXT_MAX, 0, -1):
        code = ord(text[at - 1]) + 1
        if code <= 0x10FFFF:
            return text[: at - 1] + chr(0xE000 if code == 0xD800 else code)
    return None


def _exact(value: Any, rounding: str) -> Any:
    if isinstance(value, date):
        return value.isoformat() if _TIMES[0].date() <= value <= _TIMES[1].date() else None
    if not isinstance(value, Decimal):
        return value
    digits = min(FRACTION_MAX, -int(value.as_tuple().exponent))
    rounded = value.quantize(Decimal(1).scaleb(-max(0, digits)), rounding)
    if abs(rounded) >= _DECIMAL_END:
        return None
    return int(rounded) if rounded == int(rounded) else float(rounded)


def _double(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _time(milliseconds: int) -> str | None:
    first, last = ((each - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) for each in _TIMES)
    if not first <= milliseconds <= last:
        return None
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
