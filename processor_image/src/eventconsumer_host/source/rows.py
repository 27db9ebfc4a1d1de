"""Events as lists with one item per event, for code that needs single events.

Application and system properties are flat: the keys and values of all events in one list, and the end of each event's
entries. Values are text; their kinds record the original type, for formats that distinguish 5 from "5".
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum

EVENT_OVERHEAD_BYTES = 64  # the cost of an event besides its body, key and properties


class PropertyKind(IntEnum):
    """The original type of a property's value."""

    TEXT = 0  # a string, or JSON of a type that no format has: a boolean, a list, a map
    INTEGER = 1  # signed, 64 bits
    FLOAT = 2
    NULL = 3
    BINARY = 4  # {"$binary":"<base64>"}


class Binary(bytes):
    """A binary on the wire; decoders return strings and symbols as plain bytes."""

    __slots__ = ()


class DateTimeOffset(int):
    """A described `com.microsoft:datetime-offset` of .NET publishers: ticks of 100 ns since the year 1, UTC.

    Source of this type and of `TimeSpan`: `AmqpMessageConverter` of Azure/azure-sdk-for-net (`DateTimeOffset.UtcTicks`,
    `TimeSpan.Ticks`), and learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-dotnet.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """ISO 8601 with all digits, as .NET's format "O" in UTC; a number where .NET has no such time."""
        seconds, ticks = divmod(self, _TICKS)
        if not 0 <= seconds <= _LAST_SECOND:
            return int.__repr__(self)
        return f"{_YEAR_1 + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f".{ticks:07}Z"


class TimeSpan(int):
    """A described `com.microsoft:timespan` of .NET publishers: ticks of 100 ns."""

    __slots__ = ()

    def __str__(self) -> str:
        """As .NET's format "c": `[-][d.]hh:mm:ss[.fffffff]`."""
        seconds, ticks = divmod(abs(self), _TICKS)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        text = f"{days}." * (days > 0) + f"{hours:02}:{minutes:02}:{seconds:02}" + f".{ticks:07}" * (ticks > 0)
        return "-" * (self < 0) + text


_TICKS = 10_000_000  # of a second
_YEAR_1 = datetime(1, 1, 1, tzinfo=UTC)
_LAST_SECOND = 315_537_897_599  # of the year 9999


@dataclass(slots=True)
class FlatMap:
    """One map per event, flattened: event i has the entries `ends[i-1]` to `ends[i]`."""

    ends: list[int] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    kinds: bytearray = field(default_factory=bytearray)  # a `PropertyKind` per value; empty: all are text

    def entries(self, index: int) -> dict[str, str]:
        """The map of one event."""
        own = slice(self.ends[index - 1] if index else 0, self.ends[index])
        return dict(zip(self.keys[own], self.values[own], strict=True))


@dataclass(slots=True)
class EventRows:
    """Events of one partition, in sequence order."""

    sequence_numbers: list[int] = field(default_factory=list)
    offsets: list[str] = field(default_factory=list)
    enqueued_ms: list[int] = field(default_factory=list)  # milliseconds since 1970, UTC
    partition_keys: list[str | None] = field(default_factory=list)
    bodies: list[bytes | None] = field(default_factory=list)
    properties: FlatMap = field(default_factory=FlatMap)
    system_properties: FlatMap = field(default_factory=FlatMap)
    content_types: list[str | None] = field(default_factory=list)
    message_ids: list[str | None] = field(default_factory=list)
    correlation_ids: list[str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.sequence_numbers)
