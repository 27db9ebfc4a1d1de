"""Dead letters: events that the handler could not process, each in a JSON file with the event and the error.

An event that the host could not decode is never passed to the handler. Its dead letter has the whole AMQP message as
its body, and the error type `Undecoded`.

    <prefix>/_deadletters/segment=<segment>/partition=<p>/seq=<20 digits>.json
    <prefix>/_deadletters/segment=<segment>/redrive/partition=<p>/seq=<20 digits>.json   a request
    <prefix>/_deadletters/segment=<segment>/dropped/<time>-<random>.json                 a record of removed letters

A dead letter is written once: if another host already wrote the letter of an event, it is kept. Only a user removes
one, in one of two ways. `deadletters drop` removes letters after it has recorded their numbers. `deadletters redrive`
writes requests: the host that owns the partition passes the event to the handler again, between batches. If the handler
succeeds, the host removes the letter and then the request. If it fails, the host adds the attempt to the letter and
then removes the request. So after a crash between any two steps the request or the letter remains, and the event is
passed again: at least once. Where a consumer writes files, they contain the event too, unless the handler transforms
events.
"""

import asyncio
import base64
import contextlib
import re
import traceback
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, Field, ValidationError

from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_host.handler.api import Event, PartitionContext
from eventconsumer_host.source.rows import EventRows, FlatMap
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.errors import Conflict, Damaged, NotFound

if TYPE_CHECKING:
    from eventconsumer_host.source.batch import EventBatch

UNDECODED = "Undecoded"  # the error type of an event that the host could not decode
LETTER_BYTES = 32 * 1024 * 1024  # of a file: no host writes a larger one
LOOK_SECONDS = 30.0  # between two listings of requests
MESSAGE_CHARACTERS = 4_096
TRACEBACK_CHARACTERS = 32_768  # the end is kept: it names the place of the error
_NAME = re.compile(r"(redrive/)?partition=([^/]+)/seq=([0-9]{20})\.json")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HandlerAttempts:
    """How often an event was passed to the handler, and when."""

    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class LetterCause:
    """The cause of a dead letter; redacted."""

    type: str
    message: str
    traceback: str


class Letter(WireDocument):
    """The content of a dead letter. Its JSON names are an interface: programs of users read these files."""

    namespace: str
    event_hub: str
    consumer_group: str
    segment_id: str
    partition_id: str
    sequence_number: int = Field(ge=0, lt=1 << 63)
    offset: str
    enqueued_time: AwareDatetime
    partition_key: str | None
    content_type: str | None
    message_id: str | None
    correlation_id: str | None
    properties: dict[str, str]
    system_properties: dict[str, str]
    body: str | None  # in base64; None: the message has no body
    body_text: str | None  # the same where it is UTF-8
    handler: str
    host: str
    epoch: int
    attempts: int
    first_attempt: AwareDatetime
    last_attempt: AwareDatetime
    error: LetterCause

    def batch(self) -> "EventBatch":
        """The event, as it was passed to the handler.

        Raises:
            ValueError: The body is not base64.
        """

        from eventconsumer_host.source.batch import EventBatch  # the probe reads no letters, and loads no pyarrow

        def flat(entries: Mapping[str, str]) -> FlatMap:
            return FlatMap([len(entries)], [*entries], [*entries.values()])

        body = None if self.body is None else base64.b64decode(self.body, validate=True)
        return EventBatch.of(
            EventRows(
                [self.sequence_number],
                [self.offset],
                [(self.enqueued_time - _EPOCH) // timedelta(milliseconds=1)],
                [self.partition_key],
                [body],
                flat(self.properties),
                flat(self.system_properties),
                [self.content_type],
                [self.message_id],
                [self.correlation_id],
            )
        )

    def encoded(self) -> bytes:
        """The content of the file."""
        return self.to_json(indent=1).encode()


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter in storage."""

    name: str
    etag: str
    letter: Letter


@dataclass(frozen=True, slots=True)
class LetterFolder:
    """Names of the blobs of one segment, and reads of single letters."""

    prefix: str  # of the sink
    segment_id: str

    @property
    def path(self) -> str:
        """The folder."""
        return f"{self.prefix}/_deadletters/segment={self.segment_id}/"

    @property
    def letters(self) -> str:
        """What the names of all letters begin with."""
        return f"{self.path}partition="

    @property
    def requests(self) -> str:
        """The folder of the requests to pass events again."""
        return f"{self.path}redrive/"

    def letter(self, partition: str, sequence_number: int) -> str:
        """Name of an event's dead letter."""
        return f"{self.letters}{partition}/seq={sequence_number:020d}.json"

    def request(self, partition: str, sequence_number: int) -> str:
        """Name of the request to pass an event again."""
        return f"{self.requests}partition={partition}/seq={sequence_number:020d}.json"

    def dropped(self, record: str) -> str:
        """Name of a record of removed letters."""
        return f"{self.path}dropped/{record}.json"

    def parse(self, name: str) -> tuple[bool, str, int] | None:
        """Whether a blob is a request, its partition and sequence number; None: it is no letter and no request."""
        found = _NAME.fullmatch(name.removeprefix(self.path))
        return (found[1] is not None, found[2], int(found[3])) if found else None

    async def read(self, blobs: BlobStore, partition: str, sequence_number: int) -> StoredLetter | None:
        """The dead letter of an event; None: it has none.

        Raises:
            Damaged: The blob is not a dead letter.
            StorageError: The request failed.
        """
        name = self.letter(partition, sequence_number)
        blob = await blobs.read(name, LETTER_BYTES)
        if blob is None:
            return None
        try:
            letter = parse_letter(blob.data)
        except ValidationError as error:
            fields = ", ".join(".".join(map(str, each["loc"])) or each["msg"] for each in error.errors()[:3])
            raise Damaged(f"{name} is not a dead letter ({fields}): restore it, or drop it") from None
        except ValueError as error:
            raise Damaged(f"{name} is not a dead letter ({error}): restore it, or drop it") from None
        return StoredLetter(name, blob.info.etag, letter)


def parse_letter(data: bytes) -> Letter:
    """PURE: the dead letter in a file, whose event can be passed to a handler.

    Raises:
        ValueError: It is not a dead letter.
    """
    letter = Letter.model_validate_json(data)
    letter.batch()
    return letter


def letter_cause(error: BaseException, message: str | None = None) -> LetterCause:
    """The cause for an error.

    Args:
        error: The error that the handler raised.
        message: Replaces the error's message.
    """
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = redact(text_of(error) if message is None else message)
    frames = redact("".join(traceback.format_exception(error)))
    return LetterCause(name, _encodable(text[:MESSAGE_CHARACTERS]), _encodable(frames[-TRACEBACK_CHARACTERS:]))


def text_of(error: BaseException) -> str:
    """An error's message, even if its class fails to produce one."""
    try:
        return str(error)
    except Exception as failure:
        return f"<no message: {type(failure).__name__}>"


class DeadLetters:
    """The dead letters of one consumer that one host writes, and those that users want to be passed again."""

    def __init__(self, blobs: BlobStore, container: str, prefix: str, segment_id: str, handler: str) -> None:
        self._blobs = blobs
        self._container = container
        self._handler = handler
        self._folder = LetterFolder(prefix, segment_id)
        self._written: Counter[str] = Counter()
        self._requests: dict[str, dict[int, BlobInfo]] = {}  # by partition and sequence number
        self._next_look = 0.0

    async def put(self, context: PartitionContext, event: Event, attempts: HandlerAttempts, cause: LetterCause) -> None:
        """Write a dead letter, unless the event has one.

        Raises:
            StorageError: It was not written, or the outcome is unknown: try again.
        """
        name = self._folder.letter(context.partition_id, event.sequence_number)
        data = self._letter(context, event, attempts, cause).encoded()
        with contextlib.suppress(Conflict):  # possibly from an earlier attempt whose response was lost
            await self._blobs.put(name, data, if_absent=True)
        self._written[context.partition_id] += 1

    def problem(self) -> Problem | None:
        """The problem for the user; None if this host wrote no dead letter, or they are all gone."""
        if not self._written:
            return None
        each = ", ".join(f"{count} of partition {partition}" for partition, count in sorted(self._written.items()))
        return Problem(
            field="spec.processing.handler",
            reason=Reason.DEAD_LETTERS,
            message=f"the handler could not process {self._written.total()} events since this host started ({each}): "
            f"they are in container {self._container} under {self._folder.path}, with the errors; correct the cause, "
            "and use kubectl eventconsumer deadletters to pass them again or to drop them",
        )

    async def look(self, *, requests: bool) -> None:
        """Look for requests, and whether letters still exist; at most once in `LOOK_SECONDS` for all partitions.

        Args:
            requests: Whether events can be passed again.

        Raises:
            StorageError: A request to storage failed; the next call after `LOOK_SECONDS` tries again.
        """
        now = asyncio.get_running_loop().time()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        for partition, count in [*self._written.items()]:
            exists = await self._blobs.list(f"{self._folder.path}partition={partition}/", limit=1)
            if not exists and self._written[partition] == count:  # no letter was written in the meantime
                del self._written[partition]
        if requests:
            found: defaultdict[str, dict[int, BlobInfo]] = defaultdict(dict)
            for info in await self._blobs.list(self._folder.requests):
                if name := self._folder.parse(info.name):
                    found[name[1]][name[2]] = info
            self._requests = dict(found)

    def requested(self, partition: str) -> list[int]:
        """Sequence numbers of the events to pass again that the last look found, rising."""
        return [*self._requests.get(partition, ())]

    def postpone(self, partition: str) -> None:
        """Pass no event of a partition again before the next look."""
        self._requests.pop(partition, None)

    async def read(self, partition: str, sequence_number: int) -> StoredLetter | None:
        """See `LetterFolder.read`."""
        return await self._folder.read(self._blobs, partition, sequence_number)

    async def remove(self, partition: str, found: StoredLetter) -> None:
        """Remove a letter, and then its request: the handler has processed the event.

        Raises:
            StorageError: A request to storage failed, or the outcome is unknown.
        """
        with contextlib.suppress(NotFound, Conflict):  # removed in the meantime, or another host wrote it again
            await self._blobs.remove(found.name, if_match=found.etag)
        await self.answered(partition, found.letter.sequence_number)

    async def again(self, context: PartitionContext, found: StoredLetter, at: datetime, cause: LetterCause) -> None:
        """Add a failed attempt to a letter, and then remove its request.

        Raises:
            StorageError: A request to storage failed, or the outcome is unknown.
        """
        changed = {
            "handler": self._handler,
            "host": context.owner,
            "epoch": context.epoch,
            "attempts": found.letter.attempts + 1,
            "last_attempt": at,
            "error": cause,
        }
        with contextlib.suppress(NotFound, Conflict):  # dropped in the meantime
            data = found.letter.model_copy(update=changed).encoded()
            await self._blobs.put(found.name, data, if_match=found.etag)
        await self.answered(context.partition_id, found.letter.sequence_number)

    async def answered(self, partition: str, sequence_number: int) -> None:
        """Remove the request of an event.

        Raises:
            StorageError: The request to storage failed.
        """
        own = self._requests.get(partition, {})
        if info := own.get(sequence_number):
            with contextlib.suppress(NotFound, Conflict):  # removed by another host, or requested again
                await self._blobs.remove(info.name, if_match=info.etag)
            own.pop(sequence_number, None)

    def _letter(self, context: PartitionContext, event: Event, attempts: HandlerAttempts, cause: LetterCause) -> Letter:
        return Letter(
            namespace=context.namespace,
            event_hub=context.event_hub,
            consumer_group=context.consumer_group,
            segment_id=self._folder.segment_id,
            partition_id=context.partition_id,
            sequence_number=event.sequence_number,
            offset=event.offset,
            enqueued_time=event.enqueued_time,
            partition_key=event.partition_key,
            content_type=event.content_type,
            message_id=event.message_id,
            correlation_id=event.correlation_id,
            properties=dict(event.properties),
            system_properties=dict(event.system_properties),
            body=None if event.body is None else base64.b64encode(event.body).decode(),
            body_text=_text(event.body),
            handler=self._handler,
            host=context.owner,
            epoch=context.epoch,
            attempts=attempts.count,
            first_attempt=attempts.first,
            last_attempt=attempts.last,
            error=cause,
        )


def _text(body: bytes | None) -> str | None:
    """The body as text; None if there is none, or it is not UTF-8."""
    try:
        return None if body is None else body.decode()
    except UnicodeDecodeError:
        return None


def _encodable(text: str) -> str:
    """A text that UTF-8 can encode: an unpaired surrogate becomes its escape."""
    return text.encode(errors="backslashreplace").decode()
