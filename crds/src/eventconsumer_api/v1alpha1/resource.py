"""The resource: its API names, and its spec."""

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules
from eventconsumer_api.spec.scalars import NUMBER_MAX
from eventconsumer_api.spec.spark import Spark
from eventconsumer_api.v1alpha1.event_hub import EventHub
from eventconsumer_api.v1alpha1.leases import CheckpointStore
from eventconsumer_api.v1alpha1.pods import Pods
from eventconsumer_api.v1alpha1.position import StartingPosition
from eventconsumer_api.v1alpha1.processing import Processing
from eventconsumer_api.v1alpha1.proxy import Proxy
from eventconsumer_api.v1alpha1.replay import Replay
from eventconsumer_api.v1alpha1.scaling import Scaling
from eventconsumer_api.v1alpha1.sink import Sink

GROUP = "eventconsumer.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "EventConsumer"
PLURAL = "eventconsumers"


class EventConsumerSpec(Model):
    """Desired state: the hub to drain, the sink of the files, and the Spark applications over them."""

    model_config = rules(
        (
            "!has(self.spark) || (has(self.spark.enabled) && !self.spark.enabled) || !has(self.processing) || "
            "!has(self.processing.handlerMode) || self.processing.handlerMode != 'Replace'",
            "spark processes files, and processing.handlerMode: Replace writes none: set spark.enabled to false",
        ),
        (
            "!has(self.sink.table) || !has(self.processing) || !has(self.processing.handlerMode) || "
            "self.processing.handlerMode != 'Replace'",
            "sink.table registers files, and processing.handlerMode: Replace writes none: remove sink.table",
        ),
        (
            "!has(self.sink.body) || self.sink.body.type == 'Binary' || !has(self.processing) || "
            "!has(self.processing.handlerMode) || self.processing.handlerMode != 'Replace'",
            "sink.body makes columns of files, and processing.handlerMode: Replace writes none: remove sink.body",
        ),
        (
            "!has(self.sink.notices) || !has(self.processing) || !has(self.processing.handlerMode) || "
            "self.processing.handlerMode != 'Replace'",
            "sink.notices announces files, and processing.handlerMode: Replace writes none: remove sink.notices",
        ),
        (
            "!has(self.sink.retention) || !has(self.processing) || !has(self.processing.handlerMode) || "
            "self.processing.handlerMode != 'Replace'",
            "sink.retention removes files, and processing.handlerMode: Replace writes none: remove sink.retention",
        ),
        (
            "!has(self.sink.retention) || !has(self.sink.retention.keepUncommitted) || "
            "self.sink.retention.keepUncommitted || !has(self.spark) || "
            "(has(self.spark.enabled) && !self.spark.enabled)",
            "sink.retention.keepUncommitted: false removes files that Spark has not processed, and their batch would "
            "fail: remove keepUncommitted, or set spark.enabled to false",
        ),
        (
            "!has(self.proxy) || !has(self.proxy.credentialsSecretRef) || !has(self.spark) || "
            "(has(self.spark.enabled) && !self.spark.enabled)",
            "Spark cannot sign in at a proxy: remove proxy.credentialsSecretRef and let the proxy accept the pods by "
            "their network, or set spark.enabled to false",
        ),
        (
            "!has(self.spark) || (has(self.spark.enabled) && !self.spark.enabled) || !has(self.spark.output) || "
            "!has(self.spark.output.body) || !has(self.spark.output.body.columns) || (has(self.sink.body) && "
            "self.sink.body.type == 'Json')",
            "spark.output.body.columns: FromSink needs columns in the files: set sink.body, or remove it",
        ),
        (
            "!has(self.replay) || self.replay.consumerGroup.lowerAscii() != self.eventHub.consumerGroup.lowerAscii()",
            "replay.consumerGroup must be another consumer group than eventHub.consumerGroup, whose readers it would "
            "displace",
        ),
        (
            "!has(self.replay) || !has(self.replay.from) || !has(self.replay.to) || self.replay.from < self.replay.to",
            "replay.from must be before replay.to",
        ),
    )

    event_hub: EventHub = Field(description="The Event Hub to drain.")
    checkpoint_store: CheckpointStore = Field(description="Partition leases and checkpoints.")
    starting_position: StartingPosition = Field(
        default=StartingPosition(),
        description="Starting position of a partition that has no checkpoint when a host opens it for the first time. "
        "It is decided once: a change applies only to partitions that no host has opened yet.",
    )
    processing: Processing = Field(default=Processing(), description="Settings of receiving.")
    scaling: Scaling = Field(default=Scaling(), description="Number of hosts.")
    sink: Sink = Field(description="Destination of drained files.")
    spark: Spark | None = Field(default=None, description="Spark applications over the drained files. Absent: none.")
    proxy: Proxy | None = Field(
        default=None,
        description="HTTP proxy of hosts and Spark, for Event Hubs (with transport AmqpWebSockets), storage and "
        "sign-in. Absent: the variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the pods, if they are set.",
    )
    pods: Pods = Field(default=Pods(), description="Settings of the host pods.")
    suspend: bool = Field(
        default=False, description="Stop hosts and start no Spark application; leases and files are kept."
    )
    acknowledged_gap_events: int = Field(
        default=0,
        ge=0,
        le=NUMBER_MAX,
        description="Number of lost events that a user has seen: status.drained.gapEvents. While it is exactly that "
        "number, condition DataGap is false.",
    )
    replay: Replay | None = Field(
        default=None, description="Read retained events again, into separate files, while the hosts keep running."
    )
