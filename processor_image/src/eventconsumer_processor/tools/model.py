"""The documents that the tools print; their JSON names are a stable interface, as the auditor's are.

Fields may be added; none is renamed or changes its meaning without another `version`. Everything unknown is null.
"""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from eventconsumer_api.identity import EventMark
from eventconsumer_api.model import Report
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_processor.inspect.leases import LeaseState, Position

SCHEMA_VERSION = 1


class HubName(Report):
    """An Event Hub."""

    namespace: str
    name: str


class LeaseRow(Report):
    """One partition's lease."""

    partition: str
    state: LeaseState
    owner: str | None = Field(default=None, description="Null: released, or never owned.")
    epoch: int | None = Field(default=None, description="Null: written by a library that has no epochs.")
    checkpoint: Position | None = None
    modified: datetime | None = None
    etag: str = ""
    blob: str
    problem: str | None = Field(default=None, description="Why it cannot be read.")


class LeasesReport(Report):
    """All leases of a consumer group."""

    version: int = SCHEMA_VERSION
    layout: LeaseLayout
    container: str
    hub: HubName
    consumer_group: str
    leases: list[LeaseRow]


class FileRow(Report):
    """One file of the slot chain."""

    partition: str
    name: str = Field(description="Of the blob with the events.")
    first_sequence_number: int
    last_sequence_number: int
    events: int
    bytes: int
    modified: datetime = Field(description="When it was committed, or became a tombstone.")
    epoch: int
    gap: str = Field(default="", description="Events missing before it and why, such as retention:17-20.")
    tombstone: bool = Field(default=False, description="Cleaned up: its facts stay, its events are gone.")
    dead_letters: int = Field(default=0, description="Events among its own that user code could not process.")


class FileTotals(Report):
    """Of all files that the filters let through."""

    files: int = 0
    events: int = 0
    bytes: int = 0
    tombstones: int = 0
    dead_letters: int = 0


class FilesReport(Report):
    """Files of the newest segment, newest last."""

    version: int = SCHEMA_VERSION
    container: str
    prefix: str
    hub: HubName
    incarnation: str = Field(description="Empty where no host has registered yet.")
    files: list[FileRow] = Field(default=[])
    totals: FileTotals = FileTotals()
    shown: int = Field(default=0, description="Length of `files`.")


class LagRow(Report):
    """How far one partition is behind."""

    partition: str
    head: int | None = Field(default=None, description="The hub's last sequence number; -1: never had an event.")
    checkpoint: int | None = None
    files_end: int | None = Field(default=None, description="Last sequence number in a file.")
    events: int | None = None
    seconds: float | None = Field(default=None, description="How old the oldest of them is at least.")


class LagTotals(Report):
    """Of all partitions; null where one of them is not known."""

    events: int | None = None
    seconds: float | None = Field(default=None, description="The greatest of the partitions'.")
    partitions_unknown: int = 0


class LagReport(Report):
    """How far a consumer is behind its hub."""

    version: int = SCHEMA_VERSION
    hub: HubName
    consumer_group: str
    asked: datetime
    partitions: list[LagRow]
    totals: LagTotals


class CheckpointRow(Report):
    """One partition's checkpoint, and what it is held against."""

    partition: str
    sequence_number: int | None = None
    offset: str | None = None
    state: LeaseState = LeaseState.UNKNOWN
    owner: str | None = None
    files_start: int | None = Field(default=None, description="Where the chain of files starts; null: not begun.")
    files_end: int | None = Field(default=None, description="Last sequence number in a file.")


class ExportedCheckpoint(Report):
    """One partition's checkpoint, to be kept."""

    partition: str
    sequence_number: int | None = Field(default=None, ge=-1, lt=2**63)
    offset: str | None = Field(default=None, max_length=1024)


class _Checkpoints(Report):
    version: Literal[1] = 1
    kind: Literal["Checkpoints"] = "Checkpoints"
    layout: LeaseLayout
    hub: HubName
    consumer_group: str
    exported_at: datetime


class CheckpointsReport(_Checkpoints):
    """What `checkpoint show` prints."""

    checkpoints: list[CheckpointRow]


class CheckpointsExport(_Checkpoints):
    """What `checkpoint export` writes and `checkpoint import` reads; backups have the same form."""

    checkpoints: list[ExportedCheckpoint]


class Action(StrEnum):
    """What happens to one partition's checkpoint."""

    SET = "set"
    KEEP = "keep"
    REFUSE = "refuse"


class Step(Report):
    """What happens to one partition's checkpoint, and why."""

    partition: str
    action: Action
    from_: Position | None = Field(default=None, alias="from", description="Null: there is no checkpoint.")
    to: Position | None = None
    why: str
    remedy: str = ""
    backup: str | None = Field(default=None, description="Blob with what was replaced; null: there was nothing.")
    done: bool = False


class PlanSource(Report):
    """Where positions are taken over from."""

    layout: LeaseLayout
    container: str
    prefix: str
    consumer_group: str


class PlanReport(Report):
    """What `checkpoint set`, `checkpoint import` and `migrate` would do or did. All or nothing."""

    version: int = SCHEMA_VERSION
    kind: Literal["CheckpointPlan"] = "CheckpointPlan"
    command: str
    dry_run: bool
    refused: bool
    done: bool
    layout: LeaseLayout
    hub: HubName
    consumer_group: str
    lease_prefix: str = Field(
        default="",
        description="What the names of the leases begin with, in front of the consumer group (layout AzureSdk: of the "
        "hub's names): the storageBlobPrefix of an EventProcessorHost that is to read them.",
    )
    source: PlanSource | None = None
    steps: list[Step]


class AdoptStep(Report):
    """What happens to one record, and why."""

    record: Literal["chain", "leases"]
    blob: str = Field(description="Its name.")
    action: Action
    from_: str = Field(alias="from", description="What it names now.")
    to: str = Field(description="What it will name.")
    why: str
    remedy: str = ""
    done: bool = False


class AdoptReport(Report):
    """What `adopt` would do or did. All or nothing."""

    version: int = SCHEMA_VERSION
    kind: Literal["AdoptPlan"] = "AdoptPlan"
    dry_run: bool
    refused: bool
    done: bool
    sink: str = Field(description="Container and folder of the files.")
    steps: list[AdoptStep] = Field(default=[], description="None: there is no chain of files.")


class HubEnds(Report):
    """One partition, in the files of the newest segment and in the hub."""

    partition: str
    diverged: bool = Field(description="The hub does not have the last event of the files.")
    files_end: EventMark | None = Field(description="The last event in files; null: no host has begun the partition.")
    hub_end: EventMark
    earliest: int = Field(description="The first sequence number that the hub retains.")
    common: int | None = Field(description="The last one at which both have the same event; null: none is known.")
    start: int | None = Field(description="Where the next segment starts; null: at spec.startingPosition.")
    gone: int = Field(description="Sequence numbers of events in files that name other events in the hub now, or none.")
    ahead: int | None = Field(description="Sequence numbers from `start` to the hub's end: to be read.")


class HubAcceptReport(Report):
    """What `hub accept` would do or did. All or nothing."""

    version: int = SCHEMA_VERSION
    kind: Literal["HubAcceptPlan"] = "HubAcceptPlan"
    dry_run: bool
    refused: bool
    done: bool
    sink: str = Field(description="Container and folder of the files.")
    hub: HubName
    created_at: datetime = Field(description="When the hub was created, as it says now.")
    segment: int = Field(description="Number of the newest segment; the next one has one more. 0: there is none.")
    segment_created_at: datetime | None = Field(description="When the hub of that segment was created.")
    why: str = Field(default="", description="Why it is refused, or why there is nothing to do.")
    remedy: str = ""
    partitions: list[HubEnds] = Field(default=[])


class Check(Report):
    """One thing that was looked at."""

    check: str
    ok: bool | None = Field(description="Null: not tried, because something before it failed.")
    detail: str
    remedy: str = ""


class CheckReport(Report):
    """What `check` prints."""

    version: int = SCHEMA_VERSION
    ok: bool
    checks: list[Check]
