"""Values of many messages, by where they are: to Arrow arrays without an object for each."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventconsumer_processor.amqp.codec import decode, skip
from eventconsumer_processor.amqp.layout import INTEGERS, TEXTS, Messages, Positions
from eventconsumer_processor.source import columns
from eventconsumer_processor.source.rows import Kind

LONG_BYTES = 512  # of values on average, from which on they are copied one by one
_WIDE_TEXT, _WIDTHS = 0xB0, {0x54: 1, 0x55: 1, 0x71: 4, 0x81: 8, 0x83: 8}
_IS_TEXT, _IS_INTEGER = (np.isin(np.arange(256), codes) for codes in (TEXTS, INTEGERS))


class Values:
    """What is in messages; positions are those of the values' types, and rise."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def binaries(self, at: Positions) -> pa.BinaryArray:
        """Binaries."""
        return self._gather(*self._inside(at))

    def _inside(self, at: Positions) -> tuple[Positions, Positions]:
        """Where texts or binaries start and stop, without type and length."""
        wide = self._messages.u8[at] >= _WIDE_TEXT
        if not wide.any():
            start = at + 2
            return start, start + self._messages.size(at + 1, 1)
        size = np.where(wide, self._messages.size(at + 1, 4), self._messages.size(at + 1, 1))
        start = at + np.where(wide, 5, 2)
        return start, start + size

    def _gather(self, start: Positions, stop: Positions) -> pa.BinaryArray:
        """The bytes of each stretch; the stretches rise.

        Short ones: what is between two stretches is taken for a value as well, so nothing is copied before the one copy
        that leaves it out.
        """
        count = len(start)
        if not count:
            return pa.array([], pa.binary())
        if int((stop - start).sum()) >= LONG_BYTES * count:
            return self._copy(start, stop)
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2], offsets[1::2], offsets[-1] = start, stop, stop[-1]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._messages.raw)]
        both = pa.BinaryArray.from_buffers(pa.binary(), 2 * count, buffers)
        return both.take(pa.array(np.arange(0, 2 * count, 2)))

    def _copy(self, start: Positions, stop: Positions) -> pa.BinaryArray:
        """The same for long stretches, into memory that is allocated once: Arrow's own `take` lets it grow."""
        offsets = np.zeros(len(start) + 1, np.int32)
        np.cumsum(stop - start, out=offsets[1:])
        data = pa.allocate_buffer(int(offsets[-1]))
        with memoryview(data).cast("B") as target, memoryview(self._messages.raw) as raw:
            end = 0
            for first, last in zip(start.tolist(), stop.tolist(), strict=True):
                begin, end = end, end + last - first
                target[begin:end] = raw[first:last]
        return pa.BinaryArray.from_buffers(pa.binary(), len(start), [None, pa.py_buffer(offsets), data])

    def integers(self, at: Positions) -> npt.NDArray[np.int64]:
        """Integers and times."""
        codes = self._messages.u8[at]
        found = np.zeros(len(at), np.int64)
        for code, width in _WIDTHS.items():
            mask = codes == code
            if mask.all():
                return self._messages.number(at + 1, width)
            if mask.any():
                found[mask] = self._messages.number(at[mask] + 1, width)
        return found

    def texts(self, at: Positions) -> tuple[pa.StringArray, npt.NDArray[np.uint8]]:
        """Values as texts, and what they are; the positions rise.

        Raises:
            pyarrow.ArrowInvalid: One of them is no UTF-8.
        """
        codes = self._messages.u8[at]
        kinds = np.zeros(len(at), np.uint8)
        is_text = _IS_TEXT[codes]
        if is_text.all():
            return self._gather(*self._inside(at)).cast(pa.string()), kinds
        start, stop = self._inside(at)
        texts = self._gather(np.where(is_text, start, at), np.where(is_text, stop, at)).cast(pa.string())
        is_integer = _IS_INTEGER[codes]
        if is_integer.any():
            numbers = pa.array(self.integers(at[is_integer])).cast(pa.string())
            texts = pc.replace_with_mask(texts, pa.array(is_integer), numbers)
            kinds[is_integer] = Kind.INTEGER
        is_other = ~(is_text | is_integer)
        if is_other.any():
            raw = self._messages.raw
            others = [columns.entry(_value(raw, int(pos))) for pos in at[is_other]]
            texts = pc.replace_with_mask(texts, pa.array(is_other), pa.array([text for text, _ in others], pa.string()))
            kinds[is_other] = [kind for _, kind in others]
        return texts, kinds


def _value(raw: bytearray, pos: int) -> Any:
    encoded = bytes(raw[pos : skip(raw, pos, len(raw))])
    return decode(encoded, 0, len(encoded))[0]
