"""The compiled decoder: encoded AMQP messages to Arrow buffers.

Only the binding of its C functions. They take addresses and trust them: memory at an address must be as large as is
said, and stay where it is during the call.
"""

import ctypes
from array import array
from collections.abc import Callable
from pathlib import Path

INTERFACE = 1  # of the library that this module knows
TEXTS, MAPS = 10, 2  # columns

_LIBRARY = Path(__file__).with_name("libeventconsumer_decoder.so")
_PANICKED, _TOO_LARGE = -1, -2


class Pieces(ctypes.Structure):
    """Where encoded messages are.

    Attributes:
        pieces: Address of five numbers of 64 bits for each piece: the address of its bytes, how many these are, how
            many of them are before each message, the address of where the messages end, and how many these are. Where
            they end are numbers of 64 bits that rise.
        count: How many pieces.
        fits: Address of one byte for each message: whether it can be decoded here.
        messages: How many there are in all pieces.
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
        messages: How many fit.
        total: Bytes of all regions.
        values: Of each column of texts: offset, partition key, body, content type, message id, correlation id, the
            names and the values of the application properties, and those of the system properties.
        nulls: How many of these are null.
        regions: Bytes of each. They follow each other, padded to 64 bytes: sequence numbers, times and sizes; for each
            column of texts its bitmap (nothing where none is null), ends and data; for each of the two columns of maps
            its ends and the kinds of the values.
    """

    _fields_ = (
        ("messages", ctypes.c_size_t),
        ("total", ctypes.c_size_t),
        ("values", ctypes.c_size_t * TEXTS),
        ("nulls", ctypes.c_size_t * TEXTS),
        ("regions", ctypes.c_size_t * (3 + 3 * TEXTS + 2 * MAPS)),
    )


def scan(data: bytes | int, size: int, *, head: bytes, mask: bytes, most: int, stops: "array[int]") -> int:
    """Find frames that follow each other.

    Args:
        data: Bytes, or their address; the first frame begins there.
        size: How many there are.
        head: How each frame begins: four bytes for its size, which differ, and those that are compared.
        mask: Which bits of these are compared.
        most: Bytes of the longest frame.
        stops: Of type "q": gets the end of each frame, until it is full.

    Returns:
        How many whole frames like that there are.

    Raises:
        ValueError: The arguments do not belong together.
    """
    if len(head) != len(mask) or stops.typecode != "q" or (isinstance(data, bytes) and size > len(data)):
        raise ValueError("the arguments of the compiled decoder do not belong together")
    address, capacity = stops.buffer_info()
    return _checked(_scan(data, size, head, mask, len(head), most, address, capacity))


def measure(pieces: Pieces, sizes: Sizes) -> None:
    """Find out which messages can be decoded here, and what memory their columns need.

    Raises:
        ValueError: The positions of the messages do not rise, or reach beyond their bytes.
        OverflowError: A column would be larger than Arrow's may be.
    """
    _checked(_measure(pieces, sizes))


def fill(pieces: Pieces, sizes: Sizes, address: int, size: int) -> None:
    """Write the columns.

    Args:
        pieces: As they were measured.
        sizes: What was measured.
        address: Where they are written to.
        size: How many bytes are there.

    Raises:
        ValueError: It is not what was measured.
    """
    _checked(_fill(pieces, sizes, address, size))


def _checked(found: int) -> int:
    if found >= 0:
        return found
    if found == _PANICKED:
        raise RuntimeError("the compiled decoder failed")
    if found == _TOO_LARGE:
        raise OverflowError("the messages are too large for one batch")
    raise ValueError("the arguments of the compiled decoder do not belong together")


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
_scan = _loaded(ctypes.PyDLL).scan  # keeps the interpreter: to get it back may take longer than the scan
_address, _size = ctypes.c_void_p, ctypes.c_size_t
_scan.argtypes = (_address, _size, _address, _address, _size, ctypes.c_uint64, _address, _size)
_measure.argtypes = (ctypes.POINTER(Pieces), ctypes.POINTER(Sizes))
_fill.argtypes = (ctypes.POINTER(Pieces), ctypes.POINTER(Sizes), _address, _size)
for _function in (_scan, _measure, _fill):
    _function.restype = ctypes.c_int64
