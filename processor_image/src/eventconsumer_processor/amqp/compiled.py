"""The compiled decoder, which is optional, and its search for runs of deliveries; see also `compiledcolumns`.

Arrow is not imported here: connections also serve programs that only query a few numbers.
"""

import ctypes
from array import array
from functools import cache
from importlib import import_module
from types import ModuleType

import structlog

from eventconsumer_processor.amqp import transfers
from eventconsumer_processor.amqp.transfers import Shape

log = structlog.get_logger()
_NO_STOPS = array("q")


@cache
def find() -> ModuleType | None:
    """The compiled decoder; None if it is not installed, or if it cannot be loaded, which is logged."""
    try:
        return import_module("eventconsumer_decoder")
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        log.warning("the compiled decoder is not used", error=str(error))
        return None


def kind() -> str:
    """Which decoder is used: "compiled" or "python"."""
    return "compiled" if find() else "python"


class Runs(transfers.Runs):
    """The same as `transfers.Runs`, compiled; see `find`."""

    def __init__(self, buffer: bytearray, most: int) -> None:
        super().__init__(buffer, most)
        self._scan = library().scan
        self._bytes = ctypes.c_char.from_buffer(buffer)  # this reference keeps the buffer at its address
        self._address = ctypes.addressof(self._bytes)
        self._stops = array("q", bytes(len(buffer)))  # a frame has at least eight bytes

    def find(self, shape: Shape, pos: int, end: int) -> "array[int]":
        """See `transfers.Runs`."""
        if end - pos < shape.size:
            return _NO_STOPS
        stops = self._stops
        found = self._scan(
            self._address + pos, end - pos, head=shape.head, mask=shape.mask, most=self._most, stops=stops
        )
        return stops[:found]


def library() -> ModuleType:
    """The compiled decoder.

    Raises:
        ImportError: It is not available, see `find`.
    """
    decoder = find()
    if decoder is None:
        raise ImportError("the compiled decoder is not installed")
    return decoder
