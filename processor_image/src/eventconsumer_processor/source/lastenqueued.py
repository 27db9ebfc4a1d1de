"""How far a partition's log had come when an event was sent: the receiver's runtime metrics.

A reader may ask the hub for them; then each event carries them as delivery annotations, about 155 bytes. So they are
asked for where a handler wants them (`processing.runtimeMetrics`), and are not what lag is measured by: a question on
the management link costs 0.22 ms, however many events come, and is answered while none does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

CAPABILITY = "com.microsoft:enable-receiver-runtime-metric"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LastEnqueued:
    """The last event that the partition had when it sent one.

    Attributes:
        sequence_number: Its number.
        offset: An opaque text of the hub.
        enqueued_time: When the hub took it, UTC.
        retrieval_time: When the hub looked, UTC.
    """

    sequence_number: int
    offset: str
    enqueued_time: datetime
    retrieval_time: datetime


def last_enqueued(annotations: Mapping[Any, Any] | None) -> LastEnqueued | None:
    """What an event's delivery annotations say; None where they say nothing that can be read.

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
