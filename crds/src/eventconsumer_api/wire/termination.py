"""What a pod that has ended tells the operator, in its termination message: the result of a replay."""

from typing import Annotated

from pydantic import Field

from eventconsumer_api.wire.document import WireDocument

Total = Annotated[int, Field(ge=0, lt=1 << 63)]


class ReplayTotals(WireDocument):
    """A completed replay of events."""

    files: Total
    events: Total


class BatchReplayTotals(WireDocument):
    """A completed replay of batches."""

    batches: Total
    rows: Total
