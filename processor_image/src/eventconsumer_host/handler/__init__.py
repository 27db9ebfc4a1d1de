"""The handler: the class that a user writes, and how the host loads it, calls it and writes dead letters.

`__all__` is the interface for users: the only names of the host that their code imports.
"""

from typing import TYPE_CHECKING

from eventconsumer_host.handler import api
from eventconsumer_host.handler.api import (
    Batch,
    CheckpointError,
    CloseReason,
    Event,
    EventProcessor,
    PartitionContext,
    Position,
    RejectEvents,
    TryAgain,
)

if TYPE_CHECKING:
    from eventconsumer_host.handler.api import Rows

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


def __getattr__(name: str) -> object:
    if name != "Rows":  # see `api`
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return api.Rows
