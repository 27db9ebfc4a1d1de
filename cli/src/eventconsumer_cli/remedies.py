"""What to do next, by the reason of a condition: which command shows more, or ends it. Pure.

A condition's message names the thing, the cause and the remedy; this adds the command a person would type.
"""

from eventconsumer_api.conditions import ConditionType, Reason
from eventconsumer_api.status import Condition

PROGRAM = "kubectl eventconsumer"
_ABNORMAL = frozenset({ConditionType.RECONCILING, ConditionType.STALLED, ConditionType.DATA_GAP})

_CHECK = "{program} doctor {name} -n {namespace} tries hub, storage and Secrets from inside the cluster"
_EDIT = "kubectl edit eventconsumer {name} -n {namespace}, then {program} status {name} -n {namespace}"
_PODS = "kubectl describe pods -n {namespace} -l eventconsumer.io/consumer={name}"
_LOGS = "{program} logs {name} -n {namespace}"
_BATCHES = "{program} batches {name} -n {namespace} shows the batches and their attempts"
_AUDIT = "{program} audit {name} -n {namespace} says which events, and whether anything else is wrong"
_HOSTS = "{program} hosts {name} -n {namespace} shows what each host does"

_NEXT: dict[Reason, str] = {
    Reason.PROGRESSING: _HOSTS,
    Reason.SUSPENDED: "{program} resume {name} -n {namespace} starts the hosts again",
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
    Reason.STORAGE_UNREACHABLE: _CHECK,
    Reason.STORAGE_UNAUTHORIZED: _CHECK,
    Reason.CONTAINER_INVALID: _EDIT,
    Reason.LEASE_INVALID: "{program} leases {name} -n {namespace} shows the leases as storage has them",
    Reason.CHAIN_INVALID: _AUDIT,
    Reason.HUB_DIVERGED: "{program} hub accept {name} -n {namespace} goes on, once the consumer is suspended",
    Reason.LEASE_STORE_IN_USE: _CHECK,
    Reason.CHAIN_IN_USE: "{program} doctor -n {namespace} names the EventConsumers that share something",
    Reason.DATA_GAP: _AUDIT,
    Reason.FENCED: "{program} leases {name} -n {namespace} shows who holds the partitions",
    Reason.CHECKPOINT_INVALID: "{program} checkpoint show {name} -n {namespace}",
    Reason.POSITION_INVALID: _EDIT,
    Reason.HANDLER_INVALID: _LOGS,
    Reason.HANDLER_FAILING: _LOGS,
    Reason.DEAD_LETTERS: _LOGS,
    Reason.FORBIDDEN: "{program} doctor {name} -n {namespace} lists the rights that are missing",
    Reason.NAME_TAKEN: "rename or remove the object that the message names",
    Reason.REFUSED: _PODS,
    Reason.HOSTS_FAILING: _PODS,
    Reason.SPARK_FAILED: _BATCHES,
    Reason.SPARK_RETRYING: _BATCHES,
    Reason.SPARK_WAITING: _BATCHES,
    Reason.SPARK_BEHIND: _BATCHES,
    Reason.SPARK_QUARANTINED: _BATCHES,
}

AT_REST = frozenset({Reason.AVAILABLE, Reason.IDLE, Reason.DISABLED})
"""Reasons after which there is nothing to do."""


def is_good(condition: Condition) -> bool:
    """Whether a condition is as it should be."""
    wanted = "False" if condition.type in _ABNORMAL else "True"
    return condition.status == wanted


def next_step(reason: str, name: str, namespace: str) -> str:
    """What to type; empty: nothing, or a reason of a newer operator."""
    try:
        step = _NEXT.get(Reason(reason), "")
    except ValueError:
        return ""
    return step.format(program=PROGRAM, name=name, namespace=namespace)
