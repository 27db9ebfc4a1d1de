"""AMQP 1.0 types to bytes and back.

``decode`` reads exactly one value between two positions, ``encode`` writes one, ``skip`` finds a value's end without
reading it. The peer is not trusted: every size is checked against the available bytes before memory is allocated,
nesting and zero-width array items are bounded, and every error is a ``DecodeError`` with the position. Values are
written in their shortest form except lists: ``list0`` is never written, because clients that index performatives by
position do not read it.
"""

import struct
import uuid
from collections.abc import Callable
from typing import Any

from .errors import DecodeError
from .values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

MAX_DEPTH = 32
"""Maximum nesting of values."""
MAX_ZERO_WIDTH = 255
"""Maximum number of zero-width items in an array, to limit memory."""

_U32 = struct.Struct(">I")


def _number(kind: type, fmt: str) -> tuple[int, Callable[[bytes, int], Any]]:
    unpack = struct.Struct(">" + fmt).unpack_from
    return struct.calcsize(">" + fmt), lambda data, pos: kind(unpack(data, pos)[0])


def _raw(kind: Callable[[bytes], Any], size: int) -> tuple[int, Callable[[bytes, int], Any]]:
    return size, lambda data, pos: kind(data[pos : pos + size])


def _constant(value: Any) -> tuple[int, Callable[[bytes, int], Any]]:
    return 0, lambda data, pos: value


def _char(data: bytes, pos: int) -> Char:
    code = _U32.unpack_from(data, pos)[0]
    if code > 0x10FFFF:
        raise DecodeError(f"char {code:#x} at byte {pos} is not a Unicode character")
    return Char(chr(code))


def _boolean(data: bytes, pos: int) -> bool:
    if data[pos] > 1:
        raise DecodeError(f"boolean at byte {pos} is {data[pos]:#x}, expected 0 or 1")
    return data[pos] == 1


_FIXED: dict[int, tuple[int, Callable[[bytes, int], Any]]] = {
    0x40: _constant(None),
    0x41: _constant(True),
    0x42: _constant(False),
    0x43: _constant(UInt(0)),
    0x44: _constant(ULong(0)),
    0x50: _number(UByte, "B"),
    0x51: _number(Byte, "b"),
    0x52: _number(UInt, "B"),
    0x53: _number(ULong, "B"),
    0x54: _number(Int, "b"),
    0x55: _number(Long, "b"),
    0x56: (1, _boolean),
    0x60: _number(UShort, "H"),
    0x61: _number(Short, "h"),
    0x70: _number(UInt, "I"),
    0x71: _number(Int, "i"),
    0x72: _number(Float, "f"),
    0x73: (4, _char),
    0x74: _raw(Decimal32, 4),
    0x80: _number(ULong, "Q"),
    0x81: _number(Long, "q"),
    0x82: _number(float, "d"),
    0x83: _number(Timestamp, "q"),
    0x84: _raw(Decimal64, 8),
    0x94: _raw(Decimal128, 16),
    0x98: _raw(lambda raw: uuid.UUID(bytes=raw), 16),
}
_TEXT: dict[int, Callable[[bytes], Any]] = {
    0x0: bytes,
    0x1: lambda raw: str(raw, "utf-8"),
    0x3: lambda raw: Symbol(str(raw, "ascii")),
}
_KIND_OF_ITEMS: dict[int, type] = {
    0x40: type(None),
    0x41: bool,
    0x42: bool,
    0x56: bool,
    0x43: UInt,
    0x52: UInt,
    0x70: UInt,
    0x44: ULong,
    0x53: ULong,
    0x80: ULong,
    0x50: UByte,
    0x51: Byte,
    0x54: Int,
    0x71: Int,
    0x55: Long,
    0x81: Long,
    0x60: UShort,
    0x61: Short,
    0x72: Float,
    0x73: Char,
    0x74: Decimal32,
    0x82: float,
    0x83: Timestamp,
    0x84: Decimal64,
    0x94: Decimal128,
    0x98: uuid.UUID,
    0xA0: bytes,
    0xB0: bytes,
    0xA1: str,
    0xB1: str,
    0xA3: Symbol,
    0xB3: Symbol,
    0x45: list,
    0xC0: list,
    0xD0: list,
    0xC1: dict,
    0xD1: dict,
    0xE0: Array,
    0xF0: Array,
}


def decode(data: bytes, pos: int = 0, end: int | None = None, depth: int = 0) -> tuple[Any, int]:
    """Reads one value.

    Args:
        data: the bytes.
        pos: position of the value's constructor.
        end: end of the readable bytes; the end of ``data`` if None.
        depth: nesting of this value.

    Returns:
        The value and the position after it.

    Raises:
        DecodeError: the bytes are not a value, or exceed a bound.
    """
    end = len(data) if end is None else end
    if pos >= end:
        raise DecodeError(f"a value is missing at byte {pos}")
    if depth > MAX_DEPTH:
        raise DecodeError(f"values nest deeper than {MAX_DEPTH} at byte {pos}")
    code = data[pos]
    if code == 0x00:
        descriptor, pos = decode(data, pos + 1, end, depth + 1)
        value, pos = decode(data, pos, end, depth + 1)
        return Described(descriptor, value), pos
    return _body(code, data, pos + 1, end, depth)


def _body(code: int, data: bytes, pos: int, end: int, depth: int) -> tuple[Any, int]:
    """The value after its constructor ``code``."""
    fixed = _FIXED.get(code)
    if fixed is not None:
        size, read = fixed
        if pos + size > end:
            raise DecodeError(f"a value of type {code:#04x} is cut off at byte {pos}")
        return read(data, pos), pos + size
    if code == 0x45:
        return [], pos
    width = 4 if code & 0x10 else 1
    family = code & 0xE0
    if code < 0xA0 or code & 0x0F not in ((0, 1, 3) if family == 0xA0 else (0, 1) if family == 0xC0 else (0,)):
        raise DecodeError(f"unknown type {code:#04x} at byte {pos - 1}")
    size, start = _unsigned(data, pos, end, width)
    stop = start + size
    if stop > end:
        raise DecodeError(f"a value of type {code:#04x} at byte {pos} claims {size} bytes, {end - start} are there")
    if family == 0xA0:
        try:
            return _TEXT[code & 0x0F](data[start:stop]), stop
        except UnicodeDecodeError as error:
            raise DecodeError(f"text at byte {start} is not valid {error.encoding}") from None
    count, item = _unsigned(data, start, stop, width)
    if family == 0xE0:
        return _array(data, item, stop, count, depth), stop
    if count > stop - item:
        raise DecodeError(f"a value at byte {pos} claims {count} items in {stop - item} bytes")
    items = []
    for _ in range(count):
        value, item = decode(data, item, stop, depth + 1)
        items.append(value)
    if item != stop:
        raise DecodeError(f"{stop - item} bytes left over after the items of the value at byte {pos}")
    return (items if code & 0x0F == 0 else _map(items, pos)), stop


def _unsigned(data: bytes, pos: int, end: int, width: int) -> tuple[int, int]:
    if pos + width > end:
        raise DecodeError(f"a size is cut off at byte {pos}")
    return (data[pos] if width == 1 else _U32.unpack_from(data, pos)[0]), pos + width


def _map(items: list[Any], pos: int) -> dict[Any, Any]:
    if len(items) % 2:
        raise DecodeError(f"the map at byte {pos} has an odd number of items")
    try:
        return dict(zip(items[::2], items[1::2], strict=True))
    except TypeError:
        raise DecodeError(f"the map at byte {pos} has a list or map as key") from None


def _array(data: bytes, pos: int, end: int, count: int, depth: int) -> Array:
    if pos >= end:
        raise DecodeError(f"the array at byte {pos} has no item type")
    if depth >= MAX_DEPTH:
        raise DecodeError(f"values nest deeper than {MAX_DEPTH} at byte {pos}")
    code, pos = data[pos], pos + 1
    descriptor: Any = None
    if described := code == 0x00:
        descriptor, pos = decode(data, pos, end, depth + 1)
        if pos >= end:
            raise DecodeError(f"the array at byte {pos} has no item type")
        code, pos = data[pos], pos + 1
    kind = _KIND_OF_ITEMS.get(code)
    if kind is None:
        raise DecodeError(f"the array at byte {pos} has items of unknown type {code:#04x}")
    if count > (MAX_ZERO_WIDTH if code < 0x50 else end - pos):
        raise DecodeError(f"the array at byte {pos} claims {count} items in {end - pos} bytes")
    items = []
    for _ in range(count):
        value, pos = _body(code, data, pos, end, depth + 1)
        items.append(Described(descriptor, value) if described else value)
    if pos != end:
        raise DecodeError(f"{end - pos} bytes left over after the items of an array at byte {pos}")
    return Array(Described if described and items else kind, tuple(items))


def skip(data: bytes, pos: int, end: int, depth: int = 0) -> int:
    """The position after the value at ``pos``, computed from sizes only.

    Raises:
        DecodeError: the value reaches beyond ``end`` or its type is unknown.
    """
    if pos >= end:
        raise DecodeError(f"a value is missing at byte {pos}")
    code = data[pos]
    if code == 0x00:
        if depth >= MAX_DEPTH:
            raise DecodeError(f"descriptors nest deeper than {MAX_DEPTH} at byte {pos}")
        return skip(data, skip(data, pos + 1, end, depth + 1), end, depth + 1)
    family = code >> 4
    if 4 <= family <= 9:
        stop = pos + 1 + (0, 1, 2, 4, 8, 16)[family - 4]
    elif family >= 0xA:
        size, start = _unsigned(data, pos + 1, end, 4 if family & 1 else 1)
        stop = start + size
    else:
        raise DecodeError(f"unknown type {code:#04x} at byte {pos}")
    if stop > end:
        raise DecodeError(f"the value at byte {pos} reaches {stop - end} bytes beyond the end")
    return stop


_NUMBERS: dict[type, tuple[int, struct.Struct]] = {
    kind: (code, struct.Struct(">" + fmt))
    for kind, code, fmt in (
        (UByte, 0x50, "B"),
        (UShort, 0x60, "H"),
        (UInt, 0x70, "I"),
        (ULong, 0x80, "Q"),
        (Byte, 0x51, "b"),
        (Short, 0x61, "h"),
        (Int, 0x71, "i"),
        (Long, 0x81, "q"),
        (int, 0x81, "q"),
        (Timestamp, 0x83, "q"),
        (Float, 0x72, "f"),
        (float, 0x82, "d"),
    )
}
_SHORT_UNSIGNED = {UInt: (0x43, 0x52), ULong: (0x44, 0x53)}
_SHORT_SIGNED = {Int: 0x54, Long: 0x55, int: 0x55}
_VARIABLE: dict[type, int] = {bytes: 0xB0, bytearray: 0xB0, memoryview: 0xB0, str: 0xB1, Symbol: 0xB3}
_DECIMALS: dict[type, tuple[int, int]] = {Decimal32: (0x74, 4), Decimal64: (0x84, 8), Decimal128: (0x94, 16)}


def encode(value: Any) -> bytes:
    """One value as bytes.

    Raises:
        ValueError: the value has no AMQP type or is outside its range.
    """
    kind = type(value)
    if value is None:
        return b"\x40"
    if kind is bool:
        return b"\x41" if value else b"\x42"
    if kind in _SHORT_UNSIGNED and 0 <= value < 256:
        zero, small = _SHORT_UNSIGNED[kind]
        return bytes((small, value)) if value else bytes((zero,))
    if kind in _SHORT_SIGNED and -128 <= value < 128:
        return bytes((_SHORT_SIGNED[kind], value & 0xFF))
    if kind is Described:
        return b"\x00" + encode(value.descriptor) + encode(value.value)
    code, body = _wide(value)
    if code >= 0xB0:
        # The wide form starts with a size of four bytes (and a count of four); shorten what fits in one.
        counted = code >= 0xD0
        if len(body) - (7 if counted else 4) < 256 and (not counted or _U32.unpack_from(body, 4)[0] < 256):
            code -= 0x10
            head = (len(body) - 7, body[7]) if counted else (len(body) - 4,)
            body = bytes(head) + body[8 if counted else 4 :]
    return bytes((code,)) + body


def _wide(value: Any) -> tuple[int, bytes]:
    """The constructor and body of a value in its widest form, the one that arrays use for every item."""
    kind = type(value)
    if kind in _NUMBERS:
        code, number = _NUMBERS[kind]
        try:
            return code, number.pack(value)
        except (struct.error, OverflowError):
            raise ValueError(f"{value!r} is out of range for an AMQP {kind.__name__.lower()}") from None
    if kind in _VARIABLE:
        raw = value.encode("ascii" if kind is Symbol else "utf-8") if isinstance(value, str) else bytes(value)
        return _VARIABLE[kind], _U32.pack(len(raw)) + raw
    if kind is list or kind is dict:
        parts = [encode(part) for part in (value if kind is list else (x for pair in value.items() for x in pair))]
        body = b"".join(parts)
        return (0xD0 if kind is list else 0xD1), _U32.pack(len(body) + 4) + _U32.pack(len(parts)) + body
    if kind is Array:
        body = _items(value)
        return 0xF0, _U32.pack(len(body) + 4) + _U32.pack(len(value.items)) + body
    if kind is uuid.UUID:
        return 0x98, value.bytes
    if kind is Char:
        return 0x73, _U32.pack(ord(value))
    if kind is bool:
        return 0x56, b"\x01" if value else b"\x00"
    if value is None:
        return 0x40, b""
    if kind in _DECIMALS:
        code, size = _DECIMALS[kind]
        if len(value) != size:
            raise ValueError(f"a {kind.__name__} takes {size} bytes, got {len(value)}")
        return code, bytes(value)
    raise ValueError(f"{value!r} of type {kind.__name__} has no AMQP type")


_SAMPLES: dict[type, Any] = {
    type(None): None,
    bool: False,
    str: "",
    bytes: b"",
    list: [],
    dict: {},
    uuid.UUID: uuid.UUID(int=0),
    Char: Char("a"),
    Decimal32: Decimal32(4),
    Decimal64: Decimal64(8),
    Decimal128: Decimal128(16),
    Array: Array(bool, ()),
    Symbol: Symbol(),
}


def _items(array: Array) -> bytes:
    """An array's item constructor and items."""
    items, head = array.items, b""
    if array.kind is Described:
        heads = {b"\x00" + encode(item.descriptor) for item in items}
        if len(heads) != 1:
            raise ValueError("an array of described values needs at least one, all with the same descriptor")
        head = heads.pop()
        items = tuple(item.value for item in items)
    kind = type(items[0]) if items else array.kind
    code = _wide(_SAMPLES[kind] if kind in _SAMPLES else kind(0))[0]
    if any(type(item) is not kind for item in items):
        raise ValueError(f"an array of {kind.__name__} holds an item of another type")
    return head + bytes((code,)) + b"".join(_wide(item)[1] for item in items)
