"""What a host does with the events that it receives: batches, the user's handler, checkpoints."""

from enum import StrEnum

from pydantic import Field

from eventconsumer_api.model import Model, rules


class SourceKind(StrEnum):
    """What receives events from the hub."""

    AMQP = "Amqp"
    SDK = "Sdk"


def _is_off(value: bool) -> bool:
    return not value


def _is_default(source: SourceKind) -> bool:
    return source is SourceKind.AMQP


class HandlerMode(StrEnum):
    """What a handler is to the files."""

    PRECEDE = "Precede"
    REPLACE = "Replace"


class CheckpointPolicy(StrEnum):
    """When a checkpoint is written."""

    FILE = "File"
    BATCH = "Batch"
    EVENTS = "Events"
    INTERVAL = "Interval"


class CheckpointRule(Model):
    """When a checkpoint is written. With files it is written together with the file that makes the rule true."""

    policy: CheckpointPolicy | None = Field(
        default=None,
        description="File: after each file. Batch: after each batch a handler was given. Events: every `events` "
        "events. Interval: every `seconds` seconds. Absent: File, or Batch where a handler replaces the files.",
    )
    events: int = Field(
        default=1000, ge=1, le=100_000_000, description="Number of events between checkpoints, with policy Events."
    )
    seconds: int = Field(
        default=30, ge=1, le=86_400, description="Time between checkpoints, seconds, with policy Interval."
    )


class Processing(Model):
    """How hosts receive, and the user's own code if there is any."""

    model_config = rules(
        (
            "!has(self.image) || has(self.handler)",
            "processing.image is the image that holds processing.handler: set both, or neither",
        ),
        (
            "!(has(self.handlerMode) && self.handlerMode == 'Replace') || has(self.handler)",
            "processing.handlerMode: Replace needs processing.handler",
        ),
        (
            "!(has(self.handlerMode) && self.handlerMode == 'Replace' && has(self.checkpoint) && "
            "has(self.checkpoint.policy) && self.checkpoint.policy == 'File')",
            "processing.checkpoint.policy: File needs files, and handlerMode: Replace writes none; use Batch, Events "
            "or Interval",
        ),
    )

    max_batch_size: int = Field(
        default=300, ge=1, le=10_000, description="Events handed to the handler or the files at a time, at most."
    )
    prefetch: int = Field(
        default=3000, ge=1, le=50_000, description="Events requested ahead for each partition (credit)."
    )
    max_wait_seconds: int = Field(
        default=60, ge=1, le=300, description="Longest wait for events before a health check, seconds."
    )
    buffer_bytes: int = Field(
        default=268_435_456,
        ge=16_777_216,
        le=68_719_476_736,
        description="Bytes of events that one host keeps in memory before they are in files, all partitions together, "
        "with those that wait to be taken from the hub's links. Where it is reached, the largest buffer becomes a file "
        "early. A host's whole memory is that and 200 to 250 MiB: the program, and files on their way.",
    )
    source: SourceKind = Field(
        default=SourceKind.AMQP,
        description="What receives. Amqp: this project's own receiver, made for draining. Sdk: Azure's SDK for Python: "
        "the same events for several times the processor time.",
        exclude_if=_is_default,  # a host of an older version, in a handler's image, does not know the field
    )
    runtime_metrics: bool = Field(
        default=False,
        description="Have each event carry how far its partition has come, for the handler: `context.last_enqueued`. "
        "Some 155 bytes an event; lag is shown without it.",
        exclude_if=_is_off,  # likewise
    )
    handler: str | None = Field(
        default=None,
        max_length=256,
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$",
        description="The user's own code, package.module:Class, in `image`. Absent: events only go to files.",
    )
    handler_mode: HandlerMode = Field(
        default=HandlerMode.PRECEDE,
        description="Precede: the handler gets events before they go to files. Replace: it gets them and there are no "
        "files.",
    )
    handler_attempts: int = Field(
        default=5,
        ge=1,
        le=100,
        description="How often a failing batch is given to the handler, and then a failing event alone, before that "
        "event becomes a dead letter.",
    )
    image: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        pattern=r"^[^\s]+$",
        description="Image with the handler, built FROM the processor image; its prefix must be allowed by the "
        "operator's administrator.",
    )
    checkpoint: CheckpointRule = Field(default=CheckpointRule(), description="When a checkpoint is written.")
