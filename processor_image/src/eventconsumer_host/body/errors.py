"""Errors of the bodies in the files that this host commits: counts for metrics and report, never a value."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pyarrow.compute as pc

from eventconsumer_api.wire.file_columns import ERROR
from eventconsumer_api.wire.host_report import BODY_ERRORS_MAX, BodyErrorReport
from eventconsumer_host.source.batch import EventBatch

REPORTED = timedelta(minutes=10)
"""How long an error is reported after the last file with it."""
DIFFERENT_MAX = 1000
"""Errors that are counted one by one: bodies of a hostile publisher may have as many as there are events."""


def count(batches: Sequence[EventBatch]) -> tuple[int, Counter[str]]:
    """How many events have an error, and how many have each of the first `DIFFERENT_MAX` errors. Takes CPU time."""
    total, counts = 0, Counter[str]()
    for batch in batches:
        if batch.typed is not None:
            found = batch.typed.column(ERROR.name).drop_null()
            total += len(found)
            for pair in pc.value_counts(found).to_pylist() if len(found) else ():
                if pair["values"] in counts or len(counts) < DIFFERENT_MAX:
                    counts[pair["values"]] += pair["counts"]
    return total, counts


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
