"""Errors of the bodies in the files that this host commits: counts for metrics and report, never a value."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from eventconsumer_api.wire.file_columns import ERROR
from eventconsumer_api.wire.host_report import BODY_ERRORS_MAX, BodyErrorReport
from eventconsumer_host.source.batch import EventBatch

REPORTED = timedelta(minutes=10)
"""How long an error is reported after the last file with it."""


def count(batches: Sequence[EventBatch]) -> Counter[str]:
    """How many events have each error. Takes CPU time if there are any."""
    columns = [batch.typed.column(ERROR.name) for batch in batches if batch.typed is not None]
    found = [column for column in columns if column.null_count < len(column)]
    if not found:
        return Counter()
    pairs = pc.value_counts(pc.drop_null(pa.chunked_array(found)))
    return Counter({pair["values"]: pair["counts"] for pair in pairs.to_pylist()})


class BodyErrors:
    """The errors of this host's last files, the most recent ones: a hub may have any number of them."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Create; `now` is the wall clock."""
        self._now = now
        self._found: dict[str, BodyErrorReport] = {}  # by error; the one of the newest file is the last

    def note(self, errors: Counter[str], file: str) -> None:
        """Note what a committed file has."""
        self._forget()
        for error, events in errors.most_common(BODY_ERRORS_MAX)[::-1]:
            known = self._found.pop(error, None)
            self._found[error] = BodyErrorReport(
                error=error, events=events + (known.events if known else 0), file=file, committed_at=self._now()
            )
        for error in list(self._found)[:-BODY_ERRORS_MAX]:
            del self._found[error]

    def report(self) -> tuple[BodyErrorReport, ...]:
        """Those of the last minutes, the newest first."""
        self._forget()
        return tuple(self._found.values())[::-1]

    def _forget(self) -> None:
        since = self._now() - REPORTED
        self._found = {error: each for error, each in self._found.items() if each.committed_at > since}
