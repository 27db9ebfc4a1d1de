"""The handler: the class that a user writes, and how the host loads it, calls it and writes dead letters."""

from eventconsumer_processor.handler.api import (
    Batch,
    CheckpointError,
    CloseReason,
    Event,
    EventProcessor,
    PartitionContext,
    Position,
    RejectEvents,
    Rows,
    TryAgain,
)

__all__ = [
    "Batch",
    "CheckpointError",
    "CloseReason",
    "Event",
    "EventProcessor",
    "PartitionContext",
    "Position",
    "RejectEvents",
    "Rows",
    "TryAgain",
]
