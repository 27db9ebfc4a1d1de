"""The compiled decoder: encoded AMQP messages to Arrow buffers.

This module only binds its C functions. They do not check addresses: memory at an address must have the given size, and
must not move during the call.
"""

import ctypes
from array import array
from collections.abc import Callable
from pathlib import Path

INTERFACE = 3  # of the library that this module knows
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
for _function in (_scan, _join, _measure, _fill):
    _function.restype = ctypes.c_int64
