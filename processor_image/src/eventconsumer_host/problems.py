"""Converts errors to problems that a user can fix: the field, the cause and the remedy. Pure.

Each message names the object, the cause and the remedy. It contains no secret: errors are redacted where they are
created.
"""

from collections.abc import Iterable, Sequence

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.spec.column_types import type_text
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1 import HubTransport
from eventconsumer_api.wire.host_config import BlobContainer, HostConfig, HubConfig, ResourceRef
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_api.wire.identity import EventMark, HubName, LeaseRecord
from eventconsumer_host.body.record import RefusedColumn
from eventconsumer_host.errors import (
    ChainEnded,
    HubNotFound,
    HubUnauthorized,
    LeasesAmbiguous,
    NoticeFailed,
    PositionRefused,
    SourceError,
)
from eventconsumer_host.sink.gaps import Gap
from eventconsumer_host.source import causes
from eventconsumer_host.source.causes import HubField
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.causes import cause_of
from eventconsumer_storage.errors import Conflict, Damaged, Refused, StorageError, Unauthorized

HUB = "spec.eventHub"
LEASES = "spec.checkpointStore"
SINK = "spec.sink"
HANDLER = "spec.processing.handler"
_SELF = "<name> -n <namespace>"
_ACCEPT = (
    f"run kubectl eventconsumer suspend {_SELF} --wait, then kubectl eventconsumer hub accept {_SELF}, which shows its "
    f"plan, the same with --yes, and kubectl eventconsumer resume {_SELF}"
)

_REASONS = {"ContainerNotFound": Reason.CONTAINER_INVALID, "InvalidResourceName": Reason.CONTAINER_INVALID}


def hub_problem(config: HubConfig, error: SourceError, *, group: bool = False) -> Problem:
    """The problem for a failed hub request.

    Args:
        config: The hub's configuration.
        error: The error of the request.
        group: Whether the hub itself responded, so "not found" means the consumer group.
    """
    name = config.name or "named by EntityPath"
    namespace = f"{HUB}.fullyQualifiedNamespace" if config.fully_qualified_namespace else config.credential.field
    if cause := causes.cause_of(error):
        fields = {HubField.NAMESPACE: namespace, HubField.CREDENTIAL: config.credential.field}
        return Problem(
            field=fields.get(cause.place, f"{HUB}.{cause.place}"),
            reason=cause.reason,
            message=f"Event Hubs refuses a request because {cause.text}: {cause.remedy} ({error})",
        )
    if isinstance(error, HubNotFound) and group:
        return Problem(
            field=f"{HUB}.consumerGroup",
            reason=Reason.EVENT_HUB_NOT_FOUND,
            message=f"Event Hub {name} has no consumer group {config.consumer_group}: create it, or "
            f"set another name ({error})",
        )
    if isinstance(error, HubNotFound):
        return Problem(
            field=f"{HUB}.name",
            reason=Reason.EVENT_HUB_NOT_FOUND,
            message=f"the namespace has no Event Hub {name}: create it, or fix the name ({error})",
        )
    if isinstance(error, HubUnauthorized):
        return Problem(
            field=config.credential.field,
            reason=Reason.EVENT_HUB_UNAUTHORIZED,
            message=f"Event Hubs rejects the credential: grant it the right Listen, or renew its key ({error})",
        )
    if isinstance(error, PositionRefused):
        return position_refused(error)
    port = 443 if config.transport is HubTransport.AMQP_WEB_SOCKETS else 5671
    return Problem(
        field=namespace,
        reason=Reason.EVENT_HUB_UNREACHABLE,
        message="Event Hubs cannot be reached: check the host name, DNS, firewall and network policies, for port "
        f"{port} (spec.eventHub.transport: {config.transport.value}) ({error})",
    )


def storage_problem(owner_field: str, location: BlobContainer, error: StorageError) -> Problem:
    """The problem for a failed storage request.

    Args:
        owner_field: `LEASES` or `SINK`.
        location: The account and container.
        error: The error of the request.
    """
    container, cause = location.container, cause_of(error)
    if isinstance(error, Damaged):
        return Problem(field=f"{owner_field}.container", reason=Reason.CHAIN_INVALID, message=str(error))
    if cause:
        refused = Reason.STORAGE_UNREACHABLE if error.status >= 500 else Reason.STORAGE_REFUSED
        refused = Reason.STORAGE_UNAUTHORIZED if isinstance(error, Unauthorized) else refused
        field = "storageApiVersion" if error.code == "InvalidHeaderValue" else "container"
        return Problem(
            field=location.credential.field if isinstance(error, Unauthorized) else f"{owner_field}.{field}",
            reason=_REASONS.get(error.code, refused),
            message=f"storage refuses a request because {cause.text}: {cause.remedy} (container {container}: {error})",
        )
    if isinstance(error, Unauthorized):
        return Problem(
            field=location.credential.field,
            reason=Reason.STORAGE_UNAUTHORIZED,
            message="storage rejects the credential: grant it the role Storage Blob Data Contributor, or renew its key "
            f"(container {container}: {error})",
        )
    if isinstance(error, Refused) and error.status == 400 and "container" in str(error):
        return Problem(
            field=f"{owner_field}.container",
            reason=Reason.CONTAINER_INVALID,
            message=f"storage rejects the container name {container!r}: use 3 to 63 lower-case letters, "
            f"digits and single hyphens ({error})",
        )
    if isinstance(error, Conflict | Refused):
        return Problem(
            field=f"{owner_field}.container",
            reason=Reason.STORAGE_REFUSED,
            message=f"storage refuses a request for container {container}: see the code in "
            f"learn.microsoft.com/rest/api/storageservices/blob-service-error-codes ({error})",
        )
    endpoint_field = f"{owner_field}.storageAccountUrl" if location.storage_account_url else location.credential.field
    return Problem(
        field=endpoint_field,
        reason=Reason.STORAGE_UNREACHABLE,
        message="the storage account does not respond correctly: check the host name, DNS, firewall and network "
        f"policies (container {container}: {error})",
    )


def diverged(partition: str, ours: EventMark, hubs: EventMark, why: str) -> Problem:
    """The hub does not have the events that were read from a partition before.

    Args:
        partition: Its id.
        ours: The last event of its files, or of its checkpoint; number -1: none.
        hubs: The hub's last event.
        why: The difference.
    """
    return Problem(
        field=f"{HUB}.name",
        reason=Reason.HUB_DIVERGED,
        message=f"partition {partition}: {why}, so it is not read. If the hub gets its old events again, reading "
        f"continues automatically. To continue with the events that it has now, {_ACCEPT}. After a forced failover, or "
        "if the hub was created again, sequence numbers are used again: the last event that was read before is "
        f"{shown(ours)}, the last event in the Event Hub is {shown(hubs)}",
    )


def shown(mark: EventMark) -> str:
    """The number, offset and time of an event, for messages."""
    if mark.sequence_number < 0:
        return "none"
    offset = f", offset {mark.offset}" if mark.offset else ""
    time = f", enqueued {mark.enqueued_time.isoformat(timespec='milliseconds')}" if mark.enqueued_time else ""
    return f"number {mark.sequence_number}{offset}{time}"


def position_refused(error: PositionRefused) -> Problem:
    """The hub rejected the position of a link."""
    return Problem(
        field=f"{HUB}.name",
        reason=Reason.HUB_DIVERGED,
        message="Event Hubs rejects the position at which a partition continues: the partition ends before it. It may "
        "have lost events in a failover, or be another Event Hub with this name. The host compares the events, and "
        f"retries ({error})",
    )


def another_hub(drained: HubName, found: HubInfo) -> Problem:
    """The files belong to another hub."""
    return Problem(
        field=f"{SINK}.prefix",
        reason=Reason.HUB_DIVERGED,
        message=f"the files at this prefix were drained from Event Hub {drained.name} in {drained.namespace}, and "
        f"spec.eventHub names {found.name} in {found.namespace}: set another spec.sink.prefix, or correct "
        f"spec.eventHub; if it is the same hub under a new name, {_ACCEPT}",
    )


def development_layout(prefix: str) -> Problem:
    """A development version wrote the files."""
    return Problem(
        field=f"{SINK}.prefix",
        reason=Reason.CHAIN_INVALID,
        message=f"the files at {prefix} were written by a development version (there is {prefix}/_hub.json and no "
        "record of a segment): use another spec.sink.prefix",
    )


def chain_ended(error: ChainEnded) -> Problem:
    """The chain was ended while this host wrote to it."""
    return Problem(
        field=f"{HUB}.name",
        reason=Reason.HUB_DIVERGED,
        message=f"{error}. The host registers again as soon as the record of that segment exists; if it does not "
        f"appear, run kubectl eventconsumer hub accept {_SELF} --yes again",
    )


def chain_in_use(prefix: str, other: ResourceRef, own: ResourceRef) -> Problem:
    """Another resource writes to the same chain.

    Args:
        prefix: Folder of the files.
        other: The resource whose hosts run.
        own: This resource.
    """
    names = f"EventConsumer {other.path} (uid {other.uid}) drains into the files at {prefix}"
    if other.path == own.path:
        return Problem(
            field=f"{SINK}.prefix",
            reason=Reason.CHAIN_IN_USE,
            message=f"{names}, and {own.path} (uid {own.uid}) was applied since: its hosts start when the hosts of "
            "the first have ended, at the latest when their leases have expired",
        )
    return Problem(
        field=f"{SINK}.prefix",
        reason=Reason.CHAIN_IN_USE,
        message=f"{names}, so {own.path} (uid {own.uid}) is blocked: set another spec.sink.prefix, or, to move the "
        f"files to it, suspend or delete {other.path}",
    )


def leases_in_use(container: str, folder: str, found: LeaseRecord, wanted: LeaseRecord) -> Problem:
    """A folder of leases belongs to another hub or another chain.

    Args:
        container: The lease container.
        folder: The prefix of the lease names.
        found: The record of their owner.
        wanted: The record of this consumer.
    """
    whose = (
        f"the leases at {folder} in container {container} belong to EventConsumer {found.resource}, which drains "
        f"consumer group {found.consumer_group} of Event Hub {found.hub} in {found.namespace} into {found.sink}"
    )
    if (found.namespace, found.hub) != (wanted.namespace, wanted.hub):
        return Problem(
            field=f"{LEASES}.prefix",
            reason=Reason.CHECKPOINT_STORE_IN_USE,
            message=f"{whose}; this consumer drains Event Hub {wanted.hub} in {wanted.namespace}: remove "
            "spec.checkpointStore.prefix, so that the leases get a separate folder, or set an unused prefix",
        )
    return Problem(
        field=f"{LEASES}.prefix",
        reason=Reason.CHECKPOINT_STORE_IN_USE,
        message=f"{whose}; this consumer drains into {wanted.sink}, and checkpoints of other files would skip events: "
        "give it a separate consumer group, or, to move these files, see kubectl eventconsumer adopt",
    )


def group_in_another_case(container: str, folder: str, group: str, others: Sequence[str]) -> Problem:
    """There are leases of the same consumer group under another spelling: it would be read again.

    Args:
        container: The lease container.
        folder: The prefix of the lease names, with this spelling.
        group: The consumer group as the resource spells it.
        others: The other spellings.
    """
    start = folder.rstrip("/")[: -len(group)]
    theirs = " and ".join(f"{start}{other}/" for other in others)
    return Problem(
        field=f"{HUB}.consumerGroup",
        reason=Reason.CHECKPOINT_STORE_IN_USE,
        message=f"container {container} has leases of this consumer group at {theirs}, and {group} would restart at "
        f"{start}{group}/: Event Hubs compares names of consumer groups without case, storage with case. Create the "
        f"EventConsumer with consumerGroup: {others[0]}, to continue from these leases; or, if no program uses them, "
        "delete them",
    )


def leases_do_not_fit(container: str, folder: str, why: str) -> Problem:
    """Leases without a record of their owner do not belong to this hub, or are held.

    Args:
        container: The lease container.
        folder: The prefix of the lease names.
        why: The conflict, with the remedy if it is not another folder.
    """
    return Problem(
        field=f"{LEASES}.prefix",
        reason=Reason.CHECKPOINT_STORE_IN_USE,
        message=f"the leases at {folder} in container {container} belong to another program and are not taken over: "
        f"{why}. If they are of another hub, remove spec.checkpointStore.prefix or set an unused prefix",
    )


def leases_ambiguous(container: str, error: LeasesAmbiguous) -> Problem:
    """There are leases of the consumer group under several spellings of its names.

    Args:
        container: The lease container.
        error: Names the folders.
    """
    return Problem(
        field=f"{LEASES}.container",
        reason=Reason.CHECKPOINT_STORE_IN_USE,
        message=f"container {container}: {error}",
    )


def checkpoint_above_end(partition: str, reached: int, end: int) -> Problem:
    """The checkpoint is ahead of the files: to continue there would skip events."""
    return Problem(
        field=f"{LEASES}.prefix",
        reason=Reason.CHECKPOINT_INVALID,
        message=f"the checkpoint of partition {partition} is {reached}, but its files end at {end}: events {end + 1} "
        f"to {reached} would be in no file. Set the sequence number in the lease blob to {end}, or delete the blob to "
        "have it rebuilt from the files; if another program that shares the leases processed these events, set "
        "checkpointStore.shared to true",
    )


def offset_not_found(resource: ResourceRef, partition: str, offset: str) -> Problem:
    """A checkpoint has only an offset, and neither the hub nor a file has the event: its number is unknown."""
    return Problem(
        field=f"{LEASES}.prefix",
        reason=Reason.CHECKPOINT_INVALID,
        message=f"the checkpoint of partition {partition} has offset {offset!r} and no sequence number, and neither "
        "the Event Hub nor a file has an event with this offset: it expired, or the lease is of another Event Hub. "
        f"Suspend the consumer, and set the position: kubectl eventconsumer checkpoint set {resource.name} "
        f"-n {resource.namespace} --partition {partition} --sequence-number <last processed event>",
    )


def start_beyond_end(partition: str, wanted: int, last: int) -> Problem:
    """The starting position does not exist yet."""
    return Problem(
        field="spec.startingPosition.sequenceNumber",
        reason=Reason.POSITION_INVALID,
        message=f"the starting position of partition {partition} is sequence number {wanted}, but the hub's last is "
        f"{last}: set an existing number, or use type Latest",
    )


def start_refused(partition: str, position: str, error: PositionRefused) -> Problem:
    """The starting position is beyond the end of the partition."""
    return Problem(
        field=f"spec.startingPosition.{position}",
        reason=Reason.POSITION_INVALID,
        message=f"the hub rejects the starting position of partition {partition}, which is beyond its last event: set "
        f"the position of an existing event, or use type Latest ({error})",
    )


def rival(partition: str, group: str, *, reader: bool, name: str = "") -> Problem:
    """Another program uses a partition whose lease this host holds.

    Args:
        partition: Its id.
        group: The consumer group.
        reader: Whether it takes the link; else it writes files.
        name: The name that the other reader gave to its link, such as the name of a pod; empty: none.
    """
    if reader:
        return Problem(
            field=f"{HUB}.consumerGroup",
            reason=Reason.FENCED,
            message=f"another reader of consumer group {group} (name: {name or 'none'}) takes partition {partition} "
            "repeatedly, with an equal or higher epoch, and holds none of these leases: stop it, or give each program "
            "a separate consumer group",
        )
    return Problem(
        field=f"{SINK}.prefix",
        reason=Reason.FENCED,
        message=f"files of partition {partition} with a higher epoch appear repeatedly, written by a program that "
        "holds none of these leases: another EventConsumer drains into the same sink.prefix with another lease "
        "store; delete one of the two",
    )


def data_gap(partition: str, lost: int, newest: Gap) -> Problem:
    """Retention removed events before a handler without files processed them."""
    return Problem(
        field=f"{HUB}.name",
        reason=Reason.DATA_GAP,
        message=f"{lost} events of partition {partition} were removed before they were read, the newest are "
        f"{newest.first} to {newest.last}: raise the hub's retention, or the number of hosts",
    )


def undecoded(partition: str, count: int, newest: int) -> Problem:
    """Events could not be decoded; their files or dead letters have the whole messages."""
    return Problem(
        field=HUB,
        reason=Reason.DEAD_LETTERS,
        message=f"{count} events of partition {partition} could not be decoded since this host started, the newest is "
        f"{newest}: their body is the whole AMQP message, and a system property names the cause; correct "
        "their publisher",
    )


def columns_refused(refused: Sequence[RefusedColumn]) -> Problem:
    """Other columns have the names of columns of bodies; not empty."""
    why = "; ".join(
        f"{each.column.name} {type_text(each.column.type)} is refused, because {each.cause}" for each in refused
    )
    return Problem(
        field="spec.sink.body.columns",
        reason=Reason.COLUMNS_REFUSED,
        message=f"{why}. A column keeps its name and type for ever, because files are final: use another name. Files "
        "are written without the refused columns; their values are in the body",
    )


def decoder_missing() -> Problem:
    """Bodies are parsed in plain Python."""
    return Problem(
        field="spec.processing.image",
        reason=Reason.DECODER_MISSING,
        message="the image has no compiled decoder, so bodies are parsed in plain Python: the columns are the same, "
        "but parsing takes about 40 times the CPU time. Build the image from the host image of this version",
    )


def notices_failing(error: NoticeFailed) -> Problem:
    """The endpoint does not acknowledge notices."""
    remedy = "" if error.lasting else ". Check the endpoint, its host name, DNS, firewall and network policies"
    return Problem(
        field=error.field,
        reason=Reason.NOTICES_FAILING,
        message=f"{error}{remedy}. The host sends it again, and skips no notice; events are written to files meanwhile",
    )


def named(found: Iterable[Problem], resource: ResourceRef) -> list[Problem]:
    """The problems of a resource, with its name and namespace in their commands."""
    name, where = f"{resource.name} -n {resource.namespace}", f"-n {resource.namespace}"
    return [
        each.model_copy(update={"message": each.message.replace(_SELF, name).replace("-n <namespace>", where)})
        for each in found
    ]


def of(config: HostConfig, part: str, error: EventConsumerError) -> Problem:
    """The problem for any error of one part (`HUB`, `LEASES` or `SINK`)."""
    if isinstance(error, Blocked):
        return error.problem
    if isinstance(error, ChainEnded):
        return chain_ended(error)
    if isinstance(error, NoticeFailed):
        return notices_failing(error)
    if isinstance(error, LeasesAmbiguous):
        return leases_ambiguous(config.leases.location.container, error)
    if isinstance(error, SourceError):
        return hub_problem(config.event_hub, error)
    location = config.leases.location if part == LEASES else config.sink
    if isinstance(error, StorageError):
        return storage_problem(part, location, error)
    return Problem(field=part, reason=Reason.LEASE_INVALID, message=str(error))
