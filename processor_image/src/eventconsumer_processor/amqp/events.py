"""Messages to columns, straight from their bytes.

Where the compiled decoder is installed, it takes all that it knows (see `compiledcolumns`). Of the others, and of all
without it, messages of one layout become columns together: values are gathered by where they are, not one by one (see
`layout`). Few messages, and those that no layout fits, go through `messages` and `source.columns`, which know every
shape. All three give the same columns for the same bytes.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eventconsumer_processor.amqp import compiled, compiledcolumns
from eventconsumer_processor.amqp.codec import FrameError
from eventconsumer_processor.amqp.deliveries import Deliveries, messages_of
from eventconsumer_processor.amqp.layout import NULL, Layout, Messages, Positions
from eventconsumer_processor.amqp.learner import KEY, NUMBER, OFFSET, TIME, learn
from eventconsumer_processor.amqp.messages import decode_message
from eventconsumer_processor.amqp.values import Values
from eventconsumer_processor.source import columns
from eventconsumer_processor.source.batch import COLUMNS, EventBatch, sizes_of
from eventconsumer_processor.source.rows import EventRows

FEW = 24  # messages that are faster one by one
LAYOUTS = 8  # that are remembered
LEARNT = 4  # in one batch, at most

_SINGLE = ("message_id", "correlation_id", "content_type")  # fields that are columns


class Decoder:
    """Makes batches of messages; it remembers the layouts that it saw, so each partition has its own."""

    def __init__(self) -> None:
        self._layouts: list[Layout] = []  # the last one that fitted is the first

    def batch(self, pieces: Sequence[Deliveries]) -> EventBatch:
        """The columns of the messages of one partition, in the order they came.

        Raises:
            FrameError: One of them is no message, or has no sequence number.
        """
        parts: list[tuple[Positions, EventBatch]] = []
        left = every = np.arange(sum(map(len, pieces)))
        if compiled.find() is not None:
            batch, left = compiledcolumns.decode(pieces)
            if batch is not None:
                parts.append((np.delete(every, left), batch))
        if len(left) or not len(every):
            self._interpret(pieces, left, parts)
        return _in_order(parts)

    def _interpret(
        self, pieces: Sequence[Deliveries], left: Positions, parts: list[tuple[Positions, EventBatch]]
    ) -> None:
        """Add some of the messages to `parts`, by Python."""
        if len(left) < FEW:
            encoded = messages_of(pieces)
            parts.append((left, by_rows([encoded[index] for index in left.tolist()])))
            return
        with Messages(pieces) as messages:
            for layout in tuple(self._layouts):
                left = self._take(messages, layout, left, parts)
            for _ in range(LEARNT):
                if len(left) >= FEW and (new := learn(messages.message(int(left[0])))) is not None:
                    left = self._take(messages, new, left, parts)
            if len(left):
                parts.append((left, by_rows([messages.message(index) for index in left.tolist()])))

    def _take(
        self, messages: Messages, layout: Layout, left: Positions, parts: list[tuple[Positions, EventBatch]]
    ) -> Positions:
        """Add the messages of a layout to `parts`; those that are left."""
        if not len(left):
            return left
        fits, slots = layout.find(messages, left)
        if not slots:
            return left
        try:
            parts.append((left[fits], _Columns(messages, layout, slots).batch()))
        except pa.ArrowInvalid:  # a text is no UTF-8
            return left
        if self._layouts[:1] != [layout]:
            self._layouts = [layout, *(other for other in self._layouts if other is not layout)][:LAYOUTS]
        return left[~fits]


def by_rows(payloads: Sequence[bytes]) -> EventBatch:
    """The same, one message after the other: any shape.

    Raises:
        FrameError: One of them is no message, or has no sequence number.
    """
    rows = EventRows()
    try:
        for payload in payloads:
            columns.append(rows, decode_message(payload))
        return EventBatch.of(rows)
    except FrameError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:  # Arrow's are of these
        raise FrameError(f"an event's annotations or body are not what Event Hubs sends: {error!r}") from None


def _in_order(parts: list[tuple[Positions, EventBatch]]) -> EventBatch:
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([indices for indices, _ in parts]))
    return EventBatch(pa.concat_batches([batch.columns for _, batch in parts]).take(pa.array(order)))


class _Columns:
    """The columns of messages that have one layout.

    Args:
        messages: Where they are.
        layout: What they have.
        slots: The slots' positions.
    """

    def __init__(self, messages: Messages, layout: Layout, slots: list[Positions]) -> None:
        self._messages = messages
        self._values = Values(messages)
        self._layout = layout
        self._slots = slots
        self._rows = len(slots[0])

    def batch(self) -> EventBatch:
        """All columns, as `batch.COLUMNS` has them."""
        layout, slots = self._layout, self._slots
        annotations = dict(layout.annotations)
        number, offset, time = (slots[annotations.pop(name)] for name in (NUMBER, OFFSET, TIME))
        key = annotations.pop(KEY, None)
        fields = {name: slot for name, slot in layout.fields.items() if name not in _SINGLE}
        properties, kinds = self._map(layout.properties)
        system, system_kinds = self._map(annotations, fields)
        single = {name: self._optional(layout.fields.get(name)) for name in _SINGLE}
        found = [
            pa.array(self._values.integers(number)),
            self._values.texts(offset)[0],
            pa.array(self._values.integers(time)).view(pa.timestamp("ms", tz="UTC")),
            pa.nulls(self._rows, pa.string()) if key is None else self._values.texts(slots[key])[0],
            self._values.binaries(slots[layout.body]),
            properties,
            system,
            single["content_type"],
            single["message_id"],
            single["correlation_id"],
            kinds,
            system_kinds,
        ]
        return EventBatch(pa.RecordBatch.from_arrays([*found, sizes_of(found)], schema=COLUMNS))

    def _optional(self, slot: int | None) -> pa.StringArray:
        """Texts, null where the value is."""
        if slot is None:
            return pa.nulls(self._rows, pa.string())
        at = self._slots[slot]
        there = self._messages.u8[at] != NULL
        texts, _ = self._values.texts(at[there])
        if there.all():
            return texts
        return texts.take(pa.array(np.cumsum(there) - 1, mask=~there))

    def _map(self, names: dict[str, int], optional: dict[str, int] | None = None) -> tuple[pa.MapArray, pa.ListArray]:
        """One map per message, and the kinds of its values; what is optional is left out where it is null."""
        every = [*names.items(), *(optional or {}).items()]
        count = self._rows * len(every)
        if not every:
            flat = which = np.zeros(0, np.int64)
            ends = np.zeros(self._rows + 1, np.int32)
        else:
            at = np.stack([self._slots[slot] for _, slot in every], axis=1)
            flat, which = at.ravel(), np.tile(np.arange(len(every)), self._rows)
            ends = np.arange(0, count + 1, len(every), dtype=np.int32)
        if optional:
            there = (self._messages.u8[flat] != NULL) | (which < len(names))
            flat, which = flat[there], which[there]
            ends = np.concatenate(([0], np.cumsum(there)))[ends].astype(np.int32)
        texts, kinds = self._values.texts(flat)
        keys = pa.array([name for name, _ in every], pa.string()).take(pa.array(which))
        return (
            pa.MapArray.from_arrays(pa.array(ends), keys, texts),
            pa.ListArray.from_arrays(pa.array(ends), pa.array(kinds)),
        )
