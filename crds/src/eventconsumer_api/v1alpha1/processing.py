"""Processing of received events: batches, the user's handler, checkpoints."""

from enum import StrEnum
from typing import Any

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules, told
from eventconsumer_api.spec.programs import EgressRule, EnvFroms, EnvVars, ProgramVolumes, env_total, image_rules
from eventconsumer_api.spec.scalars import ImageName


class ClientKind(StrEnum):
    """Client library that receives events."""

    BUILT_IN = "BuiltIn"
    AZURE_SDK = "AzureSdk"


def _is_off(value: bool) -> bool:
    return not value


def _is_empty(values: list[Any]) -> bool:
    return not values


def _is_default(client: ClientKind) -> bool:
    return client is ClientKind.BUILT_IN


class HandlerMode(StrEnum):
    """What becomes of events that the handler received."""

    PASS_THROUGH = "PassThrough"  # noqa: S105 - a mode
    TRANSFORM = "Transform"
    REPLACE = "Replace"


class CheckpointPolicy(StrEnum):
    """Checkpoint policy."""

    FILE = "File"
    BATCH = "Batch"
    EVENTS = "Events"
    INTERVAL = "Interval"
    HANDLER = "Handler"


class CheckpointRule(Model):
    """Checkpoint policy. With files it is written together with the file that makes the rule true."""

    policy: CheckpointPolicy | None = Field(
        default=None,
        description="File: after each file. Batch: after each batch that the handler processed. Events: every `events` "
        "events. Interval: every `seconds` seconds. Handler: only where the handler calls "
        "`context.checkpoint()`, with handlerMode: Replace. Default: File, or Batch with handlerMode: Replace.",
    )
    events: int = Field(
        default=1000, ge=1, le=100_000_000, description="Number of events between checkpoints, with policy Events."
    )
    seconds: int = Field(
        default=30, ge=1, le=86_400, description="Time between checkpoints, seconds, with policy Interval."
    )


class Processing(Model):
    """Receiving of events, and the user's handler."""

    model_config = rules(
        (
            "!has(self.image) || has(self.handler)",
            "processing.image is the image that holds processing.handler: set both, or neither",
        ),
        (
            "!(has(self.handlerMode) && self.handlerMode in ['Transform', 'Replace']) || has(self.handler)",
            "processing.handlerMode: Transform or Replace needs processing.handler",
        ),
        (
            "!(has(self.handlerMode) && self.handlerMode == 'Replace' && has(self.checkpoint) && "
            "has(self.checkpoint.policy) && self.checkpoint.policy == 'File')",
            "processing.checkpoint.policy: File needs files, and handlerMode: Replace writes none; use Batch, "
            "Events, Interval or Handler",
        ),
        (
            "!(has(self.checkpoint) && has(self.checkpoint.policy) && self.checkpoint.policy == 'Handler') || "
            "(has(self.handlerMode) && self.handlerMode == 'Replace')",
            "processing.checkpoint.policy: Handler needs handlerMode: Replace; otherwise checkpoints follow files",
        ),
        *image_rules("processing"),
        env_total("processing"),
    )

    max_batch_size: int = Field(
        default=300,
        ge=1,
        le=10_000,
        description="Maximum number of events passed to the handler or to the files at a time.",
    )
    prefetch_count: int = Field(
        default=3000, ge=1, le=50_000, description="Events requested in advance for each partition (link credit)."
    )
    max_wait_seconds: int = Field(
        default=60, ge=1, le=300, description="Maximum wait for events before a health check, seconds."
    )
    buffer_bytes: int = Field(
        default=268_435_456,
        ge=16_777_216,
        le=68_719_476_736,
        description="Maximum bytes of events that one host buffers in memory, over all partitions, including events "
        "received on the links. At the limit the largest buffer is written to a file early. A host needs "
        "200 to 250 MiB of memory beyond this for the program and for files being written: both must fit in "
        "pods.resources.limits.memory.",
    )
    client: ClientKind = Field(
        default=ClientKind.BUILT_IN,
        description="Client library that receives events. BuiltIn: that of this project, optimized for draining. "
        "AzureSdk: the Azure SDK for Python, with several times the CPU time.",
        exclude_if=_is_default,  # a host of an older version, in a handler's image, does not know the field
    )
    runtime_metrics: bool = Field(
        default=False,
        description="Request the runtime metrics of the partition with each event, for the handler: "
        "`context.last_enqueued`. About 155 bytes per event. The lag is shown without it.",
        exclude_if=_is_off,  # likewise
    )
    handler: str | None = Field(
        default=None,
        max_length=256,
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$",
        json_schema_extra=told("use module:Class or package.module:Class, such as orders:Handler"),
        description="The user's handler, package.module:Class, in the folder /app of `image`. Absent: events are only "
        "written to files.",
    )
    handler_mode: HandlerMode = Field(
        default=HandlerMode.PASS_THROUGH,
        description="PassThrough: the handler receives events before they are written to files, unchanged. Transform: "
        "the rows that the handler returns are written in place of the events; the others are dropped, and counted. "
        "Replace: the handler receives events and no files are written.",
    )
    handler_attempts: int = Field(
        default=5,
        ge=1,
        le=100,
        description="Attempts for a failing batch, and then for each failing event alone, before the event becomes a "
        "dead letter.",
    )
    image: ImageName | None = Field(
        default=None,
        description="Image with the handler, built FROM the processor image. The operator's administrator must allow "
        "its prefix.",
    )
    env: EnvVars = Field(
        default=[], description="Environment of the handler. A change restarts the hosts.", exclude_if=_is_empty
    )
    env_from: EnvFroms = Field(
        default=[],
        description="ConfigMaps and Secrets whose keys become variables. Hosts see a changed value after a restart.",
        exclude_if=_is_empty,
    )
    volumes: ProgramVolumes = Field(
        default=[],
        description="ConfigMaps and Secrets as files. Hosts see a changed value within about a minute.",
        exclude_if=_is_empty,
    )
    egress: list[EgressRule] = Field(
        default=[],
        max_length=16,
        description="Destinations of the handler, in addition to DNS and ports 443 and 5671. Only where the "
        "administrator has enabled network policies; without them, nothing is limited.",
        exclude_if=_is_empty,
    )
    checkpoint: CheckpointRule = Field(default=CheckpointRule(), description="Checkpoint policy.")

    def for_hosts(self) -> "Processing":
        """The part that hosts read: the rest is in their pods and in the network policy."""
        return self.model_copy(update={"env": [], "env_from": [], "volumes": [], "egress": []})
