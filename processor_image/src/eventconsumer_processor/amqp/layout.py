"""The layout of a message, and all messages of it among many, found without looking at them one by one.

Publishers write one event like the next: the same sections, the same names, values of the same kinds. A `Layout` is
learnt from one message (see `learner`): literals, which every message of it has, and slots between them, which hold a
value each. It is compared with all messages at once, step by step, by numpy; what does not fit in every byte is left to
another layout. A value's size follows from its type alone, so a layout needs no knowledge of what is in a slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from eventconsumer_processor.amqp.deliveries import Deliveries

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

KEPT_BYTES = 4 * 1024 * 1024  # of memory that is used again: more is let go
_PAD = 512  # bytes behind the last message: what a literal or a size may be read from

NULL = 0x40
TEXTS = (0xA1, 0xA3, 0xB1, 0xB3)
BINARIES = (0xA0, 0xB0)
INTEGERS = (0x54, 0x55, 0x71, 0x81)
_FIXED = np.zeros(256, np.int64)  # bytes behind a constructor, with those of the length where there is one
_FIXED[0x50:0xA0] = np.repeat((1, 2, 4, 8, 16), 16)
_FIXED[0xA0:] = np.tile(np.repeat((1, 4), 16), 3)
_SHORT, _LONG = ((np.arange(256) >> 4 & 1 == bit) & (np.arange(256) >= 0xA0) for bit in (0, 1))


_spare: list[bytearray] = []  # memory that was used, for the next messages


class Messages:
    """The messages of deliveries in one piece, until the end of a `with` block.

    They lie in memory that is used again and again: new memory costs several times what copying does, as the system
    gives it page by page. So nothing may refer to it behind the block; arrays made of it are copies.

    Attributes:
        raw: The bytes of the deliveries in a row, and some more.
        at, ends: Where each message starts and ends.
    """

    def __init__(self, pieces: Sequence[Deliveries]) -> None:
        behind = list(accumulate((len(piece.data) for piece in pieces), initial=0))
        counts = list(map(len, pieces))
        stops = np.concatenate([np.frombuffer(piece.stops, np.int64) for piece in pieces])
        self.ends = stops + np.repeat(behind[:-1], counts)
        self.at = np.concatenate(([0], self.ends[:-1])) + np.repeat([piece.head for piece in pieces], counts)
        size = behind[-1] + _PAD
        self.raw = _spare.pop() if _spare else bytearray()
        if len(self.raw) < size:
            self.raw = bytearray(size)
        with memoryview(self.raw) as raw:
            for start, piece in zip(behind, pieces, strict=False):
                raw[start : start + len(piece.data)] = piece.data
            raw[behind[-1] : size] = bytes(_PAD)
        self.u8 = np.frombuffer(self.raw, np.uint8, size)
        self._u64: npt.NDArray[np.uint64] = np.ndarray(
            (size - 7,), np.dtype("<u8"), self.raw, strides=(1,)
        )  # at every byte

    def __enter__(self) -> "Messages":
        return self

    def __exit__(self, *_: object) -> None:
        if len(self.raw) <= KEPT_BYTES and not _spare:
            _spare.append(self.raw)

    def message(self, index: int) -> bytes:
        """The bytes of one message."""
        return bytes(self.raw[self.at[index] : self.ends[index]])

    def equal(self, at: Positions, literal: bytes) -> Mask:
        """Which positions hold a literal."""
        size = len(literal)
        if size < 8:
            wanted = int.from_bytes(literal, "little")
            cut: Mask = self._u64[at] & np.uint64((1 << 8 * size) - 1) == np.uint64(wanted)
            return cut
        same = np.ones(len(at), np.bool_)
        for start in (*range(0, size - 7, 8), size - 8):
            wanted = int.from_bytes(literal[start : start + 8], "little")
            same &= self._u64[at + start] == np.uint64(wanted)
        return same

    def number(self, at: Positions, width: int) -> npt.NDArray[np.int64]:
        """The signed numbers of so many bytes."""
        found: npt.NDArray[np.int64] = self._u64[at].byteswap().view(np.int64) >> (64 - 8 * width)
        return found

    def size(self, at: Positions, width: int) -> npt.NDArray[np.int64]:
        """The sizes, of one byte or four."""
        return self.u8[at].astype(np.int64) if width == 1 else self.number(at, 4) & 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Slot:
    """A value that differs from message to message; `codes` are the types that it may have, none: any."""

    codes: tuple[int, ...] = ()

    @property
    def allowed(self) -> Mask:
        """By type."""
        table = np.zeros(256, np.bool_)
        table[list(self.codes) if self.codes else slice(NULL, 256)] = True
        return table


@dataclass(frozen=True, slots=True)
class Opening:
    """The size of a list or a map, of one byte or four: it ends at the `Closing` that follows."""

    width: int


@dataclass(frozen=True, slots=True)
class Closing:
    """Where the last `Opening` ends."""


Step = bytes | Slot | Opening | Closing


@dataclass
class Layout:
    """How a message is laid out; what names a slot is its number among the slots.

    Attributes:
        steps: From the first byte to the last.
        annotations, properties: Slots of the message annotations and the application properties, by name.
        fields: Slots of the properties section, by the name of the field.
        body: Slot of the data section.
    """

    steps: list[Step] = field(default_factory=list)
    annotations: dict[str, int] = field(default_factory=dict)
    properties: dict[str, int] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)
    body: int = -1
    slots: int = 0

    @cached_property
    def _tables(self) -> list[Mask]:
        return [step.allowed for step in self.steps if isinstance(step, Slot)]

    def find(self, messages: Messages, among: Positions) -> tuple[Mask, list[Positions]]:
        """Which of the messages have this layout, and where the slots of those are.

        Args:
            messages: Many.
            among: Which of them to look at, by index.
        """
        pos, ends = messages.at[among], messages.ends[among]
        fits = np.ones(len(among), np.bool_)
        slots: list[Positions] = []
        stop = ends
        for step in self.steps:
            if isinstance(step, bytes):
                fits &= messages.equal(pos, step)
                pos = pos + len(step)
            elif isinstance(step, Slot):
                fits &= self._tables[len(slots)][messages.u8[pos]]
                slots.append(pos)
                pos = _behind(messages, pos)
                fits &= pos <= ends
                pos = np.minimum(pos, ends)  # literals and sizes behind it are read from the padding at worst
            elif isinstance(step, Opening):
                stop = pos + step.width + messages.size(pos, step.width)
                pos = pos + step.width
            else:
                fits &= pos == stop
                if not fits.any():
                    return fits, []
        fits &= pos == ends
        if fits.all():
            return fits, slots
        return fits, [slot[fits] for slot in slots] if fits.any() else []


def _behind(messages: Messages, pos: Positions) -> Positions:
    """The positions behind values."""
    codes = messages.u8[pos]
    if (codes == codes[0]).all():
        code = int(codes[0])
        behind = pos + (1 + int(_FIXED[code]))
        return behind + messages.size(pos + 1, 4 if _LONG[code] else 1) if code >= 0xA0 else behind
    behind = pos + 1 + _FIXED[codes]
    behind += np.where(_SHORT[codes], messages.u8[pos + 1], 0)
    wide = _LONG[codes]
    return behind + np.where(wide, messages.size(pos + 1, 4), 0) if wide.any() else behind
