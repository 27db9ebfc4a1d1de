"""The documents that the tools print. Like the auditor's, their JSON names are a stable interface.

Fields may be added; a field is renamed or changes its meaning only with another `version`. Unknown values are null.
"""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue

from eventconsumer_api.shared.model import Report
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.checks import CheckAnswer
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_host.handler.deadletter import Letter
from eventconsumer_tools.inspect.leases import CheckpointPosition, LeaseState

SCHEMA_VERSION = 1


class ReportedHub(Report):
    """An Event Hub."""

    namespace: str
    name: str


class UnfitRow(Report):
    """Events that fit no proposal for one reason."""

    events: int
    partition: str = Field(description="Of one of them.")
    sequence_number: int
    error: str


class OmittedRow(Report):
    """A member of the bodies that has no column."""

    member: str
    reason: str


class ColumnsReport(Report):
    """A proposal of columns of bodies."""

    version: int = SCHEMA_VERSION
    container: str
    prefix: str
    hub: ReportedHub
    partitions: int = Field(description="Of which events were read.")
    events: int = Field(description="That were read.")
    fitting: int = Field(description="Of these: each of their values fits its column exactly.")
    body: dict[str, JsonValue] | None = Field(description="spec.sink.body; null: no body has a member.")
    unfit: list[UnfitRow]
    omitted: list[OmittedRow]


class BodyErrorRow(Report):
    """An event whose body does not fit its columns."""

    partition: str
    sequence_number: int
    enqueued_time: datetime
    file: str = Field(description="Of the blob with the event.")
    error: str


class BodyErrorGroup(Report):
    """Events with one error."""

    error: str | None = Field(description="Null: one of many others.")
    events: int
    partition: str = Field(description="Of the one in the newest file.")
    sequence_number: int
    file: str


class BodyErrorsReport(Report):
    """Events of the newest files whose bodies do not fit their columns; no value of a body."""

    version: int = SCHEMA_VERSION
    container: str
    prefix: str
    hub: ReportedHub
    files: int = Field(description="With columns of bodies, which were read.")
    events: int = Field(description="In these files.")
    errors: int = Field(description="Of these: those with an error.")
    groups: list[BodyErrorGroup] = Field(description="The most frequent error first.")
    rows: list[BodyErrorRow] = Field(description="The newest, by partition and sequence number.")
    unreadable: list[str] = Field(description="Names of files that could not be read.")


class LeaseRow(Report):
    """One partition's lease."""

    partition: str
    state: LeaseState
    owner: str | None = Field(default=None, description="Null: released, or never owned.")
    epoch: int | None = Field(default=None, description="Null: written by a library that has no epochs.")
    checkpoint: CheckpointPosition | None = None
    modified: datetime | None = None
    etag: str = ""
    blob: str
    problem: str | None = Field(default=None, description="Why it cannot be read.")


class LeasesReport(Report):
    """All leases of a consumer group."""

    version: int = SCHEMA_VERSION
    layout: LeaseLayout
    container: str
    hub: ReportedHub
    consumer_group: str
    leases: list[LeaseRow]


class FileRow(Report):
    """One file of the slot chain."""

    partition: str
    name: str = Field(description="Of the blob with the events.")
    first_sequence_number: int
    last_sequence_number: int
    events: int
    dropped: int = Field(default=0, description="Events that the handler dropped: they are in no file.")
    bytes: int
    modified: datetime = Field(description="When it was committed, or became a tombstone.")
    epoch: int
    lost: int = Field(default=0, description="Events before it that expired in the hub before they were read.")
    gap: str = Field(default="", description="Missing events before it and the reason, such as retention:17-20.")
    tombstone: bool = Field(default=False, description="Removed by retention: its metadata stays.")
    dead_letters: int = Field(default=0, description="Events of the file that user code could not process.")


class FileTotals(Report):
    """Totals of all files that match the filters."""

    files: int = 0
    events: int = 0
    dropped: int = 0
    lost: int = 0
    bytes: int = 0
    tombstones: int = 0
    dead_letters: int = 0


class FilesReport(Report):
    """Files of the newest segment, newest last."""

    version: int = SCHEMA_VERSION
    container: str
    prefix: str
    hub: ReportedHub
    segment_id: str = Field(description="Empty: no host has registered yet.")
    files: list[FileRow] = Field(default=[])
    totals: FileTotals = FileTotals()
    shown: int = Field(default=0, description="Length of `files`.")


class DeadLetterRow(Report):
    """One dead letter, without its event."""

    partition: str
    sequence_number: int
    enqueued_time: datetime
    error: str = Field(description="Type of the error; Undecoded: the host could not decode the event.")
    message: str = Field(description="Of the error.")
    attempts: int
    last_attempt: datetime
    redrive_requested: bool = Field(description="A host will pass the event to the handler again.")
    name: str = Field(description="Of the blob.")


class DeadLettersReport(Report):
    """The output of `deadletters list`: letters of the newest segment."""

    version: int = SCHEMA_VERSION
    container: str
    folder: str = Field(description="Empty: no host has registered yet.")
    hub: ReportedHub
    letters: list[DeadLetterRow] = Field(default=[], description="The newest ones, by partition and number.")
    total: int = Field(default=0, description="All letters that match the filter.")
    shown: int = Field(default=0, description="Length of `letters`.")


class DeadLetterReport(Report):
    """The output of `deadletters show`."""

    version: int = SCHEMA_VERSION
    name: str = Field(description="Of the blob.")
    redrive_requested: bool
    letter: Letter = Field(description="The content of the blob: the event, the error and the attempts.")


class DeadLettersStep(Report):
    """The letters of one partition that a command is for."""

    partition: str
    letters: int
    first: int = Field(description="The lowest sequence number.")
    last: int = Field(description="The highest sequence number.")


class DeadLettersPlan(Report):
    """The plan or result of `deadletters redrive` and `deadletters drop`."""

    version: int = SCHEMA_VERSION
    kind: Literal["DeadLettersPlan"] = "DeadLettersPlan"
    command: str
    dry_run: bool
    refused: bool
    done: bool
    hub: ReportedHub
    steps: list[DeadLettersStep] = Field(default=[], description="Empty: no letters match.")
    remaining: int = Field(default=0, description="Selected letters that the command leaves as they are.")
    record: str | None = Field(default=None, description="Blob with the numbers of the dropped letters.")
    why: str = Field(default="", description="Why the command is refused, or why letters remain.")
    remedy: str = ""


class LagRow(Report):
    """The lag of one partition."""

    partition: str
    head: int | None = Field(default=None, description="The hub's last sequence number; -1: it never had an event.")
    checkpoint: int | None = None
    files_end: int | None = Field(default=None, description="Last sequence number in a file.")
    events: int | None = None
    seconds: float | None = Field(default=None, description="Minimum age of the oldest of these events.")


class LagTotals(Report):
    """Totals of all partitions; null: the lag of a partition is unknown."""

    events: int | None = None
    seconds: float | None = Field(default=None, description="The maximum of all partitions.")
    partitions_unknown: int = 0


class LagReport(Report):
    """The lag of a consumer."""

    version: int = SCHEMA_VERSION
    hub: ReportedHub
    consumer_group: str
    asked: datetime
    partitions: list[LagRow]
    totals: LagTotals


class CheckpointRow(Report):
    """One partition's checkpoint, its owner and its files."""

    partition: str
    sequence_number: int | None = None
    offset: str | None = None
    state: LeaseState = LeaseState.UNKNOWN
    owner: str | None = None
    files_start: int | None = Field(default=None, description="Where the chain of files starts; null: not begun.")
    files_end: int | None = Field(default=None, description="Last sequence number in a file.")


class ExportedCheckpoint(Report):
    """One partition's checkpoint, exported."""

    partition: str
    sequence_number: int | None = Field(default=None, ge=-1, lt=2**63)
    offset: str | None = Field(default=None, max_length=1024)


class _Checkpoints(Report):
    version: Literal[1] = 1
    kind: Literal["Checkpoints"] = "Checkpoints"
    layout: LeaseLayout
    hub: ReportedHub
    consumer_group: str
    exported_at: datetime


class CheckpointsReport(_Checkpoints):
    """The output of `checkpoint show`."""

    checkpoints: list[CheckpointRow]


class CheckpointsExport(_Checkpoints, WireDocument):
    """The output of `checkpoint export` and input of `checkpoint import`; backups have the same form."""

    checkpoints: list[ExportedCheckpoint]


class Action(StrEnum):
    """The action of a step."""

    SET = "set"
    KEEP = "keep"
    REFUSE = "refuse"


class Step(Report):
    """The action for one partition's checkpoint, and the reason."""

    partition: str
    action: Action
    from_: CheckpointPosition | None = Field(default=None, alias="from", description="Null: there is no checkpoint.")
    to: CheckpointPosition | None = None
    why: str
    remedy: str = ""
    backup: str | None = Field(default=None, description="Blob with the replaced checkpoint; null: none.")
    done: bool = False


class PlanSource(Report):
    """The source of migrated positions."""

    layout: LeaseLayout
    container: str
    prefix: str
    consumer_group: str


class PlanReport(Report):
    """The plan or result of `checkpoint set`, `checkpoint import` and `migrate`. All or nothing."""

    version: int = SCHEMA_VERSION
    kind: Literal["CheckpointPlan"] = "CheckpointPlan"
    command: str
    dry_run: bool
    refused: bool
    done: bool
    layout: LeaseLayout
    hub: ReportedHub
    consumer_group: str
    lease_prefix: str = Field(
        default="",
        description="Prefix of the names of the leases, before the consumer group (layout AzureSdk: before the hub's "
        "names). It is the storageBlobPrefix of an EventProcessorHost that reads them.",
    )
    source: PlanSource | None = None
    steps: list[Step]


class AdoptStep(Report):
    """The action for one record, and the reason."""

    record: Literal["chain", "leases"]
    blob: str = Field(description="Its name.")
    action: Action
    from_: str = Field(alias="from", description="What it names now.")
    to: str = Field(description="What it will name.")
    why: str
    remedy: str = ""
    done: bool = False


class AdoptReport(Report):
    """The plan or result of `adopt`. All or nothing."""

    version: int = SCHEMA_VERSION
    kind: Literal["AdoptPlan"] = "AdoptPlan"
    dry_run: bool
    refused: bool
    done: bool
    sink: str = Field(description="Container and folder of the files.")
    steps: list[AdoptStep] = Field(default=[], description="Empty: there is no chain of files.")


class HubEnds(Report):
    """One partition, in the files of the newest segment and in the hub."""

    partition: str
    diverged: bool = Field(description="The hub does not have the last event of the files.")
    files_end: EventMark | None = Field(description="The last event in files; null: no host has begun the partition.")
    hub_end: EventMark
    earliest: int = Field(description="The first sequence number that the hub retains.")
    common: int | None = Field(description="The last number at which both have the same event; null: unknown.")
    start: int | None = Field(description="Where the next segment starts; null: at spec.startingPosition.")
    gone: int = Field(description="Sequence numbers in files that name other events, or no event, in the hub now.")
    ahead: int | None = Field(description="Sequence numbers from `start` to the hub's end, which hosts read next.")
    repositioned: bool = Field(
        default=False, description="It has no file, and begins at `start` by another spec.startingPosition."
    )


class HubAcceptReport(Report):
    """The plan or result of `hub accept` and `hub reposition`. All or nothing."""

    version: int = SCHEMA_VERSION
    kind: Literal["HubAcceptPlan", "HubRepositionPlan"] = "HubAcceptPlan"
    dry_run: bool
    refused: bool
    done: bool
    sink: str = Field(description="Container and folder of the files.")
    hub: ReportedHub
    created_at: datetime = Field(description="The hub's current creation time.")
    segment: int = Field(description="Number of the newest segment. 0: none.")
    segment_created_at: datetime | None = Field(description="Creation time of the hub of that segment.")
    why: str = Field(default="", description="Why the command is refused, or why no action is required.")
    remedy: str = ""
    partitions: list[HubEnds] = Field(default=[])


class CheckReport(Report, CheckAnswer):
    """The output of `check`."""

    version: int = SCHEMA_VERSION
    ok: bool
