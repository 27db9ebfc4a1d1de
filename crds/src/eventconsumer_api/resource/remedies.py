"""The severity, the remedy and the command for each reason of a condition. Pure.

The condition's message names the object, the cause and usually the remedy. The status page shows the remedy, the
kubectl plugin the command; docs/runbooks agrees with both.
"""

from collections.abc import Iterable
from typing import Literal

from eventconsumer_api.spec.conditions import ConditionType, Reason
from eventconsumer_api.v1alpha1.status import Condition

Severity = Literal["ok", "notice", "problem"]

ABNORMAL_TRUE = frozenset(
    {ConditionType.RECONCILING, ConditionType.STALLED, ConditionType.DATA_GAP, ConditionType.BODIES_UNREADABLE}
)
"""Types that report a problem when True; the others report a problem when False."""

AS_WANTED = frozenset(
    {
        Reason.AVAILABLE,
        Reason.IDLE,
        Reason.DISABLED,
        Reason.SUSPENDED,
        Reason.SCALED_TO_ZERO,
        Reason.GAP_ACKNOWLEDGED,
    }
)
"""Reasons that require no action, whatever the status."""

_UNDER_WAY = frozenset({Reason.PROGRESSING, Reason.NO_REPORT, Reason.SPARK_RETRYING})
_ADVICE = frozenset({Reason.SPARK_BEHIND, Reason.SPARK_QUARANTINED, Reason.DEAD_LETTERS})
_PODS_TELL = "kubectl describe, and kubectl logs --previous, of what the message names show the cause."

REMEDIES: dict[Reason, str] = {
    Reason.PROGRESSING: "No action required. If it persists for minutes, kubectl describe pod shows the cause.",
    Reason.NO_REPORT: "If it persists, read the hosts' logs, and check NetworkPolicies between operator and hosts.",
    Reason.SPEC_INVALID: "Change the field that the message names; running pods keep the last valid spec.",
    Reason.SECRET_KEY_MISSING: "Create the Secret or the key that the message names; hosts read it without a restart.",
    Reason.CONNECTION_STRING_INVALID: "Copy the whole connection string from the portal into the Secret again.",
    Reason.INSECURE_ENDPOINT: "Use a host name and TLS; for emulators, the administrator sets allowInsecureEndpoints.",
    Reason.ENDPOINT_NOT_ALLOWED: "Correct the host name, or let the administrator extend the value that the message "
    "names.",
    Reason.EVENT_HUB_NOT_FOUND: "Correct the name of the hub or of the consumer group, or create it.",
    Reason.EVENT_HUB_UNAUTHORIZED: "Grant Azure Event Hubs Data Receiver, or correct the key, the Secret or the clock.",
    Reason.EVENT_HUB_UNREACHABLE: "Check DNS, firewall and network rules: hosts need port 5671 (AmqpWebSockets: 443).",
    Reason.EVENT_HUB_REFUSED: "Remove the cause that the message names: a disabled hub, a quota, a setting.",
    Reason.STORAGE_UNREACHABLE: "Check DNS, firewall and private endpoint: hosts need port 443 of the account.",
    Reason.STORAGE_UNAUTHORIZED: "Grant Storage Blob Data Contributor on the container, or correct the Secret.",
    Reason.STORAGE_REFUSED: "Remove the cause that the message names: a policy, a lease, a copy, an old API version.",
    Reason.CONTAINER_INVALID: "Correct the name of the container that the message names, or create the container.",
    Reason.LEASE_INVALID: "Correct the lease blob that the message names, and find the program that wrote it.",
    Reason.CHAIN_INVALID: "Run eventconsumer audit in a host; restore the file from a version or a soft delete.",
    Reason.TABLE_INVALID: "Restore the table's log from a backup, or remove the feature that the message names.",
    Reason.COLUMNS_REFUSED: "Give the columns of spec.sink.body that the message names other names.",
    Reason.DECODER_MISSING: "Build the image of spec.processing.image from the host image of this version.",
    Reason.BODIES_UNREADABLE: "Correct the publisher, or add a column of the right type to spec.sink.body.",
    Reason.RETENTION_BLOCKED: "Remove the cause that the message names, or remove spec.sink.retention.",
    Reason.NOTICES_FAILING: "Correct spec.sink.notices or its Secret, or restore the endpoint: no notice is skipped.",
    Reason.HUB_DIVERGED: "No action if the hub is restored. Otherwise suspend, then kubectl eventconsumer hub accept.",
    Reason.CHECKPOINT_STORE_IN_USE: "Remove spec.checkpointStore.prefix, or set a prefix that no other program uses.",
    Reason.CHAIN_IN_USE: "Give one of the two EventConsumers another spec.sink.prefix, or delete one of them.",
    Reason.CONSUMER_GROUP_IN_USE: "Create an EventConsumer with another consumer group and delete this one, or suspend "
    "or delete the older one.",
    Reason.DATA_GAP: "Raise the hub's retention, or the number of hosts; then set spec.acknowledgedGapEvents.",
    Reason.FENCED: "Stop the other reader, or use one consumer group for each program.",
    Reason.CHECKPOINT_INVALID: "Correct or delete the lease blob, as the message says: it is rebuilt from the files.",
    Reason.POSITION_INVALID: "Set a starting position that exists in the hub, or use type Latest.",
    Reason.HANDLER_INVALID: "Correct spec.processing, or build an image that contains the handler.",
    Reason.HANDLER_FAILING: "Read the error in the message and in the hosts' logs; correct the handler.",
    Reason.DEAD_LETTERS: "Correct the handler or the publisher, then pass the dead letters again, or drop them.",
    Reason.FORBIDDEN: "Run helm upgrade, which restores the permission that the message names.",
    Reason.NAME_TAKEN: "Rename the EventConsumer, or remove the object that the message names.",
    Reason.CONTESTED: "Stop the other client that the message describes, such as a second operator.",
    Reason.OBJECT_REFUSED: "Correct the quota or the admission policy that the message names.",
    Reason.HOSTS_FAILING: _PODS_TELL,
    Reason.SPARK_FAILED: "Correct the program or its resources, then delete the Job to retry the same files.",
    Reason.SPARK_RETRYING: "No action required: another attempt follows. If it persists, read the log of the Job.",
    Reason.SPARK_WAITING: _PODS_TELL,
    Reason.SPARK_BEHIND: "Use more executors and larger batches: files arrive faster than Spark processes them.",
    Reason.SPARK_QUARANTINED: "Check the files or events in the message: they were excluded and are still in the sink.",
}

_CHECK = "kubectl eventconsumer doctor {name} -n {namespace} checks hub, storage and Secrets from inside the cluster"
_EDIT = "kubectl edit eventconsumer {name} -n {namespace}, then kubectl eventconsumer status {name} -n {namespace}"
_PODS = "kubectl describe pods -n {namespace} -l eventconsumer.io/consumer={name}"
_LOGS = "kubectl eventconsumer logs {name} -n {namespace}"
_BATCHES = "kubectl eventconsumer batches {name} -n {namespace} shows the batches and their attempts"
_AUDIT = "kubectl eventconsumer audit {name} -n {namespace} lists the lost events, and checks all files"
_GAP = "kubectl eventconsumer gap show {name} -n {namespace} shows the lost events; gap ack acknowledges them"
_HOSTS = "kubectl eventconsumer hosts {name} -n {namespace} shows the state of each host"

COMMANDS: dict[Reason, str] = {
    Reason.PROGRESSING: _HOSTS,
    Reason.SUSPENDED: "kubectl eventconsumer resume {name} -n {namespace} starts the hosts again",
    Reason.SCALED_TO_ZERO: "kubectl scale eventconsumer {name} -n {namespace} --replicas=1 starts a host",
    Reason.NO_REPORT: _HOSTS,
    Reason.SPEC_INVALID: _EDIT,
    Reason.SECRET_KEY_MISSING: _CHECK,
    Reason.CONNECTION_STRING_INVALID: _CHECK,
    Reason.INSECURE_ENDPOINT: _EDIT,
    Reason.ENDPOINT_NOT_ALLOWED: _EDIT,
    Reason.EVENT_HUB_NOT_FOUND: _CHECK,
    Reason.EVENT_HUB_UNAUTHORIZED: _CHECK,
    Reason.EVENT_HUB_UNREACHABLE: _CHECK,
    Reason.EVENT_HUB_REFUSED: _CHECK,
    Reason.STORAGE_UNREACHABLE: _CHECK,
    Reason.STORAGE_UNAUTHORIZED: _CHECK,
    Reason.STORAGE_REFUSED: _CHECK,
    Reason.CONTAINER_INVALID: _EDIT,
    Reason.LEASE_INVALID: "kubectl eventconsumer leases {name} -n {namespace} shows the leases in storage",
    Reason.CHAIN_INVALID: _AUDIT,
    Reason.TABLE_INVALID: _AUDIT,
    Reason.COLUMNS_REFUSED: _EDIT,
    Reason.DECODER_MISSING: _EDIT,
    Reason.BODIES_UNREADABLE: "kubectl eventconsumer errors {name} -n {namespace} lists the events and their errors",
    Reason.RETENTION_BLOCKED: _LOGS,
    Reason.NOTICES_FAILING: _LOGS,
    Reason.HUB_DIVERGED: "kubectl eventconsumer hub accept {name} -n {namespace}, after the consumer is suspended",
    Reason.CHECKPOINT_STORE_IN_USE: _CHECK,
    Reason.CHAIN_IN_USE: "kubectl eventconsumer doctor -n {namespace} names EventConsumers that share storage",
    Reason.CONSUMER_GROUP_IN_USE: "kubectl eventconsumer doctor -n {namespace} names EventConsumers that read one hub",
    Reason.DATA_GAP: _GAP,
    Reason.FENCED: "kubectl eventconsumer leases {name} -n {namespace} shows the owners of the partitions",
    Reason.CHECKPOINT_INVALID: "kubectl eventconsumer checkpoint show {name} -n {namespace}",
    Reason.POSITION_INVALID: _EDIT,
    Reason.HANDLER_INVALID: _LOGS,
    Reason.HANDLER_FAILING: _LOGS,
    Reason.DEAD_LETTERS: "kubectl eventconsumer deadletters list {name} -n {namespace} shows events and errors",
    Reason.FORBIDDEN: "kubectl eventconsumer doctor {name} -n {namespace} lists the missing permissions",
    Reason.NAME_TAKEN: "rename or remove the object that the message names",
    Reason.CONTESTED: "kubectl get the object that the message names, with -o yaml --show-managed-fields",
    Reason.OBJECT_REFUSED: _PODS,
    Reason.HOSTS_FAILING: _PODS,
    Reason.SPARK_FAILED: _BATCHES,
    Reason.SPARK_RETRYING: _BATCHES,
    Reason.SPARK_WAITING: _BATCHES,
    Reason.SPARK_BEHIND: _BATCHES,
    Reason.SPARK_QUARANTINED: _BATCHES,
}


def severity(condition: Condition) -> Severity:
    """Whether a condition is normal, needs attention, or requires an action."""
    reason = _reason(condition)
    if is_good(condition):
        return "notice" if reason in _ADVICE else "ok"
    if reason in AS_WANTED and condition.status != "Unknown":
        return "ok"
    # While hosts do not report, the state is unknown; another condition describes the problem.
    return "notice" if reason in _UNDER_WAY or condition.status == "Unknown" else "problem"


def worst(conditions: Iterable[Condition]) -> Severity:
    """The severity of a resource: that of its worst condition; without conditions, notice."""
    found = {severity(condition) for condition in conditions} or {"notice"}
    return "problem" if "problem" in found else "notice" if "notice" in found else "ok"


def remedy(condition: Condition) -> str:
    """The remedy; empty if none is required, or if the reason is unknown to this version."""
    reason = _reason(condition)
    return "" if reason is None or severity(condition) == "ok" else REMEDIES.get(reason, "")


def is_good(condition: Condition) -> bool:
    """Whether a condition is normal."""
    return condition.status == ("False" if condition.type in ABNORMAL_TRUE else "True")


def command(reason: str, name: str, namespace: str) -> str:
    """The command; empty: none, or the reason of a newer operator."""
    try:
        text = COMMANDS.get(Reason(reason), "")
    except ValueError:
        return ""
    return text.format(name=name, namespace=namespace)


def _reason(condition: Condition) -> Reason | None:
    try:
        return Reason(condition.reason)
    except ValueError:
        return None
