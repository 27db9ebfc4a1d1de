"""Runtime metrics of a receiver: the last event of the partition when the hub sent an event.

If a reader requests them, each event carries them as delivery annotations, about 155 bytes. So they are requested only
for handlers that need them (`processing.runtimeMetrics`). Lag is not measured with them: a request on the management
link costs 0.22 ms for any number of events, and is answered while no events arrive.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

CAPABILITY = "com.microsoft:enable-receiver-runtime-metric"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LastEnqueued:
    """The last event of the partition when the hub sent an event.

    Attributes:
        sequence_number: Its sequence number.
        offset: An opaque text of the hub.
        enqueued_time: When the hub received it, UTC.
        retrieval_time: When the hub read these values, UTC.
    """

    sequence_number: int
    offset: str
    enqueued_time: datetime
    retrieval_time: datetime


def last_enqueued(annotations: Mapping[Any, Any] | None) -> LastEnqueued | None:
    """Parse the delivery annotations of an event; None if they have no valid runtime metrics.

    Args:
        annotations: Decoded: names and the offset are bytes, times are milliseconds since 1970.
    """
    try:
        found = annotations or {}
        return LastEnqueued(
            int(found[b"last_enqueued_sequence_number"]),
            found[b"last_enqueued_offset"].decode(),
            _time(found[b"last_enqueued_time_utc"]),
            _time(found[b"runtime_info_retrieval_time_utc"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
