"""Condition types and reasons: the vocabulary of the resource's status. Every reason is documented here.

kstatus-compatible: `Reconciling`, `Stalled`, `DataGap` and `BodiesUnreadable` are abnormal-true, the others
normal-true.
"""

from enum import StrEnum


class ConditionType(StrEnum):
    """Types of status conditions."""

    READY = "Ready"  # hosts run and own all partitions; no action is required
    RECONCILING = "Reconciling"  # the operator is applying this generation of the spec
    STALLED = "Stalled"  # a user must change something before the operator can continue
    HOSTS_AVAILABLE = "HostsAvailable"  # the desired number of hosts is ready
    DRAINING = "Draining"  # events are written to files
    DATA_GAP = "DataGap"  # events were lost: they expired in the Event Hub before they were written
    BODIES_UNREADABLE = "BodiesUnreadable"  # bodies of events in new files do not fit the columns of spec.sink.body
    SPARK_HEALTHY = "SparkHealthy"  # the open batch has no failed attempt, and all applications start


class Reason(StrEnum):
    """Reasons of conditions and problems."""

    # Healthy and in-between states.
    AVAILABLE = "Available"  # the state matches the spec
    PROGRESSING = "Progressing"  # hosts start, or partitions move between hosts
    SUSPENDED = "Suspended"  # spec.suspend is true
    SCALED_TO_ZERO = "ScaledToZero"  # spec.scaling.replicas is 0, or left out, in mode Fixed
    DISABLED = "Disabled"  # the feature is not enabled in the spec
    IDLE = "Idle"  # no events, files or batches are pending
    GAP_ACKNOWLEDGED = "GapAcknowledged"  # spec.acknowledgedGapEvents is the number of lost events
    NO_REPORT = "NoReport"  # no host has reported yet
    # Problems that hosts report, each with the field to change.
    SPEC_INVALID = "SpecInvalid"  # the resource does not fit the schema
    SECRET_KEY_MISSING = "SecretKeyMissing"  # the Secret or its key is missing or empty  # noqa: S105
    CONNECTION_STRING_INVALID = "ConnectionStringInvalid"  # the text cannot be parsed, or a part is missing
    INSECURE_ENDPOINT = "InsecureEndpoint"  # an endpoint without TLS or an IP address, which is not allowed
    ENDPOINT_NOT_ALLOWED = "EndpointNotAllowed"  # the host name is not under an allowed domain of its role
    EVENT_HUB_NOT_FOUND = "EventHubNotFound"  # the Event Hub or the consumer group does not exist
    EVENT_HUB_UNAUTHORIZED = "EventHubUnauthorized"  # the hub rejects the credential
    EVENT_HUB_UNREACHABLE = "EventHubUnreachable"  # no connection to the Event Hub, or the service has a fault
    EVENT_HUB_REFUSED = "EventHubRefused"  # the hub is disabled, or a quota or a setting forbids a request
    STORAGE_UNREACHABLE = "StorageUnreachable"  # no connection to the storage account
    STORAGE_UNAUTHORIZED = "StorageUnauthorized"  # storage rejects the credential
    STORAGE_REFUSED = "StorageRefused"  # a policy, a lease or the state of a blob or container forbids a request
    CONTAINER_INVALID = "ContainerInvalid"  # storage rejects the container's name, or the container does not exist
    LEASE_INVALID = "LeaseInvalid"  # a lease blob cannot be read, or names an owner that does not see the hosts
    CHAIN_INVALID = "ChainInvalid"  # another program changed or removed a file of the chain, or a record
    TABLE_INVALID = "TableInvalid"  # the log of the table is damaged, or the table needs another writer
    COLUMNS_REFUSED = "ColumnsRefused"  # other columns have their names: files are written without these columns
    DECODER_MISSING = "DecoderMissing"  # the image lacks the compiled decoder: columns of bodies take more CPU time
    RETENTION_BLOCKED = "RetentionBlocked"  # files that are due cannot be removed
    NOTICES_FAILING = "NoticesFailing"  # the endpoint of notices refuses them, or does not respond
    HUB_DIVERGED = "HubDiverged"  # the hub has other events under sequence numbers that are in files
    CHECKPOINT_STORE_IN_USE = "CheckpointStoreInUse"  # the leases belong to another hub, or to another chain of files
    CHAIN_IN_USE = "ChainInUse"  # another EventConsumer drains into the same sink and prefix
    DATA_GAP = "DataGap"  # events expired in the Event Hub before they were written to a file
    FENCED = "Fenced"  # another reader uses the consumer group, or another host's file is ahead
    CHECKPOINT_INVALID = "CheckpointInvalid"  # a checkpoint is above all files: another program edited it
    POSITION_INVALID = "PositionInvalid"  # the starting position does not exist in the hub
    HANDLER_INVALID = "HandlerInvalid"  # the handler cannot be imported, or is not a handler class
    HANDLER_FAILING = "HandlerFailing"  # the handler fails, or its dead letters cannot be written
    DEAD_LETTERS = "DeadLetters"  # the handler failed repeatedly for some events, or they cannot be decoded
    # Problems that the operator finds.
    BODIES_UNREADABLE = "BodiesUnreadable"  # bodies of events in new files do not fit the columns of spec.sink.body
    CONSUMER_GROUP_IN_USE = "ConsumerGroupInUse"  # an older EventConsumer of the namespace reads the consumer group
    FORBIDDEN = "Forbidden"  # the operator lacks a permission
    NAME_TAKEN = "NameTaken"  # an object with a required name exists and does not belong to the resource
    CONTESTED = "Contested"  # another client changes an object of the operator again and again
    OBJECT_REFUSED = "ObjectRefused"  # the API server rejects an object of the operator, or a pod: admission or quota
    HOSTS_FAILING = "HostsFailing"  # pods of hosts or of the probe are missing, do not start, or do not report
    SPARK_FAILED = "SparkFailed"  # the open batch failed spec.spark.retry.attempts times
    SPARK_RETRYING = "SparkRetrying"  # an attempt of the open batch failed; another attempt follows
    SPARK_WAITING = "SparkWaiting"  # pods of a Spark application do not start: image, resources or quota
    SPARK_BEHIND = "SparkBehind"  # more files are pending than one batch takes
    SPARK_QUARANTINED = "SparkQuarantined"  # files or events that cannot be processed were excluded


class PodReason(StrEnum):
    """Reasons of the Kubernetes Events that give the cause of a pod's restart or removal."""

    OUT_OF_MEMORY = "HostOutOfMemory"  # a container needed more memory than its limit
    EXITED = "HostExited"  # a container exited with an error
    KILLED = "HostKilled"  # a container was killed from outside, and nothing shows a reason
    PROBE_FAILED = "HostProbeFailed"  # the kubelet stopped a container after its liveness probe failed
    EVICTED = "HostEvicted"  # the pod was evicted: node drain, node pressure or preemption
    NODE_LOST = "HostNodeLost"  # the pod's node is not reachable


UNREACHABLE = frozenset({Reason.EVENT_HUB_UNREACHABLE, Reason.STORAGE_UNREACHABLE})
"""Problems of the network, which may concern one host and pass without an action of a user."""

ADVISORY = frozenset({Reason.DATA_GAP, Reason.DEAD_LETTERS, Reason.DECODER_MISSING})
"""Problems to report that do not require an action of a user to continue."""
