"""Condition types and reasons: the vocabulary of the resource's status. Every reason is documented here.

kstatus-compatible: `Reconciling`, `Stalled` and `DataGap` are abnormal-true, the others normal-true.
"""

from enum import StrEnum


class ConditionType(StrEnum):
    """Types of status conditions."""

    READY = "Ready"  # hosts run, own all partitions, and nothing needs a person
    RECONCILING = "Reconciling"  # the operator is still working towards this generation
    STALLED = "Stalled"  # a person must change something
    HOSTS_AVAILABLE = "HostsAvailable"  # the desired number of hosts is ready
    DRAINING = "Draining"  # events flow into files
    DATA_GAP = "DataGap"  # events were lost: they expired in the Event Hub before they were written
    SPARK_HEALTHY = "SparkHealthy"  # the last Spark application did not fail


class Reason(StrEnum):
    """Reasons of conditions and problems."""

    # Healthy and in-between states.
    AVAILABLE = "Available"  # as wanted
    PROGRESSING = "Progressing"  # on the way: hosts start or partitions move
    SUSPENDED = "Suspended"  # spec.suspend is true
    SCALED_TO_ZERO = "ScaledToZero"  # spec.scaling.replicas is 0, or left out, in mode Fixed
    DISABLED = "Disabled"  # the feature is not enabled in the spec
    IDLE = "Idle"  # nothing to do
    NO_REPORT = "NoReport"  # no host has reported yet
    # Problems that hosts report, each with the field to change.
    SPEC_INVALID = "SpecInvalid"  # the resource does not fit the schema
    SECRET_KEY_MISSING = "SecretKeyMissing"  # Secret or key absent or empty  # noqa: S105
    CONNECTION_STRING_INVALID = "ConnectionStringInvalid"  # it cannot be parsed, or lacks a part
    INSECURE_ENDPOINT = "InsecureEndpoint"  # plain HTTP or AMQP, or a bare address, without the administrator's flag
    ENDPOINT_NOT_ALLOWED = "EndpointNotAllowed"  # its host name is under no domain that the administrator allows
    EVENT_HUB_NOT_FOUND = "EventHubNotFound"  # no such hub or consumer group
    EVENT_HUB_UNAUTHORIZED = "EventHubUnauthorized"  # the hub refuses the credential
    EVENT_HUB_UNREACHABLE = "EventHubUnreachable"  # no connection
    STORAGE_UNREACHABLE = "StorageUnreachable"  # no connection
    STORAGE_UNAUTHORIZED = "StorageUnauthorized"  # storage refuses the credential
    CONTAINER_INVALID = "ContainerInvalid"  # storage refuses the container's name
    LEASE_INVALID = "LeaseInvalid"  # a lease blob cannot be read
    CHAIN_INVALID = "ChainInvalid"  # a drained file or a record about them was changed or removed by something else
    HUB_DIVERGED = "HubDiverged"  # the hub has other events than the files under the same sequence numbers
    LEASE_STORE_IN_USE = "LeaseStoreInUse"  # the leases belong to another hub, or to another chain of files
    CHAIN_IN_USE = "ChainInUse"  # another EventConsumer drains into the same sink and prefix
    DATA_GAP = "DataGap"  # retention removed events before they were read
    FENCED = "Fenced"  # another reader uses the consumer group, or another host's file is ahead
    CHECKPOINT_INVALID = "CheckpointInvalid"  # a checkpoint is above all that was drained: somebody edited it
    POSITION_INVALID = "PositionInvalid"  # the starting position does not exist in the hub
    HANDLER_INVALID = "HandlerInvalid"  # the handler cannot be imported, or is no handler
    HANDLER_FAILING = "HandlerFailing"  # the handler fails, or its dead letters cannot be written
    DEAD_LETTERS = "DeadLetters"  # events that the handler kept failing on are in dead-letter files
    # What the operator finds.
    FORBIDDEN = "Forbidden"  # the operator lacks a right
    NAME_TAKEN = "NameTaken"  # an object of somebody else has the name of one the operator must create
    REFUSED = "Refused"  # the API server does not accept an object the operator must create: admission, quota
    HOSTS_FAILING = "HostsFailing"  # host pods do not start
    SPARK_FAILED = "SparkFailed"  # the open batch failed as often as spec.spark.retry.attempts says
    SPARK_RETRYING = "SparkRetrying"  # an attempt of the open batch failed; it is tried again
    SPARK_WAITING = "SparkWaiting"  # pods of a Spark application do not start: no image, no room, a quota
    SPARK_BEHIND = "SparkBehind"  # more files wait than one batch takes
    SPARK_QUARANTINED = "SparkQuarantined"  # files or events that cannot be processed were left out


class PodReason(StrEnum):
    """Reasons of the Kubernetes Events that tell why a pod was restarted or went."""

    OUT_OF_MEMORY = "HostOutOfMemory"  # a container needed more memory than its limit
    EXITED = "HostExited"  # a container ended by itself with an error
    PROBE_FAILED = "HostProbeFailed"  # the kubelet stopped a container, as it does when its liveness probe fails
    EVICTED = "HostEvicted"  # the pod was evicted: a drained node, pressure on it, or a more important pod
    NODE_LOST = "HostNodeLost"  # the pod's node does not answer


ADVISORY = frozenset({Reason.DATA_GAP, Reason.DEAD_LETTERS})
"""Problems that a person should know of, though nothing waits for one."""
