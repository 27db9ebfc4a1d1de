"""Replay of retained events."""

from pydantic import AwareDatetime, Field

from eventconsumer_api.shared.model import Model, told
from eventconsumer_api.spec.scalars import ConsumerGroupName, PartitionId


class Replay(Model):
    """Read retained events again, into separate files.

    A new name is a new replay, and the same one never runs twice. Its files are in
    `<sink.prefix>/_replays/<name>`, with separate chains, so the consumer's own files are not changed.
    """

    name: str = Field(
        min_length=1,
        max_length=20,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        json_schema_extra=told("use at most 20 lower-case letters, digits and hyphens, such as again-1"),
        description="Name of this replay. A new name starts a new replay.",
    )
    consumer_group: ConsumerGroupName = Field(description="Consumer group of the replay; not the consumer's own.")
    from_: AwareDatetime | None = Field(
        default=None, alias="from", description="Events enqueued at or after this time. Absent: all retained events."
    )
    to: AwareDatetime | None = Field(
        default=None, description="Events enqueued before this time. Absent: all events present when the replay starts."
    )
    partitions: list[PartitionId] = Field(default=[], max_length=1024, description="Partition ids. Empty: all.")
