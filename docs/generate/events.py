"""docs/reference/events.md, from the code: `python -m docs.generate.events > docs/reference/events.md`."""

from docs.generate.conditions import cell, meanings, sentence
from docs.generate.examples import RESTARTS
from eventconsumer_api.spec.conditions import ConditionType, PodReason
from eventconsumer_operator.conditions.events import ANNOUNCED
from eventconsumer_operator.conditions.messages import restart_event

HEAD = """\
# Events

Generated from the code by `python -m docs.generate.events`. `kubectl describe eventconsumer <name>` shows Kubernetes
Events, as does `kubectl get events --field-selector involvedObject.name=<name>`.

Events are aggregated: there is one object for each resource, subject and reason. When it recurs, the operator updates
its `count`, `lastTimestamp` and `message`. The API server deletes an Event about an hour after its last change; the
conditions in the status stay. A message has at most 1024 characters.

## Changes of conditions

The operator writes an Event when the status or the reason of one of these conditions changes. The Event's reason is the
[reason of the condition](conditions.md), and its message is `<condition>: <message of the condition>`.

| condition | type Warning | type Normal |
|---|---|---|
"""
RESTART_HEAD = """
## Restarts of pods

The operator writes an Event of type Warning when a container of a host pod was restarted, or when the cluster
terminates the pod. Until the host is ready again, for at most ten minutes, the text is also part of the condition
HostsAvailable. A restart loses no events: another host takes over the pod's partitions and continues behind their last
committed file.

| reason | meaning | message |
|---|---|---|
"""


def page() -> str:
    """The page."""
    found = HEAD + "".join(_condition(kind) for kind in ANNOUNCED) + RESTART_HEAD
    examples = {each.reason: restart_event(each) for each in reversed(RESTARTS)}
    for _, value, text in meanings(PodReason):
        found += f"| `{value}` | {sentence(text)} | {cell(examples[PodReason(value)])} |\n"
    return found


def _condition(kind: ConditionType) -> str:
    status = ANNOUNCED[kind]
    if not status:
        return f"| {kind} | never | each change |\n"
    left_out = ", or the reason is `SparkQuarantined`" if kind is ConditionType.SPARK_HEALTHY else ""
    return f"| {kind} | the status is {status}{left_out} | the change ends a warning |\n"


if __name__ == "__main__":
    print(page(), end="")
