"""Learns the layout of a message.

A layout is for messages as publishers send them: each section once and in the order of the standard, names of at most
255 bytes, one data section. What else AMQP allows has no layout.
"""

from eventconsumer_processor.amqp import messages as sections
from eventconsumer_processor.amqp.codec import FrameError, skip
from eventconsumer_processor.amqp.layout import BINARIES, INTEGERS, TEXTS, Closing, Layout, Opening, Slot, Step
from eventconsumer_processor.amqp.messages import BareProperties

MAX_SLOTS = 200  # of a layout: a message with more is none that a publisher sends often
NUMBER, OFFSET, TIME, KEY = (
    f"x-opt-{name}" for name in ("sequence-number", "offset", "enqueued-time", "partition-key")
)
"""Message annotations that are columns."""
_TYPES = {NUMBER: INTEGERS, OFFSET: TEXTS, TIME: (0x83,), KEY: TEXTS}


class _UncommonError(Exception):
    """The message is of a shape that layouts do not have."""


def learn(payload: bytes) -> Layout | None:
    """The layout of a message; None where it has sections, names or a nesting that layouts do not have."""
    try:
        return _Learner(payload).layout()
    except (_UncommonError, FrameError, IndexError, UnicodeDecodeError):
        return None


class _Learner:
    def __init__(self, payload: bytes) -> None:
        self._data = payload
        self._pos = 0
        self._literal = b""
        self._layout = Layout()

    def layout(self) -> Layout:
        last = 0
        while self._pos < len(self._data):
            start, section = self._data[self._pos : self._pos + 2], self._data[self._pos + 2]
            if start != b"\x00\x53" or section <= last:
                raise _UncommonError
            last = section
            self._take(3)
            match section:
                case sections.HEADER | sections.DELIVERY_ANNOTATIONS | sections.FOOTER:
                    self._slot()
                case sections.MESSAGE_ANNOTATIONS:
                    self._map(self._layout.annotations)
                case sections.PROPERTIES:
                    self._list()
                case sections.APPLICATION_PROPERTIES:
                    self._map(self._layout.properties)
                case sections.DATA:
                    self._layout.body = self._slot(*BINARIES)
                case _:
                    raise _UncommonError
        self._step()
        if self._layout.body < 0 or not self._layout.annotations.keys() >= {NUMBER, OFFSET, TIME}:
            raise _UncommonError
        return self._layout

    def _take(self, count: int) -> None:
        """Make bytes part of a literal."""
        self._literal += self._data[self._pos : self._pos + count]
        self._pos += count

    def _step(self, *steps: Step) -> None:
        """End the literal, and go on with other steps."""
        if self._literal:
            self._layout.steps.append(self._literal)
            self._literal = b""
        self._layout.steps += steps

    def _slot(self, *codes: int) -> int:
        self._step(Slot(codes))
        self._pos = skip(self._data, self._pos, len(self._data))
        self._layout.slots += 1
        if self._layout.slots > MAX_SLOTS:
            raise _UncommonError
        return self._layout.slots - 1

    def _open(self, short: int) -> int:
        """Begin a list or a map; how many items it has."""
        code = self._data[self._pos]
        if code not in (short, short + 0x10):
            raise _UncommonError
        width = 1 if code == short else 4
        self._take(1)
        self._step(Opening(width))
        self._pos += width
        count = int.from_bytes(self._data[self._pos : self._pos + width])
        self._take(width)
        return count

    def _map(self, names: dict[str, int]) -> None:
        count = self._open(0xC1)
        for _ in range(count // 2):
            if self._data[self._pos] not in (0xA1, 0xA3):
                raise _UncommonError
            size = self._data[self._pos + 1]
            name = self._data[self._pos + 2 : self._pos + 2 + size].decode()
            self._take(2 + size)
            if name in names:
                raise _UncommonError
            codes = _TYPES.get(name, ()) if names is self._layout.annotations else ()
            names[name] = self._slot(*codes)
        if count % 2:
            raise _UncommonError
        self._step(Closing())

    def _list(self) -> None:
        if self._data[self._pos] == 0x45:
            self._take(1)
            return
        count = self._open(0xC0)
        if count > len(BareProperties._fields):
            raise _UncommonError
        for name in BareProperties._fields[:count]:
            self._layout.fields[name] = self._slot()
        self._step(Closing())
