"""The frames of a connection, a session and a link: encoding to bytes, decoding to a code and fields."""

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from eventconsumer_host.amqp.codec import (
    NULL,
    FrameError,
    binary,
    boolean,
    composite,
    decode,
    mapping,
    string,
    symbol,
    symbols,
    ubyte,
    uint,
    ushort,
)

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SASL_MECHANISMS, SASL_INIT, _SASL_CHALLENGE, _SASL_RESPONSE, SASL_OUTCOME = range(0x40, 0x45)

AMQP_HEADER, SASL_HEADER = b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"
EMPTY_FRAME = b"\x00\x00\x00\x08\x02\x00\x00\x00"  # the heartbeat
UNSETTLED, SETTLED = 0, 1  # sender settle modes
_HEAD = struct.Struct(">IBBH")
_MAX_NUMBER = 0xFFFFFFFF  # handles, ids, counts, windows and times are uint: OASIS, AMQP 1.0, section 2.7


def frame(body: bytes, kind: int = 0) -> bytes:
    """A frame on channel 0; of kind 1 in the SASL layer."""
    return _HEAD.pack(len(body) + 8, 2, kind, 0) + body


def sasl_anonymous(host: str) -> bytes:
    """Anonymous SASL: a token follows."""
    return frame(composite(SASL_INIT, symbol("ANONYMOUS"), binary(b""), string(host)), kind=1)


def open_connection(container: str, host: str, max_frame_size: int, idle_ms: int) -> bytes:
    """Open a connection; the peer must send a frame at least every `idle_ms` milliseconds."""
    properties = mapping([(symbol("product"), string("eventconsumer"))])
    return frame(
        composite(
            OPEN,
            string(container),
            string(host),
            uint(max_frame_size),
            ushort(0),
            uint(idle_ms),
            *[NULL] * 4,
            properties,
        )
    )


def begin(window: int, handle_max: int) -> bytes:
    """Begin the session."""
    return frame(composite(BEGIN, NULL, uint(0), uint(window), uint(window), uint(handle_max)))


class Terminus(NamedTuple):
    """One end of a link."""

    address: str
    selector: str | None = None

    def encode(self, code: int) -> bytes:
        """The source (0x28) or target (0x29)."""
        if self.selector is None:
            return composite(code, string(self.address))
        name = symbol("apache.org:selector-filter:string")
        filters = mapping([(name, b"\x00" + name + string(self.selector))])
        return composite(code, string(self.address), *[NULL] * 6, filters)


def attach(
    name: str,
    handle: int,
    *,
    receives: bool,
    source: Terminus,
    target: Terminus,
    settle_mode: int = UNSETTLED,
    capabilities: tuple[str, ...] = (),
    properties: Mapping[str, bytes] | None = None,
) -> bytes:
    """Attach a link; `properties` are encoded values by name."""
    return frame(
        composite(
            ATTACH,
            string(name),
            uint(handle),
            boolean(receives),
            ubyte(settle_mode),
            ubyte(0),  # settled on arrival
            source.encode(0x28),
            target.encode(0x29),
            NULL,
            NULL,
            NULL if receives else uint(0),
            NULL,
            NULL,
            symbols(*capabilities),
            mapping((symbol(key), value) for key, value in properties.items()) if properties else NULL,
        )
    )


def flow(next_incoming: int, window: int, next_outgoing: int, link: tuple[int, int, int] | None = None) -> bytes:
    """The session's windows, and with `link` (handle, delivery count, credit) a link's credit."""
    of_link = [uint(number) for number in link] if link else [NULL] * 3
    return frame(
        composite(
            FLOW,
            uint(next_incoming),
            uint(window),
            uint(next_outgoing),
            uint(window),
            *of_link,
            NULL,
            NULL,
            boolean(False),
        )
    )


def transfer(handle: int, delivery: int, payload: bytes) -> bytes:
    """A complete message, unsettled."""
    fields = (
        uint(handle),
        uint(delivery),
        binary(delivery.to_bytes(4, "big")),
        uint(0),
        boolean(False),
        boolean(False),
    )
    return frame(composite(TRANSFER, *fields) + payload)


def accept(delivery: int) -> bytes:
    """A received message is accepted."""
    return frame(composite(DISPOSITION, boolean(True), uint(delivery), uint(delivery), boolean(True), composite(0x24)))


def detach(handle: int) -> bytes:
    """Close a link."""
    return frame(composite(DETACH, uint(handle), boolean(True)))


def close() -> bytes:
    """Close the connection."""
    return frame(composite(CLOSE))


class Fields:
    """The fields of a performative by position; missing fields are null.

    All methods raise FrameError if a field has another type.
    """

    def __init__(self, code: int, values: list[Any]) -> None:
        self.code = code
        self._values = values

    def __getitem__(self, index: int) -> Any:
        return self._values[index] if index < len(self._values) else None

    def number(self, index: int, default: int | None = None) -> int:
        """A number of 32 bits without a sign; required without a default."""
        value = self[index]
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_NUMBER:
            raise FrameError(f"field {index} of performative {self.code:#04x} is not a number of 32 bits")
        return value

    def text(self, index: int) -> str:
        """A string or symbol; empty if it is null."""
        value = self[index]
        if value is not None and not isinstance(value, bytes):
            raise FrameError(f"field {index} of performative {self.code:#04x} is not text")
        return (value or b"").decode(errors="replace")

    def error(self, index: int) -> tuple[str, str]:
        """Condition and description of an error; both empty if there is none."""
        value = self[index]
        if not isinstance(value, list):
            return "", ""
        error = Fields(self.code, value)
        return error.text(0), error.text(1)


def parse(data: bytes) -> tuple[Fields, int]:
    """The performative at the start of a frame's body, and the position of the payload.

    Raises:
        FrameError: There is none.
    """
    if data[:1] != b"\x00":
        raise FrameError("a frame does not start with a performative")
    code, pos = decode(data, 1, len(data))
    values, pos = decode(data, pos, len(data))
    if not isinstance(code, int) or not isinstance(values, list):
        raise FrameError("a frame does not start with a performative")
    return Fields(code, values), pos
