"""User code: the class that a user writes and its parts, loading it, giving it events, and dead letters."""

from eventconsumer_processor.handler.api import (
    Batch,
    CloseReason,
    Event,
    EventProcessor,
    PartitionContext,
    Position,
    RejectEvents,
    TryAgain,
)

__all__ = [
    "Batch",
    "CloseReason",
    "Event",
    "EventProcessor",
    "PartitionContext",
    "Position",
    "RejectEvents",
    "TryAgain",
]
