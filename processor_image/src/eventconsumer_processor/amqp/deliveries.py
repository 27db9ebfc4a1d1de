"""Received deliveries: their bytes in one piece, and the position of each message.

One read returns many of them. Kept together, each costs one copy and a number instead of an object.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Whole deliveries of one link, in the order of arrival: each has a head and a message.

    Attributes:
        data: Their bytes, from the first head to the end of the last message.
        head: Bytes before each message.
        stops: End of each message in `data`; signed, 64 bits.
    """

    data: bytes
    head: int
    stops: "array[int]"

    @classmethod
    def of(cls, message: bytes) -> "Deliveries":
        """A single message."""
        return cls(message, 0, array("q", (len(message),)))

    def __len__(self) -> int:
        return len(self.stops)

    @property
    def last(self) -> bytes:
        """The last message."""
        return self.data[(self.stops[-2] if len(self.stops) > 1 else 0) + self.head :]

    def messages(self) -> list[bytes]:
        """Each message's bytes."""
        data, head, found, start = self.data, self.head, [], 0
        for stop in self.stops:
            found.append(data[start + head : stop])
            start = stop
        return found

    def split(self) -> "tuple[bytes, Deliveries]":
        """The first message, and the remaining deliveries."""
        first = self.stops[0]
        behind = array("q", (stop - first for stop in self.stops[1:]))
        return self.data[self.head : first], Deliveries(self.data[first:], self.head, behind)


def messages_of(pieces: Sequence[Deliveries]) -> list[bytes]:
    """The messages of several, in order."""
    return [message for piece in pieces for message in piece.messages()]
