"""How bad a condition is, and the first thing to do about it, by its reason. Pure.

The condition's message names the thing, the cause and most often the remedy; this tells somebody who reads a page where
to begin, and agrees with docs/runbooks.md.
"""

from typing import Literal

from eventconsumer_api.conditions import ConditionType, Reason
from eventconsumer_api.status import Condition

Severity = Literal["ok", "notice", "problem"]

ABNORMAL_TRUE = frozenset({ConditionType.RECONCILING, ConditionType.STALLED, ConditionType.DATA_GAP})
"""Types that are bad when they are True; the others are bad when they are False."""

AS_WANTED = frozenset({Reason.AVAILABLE, Reason.IDLE, Reason.DISABLED, Reason.SUSPENDED, Reason.SCALED_TO_ZERO})
"""Reasons that ask nobody to do anything, whatever the status."""

_UNDER_WAY = frozenset({Reason.PROGRESSING, Reason.NO_REPORT, Reason.SPARK_RETRYING})
_ADVICE = frozenset({Reason.SPARK_BEHIND, Reason.SPARK_QUARANTINED, Reason.DEAD_LETTERS})
_PODS = "kubectl describe pod and kubectl logs --previous of the pods that the message names tell more."

REMEDIES: dict[Reason, str] = {
    Reason.PROGRESSING: "Nothing, it is under way. If it lasts for minutes, kubectl describe pod tells why.",
    Reason.NO_REPORT: "If it lasts, read the hosts' logs, and look for NetworkPolicies between operator and hosts.",
    Reason.SPEC_INVALID: "Change the field that the message names; what runs goes on with the last valid spec.",
    Reason.SECRET_KEY_MISSING: "Create the Secret or the key that the message names; hosts read it by themselves.",
    Reason.CONNECTION_STRING_INVALID: "Copy the whole connection string from the portal into the Secret again.",
    Reason.INSECURE_ENDPOINT: "Use a host name and TLS; emulators need allowInsecureEndpoints of the administrator.",
    Reason.ENDPOINT_NOT_ALLOWED: "Correct the host name, or have the administrator add its domain to endpointSuffixes.",
    Reason.EVENT_HUB_NOT_FOUND: "Correct the name of the hub or of the consumer group, or create it.",
    Reason.EVENT_HUB_UNAUTHORIZED: "Grant Azure Event Hubs Data Receiver, or Listen where a connection string is used.",
    Reason.EVENT_HUB_UNREACHABLE: "Check DNS, firewall and private endpoint: hosts need port 5671 of the hub.",
    Reason.STORAGE_UNREACHABLE: "Check DNS, firewall and private endpoint: hosts need port 443 of the account.",
    Reason.STORAGE_UNAUTHORIZED: "Grant Storage Blob Data Contributor on the container, or correct the Secret.",
    Reason.CONTAINER_INVALID: "Correct the name of the container that the message names.",
    Reason.LEASE_INVALID: "Correct the lease blob that the message names, and find out what wrote it.",
    Reason.CHAIN_INVALID: "Run eventconsumer audit in a host; restore the file from a version or a soft delete.",
    Reason.HUB_DIVERGED: "Nothing if the hub comes back. Else suspend it and run kubectl eventconsumer hub accept.",
    Reason.LEASE_STORE_IN_USE: "Remove spec.leaseStore.prefix, or set one that nothing else uses.",
    Reason.CHAIN_IN_USE: "Give one of the two EventConsumers another spec.sink.prefix, or delete one of them.",
    Reason.DATA_GAP: "Raise the hub's retention, or the number of hosts: what is missing cannot be brought back.",
    Reason.FENCED: "End the other reader, or give each program a consumer group of its own.",
    Reason.CHECKPOINT_INVALID: "Correct or delete the lease blob, as the message says: it is rebuilt from the files.",
    Reason.POSITION_INVALID: "Name a starting position that the hub has, or use type Latest.",
    Reason.HANDLER_INVALID: "Correct spec.processing, or build the image with the handler that it names.",
    Reason.HANDLER_FAILING: "Read the error in the message and in the hosts' logs; correct the handler.",
    Reason.DEAD_LETTERS: "Correct the handler or the publisher, then process the dead letters by hand.",
    Reason.FORBIDDEN: "Run helm upgrade: it restores the rights of the operator, one of which the message names.",
    Reason.NAME_TAKEN: "Rename the EventConsumer, or remove the object that the message names.",
    Reason.REFUSED: "Read what the API server says in the message: a quota or an admission policy refuses it.",
    Reason.HOSTS_FAILING: _PODS,
    Reason.SPARK_FAILED: "Correct the program or its resources, then delete the Job: the same files are tried again.",
    Reason.SPARK_RETRYING: "Nothing, it is tried again. If it lasts, read the log of the Job.",
    Reason.SPARK_WAITING: _PODS,
    Reason.SPARK_BEHIND: "Give Spark more executors and larger batches: files come faster than they are processed.",
    Reason.SPARK_QUARANTINED: "Look at what the message names: it was left out, and stays in the sink.",
}


def severity(condition: Condition) -> Severity:
    """Whether a condition is as it should be, worth a look, or in need of somebody."""
    reason = _reason(condition)
    if condition.status == ("False" if condition.type in ABNORMAL_TRUE else "True"):
        return "notice" if reason in _ADVICE else "ok"
    if reason in AS_WANTED and condition.status != "Unknown":
        return "ok"
    # While hosts are silent nobody knows; that something is wrong is said by another condition.
    return "notice" if reason in _UNDER_WAY or condition.status == "Unknown" else "problem"


def remedy(condition: Condition) -> str:
    """What to do; empty where nothing is, or where this operator does not know the reason."""
    reason = _reason(condition)
    return "" if reason is None or severity(condition) == "ok" else REMEDIES.get(reason, "")


def _reason(condition: Condition) -> Reason | None:
    try:
        return Reason(condition.reason)
    except ValueError:
        return None
