"""The compiled decoder: encoded AMQP messages, and bodies with JSON, to Arrow buffers.

This module only binds its C functions. They do not check addresses: memory at an address must have the given size, and
must not move during the call.
"""

import ctypes
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

INTERFACE = 4  # of the library that this module knows
TEXTS, MAPS = 10, 2  # columns

_LIBRARY = Path(__file__).with_name("libeventconsumer_decoder.so")
_PANICKED, _TOO_LARGE = -1, -2


class Pieces(ctypes.Structure):
    """The locations of encoded messages.

    Attributes:
        pieces: Address of five 64-bit numbers for each piece: address of its bytes, number of bytes, number of bytes
            before each message, address of the ends of the messages, and number of messages. The ends are rising 64-bit
            numbers.
        count: Number of pieces.
        fits: Address of one byte for each message: whether the decoder supports it.
        messages: Number of messages in all pieces.
    """

    _fields_ = (
        ("pieces", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("fits", ctypes.c_void_p),
        ("messages", ctypes.c_size_t),
    )


class Sizes(ctypes.Structure):
    """The memory that columns need.

    Attributes:
        messages: Number of messages that the decoder supports.
        total: Bytes of all regions.
        values: Number of values of each text column: offset, partition key, body, content type, message id, correlation
            id, names and values of the application properties, names and values of the system properties.
        nulls: Number of null values of each text column.
        regions: Bytes of each region. The regions are consecutive, padded to 64 bytes: sequence numbers, times and
            sizes; for each text column its bitmap (empty if no value is null), ends and data; for each of the two map
            columns its ends and the types of the values.
    """

    _fields_ = (
        ("messages", ctypes.c_size_t),
        ("total", ctypes.c_size_t),
        ("values", ctypes.c_size_t * TEXTS),
        ("nulls", ctypes.c_size_t * TEXTS),
        ("regions", ctypes.c_size_t * (3 + 3 * TEXTS + 2 * MAPS)),
    )


def scan(data: bytes | int, size: int, *, head: bytes, mask: bytes, most: int, stops: "array[int]") -> int:
    """Find consecutive frames with the same head.

    Args:
        data: Bytes, or their address; the first frame begins there.
        size: Number of bytes.
        head: The head of each frame: four bytes for its size, which are not compared, and the compared bytes.
        mask: The bits of the head that are compared.
        most: Maximum size of a frame, bytes.
        stops: Of type "q": receives the end of each frame, until it is full.

    Returns:
        The number of complete frames with this head.

    Raises:
        ValueError: The arguments are inconsistent.
    """
    if len(head) != len(mask) or stops.typecode != "q" or (isinstance(data, bytes) and size > len(data)):
        raise ValueError("inconsistent arguments for the compiled decoder")
    address, capacity = stops.buffer_info()
    return _checked(_scan(data, size, head, mask, len(head), most, address, capacity))


class Place(ctypes.Structure):
    """Positions in a buffer with WebSocket frames, bytes.

    Attributes:
        head: Of the next head.
        end: Behind the payloads without heads, at most `head`.
    """

    _fields_ = (("head", ctypes.c_uint64), ("end", ctypes.c_uint64))


def join(address: int, size: int, place: Place) -> None:
    """Move the payloads of whole binary messages to `place.end`, and `place` behind the last of them.

    Args:
        address: Address of the buffer.
        size: Number of bytes in it.
        place: Changed.

    Raises:
        ValueError: The place is outside of the buffer.
    """
    _checked(_join(address, size, place))


def measure(pieces: Pieces, sizes: Sizes) -> None:
    """Find the supported messages, and the memory that their columns need.

    Raises:
        ValueError: The ends of the messages do not rise, or are outside of their bytes.
        OverflowError: A column would exceed Arrow's maximum size.
    """
    _checked(_measure(pieces, sizes))


def fill(pieces: Pieces, sizes: Sizes, address: int, size: int) -> None:
    """Write the columns.

    Args:
        pieces: The same as for `measure`.
        sizes: The result of `measure`.
        address: Address of the output.
        size: Bytes of the output.

    Raises:
        ValueError: The arguments differ from those of `measure`.
    """
    _checked(_fill(pieces, sizes, address, size))


class Bodies(ctypes.Structure):
    """The bodies of events, as an array of Arrow's.

    Attributes:
        data: Address of their bytes.
        size: Number of bytes.
        ends: Address of 32-bit numbers: where the first body starts, and where each of them ends.
        rows: Number of bodies.
        valid: Address of a bit for each body, which says that it is not null; None: none is.
        first: The bit of the first body.
    """

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("ends", ctypes.c_void_p),
        ("rows", ctypes.c_size_t),
        ("valid", ctypes.c_void_p),
        ("first", ctypes.c_size_t),
    )


NUMBERS = 5
"""Numbers of a column: values; nulls; and the bytes of its regions, which are consecutive and padded to 64 bytes:
bitmap (empty if no value is null), ends or values, and bytes of texts."""


@contextmanager
def parse(plan: bytes, bodies: Bodies, numbers: "array[int]") -> Iterator["Parsed"]:
    """Make columns of bodies.

    Args:
        plan: The columns, as `eventconsumer_host.body.compiled` writes them.
        bodies: The bodies.
        numbers: Of type "Q": receives the numbers of each column, with those of the columns inside of it behind them.

    Raises:
        ValueError: The arguments are inconsistent.
        OverflowError: A column would exceed Arrow's maximum size.
    """
    parsed = ctypes.c_void_p()
    address, count = numbers.buffer_info()
    size = _checked(_body_parse(plan, len(plan), bodies, address, count, parsed))
    try:
        yield Parsed(parsed, size)
    finally:
        _checked(_body_release(parsed))


class Parsed:
    """Columns made of bodies."""

    def __init__(self, parsed: ctypes.c_void_p, size: int) -> None:
        self._parsed = parsed
        self.size = size
        """Bytes of all regions."""

    def write(self, address: int, size: int) -> None:
        """Write the columns to memory of their size.

        Raises:
            ValueError: The memory has another size.
        """
        _checked(_body_write(self._parsed, address, size))


def _checked(found: int) -> int:
    if found >= 0:
        return found
    if found == _PANICKED:
        raise RuntimeError("the compiled decoder failed")
    if found == _TOO_LARGE:
        raise OverflowError("the messages are too large for one batch")
    raise ValueError("inconsistent arguments for the compiled decoder")


def _loaded(load: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    try:
        library = load(str(_LIBRARY))
    except OSError as error:
        raise ImportError(f"the compiled decoder cannot be loaded: {error}") from None
    library.interface.restype = ctypes.c_uint32
    if (found := library.interface()) != INTERFACE:
        raise ImportError(f"{_LIBRARY} has interface {found}, not {INTERFACE}")
    return library


_library = _loaded(ctypes.CDLL)
_measure, _fill = _library.measure, _library.fill
_short = _loaded(ctypes.PyDLL)  # keeps the GIL: reacquiring it may take longer than the call
_scan, _join = _short.scan, _short.join
_address, _size = ctypes.c_void_p, ctypes.c_size_t
_scan.argtypes = (_address, _size, _address, _address, _size, ctypes.c_uint64, _address, _size)
_join.argtypes = (_address, _size, ctypes.POINTER(Place))
_measure.argtypes = (ctypes.POINTER(Pieces), ctypes.POINTER(Sizes))
_fill.argtypes = (ctypes.POINTER(Pieces), ctypes.POINTER(Sizes), _address, _size)
_body_parse, _body_write, _body_release = _library.body_parse, _library.body_write, _library.body_release
_body_parse.argtypes = (_address, _size, ctypes.POINTER(Bodies), _address, _size, ctypes.POINTER(_address))
_body_write.argtypes = (_address, _address, _size)
_body_release.argtypes = (_address,)
for _function in (_scan, _join, _measure, _fill, _body_parse, _body_write, _body_release):
    _function.restype = ctypes.c_int64
