"""Dead letters: events that the handler could not process, each in a JSON file with the event and the error.

An event that the host could not decode is never passed to the handler. Its dead letter has the whole AMQP message as
its body, and the error type `Undecoded`.

    <prefix>/_deadletters/inc=<incarnation>/partition=<p>/seq=<20 digits>.json

A dead letter is written once: if another host already wrote the letter of an event, it is kept. Only users and their
tools read or remove dead letters. Where a consumer writes files, they contain the event too, unless the handler
transforms events.
"""

import base64
import contextlib
import json
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from eventconsumer_api.conditions import Reason
from eventconsumer_api.host_report import Problem
from eventconsumer_api.redaction import redact
from eventconsumer_processor.handler.api import Event, PartitionContext
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict

MESSAGE_CHARACTERS = 4_096
TRACEBACK_CHARACTERS = 32_768  # the end is kept: it names the place of the error


@dataclass(frozen=True, slots=True)
class Attempts:
    """How often an event was passed to the handler, and when."""

    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a dead letter; redacted."""

    type: str
    message: str
    traceback: str


def cause_of(error: BaseException, message: str | None = None) -> Cause:
    """The cause for an error.

    Args:
        error: The error that the handler raised.
        message: Replaces the error's message.
    """
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = redact(text_of(error) if message is None else message)
    frames = redact("".join(traceback.format_exception(error)))
    return Cause(name, text[:MESSAGE_CHARACTERS], frames[-TRACEBACK_CHARACTERS:])


def text_of(error: BaseException) -> str:
    """An error's message, even if its class fails to produce one."""
    try:
        return str(error)
    except Exception as failure:
        return f"<no message: {type(failure).__name__}>"


class DeadLetters:
    """The dead letters of one consumer that one host writes."""

    def __init__(self, blobs: BlobStore, container: str, prefix: str, incarnation: str, handler: str) -> None:
        self._blobs = blobs
        self._container = container
        self._incarnation = incarnation
        self._handler = handler
        self._folder = f"{prefix}/_deadletters/inc={incarnation}/"
        self._written: Counter[str] = Counter()

    def path(self, partition: str, sequence_number: int) -> str:
        """Name of an event's dead letter."""
        return f"{self._folder}partition={partition}/seq={sequence_number:020d}.json"

    async def put(self, context: PartitionContext, event: Event, attempts: Attempts, cause: Cause) -> None:
        """Write a dead letter, unless the event has one.

        Raises:
            StorageError: It was not written, or the outcome is unknown: try again.
        """
        text = json.dumps(self._letter(context, event, attempts, cause), ensure_ascii=False, indent=1)
        data = text.encode(errors="backslashreplace")  # an unpaired surrogate becomes its JSON escape
        with contextlib.suppress(Conflict):  # possibly from an earlier attempt whose response was lost
            await self._blobs.put(self.path(context.partition_id, event.sequence_number), data, if_absent=True)
        self._written[context.partition_id] += 1

    def problem(self) -> Problem | None:
        """The problem for the user; None if no dead letter was written since this host started."""
        if not self._written:
            return None
        each = ", ".join(f"{count} of partition {partition}" for partition, count in sorted(self._written.items()))
        return Problem(
            field="spec.processing.handler",
            reason=Reason.DEAD_LETTERS,
            message=f"the handler could not process {self._written.total()} events since this host started ({each}): "
            f"they are in container {self._container} under {self._folder}, with the errors; correct the cause, and "
            "process them from there",
        )

    def _letter(self, context: PartitionContext, event: Event, attempts: Attempts, cause: Cause) -> dict[str, Any]:
        return {
            "namespace": context.namespace,
            "eventHub": context.event_hub,
            "consumerGroup": context.consumer_group,
            "incarnation": self._incarnation,
            "partitionId": context.partition_id,
            "sequenceNumber": event.sequence_number,
            "offset": event.offset,
            "enqueuedTime": event.enqueued_time.isoformat(),
            "partitionKey": event.partition_key,
            "contentType": event.content_type,
            "messageId": event.message_id,
            "correlationId": event.correlation_id,
            "properties": dict(event.properties),
            "systemProperties": dict(event.system_properties),
            "body": None if event.body is None else base64.b64encode(event.body).decode(),
            "bodyText": _text(event.body),
            "handler": self._handler,
            "host": context.owner,
            "epoch": context.epoch,
            "attempts": attempts.count,
            "firstAttempt": attempts.first.isoformat(),
            "lastAttempt": attempts.last.isoformat(),
            "error": asdict(cause),
        }


def _text(body: bytes | None) -> str | None:
    """The body as text; None if there is none, or it is not UTF-8."""
    try:
        return None if body is None else body.decode()
    except UnicodeDecodeError:
        return None
