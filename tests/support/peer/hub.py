"""Hubs in memory: their partitions, and where a reader starts. It knows nothing of connections.

Answers are those of the service, as far as they are public: the selector filters and the refusal of a position beyond
the end (Azure/azure-event-hubs-spark issue 315), epochs
(https://learn.microsoft.com/azure/event-hubs/event-hubs-event-processor-host).
"""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from proton import symbol, timestamp

from tests.support.peer import codec

FIRST_OFFSET = 1_000_000_000
OFFSET_STEP = 1000
FIRST_TIME_MS = 1_700_000_000_000
_SELECTOR = re.compile(r"amqp\.annotation\.x-opt-(offset|sequence-number|enqueued-time) (>=|>) '([^']*)'")
_NUMBER_MARK, _OFFSET_MARK, _TIME_MARK = 0x0102030405060708, "0123456789", 0x0807060504030201


class Refused(Exception):
    """The service refuses a link: `condition` and `description` of its detach."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(condition, description)
        self.condition = condition
        self.description = description


@dataclass(frozen=True, slots=True)
class Event:
    """What a publisher sent, without the service's annotations: those of the publisher, and all other sections.

    Attributes:
        sections: All sections behind the message annotations, encoded.
        before: The sections before them, encoded.
        key: The partition key.
        annotations: The publisher's own annotations, by name.
    """

    sections: bytes
    before: bytes = b""
    key: str | None = None
    annotations: tuple[tuple[str, Any], ...] = ()


class _Template:
    """The message annotations of events that differ in number, offset and time; Proton encodes them once."""

    def __init__(self, event: Event) -> None:
        self.annotations = event.annotations
        values: dict[Any, Any] = {
            symbol("x-opt-sequence-number"): _NUMBER_MARK,
            symbol("x-opt-offset"): _OFFSET_MARK,
            symbol("x-opt-enqueued-time"): timestamp(_TIME_MARK),
        }
        if event.key is not None:
            values[symbol("x-opt-partition-key")] = event.key
        values |= {symbol(name): value for name, value in event.annotations}
        encoded = codec.section(codec.MESSAGE_ANNOTATIONS, values)
        self._parts = []
        for mark in (_NUMBER_MARK.to_bytes(8, "big"), _OFFSET_MARK.encode(), _TIME_MARK.to_bytes(8, "big")):
            assert encoded.count(mark) == 1
            part, encoded = encoded.split(mark)
            self._parts.append(part)
        self._parts.append(encoded)

    def fill(self, number: int, offset: str, enqueued_ms: int) -> bytes:
        """The section of one event."""
        first, second, third, fourth = self._parts
        assert len(offset) == len(_OFFSET_MARK)
        return b"".join(
            (first, number.to_bytes(8, "big"), second, offset.encode(), third, enqueued_ms.to_bytes(8, "big"), fourth)
        )


@dataclass
class Partition:
    """Events in order; the first one has the sequence number `start`."""

    id: str
    events: list[Event] = field(default_factory=list)
    start: int = 0
    early: int = 0  # by how many numbers new readers start before their position
    templates: dict[Any, _Template] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The last sequence number; -1 if there never was an event."""
        return self.start + len(self.events) - 1

    def add(self, events: Iterable[Event]) -> None:
        """Enqueue events."""
        self.events.extend(events)

    def retain_from(self, number: int) -> None:
        """Remove what is below."""
        del self.events[: max(0, number - self.start)]
        self.start = max(self.start, number)

    def message(self, number: int) -> bytes:
        """The encoded message with this number, as readers get it."""
        event = self.events[number - self.start]
        key = (event.key, id(event.annotations))  # the template keeps them, so their identity is theirs
        template = self.templates.get(key)
        if template is None:
            template = self.templates[key] = _Template(event)
        return b"".join((event.before, template.fill(number, offset_of(number), time_of(number)), event.sections))

    def start_of(self, selector: str) -> int:
        """The first sequence number for a reader with this filter.

        Raises:
            Refused: There is no such position.
        """
        found = _SELECTOR.fullmatch(selector)
        if found is None:
            raise Refused("amqp:invalid-field", f"The filter {selector!r} is not supported.")
        name, operator, value = found.groups()
        if value == "@latest":
            return self.last + 1
        if name == "enqueued-time":
            return max(self.start, min(self.last + 1, int(value) - FIRST_TIME_MS + (operator == ">")))
        last: int | str = self.last
        number = int(value)
        if name == "offset" and number >= 0:
            last = offset_of(self.last)
            number = (number - FIRST_OFFSET) // OFFSET_STEP
        if number > self.last:
            what = name.replace("-", " ")
            raise Refused(
                "com.microsoft:argument-error",
                f"The supplied {what} '{value}' is invalid. The last {what} in the system is '{last}'",
            )
        return max(self.start, number + (operator == ">"))


def offset_of(number: int) -> str:
    """The offset of the event with a number."""
    return str(FIRST_OFFSET + OFFSET_STEP * number)


def time_of(number: int) -> int:
    """When the event with a number was enqueued, milliseconds since 1970: one event a millisecond."""
    return FIRST_TIME_MS + number


class Hub:
    """A hub."""

    def __init__(self, name: str, partitions: int, created_after_ms: int = 0) -> None:
        self.name = name
        self.partitions = {str(number): Partition(str(number)) for number in range(partitions)}
        self.created_ms = max(int(time.time() * 1000), created_after_ms + 1)

    def grow(self) -> None:
        """Add a partition."""
        name = str(len(self.partitions))
        self.partitions[name] = Partition(name)
