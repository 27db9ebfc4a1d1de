"""The performatives of AMQP 1.0 and SASL as dataclasses, in the order of their fields on the wire.

Invariant: every field is written, including nulls at the end. Clients that index performatives by position fail on
trimmed lists. Reading is lenient: missing fields are null, and a field of the wrong type is a ``DecodeError`` that
names it.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from .codec import decode, encode
from .errors import AmqpError, DecodeError
from .values import Array, Described, Symbol, UByte, UInt, ULong, UShort


class Symbols:
    """Marks a field that holds several symbols: a tuple of str here, an array or a single symbol on the wire."""


class Anything:
    """Marks a field whose value is passed on unchanged."""


_BITS = {UByte: 8, UShort: 16, UInt: 32, ULong: 64}
P = TypeVar("P", bound="Performative")


@dataclass(slots=True)
class Performative:
    """Base of all performatives.

    Attributes:
        CODE: the descriptor.
        KINDS: the AMQP type of each field.
        REQUIRED: positions that must not be null.
    """

    CODE: ClassVar[int]
    KINDS: ClassVar[tuple[type, ...]]
    REQUIRED: ClassVar[tuple[int, ...]] = ()

    def encode(self) -> bytes:
        """The performative as bytes, all fields written."""
        values = [
            _to_wire(kind, getattr(self, field.name)) for field, kind in zip(fields(self), self.KINDS, strict=True)
        ]
        return encode(Described(ULong(self.CODE), values))

    @classmethod
    def of(cls: type[P], values: list[Any]) -> P:
        """The performative with these field values.

        Raises:
            DecodeError: too many fields, a required one is missing, or one has the wrong type.
        """
        names = [field.name for field in fields(cls)]
        if len(values) > len(names):
            raise DecodeError(f"{cls.__name__.lower()} has {len(values)} fields, at most {len(names)} are defined")
        values = values + [None] * (len(names) - len(values))
        if missing := [names[i] for i in cls.REQUIRED if values[i] is None]:
            raise DecodeError(f"{cls.__name__.lower()} lacks {', '.join(missing)}")
        self = cls.__new__(cls)
        for field, kind, value in zip(fields(cls), cls.KINDS, values, strict=True):
            setattr(self, field.name, _from_wire(cls, field.name, kind, value))
        return self


def _to_wire(kind: type, value: Any) -> Any:
    if kind is Symbols:
        return Array.of(Symbol, *value) if value else None
    if value is None or kind in (Anything, bool, bytes, dict):
        return value
    return kind(value)


def _from_wire(owner: type, name: str, kind: type, value: Any) -> Any:
    if kind is Symbols:
        items = value.items if isinstance(value, Array) else () if value is None else (value,)
        if all(isinstance(item, str) for item in items):
            return tuple(str(item) for item in items)
    elif value is None or kind is Anything:
        return value
    elif kind in _BITS:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << _BITS[kind]:
            return int(value)
    elif isinstance(value, str if kind is Symbol else kind):
        return str(value) if kind in (str, Symbol) else value
    raise DecodeError(f"{owner.__name__.lower()}.{name} is {type(value).__name__}, expected {kind.__name__}")


@dataclass(slots=True)
class Open(Performative):
    """Opens a connection."""

    CODE = 0x10
    KINDS = (str, str, UInt, UShort, UInt, Symbols, Symbols, Symbols, Symbols, dict)
    REQUIRED = (0,)
    container_id: str
    hostname: str | None = None
    max_frame_size: int | None = None
    channel_max: int | None = None
    idle_time_out: int | None = None
    outgoing_locales: tuple[str, ...] = ()
    incoming_locales: tuple[str, ...] = ()
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Begin(Performative):
    """Begins a session."""

    CODE = 0x11
    KINDS = (UShort, UInt, UInt, UInt, UInt, Symbols, Symbols, dict)
    REQUIRED = (1, 2, 3)
    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int | None = None
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Attach(Performative):
    """Attaches a link. ``role`` is False for a sender, True for a receiver."""

    CODE = 0x12
    KINDS = (
        str,
        UInt,
        bool,
        UByte,
        UByte,
        Anything,
        Anything,
        Anything,
        bool,
        UInt,
        ULong,
        Symbols,
        Symbols,
        dict,
    )
    REQUIRED = (0, 1, 2)
    name: str
    handle: int
    role: bool
    snd_settle_mode: int | None = None
    rcv_settle_mode: int | None = None
    source: Any = None
    target: Any = None
    unsettled: Any = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Flow(Performative):
    """Updates a session's window and, with a handle, a link's credit."""

    CODE = 0x13
    KINDS = (UInt, UInt, UInt, UInt, UInt, UInt, UInt, UInt, bool, bool, dict)
    REQUIRED = (1, 2, 3)
    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool | None = None
    echo: bool | None = None
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Transfer(Performative):
    """Carries a message or a part of one; the payload follows it in the frame."""

    CODE = 0x14
    KINDS = (UInt, UInt, bytes, UInt, bool, bool, UByte, Anything, bool, bool, bool)
    REQUIRED = (0,)
    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: int | None = None
    state: Any = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


@dataclass(slots=True)
class Disposition(Performative):
    """The state of a range of deliveries."""

    CODE = 0x15
    KINDS = (bool, UInt, UInt, bool, Anything, bool)
    REQUIRED = (0, 1)
    role: bool
    first: int
    last: int | None = None
    settled: bool | None = None
    state: Any = None
    batchable: bool | None = None


@dataclass(slots=True)
class Detach(Performative):
    """Detaches a link."""

    CODE = 0x16
    KINDS = (UInt, bool, Anything)
    REQUIRED = (0,)
    handle: int
    closed: bool | None = None
    error: Any = None


@dataclass(slots=True)
class End(Performative):
    """Ends a session."""

    CODE = 0x17
    KINDS = (Anything,)
    error: Any = None


@dataclass(slots=True)
class Close(Performative):
    """Closes a connection."""

    CODE = 0x18
    KINDS = (Anything,)
    error: Any = None


@dataclass(slots=True)
class SaslMechanisms(Performative):
    """The mechanisms that the server offers."""

    CODE = 0x40
    KINDS = (Symbols,)
    mechanisms: tuple[str, ...]


@dataclass(slots=True)
class SaslInit(Performative):
    """The mechanism that the client chose."""

    CODE = 0x41
    KINDS = (Symbol, bytes, str)
    REQUIRED = (0,)
    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@dataclass(slots=True)
class SaslOutcome(Performative):
    """The result: code 0 is success, 1 a refused credential."""

    CODE = 0x44
    KINDS = (UByte, bytes)
    REQUIRED = (0,)
    code: int
    additional_data: bytes | None = None


AMQP: dict[int, type[Performative]] = {
    kind.CODE: kind for kind in (Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close)
}
SASL: dict[int, type[Performative]] = {SaslInit.CODE: SaslInit}

ACCEPTED = Described(ULong(0x24), [])
"""The outcome of an accepted delivery."""


def rejected(error: AmqpError) -> Described:
    """The outcome of a rejected delivery."""
    return Described(ULong(0x25), [error_value(error)])


def error_value(error: AmqpError) -> Described:
    """An AMQP error: condition, description, info; always three entries."""
    return Described(ULong(0x1D), [Symbol(error.condition), error.description, None])


def parse(body: bytes, known: dict[int, type[Performative]] = AMQP) -> tuple[Performative, int]:
    """Reads the performative at the start of a frame body.

    Returns:
        The performative, and the start of the payload.

    Raises:
        DecodeError: the body does not start with a performative that is expected here.
    """
    value, end = decode(body)
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError("a frame must start with a performative, that is a described list")
    kind = known.get(value.descriptor) if isinstance(value.descriptor, int) else None
    if kind is None:
        raise DecodeError(f"a frame with performative {value.descriptor!r} is not expected here")
    return kind.of(value.value), end


def address_of(terminus: Any) -> str | None:
    """The address of a source or target, or None."""
    if isinstance(terminus, Described) and isinstance(terminus.value, list) and terminus.value:
        address = terminus.value[0]
        return str(address) if isinstance(address, str) else None
    return None


def selector_of(source: Any) -> str | None:
    """The selector filter of a source, or None.

    Raises:
        DecodeError: the selector is not text.
    """
    if not isinstance(source, Described) or not isinstance(source.value, list) or len(source.value) < 8:
        return None
    filters = source.value[7]
    found = filters.get("apache.org:selector-filter:string") if isinstance(filters, dict) else None
    if isinstance(found, Described):
        found = found.value
    if found is None:
        return None
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    if not isinstance(found, str):
        raise DecodeError(f"the selector filter is {type(found).__name__}, expected a string")
    return str(found)


def full_terminus(terminus: Any, code: int, size: int) -> Described:
    """A source (0x28, 11 fields) or target (0x29, 7 fields) to echo: never null, every field written."""
    values = terminus.value if isinstance(terminus, Described) and isinstance(terminus.value, list) else []
    return Described(ULong(code), (values + [None] * size)[:size])
