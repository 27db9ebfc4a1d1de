"""The events of a campaign: orders with unique ids, some of them bad, and the values of their columns.

The values are made of the id, not parsed, so that they share no code with what they check.
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

COLUMNS = [
    {"name": "number", "type": "BIGINT", "path": "$.id", "required": True, "statistics": True},
    {"name": "amount", "type": "DECIMAL(12,2)", "path": "$.price.amount"},
    {"name": "at", "type": "TIMESTAMP", "from": "EpochMillis"},
    {"name": "tags", "type": "ARRAY<STRING>"},
]
"""`spec.sink.body.columns`."""

NAMES = [*(column["name"] for column in COLUMNS), "_error"]
PERIOD, TEXT, QUOTED, CUT = 50, 7, 9, 13  # of so many orders, one has a text as amount, one a quoted number, one is cut
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

Values = tuple[int | None, Decimal | None, datetime | None, list[str] | None, bool]
"""Of the columns; last: whether the row has an error."""


def body(number: int) -> bytes:
    """The order with this id."""
    amount = f"{number % 1000}.25"
    millis = round(BEGIN.timestamp() * 1000) + number
    tags = ",".join(['"é"', '"b"'][: number % 3])
    price = {TEXT: '"free"', QUOTED: f'"{amount}"'}.get(number % PERIOD, amount)
    made = f'{{"id":{number},"price":{{"amount":{price}}},"at":{millis},"tags":[{tags}]}}'.encode()
    return made[:-1] if number % PERIOD == CUT else made


def identity(order: bytes) -> int:
    """The id of an order.

    Raises:
        ValueError: The body has no number.
    """
    if not (found := re.search(rb"\d+", order)):
        raise ValueError(f"no order: {order[:40]!r}")
    return int(found[0])


def values(number: int) -> Values:
    """Values of the columns of the order with this id."""
    if number % PERIOD == CUT:
        return None, None, None, None, True
    text = number % PERIOD == TEXT
    amount = None if text else Decimal(number % 1000) + Decimal("0.25")
    return number, amount, BEGIN + timedelta(milliseconds=number), ["é", "b"][: number % 3], text


def of_row(row: dict[str, Any]) -> Values:
    """Values of a row as a reader shows them."""
    return row["number"], row["amount"], row["at"], row["tags"], row["_error"] is not None
