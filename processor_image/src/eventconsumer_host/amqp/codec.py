"""AMQP 1.0 types: values from bytes, and the bytes of values.

Decoded values are those that `source.columns` knows: strings, symbols and chars are bytes, binaries and decimals are
`Binary`, timestamps are integers, and a described value is the value alone (an outcome keeps its name, and a time or a
duration of .NET its type). Every size is
checked against the available bytes before memory is allocated; nesting and zero-width items are limited.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

from eventconsumer_host.source.rows import Binary, DateTimeOffset, TimeSpan

MAX_DEPTH = 256  # maximum nesting of values: about half of Python's maximum recursion
MAX_ZERO_WIDTH = 4096  # maximum number of zero-width array items of a message, to limit memory
_OUTCOMES = {0x23: "received", 0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified"}

_TYPES: dict[bytes, type[int]] = {
    b"com.microsoft:datetime-offset": DateTimeOffset,
    b"com.microsoft:timespan": TimeSpan,
}

_U16, _U32, _U64, _I64 = (struct.Struct(">" + code) for code in "HIQq")
_TWO_U32 = struct.Struct(">II")
_Read = Callable[[bytes, int], Any]


class FrameError(ValueError):
    """The peer's bytes are not valid AMQP, or exceed a limit; the text gives cause and position."""


class Room:
    """What may still be nested and expanded in the values of one message."""

    __slots__ = ("items", "levels")

    def __init__(self) -> None:
        self.levels = MAX_DEPTH
        self.items = MAX_ZERO_WIDTH  # zero-width ones

    def enter(self, pos: int) -> None:
        """Take a level; the caller gives it back."""
        if not self.levels:
            raise FrameError(f"values nest deeper than {MAX_DEPTH} at byte {pos}")
        self.levels -= 1

    def expand(self, count: int, pos: int) -> None:
        """Take zero-width items."""
        if count > self.items:
            raise FrameError(f"an array at byte {pos} exceeds {MAX_ZERO_WIDTH} items without content")
        self.items -= count


def _number(code: str) -> tuple[int, _Read]:
    layout = struct.Struct(">" + code)
    unpack = layout.unpack_from
    return layout.size, lambda data, pos: unpack(data, pos)[0]


def _constant(value: Any) -> tuple[int, _Read]:
    return 0, lambda data, pos: value


def _raw(size: int) -> tuple[int, _Read]:
    return size, lambda data, pos: Binary(data[pos : pos + size])


def _char(data: bytes, pos: int) -> bytes:
    try:
        return chr(_U32.unpack_from(data, pos)[0]).encode()
    except (ValueError, OverflowError):  # not a character: kept unchanged
        return data[pos : pos + 4]


_FIXED: dict[int, tuple[int, _Read]] = {
    0x40: _constant(None), 0x41: _constant(True), 0x42: _constant(False), 0x43: _constant(0), 0x44: _constant(0),
    0x50: _number("B"), 0x51: _number("b"), 0x52: _number("B"), 0x53: _number("B"), 0x54: _number("b"),
    0x55: _number("b"), 0x56: (1, lambda data, pos: data[pos] == 1),
    0x60: _number("H"), 0x61: _number("h"),
    0x70: _number("I"), 0x71: _number("i"), 0x72: _number("f"), 0x73: (4, _char), 0x74: _raw(4),
    0x80: _number("Q"), 0x81: _number("q"), 0x82: _number("d"), 0x83: _number("q"), 0x84: _raw(8),
    0x94: _raw(16), 0x98: (16, lambda data, pos: UUID(bytes=data[pos : pos + 16])),
}  # fmt: skip
_BINARY = (0xA0, 0xB0)
_VARIABLE = (*_BINARY, 0xA1, 0xA3, 0xB1, 0xB3)


def decode(data: bytes, pos: int, end: int, room: Room | None = None) -> tuple[Any, int]:
    """Read one value.

    Args:
        data: The bytes.
        pos: Position of its constructor.
        end: End of the readable bytes.
        room: Shared by all values of a message; absent: of this value only.

    Returns:
        The value and the position after it.

    Raises:
        FrameError: There is no valid value.
    """
    if pos >= end:
        raise FrameError(f"a value is missing at byte {pos}")
    code = data[pos]
    if code:
        return _value(code, data, pos + 1, end, room)
    room = room or Room()
    room.enter(pos)
    descriptor, pos = decode(data, pos + 1, end, room)
    value, pos = decode(data, pos, end, room)
    room.levels += 1
    return _described(descriptor, value), pos


def _described(descriptor: Any, value: Any) -> Any:
    if isinstance(descriptor, bytes):
        kind = _TYPES.get(descriptor)
        return kind(value) if kind and isinstance(value, int) and not isinstance(value, bool) else value
    outcome = _OUTCOMES.get(descriptor) if isinstance(descriptor, int) else None
    return {outcome: value} if outcome else value


def _value(code: int, data: bytes, pos: int, end: int, room: Room | None) -> tuple[Any, int]:
    """The value after its constructor `code`."""
    fixed = _FIXED.get(code)
    if fixed is not None:
        size, read = fixed
        if pos + size > end:
            raise FrameError(f"a value of type {code:#04x} is cut off at byte {pos}")
        return read(data, pos), pos + size
    if code == 0x45:
        return [], pos
    if code in _VARIABLE:
        start, stop = _extent(code, data, pos, end)
        found = data[start:stop]
        return (Binary(found) if code in _BINARY else found), stop
    if code not in (0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0):
        raise FrameError(f"unknown type {code:#04x} at byte {pos - 1}")
    start, stop = _extent(code, data, pos, end)
    count, start = _unsigned(code, data, start, stop)
    room = room or Room()
    room.enter(pos)
    if code in (0xE0, 0xF0):
        items = _array(data, start, stop, count, room)
        room.levels += 1
        return items, stop
    if count > stop - start:
        raise FrameError(f"a value at byte {pos} claims {count} items in {stop - start} bytes")
    items = []
    for _ in range(count):
        item, start = decode(data, start, stop, room)
        items.append(item)
    room.levels += 1
    if start != stop:
        raise FrameError(f"{stop - start} bytes are left over after the items of the value at byte {pos}")
    return (_map(items, pos) if code & 0x0F else items), stop


def _unsigned(code: int, data: bytes | bytearray, pos: int, end: int) -> tuple[int, int]:
    """A size or a count: of four bytes in the wide forms."""
    width = 4 if code & 0x10 else 1
    if pos + width > end:
        raise FrameError(f"a size is cut off at byte {pos}")
    return (data[pos] if width == 1 else _U32.unpack_from(data, pos)[0]), pos + width


def _extent(code: int, data: bytes | bytearray, pos: int, end: int) -> tuple[int, int]:
    size, start = _unsigned(code, data, pos, end)
    if start + size > end:
        raise FrameError(f"a value of type {code:#04x} at byte {pos} claims {size} bytes, {end - start} are there")
    return start, start + size


def _array(data: bytes, pos: int, end: int, count: int, room: Room) -> list[Any]:
    descriptor, is_described = None, data[pos : pos + 1] == b"\x00"
    if is_described:
        descriptor, pos = decode(data, pos + 1, end, room)
    if pos >= end:
        raise FrameError(f"the array at byte {pos} has no item type")
    code, pos = data[pos], pos + 1
    if code < 0x50:
        room.expand(count, pos)
    elif count > end - pos:
        raise FrameError(f"the array at byte {pos} claims {count} items in {end - pos} bytes")
    items = []
    for _ in range(count):
        item, pos = _value(code, data, pos, end, room)
        items.append(_described(descriptor, item) if is_described else item)
    if pos != end:
        raise FrameError(f"{end - pos} bytes are left over after the items of an array at byte {pos}")
    return items


def _map(items: list[Any], pos: int) -> dict[Any, Any]:
    if len(items) % 2:
        raise FrameError(f"the map at byte {pos} has an odd number of items")
    keys, values = items[::2], items[1::2]
    try:
        found = dict(zip(keys, values, strict=True))
    except TypeError:  # a list or a map as a key
        keys = [_hashable(key, pos) for key in keys]
        found = dict(zip(keys, values, strict=True))
    return found if len(found) == len(keys) else _with_twins(keys, values)


def _with_twins(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    """A map with keys that are equal here, such as a string and a symbol: the first is kept, the others get a mark."""
    from eventconsumer_host.source.columns import as_text, distinct

    names = distinct([as_text(key) for key in keys])
    found: dict[Any, Any] = {}
    for key, name, value in zip(keys, names, values, strict=True):
        found[name.encode() if key in found else key] = value
    return found


def _hashable(value: Any, pos: int) -> Any:
    """A key: lists and maps become tuples.

    Each value is converted once, whatever the nesting: a tuple is a key that a map inside of this key has.
    """
    if isinstance(value, dict):
        return tuple((_hashable(key, pos), _hashable(item, pos)) for key, item in value.items())
    if isinstance(value, tuple):
        raise FrameError(f"a key of the map at byte {pos} contains a map with a list or a map as key")
    return tuple(_hashable(item, pos) for item in value) if isinstance(value, list) else value


def skip(data: bytes | bytearray, pos: int, end: int) -> int:
    """The position after the value at `pos`, by its size alone.

    Raises:
        FrameError: It reaches beyond `end`, or has an unknown type.
    """
    values = 1
    while values:
        if pos >= end:
            raise FrameError(f"a value is missing at byte {pos}")
        code = data[pos]
        kind = code >> 4
        if code == 0:  # a descriptor and a value follow
            values += 1
            pos += 1
            continue
        if kind in (0x4, 0x5, 0x6, 0x7, 0x8, 0x9):
            stop = pos + 1 + (0, 1, 2, 4, 8, 16)[kind - 4]
        elif kind >= 0xA:
            _, stop = _extent(code, data, pos + 1, end)
        else:
            raise FrameError(f"unknown type {code:#04x} at byte {pos}")
        if stop > end:
            raise FrameError(f"the value at byte {pos} reaches {stop - end} bytes beyond the end")
        values, pos = values - 1, stop
    return pos


def entries(data: bytes, pos: int, end: int) -> Iterator[tuple[int, int]]:
    """The start and the end of each entry of the map at `pos`, by sizes alone: a name and a value.

    Raises:
        FrameError: There is no map, or it ends early; after the entries before.
    """
    code = data[pos] if pos < end else 0
    if code not in (0xC1, 0xD1):
        raise FrameError(f"there is no map at byte {pos}")
    start, end = _extent(code, data, pos + 1, end)
    count, start = _unsigned(code, data, start, end)
    for _ in range(count // 2):
        stop = skip(data, skip(data, start, end), end)
        yield start, stop
        start = stop


# --- encoding ---

NULL = b"\x40"


def boolean(value: bool) -> bytes:
    """A truth value."""
    return b"\x41" if value else b"\x42"


def ubyte(value: int) -> bytes:
    """An unsigned byte."""
    return bytes((0x50, value))


def ushort(value: int) -> bytes:
    """An unsigned short."""
    return b"\x60" + _U16.pack(value)


def uint(value: int) -> bytes:
    """An unsigned int."""
    return bytes((0x52, value)) if 0 < value < 256 else b"\x70" + _U32.pack(value) if value else b"\x43"


def long(value: int) -> bytes:
    """A long."""
    return b"\x81" + _I64.pack(value)


def timestamp(milliseconds: int) -> bytes:
    """A time, in milliseconds since 1970."""
    return b"\x83" + _I64.pack(milliseconds)


def uuid(value: UUID) -> bytes:
    """A UUID."""
    return b"\x98" + value.bytes


def _text(code: int, raw: bytes) -> bytes:
    return bytes((code, len(raw))) + raw if len(raw) < 256 else bytes((code + 0x10,)) + _U32.pack(len(raw)) + raw


def binary(value: bytes) -> bytes:
    """Bytes."""
    return _text(0xA0, value)


def string(value: str) -> bytes:
    """A string."""
    return _text(0xA1, value.encode())


def symbol(value: str) -> bytes:
    """A symbol: ASCII text."""
    return _text(0xA3, value.encode("ascii"))


def _counted(code: int, parts: list[bytes]) -> bytes:
    body = b"".join(parts)
    if len(body) < 255 and len(parts) < 256:
        return bytes((code, len(body) + 1, len(parts))) + body
    return bytes((code + 0x10,)) + _TWO_U32.pack(len(body) + 4, len(parts)) + body


def mapping(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A map of encoded keys and values."""
    return _counted(0xC1, [part for pair in pairs for part in pair])


def symbols(*values: str) -> bytes:
    """An array of symbols, each of at most 255 characters; null if empty."""
    items = [symbol(value)[1:] for value in values]
    return _counted(0xE0, [b"\xa3" + items[0], *items[1:]]) if items else NULL


def described(code: int, value: bytes) -> bytes:
    """A value of one of AMQP's own types."""
    return bytes((0x00, 0x53, code)) + value


def composite(code: int, *fields: bytes) -> bytes:
    """A list of fields of one of AMQP's own types."""
    return described(code, _counted(0xC0, list(fields)))
