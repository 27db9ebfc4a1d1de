"""EventConsumer v1alpha1: the single source of truth for the resource's spec.

The structural schema of the CRD (crdgen.py), the operator's parser and the reference page all come from these models.
Field constraints become OpenAPI constraints; cross-field rules are CEL, attached with `rules(...)`, and are enforced by
the API server, so there is no webhook. Defaults are static scalars; computed values appear in `status.effective`.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from eventconsumer_api.model import Model, rules
from eventconsumer_api.scalars import Quantity
from eventconsumer_api.scheduling import RESERVED_DOMAINS, Affinity, LabelName, LabelValue, Toleration
from eventconsumer_api.spark import Spark

GROUP = "eventconsumer.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "EventConsumer"
PLURAL = "eventconsumers"


# Storage refuses anything else: 3 to 63 characters, lower-case letters, digits, single hyphens between them.
ContainerName = Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9](-?[a-z0-9])+$")]
BlobPrefix = Annotated[str, Field(max_length=512, pattern=r"^([A-Za-z0-9_.=-]+/)*[A-Za-z0-9_.=-]*$")]
StorageUrl = Annotated[str, Field(max_length=512, pattern=r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9]+)?/?$")]


class SecretKeyRef(Model):
    """One key of a Secret in the same namespace."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Secret, in the resource's namespace.")
    key: str = Field(
        min_length=1,
        max_length=253,
        pattern=r"^[-._a-zA-Z0-9]+$",
        description="Key in the Secret that holds the value.",
    )


class WorkloadIdentity(Model):
    """A federated Microsoft Entra identity; no secret is stored."""

    client_id: str = Field(min_length=1, max_length=64, description="Client id of the managed identity or application.")


class Authentication(Model):
    """How the hosts sign in: exactly one of the two."""

    model_config = rules(
        (
            "has(self.connectionStringSecretRef) != has(self.workloadIdentity)",
            "authentication: set exactly one of connectionStringSecretRef and workloadIdentity",
        )
    )

    connection_string_secret_ref: SecretKeyRef | None = Field(
        default=None, description="A connection string in a Secret; mounted as a file, read by the hosts only."
    )
    workload_identity: WorkloadIdentity | None = Field(default=None, description="Sign in with workload identity.")


class EventHub(Model):
    """The Event Hub to drain, and the consumer group to read it with."""

    model_config = rules(
        (
            "has(self.authentication.connectionStringSecretRef) || "
            "(has(self.fullyQualifiedNamespace) && has(self.name))",
            "eventHub: fullyQualifiedNamespace and name are required with workloadIdentity",
        ),
        (
            "has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",
            "eventHub.name cannot change: create another EventConsumer for another hub",
        ),
        (
            "has(self.fullyQualifiedNamespace) == has(oldSelf.fullyQualifiedNamespace) && "
            "(!has(self.fullyQualifiedNamespace) || self.fullyQualifiedNamespace == oldSelf.fullyQualifiedNamespace)",
            "eventHub.fullyQualifiedNamespace cannot change: create another EventConsumer for another hub",
        ),
        (
            "self.consumerGroup == oldSelf.consumerGroup",
            "eventHub.consumerGroup cannot change: create another EventConsumer for another consumer group",
        ),
    )

    fully_qualified_namespace: str | None = Field(
        default=None,
        max_length=253,
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$",
        description="Host name of the namespace, such as shop.servicebus.windows.net; else the connection string's.",
    )
    name: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
        description="Name of the Event Hub; optional where the connection string has EntityPath.",
    )
    consumer_group: str = Field(
        default="$Default", min_length=1, max_length=50, description="Consumer group; one EventConsumer each."
    )
    authentication: Authentication = Field(description="How hosts sign in to Event Hubs (Listen is enough).")


class LeaseLayout(StrEnum):
    """How leases and checkpoints are stored."""

    EVENT_PROCESSOR_HOST = "EventProcessorHost"
    AZURE_SDK = "AzureSdk"


class LeaseStore(Model):
    """The blob container that holds partition leases, which are also the checkpoints."""

    model_config = rules(
        (
            "has(self.authentication.connectionStringSecretRef) || has(self.storageAccountUrl)",
            "leaseStore: storageAccountUrl is required with workloadIdentity",
        ),
        (
            "self.container == oldSelf.container",
            "leaseStore.container cannot change: checkpoints would be lost; create another EventConsumer",
        ),
        (
            "self.layout == oldSelf.layout",
            "leaseStore.layout cannot change: checkpoints would be lost; create another EventConsumer",
        ),
    )

    storage_account_url: StorageUrl | None = Field(
        default=None, description="Blob endpoint, such as https://shop.blob.core.windows.net."
    )
    container: ContainerName = Field(description="Container of the lease blobs; created where missing.")
    prefix: BlobPrefix = Field(
        default="", description="Put before the consumer group in lease names. A new prefix starts without checkpoints."
    )
    layout: LeaseLayout = Field(
        default=LeaseLayout.EVENT_PROCESSOR_HOST,
        description="EventProcessorHost: one leased blob a partition. AzureSdk: ownership and checkpoint blobs of the "
        "current Azure SDKs, whose processors may then share the partitions.",
    )
    shared: bool = Field(
        default=False,
        description="Other programs share these leases and write checkpoints. What they process is then recorded as a "
        "gap between the files; else a checkpoint that no file ends at is refused.",
    )
    lease_duration_seconds: int = Field(default=30, ge=15, le=60, description="Duration of a partition lease, seconds.")
    authentication: Authentication = Field(description="How hosts sign in to the storage account.")


class PositionType(StrEnum):
    """Where reading starts while a partition has no checkpoint."""

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
    """A place in one partition."""

    model_config = rules(*((rule, f"startingPosition: {message}") for rule, message in _POSITION_RULES))

    type: PositionType = Field(
        default=PositionType.EARLIEST,
        description="Earliest (all retained events), Latest, EnqueuedTime, Offset or SequenceNumber.",
    )
    enqueued_time: AwareDatetime | None = Field(
        default=None, description="The first event enqueued at or after this time, such as 2026-01-31T00:00:00Z."
    )
    offset: str | None = Field(
        default=None, min_length=1, max_length=64, description="The first event behind the one with this offset."
    )
    sequence_number: int | None = Field(
        default=None, ge=0, le=2**63 - 1, description="The event with this sequence number."
    )


class StartingPosition(Position):
    """Where to start in a partition that has no checkpoint and no drained file yet."""

    partitions: dict[str, Position] = Field(
        default={}, max_length=1024, description="Other positions for some partitions, by partition id."
    )


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
        description="Bytes of events that one host keeps in memory before they are in files, all partitions together. "
        "Where it is reached, the largest buffer becomes a file early.",
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


class ScalingMode(StrEnum):
    """How the number of hosts is chosen."""

    PARTITION_COUNT = "PartitionCount"
    LAG = "Lag"
    FIXED = "Fixed"


class LagScaling(Model):
    """How the number of hosts follows the lag."""

    target_seconds: int = Field(
        default=60,
        ge=1,
        le=86_400,
        description="A partition lags whose oldest event in no file is older than this beyond the time that a file may "
        "take (sink.roll.maxSeconds), seconds.",
    )
    cooldown_seconds: int = Field(
        default=300, ge=0, le=86_400, description="Hosts are taken away only after nothing lagged for so long, seconds."
    )
    idle_seconds: int = Field(
        default=900,
        ge=30,
        le=604_800,
        description="With minReplicas: 0, no host runs once everything is in files and nothing came for so long, "
        "seconds. A probe then looks for new events, and starts Spark batches of files that wait.",
    )


class Scaling(Model):
    """How many hosts run: never more than the hub has partitions, unless the mode is Fixed."""

    model_config = rules(
        (
            "(has(self.mode) && self.mode == 'Fixed') == has(self.replicas)",
            "scaling.replicas is required with mode: Fixed and refused with any other mode",
        ),
        (
            "self.minReplicas <= self.maxReplicas",
            "scaling.minReplicas must not be above scaling.maxReplicas",
        ),
        (
            "self.minReplicas > 0 || self.mode == 'Lag'",
            "scaling.minReplicas: 0 needs mode: Lag, which starts hosts again when events arrive",
        ),
    )

    mode: ScalingMode = Field(
        default=ScalingMode.PARTITION_COUNT,
        description="PartitionCount: partitions / partitionsPerHost. Lag: as many as the lag needs. Fixed: replicas.",
    )
    partitions_per_host: int = Field(default=1, ge=1, le=1024, description="Partitions for each host (PartitionCount).")
    min_replicas: int = Field(default=1, ge=0, le=1024, description="Fewest hosts (PartitionCount, Lag).")
    max_replicas: int = Field(default=32, ge=1, le=1024, description="Most hosts (PartitionCount, Lag).")
    lag: LagScaling = Field(default=LagScaling(), description="How mode Lag follows the lag.")
    replicas: int | None = Field(
        default=None, ge=0, le=1024, description="Number of hosts (Fixed); what `kubectl scale` sets."
    )


class Roll(Model):
    """When a file is complete: whichever limit is reached first."""

    max_bytes: int = Field(
        default=134_217_728, ge=1024, le=1_073_741_824, description="Bytes of events in memory before compression."
    )
    max_seconds: int = Field(default=60, ge=1, le=86_400, description="Age of the oldest event in the file, seconds.")
    max_events: int = Field(default=1_000_000, ge=1, le=10_000_000, description="Number of events in a file.")


class FileFormat(StrEnum):
    """Formats of drained files."""

    PARQUET = "Parquet"
    AVRO = "Avro"


class FileLayout(StrEnum):
    """Names of drained files."""

    SLOTS = "Slots"
    CAPTURE = "Capture"


class Sink(Model):
    """Where drained files go."""

    model_config = rules(
        (
            "has(self.authentication.connectionStringSecretRef) || has(self.storageAccountUrl)",
            "sink: storageAccountUrl is required with workloadIdentity",
        ),
        (
            "self.container == oldSelf.container",
            "sink.container cannot change: the files' chain would start anew; create another EventConsumer",
        ),
        (
            "(has(self.prefix) ? self.prefix : '') == (has(oldSelf.prefix) ? oldSelf.prefix : '')",
            "sink.prefix cannot change: the files' chain would start anew; create another EventConsumer",
        ),
        (
            "self.format == oldSelf.format && self.layout == oldSelf.layout",
            "sink.format and sink.layout cannot change: the files' chain would start anew; create another "
            "EventConsumer",
        ),
        (
            "self.layout != 'Capture' || self.format == 'Avro'",
            "sink.layout: Capture is the layout of Event Hubs Capture, which writes Avro: set sink.format to Avro",
        ),
        (
            "!has(self.emptyFiles) || !self.emptyFiles || self.layout == 'Capture'",
            "sink.emptyFiles needs sink.layout: Capture",
        ),
    )

    storage_account_url: StorageUrl | None = Field(
        default=None, description="Blob endpoint, such as https://shop.blob.core.windows.net."
    )
    container: ContainerName = Field(description="Container of the drained files; created where missing.")
    prefix: BlobPrefix = Field(default="", description="Folder of the files; empty means <namespace>/<name>.")
    authentication: Authentication = Field(description="How hosts and Spark sign in to the storage account.")
    format: FileFormat = Field(
        default=FileFormat.PARQUET, description="Parquet (zstd), or Avro in the schema of Event Hubs Capture."
    )
    layout: FileLayout = Field(
        default=FileLayout.SLOTS,
        description="Slots: files are named by sequence number. Capture: by time as Event Hubs Capture does, with a "
        "commit record for each file.",
    )
    empty_files: bool = Field(
        default=False, description="Layout Capture: write an empty file where roll.maxSeconds passed without events."
    )
    roll: Roll = Field(default=Roll(), description="When a file is complete.")


ResourceName = Literal["cpu", "memory", "ephemeral-storage"]


class Resources(Model):
    """Requests and limits of each host container: CPU and memory, and no devices, which give access to the node."""

    model_config = rules(
        (
            "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) || "
            "quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
            "pods.resources: a request must not be above its limit",
        ),
    )

    requests: dict[ResourceName, Quantity] = Field(
        default={},
        max_length=3,
        description="What the scheduler keeps free, such as {cpu: 100m, memory: 256Mi}; absent: 50m CPU, 192Mi memory, "
        "or the limit.",
    )
    limits: dict[ResourceName, Quantity] = Field(
        default={}, max_length=3, description="What a host may use, such as {memory: 1Gi}; absent: no limit."
    )


class Pods(Model):
    """What may be set on the host pods."""

    model_config = rules(
        *(
            (
                f"!has(self.{field}) || self.{field}.all(key, "
                + " && ".join(f"!key.startsWith('{domain}/')" for domain in (*RESERVED_DOMAINS, "app.kubernetes.io"))
                + ")",
                f"pods.{field}: keys of {', '.join(RESERVED_DOMAINS)} are reserved",
            )
            for field in ("labels", "annotations")
        )
    )

    resources: Resources = Field(default=Resources(), description="Requests and limits of each host.")
    node_selector: dict[LabelName, LabelValue] = Field(
        default={}, max_length=32, description="Labels of the nodes to run on."
    )
    tolerations: list[Toleration] = Field(default=[], max_length=32, description="Taints of nodes to tolerate.")
    affinity: Affinity | None = Field(
        default=None, description="Nodes and pods to be near to or away from; hosts spread over nodes and zones anyway."
    )
    priority_class_name: str | None = Field(
        default=None,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        description="Priority class; it must be allowed by the operator's administrator.",
    )
    labels: dict[LabelName, LabelValue] = Field(
        default={}, max_length=32, description="Labels of the pods; their prefix must be allowed by the administrator."
    )
    annotations: dict[LabelName, Annotated[str, Field(max_length=4096)]] = Field(
        default={}, max_length=32, description="Annotations of the pods; their prefix must be allowed likewise."
    )
    termination_grace_period_seconds: int = Field(
        default=60, ge=5, le=3600, description="Time a host has to flush, commit, checkpoint and release, seconds."
    )


class Replay(Model):
    """Read retained events once more, into files of their own.

    A replay is named by its nonce: a new nonce is a new replay, and the same one never runs twice. Its files are in
    `<sink.prefix>/_replays/<nonce>`, with chains of their own, so that nothing of the consumer's is touched.
    """

    nonce: str = Field(
        min_length=1,
        max_length=20,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        description="Name of this replay; another one starts another replay.",
    )
    consumer_group: str = Field(
        min_length=1,
        max_length=50,
        description="Consumer group to read with; not the consumer's own, whose readers go on.",
    )
    from_: AwareDatetime | None = Field(
        default=None, alias="from", description="Events enqueued at or after this time; absent: all retained."
    )
    to: AwareDatetime | None = Field(
        default=None, description="Events enqueued before this time; absent: all that are there when the replay starts."
    )
    partitions: list[Annotated[str, Field(min_length=1, max_length=8)]] = Field(
        default=[], max_length=1024, description="Partition ids; empty: all."
    )


class EventConsumerSpec(Model):
    """What the user wants: which hub to drain, where to, and what Spark does with it."""

    model_config = rules(
        (
            "!has(self.spark) || (has(self.spark.enabled) && !self.spark.enabled) || !has(self.processing) || "
            "!has(self.processing.handlerMode) || self.processing.handlerMode != 'Replace'",
            "spark processes files, and processing.handlerMode: Replace writes none: set spark.enabled to false",
        ),
        (
            "!has(self.replay) || self.replay.consumerGroup != self.eventHub.consumerGroup",
            "replay.consumerGroup must be another consumer group than eventHub.consumerGroup, whose readers it would "
            "displace",
        ),
        (
            "!has(self.replay) || !has(self.replay.from) || !has(self.replay.to) || self.replay.from < self.replay.to",
            "replay.from must be before replay.to",
        ),
    )

    event_hub: EventHub = Field(description="The Event Hub to drain.")
    lease_store: LeaseStore = Field(description="Partition leases and checkpoints.")
    starting_position: StartingPosition = Field(
        default=StartingPosition(), description="Where to start without a checkpoint."
    )
    processing: Processing = Field(default=Processing(), description="How hosts receive.")
    scaling: Scaling = Field(default=Scaling(), description="How many hosts run.")
    sink: Sink = Field(description="Where drained files go.")
    spark: Spark | None = Field(default=None, description="Spark applications over the drained files; absent: none.")
    pods: Pods = Field(default=Pods(), description="What may be set on the host pods.")
    suspend: bool = Field(
        default=False, description="Stop hosts and start no Spark application; leases and files stay."
    )
    replay: Replay | None = Field(default=None, description="Read retained events once more, beside everything else.")
