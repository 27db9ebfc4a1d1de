"""Where a reader starts: the selector filter of its link, turned into a sequence number. Pure.

    amqp.annotation.x-opt-offset > '-1' | '@latest' | '<offset>'
    amqp.annotation.x-opt-sequence-number >= '<number>'
    amqp.annotation.x-opt-enqueued-time > '<milliseconds>'

A position before the oldest retained event starts there without an error, as in Azure. A position after the newest
event is refused with Azure's text: from this error, a client detects that the hub of its checkpoint was recreated.

A reader of a partition that was never used gets no event for a sequence number above -1, also of events that are
enqueued later (Azure/azure-sdk-for-js, pull request 20982). Clients use the offset -1 for the start of a partition.
"""

import re
from dataclasses import dataclass

from .errors import LinkFailed
from .hub import Partition

ARGUMENT_ERROR = "com.microsoft:argument-error"
NO_EVENT = (1 << 63) - 1
"""A sequence number that no event has."""
_SELECTOR = re.compile(
    r"\s*amqp\.annotation\.x-opt-(offset|sequence-number|enqueued-time(?:-utc)?)\s*(>=|>)\s*'?([^']*)'?\s*\Z"
)


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed filter.

    Attributes:
        field: ``offset``, ``sequence-number`` or ``enqueued-time``.
        inclusive: whether the event at the value itself is included.
        value: the text to compare with.
    """

    field: str
    inclusive: bool
    value: str


def parse_selector(text: str | None) -> Selector:
    """Reads a selector; no selector means from the start.

    Raises:
        LinkFailed: Event Hubs does not support the selector.
    """
    if text is None:
        return Selector("offset", False, "-1")
    match = _SELECTOR.match(text)
    if match is None:
        raise LinkFailed(
            "amqp:invalid-field",
            f"The filter {text[:200]!r} is not supported: compare x-opt-offset, x-opt-sequence-number or "
            "x-opt-enqueued-time with > or >=.",
        )
    return Selector(match[1].removesuffix("-utc"), match[2] == ">=", match[3].strip())


def start_of(selector: Selector, partition: Partition) -> int:
    """The first sequence number that a reader with this selector gets.

    Raises:
        LinkFailed: the value is not a number, or is beyond the end of the partition.
    """
    if selector.field == "offset" and selector.value.lower() == "@latest":
        return partition.next_sequence_number
    try:
        value = int(selector.value)
    except ValueError:
        raise LinkFailed(
            ARGUMENT_ERROR, f"The supplied {_name(selector)} '{selector.value[:100]}' is invalid: it is not a number."
        ) from None
    first = value if selector.inclusive else value + 1
    if selector.field == "enqueued-time":
        return partition.first_from_time(first)
    if partition.next_sequence_number == 0 and (selector.field, first) == ("sequence-number", 0):
        return NO_EVENT
    last = int(partition.last_offset) if selector.field == "offset" else partition.last_sequence_number
    if value > last:
        raise LinkFailed(
            ARGUMENT_ERROR,
            f"The supplied {_name(selector)} '{value}' is invalid. The last {_name(selector)} in the system is "
            f"'{last}'",
        )
    return partition.first_from_offset(first) if selector.field == "offset" else max(first, 0)


def _name(selector: Selector) -> str:
    return selector.field.replace("-", " ")
