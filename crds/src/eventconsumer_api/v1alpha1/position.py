"""Starting position of a partition without a checkpoint."""

from enum import StrEnum

from pydantic import AwareDatetime, Field

from eventconsumer_api.shared.model import Model, rules, told
from eventconsumer_api.spec.scalars import NUMBER_MAX, PartitionId


class PositionType(StrEnum):
    """Types of starting positions."""

    EARLIEST = "Earliest"
    LATEST = "Latest"
    ENQUEUED_TIME = "EnqueuedTime"
    OFFSET = "Offset"
    SEQUENCE_NUMBER = "SequenceNumber"


_POSITION_RULES = (
    ("has(self.enqueuedTime) == (self.type == 'EnqueuedTime')", "enqueuedTime is for type: EnqueuedTime, and only it"),
    ("has(self.offset) == (self.type == 'Offset')", "offset is for type: Offset, and only it"),
    (
        "has(self.sequenceNumber) == (self.type == 'SequenceNumber')",
        "sequenceNumber is for type: SequenceNumber, and only it",
    ),
)


class Position(Model):
    """A position in one partition."""

    model_config = rules(*((rule, f"startingPosition: {message}") for rule, message in _POSITION_RULES))

    type: PositionType = Field(
        default=PositionType.EARLIEST,
        description="Earliest (all retained events), Latest, EnqueuedTime, Offset or SequenceNumber.",
    )
    enqueued_time: AwareDatetime | None = Field(
        default=None,
        description="Start at the first event enqueued at or after this time, such as 2026-01-31T00:00:00Z. "
        "If the time has not come, hosts wait for it.",
    )
    offset: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        # Of no quote: the offset is a text in a filter of AMQP. Namespaces with geo-replication have more than digits.
        pattern=r"^[A-Za-z0-9@:._/+=-]+$",
        json_schema_extra=told("use an offset as Event Hubs writes it, such as 4294967296"),
        description="Start after the event with this offset.",
    )
    sequence_number: int | None = Field(
        default=None, ge=0, le=NUMBER_MAX, description="Start at the event with this sequence number."
    )


class StartingPosition(Position):
    """Starting position of partitions without a checkpoint and without drained files."""

    partitions: dict[PartitionId, Position] = Field(
        default={}, max_length=1024, description="Starting positions of single partitions, by partition id."
    )
