"""The columns of bodies that a host writes: parsed once when events arrive, and kept with them until the commit."""

from collections.abc import Callable, Sequence
from datetime import datetime

import pyarrow as pa

from eventconsumer_host.body import statistics
from eventconsumer_host.body.errors import BodyErrors
from eventconsumer_host.body.record import Entered
from eventconsumer_host.source.batch import EventBatch

Parse = Callable[[pa.BinaryArray], pa.RecordBatch]
"""An array of bodies -> a nullable array for each column of bodies, and `file_columns.ERROR`, with as many rows."""


class TypedBodies:
    """The columns of bodies of one consumer; not empty."""

    def __init__(self, entered: Entered, parse: Parse, now: Callable[[], datetime]) -> None:
        """Create.

        Args:
            entered: The columns, as the record has them.
            parse: Parses bodies.
            now: Wall clock.
        """
        assert entered.of_file is not None  # noqa: S101 - there are columns
        self.of_file = str(entered.of_file)
        self._entered = entered
        self._numbers = entered.of_file.numbers
        self._parse = parse
        self.errors = BodyErrors(now)  # of all partitions

    def typed(self, batch: EventBatch) -> EventBatch:
        """The same events with their typed columns. Takes CPU time: call it in a thread."""
        return batch.with_typed(self._parse(batch.columns.column("body")))

    def statistics(self, batches: Sequence[EventBatch]) -> str:
        """The statistics of a file with these events, see `statistics.statistics`. Takes CPU time."""
        typed = [batch.typed for batch in batches if batch.typed is not None]
        return statistics.statistics(self._entered.columns, self._numbers, typed)
