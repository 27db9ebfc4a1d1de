"""Messages to columns, straight from their bytes.

The compiled decoder, if installed, decodes all messages that it supports (see `compiledcolumns`). Other messages, and
all messages without it, are decoded one by one (`messages`, `source.columns`). Both decoders give the same columns for
the same bytes.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eventconsumer_processor.amqp import compiled, compiledcolumns
from eventconsumer_processor.amqp.codec import FrameError
from eventconsumer_processor.amqp.messages import decode_message
from eventconsumer_processor.amqp.wire import Deliveries, messages_of
from eventconsumer_processor.source import columns
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.rows import EventRows


def decode(pieces: Sequence[Deliveries]) -> EventBatch:
    """The columns of the messages of one partition, in the order of arrival.

    Raises:
        FrameError: One of them is not a valid message, or has no sequence number.
    """
    if compiled.find() is None:
        return by_rows(messages_of(pieces))
    batch, left = compiledcolumns.decode(pieces)
    if batch is None:
        return by_rows(messages_of(pieces))
    if not len(left):
        return batch
    encoded = messages_of(pieces)
    others = by_rows([encoded[index] for index in left.tolist()])
    taken = np.delete(np.arange(len(encoded)), left)
    order = np.argsort(np.concatenate([taken, left]))
    return EventBatch(pa.concat_batches([batch.columns, others.columns]).take(pa.array(order)))


def by_rows(payloads: Sequence[bytes]) -> EventBatch:
    """The same, one message after the other, for messages of any form.

    Raises:
        FrameError: One of them is not a valid message, or has no sequence number.
    """
    rows = EventRows()
    try:
        for payload in payloads:
            columns.append(rows, decode_message(payload))
        return EventBatch.of(rows)
    except FrameError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:  # Arrow's types use these
        raise FrameError(f"an event's annotations or body have an unexpected form: {error!r}") from None
