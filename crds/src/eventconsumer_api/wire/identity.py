"""Identity: the hub, the chain, the leases and the output that belong together, as records in storage.

    <sink prefix>/_chain.json                 ChainRecord: the chain, and the resource that drains into it
    <sink prefix>/_segments/<k>.json          SegmentRecord: the hub that segment k of the chain was drained from
    <lease folder>~identity.json              LeaseRecord: the hub and the chain that the leases belong to; the
                                              consumer group is in lower case
    <output path>/_eventconsumer.json         OutputRecord: the chain whose batches are written here

Each record is written with put-if-absent before all blobs that it describes. Only `ChainRecord.resource` changes later.
A chain is identified by `chain`, which is computed once and then read from the record: a resource that is deleted and
applied again, moved to another namespace or cluster, or restored from a backup continues the chain.
"""

import hashlib
import re
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from eventconsumer_api.shared.model import Report
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.host_config import ResourceRef

RECORD_MAX_BYTES = 1024 * 1024
LEASE_RECORD = "~identity.json"


class ChainRecord(WireDocument):
    """The chain of a sink, and the resource whose hosts drain into it."""

    version: Literal[1] = 1
    chain: str = Field(pattern="^[0-9a-f]{16}$", description="Identity of the chain.")
    resource: ResourceRef = Field(description="The EventConsumer whose hosts drain into it now.")
    since: datetime = Field(description="Since when.")


class HubName(Report):
    """An Event Hub by its names and its creation time."""

    namespace: str = Field(description="Host name in lower case, without a port.")
    name: str
    created_at: datetime


class EventMark(Report):
    """One event, for comparison with the hub's event under the same sequence number."""

    sequence_number: int = Field(description="-1: none.")
    offset: str = Field(default="", description="Offset from the hub; empty: unknown.")
    enqueued_time: datetime | None = Field(default=None, description="Absent: unknown.")


class PartitionBreak(Report):
    """Transition of one partition from the previous segment to this one."""

    start: int = Field(description="First sequence number of this segment.")
    files_end: EventMark = Field(description="The last event in the files of the previous segment.")
    hub_end: EventMark = Field(description="The hub's last event when the break was accepted.")
    common: int = Field(description="Last sequence number at which files and hub had the same event; -1: none.")
    common_event: EventMark | None = Field(default=None, description="The event at `common`. Absent: unknown.")
    repositioned: bool = Field(
        default=False,
        description="The partition had no file, and begins at another `spec.startingPosition`.",
    )

    @property
    def before(self) -> EventMark | None:
        """The event before `start`; None: unknown."""
        marks = (self.common_event, self.files_end)
        return next((mark for mark in marks if mark and 0 <= mark.sequence_number == self.start - 1), None)


class SegmentRecord(WireDocument):
    """A part of the chain in which sequence numbers name the same events in the files and in the hub."""

    version: Literal[1] = 1
    number: int = Field(ge=1)
    segment_id: str = Field(pattern="^[0-9a-f]{16}$", description="Names the folder of its files.")
    hub: HubName
    breaks: dict[str, PartitionBreak] = Field(default={}, description="Partition id -> its break; none in segment 1.")
    since: datetime


class LeaseRecord(WireDocument):
    """The hub and the chain to which a folder of leases belongs."""

    version: Literal[1] = 1
    namespace: str = Field(description="The hub's host name in lower case, without a port.")
    hub: str = Field(description="The hub's name in lower case.")
    consumer_group: str
    chain: str = Field(description="Identity of the chain that the checkpoints describe.")
    sink: str = Field(description="Location of that chain, <account>/<container>/<prefix>, for messages.")
    resource: str = Field(description="<namespace>/<name> of the EventConsumer that wrote this, for messages.")
    since: datetime
    spelling: str = Field(
        default="",
        description="Layout AzureSdk: `<namespace>/<hub>/<group>` as in the names of the leases. Empty: in lower case.",
    )


class BatchFolder(StrEnum):
    """Names of the folders of batches, `<name>=<n>`, in an output path and in its quarantine.

    pandas, PyArrow and Hive read no file below a folder whose name begins with an underscore or a dot, and raise no
    error (https://arrow.apache.org/docs/python/generated/pyarrow.parquet.read_table.html, `ignore_prefixes`). So new
    outputs have names without it. All folders of an output have the same name: its record says which.
    """

    VISIBLE = "batch"
    HIDDEN = "_batch"  # of outputs that an older version began

    def of(self, number: int) -> str:
        """The folder of a batch."""
        return f"{self}={number}"


_BATCH_FOLDER = re.compile(rf"(?P<root>.*)/(?P<name>{'|'.join(BatchFolder)})=[0-9]+")


class OutputRecord(WireDocument):
    """The chain whose batches are written to an output path."""

    version: Literal[1] = 1
    chain: str
    sink: str = Field(description="Location of that chain, <account>/<container>/<prefix>, for messages.")
    resource: str = Field(description="<namespace>/<name> of the EventConsumer that wrote this, for messages.")
    since: datetime
    batch_folder: BatchFolder = Field(
        default=BatchFolder.HIDDEN, description="Name of the folders of batches; absent: an older version wrote this."
    )


def chain_identity(account: str, container: str, prefix: str, segment_id: str) -> str:
    """Identity of a new chain, 16 hexadecimal digits.

    Args:
        account: Name of the storage account.
        container: Container of the sink.
        prefix: Folder of the sink.
        segment_id: Id of the first segment of the chain.
    """
    return hashlib.sha256(f"{account}\n{container}\n{prefix}\n{segment_id}".encode()).hexdigest()[:16]


def chain_name(prefix: str) -> str:
    """Blob name of the record of a chain."""
    return f"{prefix}/_chain.json"


def segment_name(prefix: str, number: int) -> str:
    """Blob name of the record of a segment."""
    return f"{prefix}/_segments/{number:010d}.json"


def lease_record_name(folder: str, group: str) -> str:
    """Blob name of the record of a lease folder, beside the folder, because old libraries list the folder.

    Event Hubs compares consumer groups without case, storage compares names with it. So the record has the name of the
    group in lower case: it is the same one, however the folder spells the group.

    Args:
        folder: Prefix of the names of the leases; it ends with the consumer group.
        group: The consumer group; names of consumer groups cannot contain the character ~.
    """
    start = folder.rstrip("/")
    return f"{start[: len(start) - len(group)]}{group.lower()}{LEASE_RECORD}"


def lease_record_names(folder: str, group: str) -> tuple[str, ...]:
    """Blob names of the record in the order to read them: earlier versions spelled it as the folder."""
    return tuple(dict.fromkeys((f"{folder.rstrip('/')}{LEASE_RECORD}", lease_record_name(folder, group))))


def lease_prefix(prefix: str | None, layout: LeaseLayout, namespace: str, hub: str, replay_name: str = "") -> str:
    """Prefix of the consumer group (layout AzureSdk: of the hub's names) in names of leases.

    Args:
        prefix: `spec.checkpointStore.prefix`; None: the default.
        layout: Layout of the leases.
        namespace: The hub's host name in lower case, without a port.
        hub: The hub's name.
        replay_name: Name of a replay, which has separate leases.
    """
    if prefix is None:
        prefix = "" if layout is LeaseLayout.AZURE_SDK else f"{namespace}/{hub.lower()}/"
    return prefix.strip() + (f"_replays/{replay_name}/" if replay_name else "")


def output_record_name(path: str) -> str:
    """Blob name of the record of an output path; Spark and Delta ignore names that begin with an underscore."""
    return f"{path.strip('/')}/_eventconsumer.json".lstrip("/")


def output_root(output: str) -> tuple[str, BatchFolder | None]:
    """The output path in a commit's `output`, and the name of its batch's folder; None: it is a table."""
    found = _BATCH_FOLDER.fullmatch(output)
    return (found["root"], BatchFolder(found["name"])) if found else (output, None)


def owner_id(resource: str, pod: str, uid: str) -> str:
    """Owner id of a lease: `<namespace>/<name>/<pod>.<uid>`.

    Args:
        resource: `<namespace>/<name>` of the EventConsumer.
        pod: Name of the pod.
        uid: Uid of the pod.
    """
    return f"{resource}/{pod}.{uid}"


def consumer_of(owner: str) -> str:
    """`<namespace>/<name>` in an owner id; empty if another program wrote it."""
    consumer, _, host = owner.rpartition("/")
    return consumer if consumer.count("/") == 1 and "." in host else ""


def pod_of(owner: str) -> str:
    """The pod's name in an owner id; uids contain no dots, names of pods may. Ids of other programs are unchanged."""
    if not consumer_of(owner):
        return owner
    return owner.rpartition("/")[2].rpartition(".")[0]
