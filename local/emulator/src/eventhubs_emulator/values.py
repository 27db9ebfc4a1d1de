"""Python types for the AMQP 1.0 primitive types that Python does not distinguish.

Native types represent themselves: None, bool, str, bytes, list, dict, float (double), uuid.UUID; a plain int is an AMQP
long. Every other type is a small subclass, so a decoded value is encoded with the same type. Peers compare types of
correlation ids, and tests compare round trips.
"""

from dataclasses import dataclass
from typing import Any


class Symbol(str):
    """An AMQP symbol: ASCII text from a constrained domain."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since the Unix epoch, UTC."""

    __slots__ = ()


class UByte(int):
    """0 to 2**8 - 1."""

    __slots__ = ()


class UShort(int):
    """0 to 2**16 - 1."""

    __slots__ = ()


class UInt(int):
    """0 to 2**32 - 1."""

    __slots__ = ()


class ULong(int):
    """0 to 2**64 - 1."""

    __slots__ = ()


class Byte(int):
    """-2**7 to 2**7 - 1."""

    __slots__ = ()


class Short(int):
    """-2**15 to 2**15 - 1."""

    __slots__ = ()


class Int(int):
    """-2**31 to 2**31 - 1."""

    __slots__ = ()


class Long(int):
    """-2**63 to 2**63 - 1; the encoding of a plain int."""

    __slots__ = ()


class Float(float):
    """A 32-bit float."""

    __slots__ = ()


class Decimal32(bytes):
    """The 4 raw bytes of a decimal32, without arithmetic."""

    __slots__ = ()


class Decimal64(bytes):
    """The 8 raw bytes of a decimal64."""

    __slots__ = ()


class Decimal128(bytes):
    """The 16 raw bytes of a decimal128."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor (a symbol or an unsigned long)."""

    descriptor: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one AMQP type.

    Attributes:
        kind: the Python type of every item, such as ``Symbol``; ``Array`` and ``Described`` are not supported.
        items: the values.
    """

    kind: type
    items: tuple[Any, ...]

    @classmethod
    def of(cls, kind: type, *items: Any) -> "Array":
        """An array of the given items, each converted to the kind."""
        return cls(kind, tuple(kind(item) for item in items))
