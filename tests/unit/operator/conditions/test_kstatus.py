"""The status as tools read it that wait for a resource: by the rules of kstatus (kubectl-based appliers, Flux).

Those rules: a status of an older generation, or Reconciling, means in progress; Stalled means failed; else Ready
decides.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_operator.conditions.checks import ready, reconciling, stalled
from eventconsumer_operator.conditions.facts import Facts, HostProblem
from eventconsumer_operator.conditions.status import make_status, wire
from eventconsumer_operator.errors import Forbidden, NameTaken, OperatorError, Refused, SpecError, Transient
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import PodCause, PodFailure
from eventconsumer_operator.spark.facts import Creating, FailedAttempts, OpenBatch, SparkFacts, WaitingApplication
from eventconsumer_operator.spark.failures import LauncherWaits
from tests.unit.operator.worlds import SETTINGS, SPEC, fleet, observed, pod, report, stateful_set

SCALED = SPEC | {"scaling": {"partitionsPerHost": 4}}  # two hosts for eight partitions
PROBLEM = Problem(field="spec.sink.container", reason="ContainerInvalid", message="storage refuses it: rename it")
SUSPENDED = SCALED | {"suspend": True}
NONE = SPEC | {"scaling": {"mode": "Fixed", "replicas": 0}}
SLOW = pod("orders-host-1", phase="Running") | {
    "metadata": {"name": "orders-host-1", "namespace": "shop", "creationTimestamp": "2026-11-21T11:00:00Z"}
}
WAITING = {"containerStatuses": [{"image": "x", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}


def kstatus(generation: int, status: dict[str, Any]) -> str:
    """What kstatus computes for a custom resource: the first condition that says something, in the order they stand."""
    if status.get("observedGeneration", generation) != generation:
        return "InProgress"
    conditions = status.get("conditions", [])
    for condition in conditions:
        if (condition["type"], condition["status"]) == ("Reconciling", "True"):
            return "InProgress"
        if (condition["type"], condition["status"]) == ("Stalled", "True"):
            return "Failed"
    (verdict,) = (condition["status"] for condition in conditions if condition["type"] == "Ready")
    return "Current" if verdict == "True" else "InProgress"


def world(**changes: Any) -> Observed:
    reports = {"orders-host-0": report(fleet=fleet()), "orders-host-1": report()}
    return observed(**({"spec": SCALED, "hosts": stateful_set(2, 2), "reports": reports} | changes))


def status_of(seen: Observed, *errors: OperatorError) -> EventConsumerStatus:
    plan = None if any(isinstance(error, SpecError) for error in errors) else make_plan(seen, SETTINGS)
    return make_status(seen, plan, errors, SETTINGS)


SITUATIONS: dict[str, tuple[Observed, tuple[OperatorError, ...], str]] = {
    "as wanted": (world(), (), "Current"),
    "events wait": (world(reports={"a": report(fleet=fleet(lag=5)), "b": report()}), (), "Current"),
    "just created": (observed(SCALED), (), "InProgress"),
    "hosts start": (world(hosts=stateful_set(2, 1)), (), "InProgress"),
    "partitions move": (world(reports={"a": report(fleet=fleet(owned=7))}), (), "InProgress"),
    "a rolling update": (world(hosts=stateful_set(2, 2, updated=1)), (), "InProgress"),
    "fewer hosts than before": (world(hosts=stateful_set(3, 3)), (), "InProgress"),
    "the API server is away": (world(), (Transient("no answer"),), "InProgress"),
    "hosts stop for a suspension": (world(spec=SUSPENDED, hosts=stateful_set(2, 2)), (), "InProgress"),
    "suspended": (world(spec=SUSPENDED, hosts=stateful_set(0, 0), reports={}), (), "Current"),
    "suspended from the start": (world(spec=SUSPENDED, hosts=None, reports={}), (), "Current"),
    "no hosts by number": (world(spec=NONE, hosts=stateful_set(0, 0), reports={}), (), "Current"),
    "hosts stop for another number": (world(spec=NONE, hosts=stateful_set(1, 1)), (), "InProgress"),
    "suspended, and a right is missing": (world(spec=SUSPENDED, hosts=None, reports={}), (Forbidden("no"),), "Failed"),
    "a new host is never ready": (world(hosts=stateful_set(2, 1), pods=(SLOW,)), (), "Failed"),
    "a wrong spec": (world(), (SpecError("spec.sink.container", "wrong"),), "Failed"),
    "a right is missing": (world(), (Forbidden("no"),), "Failed"),
    "an object is refused": (world(hosts=None), (Refused("quota"),), "Failed"),
    "a name is taken": (world(hosts=None, reports={}), (NameTaken("rename it"),), "Failed"),
    "hosts need a person": (world(reports={"a": report(problems=(PROBLEM,))}), (), "Failed"),
    "pods do not start": (world(hosts=stateful_set(2, 0), pods=(pod(phase="Pending", **WAITING),)), (), "Failed"),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_a_waiting_tool_sees(situation: str) -> None:
    seen, errors, expected = SITUATIONS[situation]
    assert kstatus(seen.consumer.generation, wire(status_of(seen, *errors))) == expected


def test_a_changed_spec_is_in_progress_until_it_was_looked_at() -> None:
    status = wire(status_of(world()))
    assert kstatus(1, status) == "Current"
    assert kstatus(2, status) == "InProgress"
    assert all(condition["observedGeneration"] == 1 for condition in status["conditions"])


BATCH = OpenBatch(1, 10, Creating())
FAILED_ONCE = replace(BATCH, failed=FailedAttempts(1, 1, 3, "why"))
FAILED = replace(BATCH, failed=FailedAttempts(3, 3, 3, "kubectl logs shows why"))
COUNT = st.integers(0, 3)
FACTS = st.builds(
    Facts,
    suspended=st.booleans(),
    scaled_to_zero=st.booleans(),
    errors=st.lists(
        st.sampled_from([SpecError("spec.x", "y"), Forbidden("a"), Refused("b"), NameTaken("c"), Transient("d")]),
        max_size=2,
    ).map(tuple),
    problems=st.sampled_from([(), (HostProblem(Reason.FENCED, "spec.x", "told"),)]),
    pod_failures=st.sampled_from([(), (PodFailure("a", PodCause.ENDED, "Evicted"),)]),
    desired=COUNT,
    ready=COUNT,
    existing=COUNT,
    current=COUNT,
    total=COUNT,
    owned=COUNT,
    reported=st.booleans(),
    leading=st.booleans(),
    behind=st.sampled_from([None, True, False]),
    spark=st.builds(
        SparkFacts,
        enabled=st.booleans(),
        batches=st.lists(st.sampled_from([BATCH, FAILED_ONCE, FAILED]), min_size=1, max_size=3).map(tuple),
        waiting=st.sampled_from([(), (WaitingApplication("a", 1, (LauncherWaits("why"),)),)]),
    ),
)


@given(facts=FACTS.map(lambda facts: replace(facts, desired=0) if facts.off else facts))
def test_stalled_excludes_progress_and_readiness(facts: Facts) -> None:
    needs_a_person = stalled(facts).status == "True"
    assert not (needs_a_person and reconciling(facts).status == "True")
    assert not (needs_a_person and ready(facts).status == "True")
    if (facts.desired or facts.off) and not needs_a_person and ready(facts).status == "False":
        assert reconciling(facts).status == "True"  # what is not ready gets there by itself, or says what it needs
    assert all(finding(facts).message for finding in (stalled, reconciling, ready))


def test_a_failed_batch_requires_action_although_hosts_continue() -> None:
    failed = SparkFacts(enabled=True, batches=(BATCH, FAILED))
    facts = Facts(
        desired=2, ready=2, existing=2, current=2, reported=True, leading=True, total=8, owned=8, spark=failed
    )
    assert (stalled(facts).status, reconciling(facts).status) == ("True", "False")
