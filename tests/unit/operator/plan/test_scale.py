"""How many hosts run: the number by each mode, hosts that leave, and the probe while none runs."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1.status import EventConsumerStatus, HubStatus, ScalingStatus
from eventconsumer_api.wire.host_report import HostReport, HostState, PartitionLag, PartitionReport
from eventconsumer_operator.conditions.status import make_status
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.fleet.host_liveness import Liveness, message
from eventconsumer_operator.kube.manifest import STATEFUL_SET
from eventconsumer_operator.plan import Plan, make_plan
from eventconsumer_operator.plan.scale import ANNOTATION_LEAVING, LEAVING, Running, running, scaling_of
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import ordinals
from eventconsumer_operator.resource.spec import parse_spec
from eventconsumer_operator.rest import is_at_rest
from tests.unit.operator.worlds import (
    NOW,
    SETTINGS,
    SPARK,
    SPEC,
    UID,
    batch,
    fleet,
    observed,
    pod,
    report,
    spec_with,
    stateful_set,
)

LAG = SPEC | {"scaling": {"mode": "Lag", "minReplicas": 0}}


def measured(events: int = 0, batch: Any = None, files: int = 0, committed: int = 0, **more: Any) -> Any:
    """A leader's measurements without owners: `events` times its number is the lag of each partition."""
    lags = {str(n): PartitionLag(events=n * events, seconds=n * events) for n in range(8)}
    made = fleet(owned=0, batch=batch, files=files, committed=committed)
    return made.model_copy(update={"lags": lags} | more)


def status(partitions: int = 8, scaling: ScalingStatus | None = None) -> EventConsumerStatus:
    return EventConsumerStatus(hub=HubStatus(partition_count=partitions), scaling=scaling)


@pytest.mark.parametrize(
    ("scaling", "hosts"),
    [
        ({"minReplicas": 3, "partitionsPerHost": 8}, 3),
        ({"maxReplicas": 5}, 5),
        ({"minReplicas": 20}, 8),
        ({"mode": "Lag", "minReplicas": 2}, 2),
        ({"mode": "Lag", "minReplicas": 0}, 1),
    ],
)
def test_the_number_of_hosts_for_eight_partitions(scaling: dict[str, Any], hosts: int) -> None:
    assert scaling_of(observed(status=status(8)), parse_spec(SPEC | {"scaling": scaling})).replicas == hosts


def test_a_host_that_is_being_deleted_and_has_not_reported_the_number_of_partitions_is_replaced() -> None:
    spec = parse_spec(SPEC)
    paused = pod("orders-host-0", phase="Running")
    assert scaling_of(observed(pods=(paused,), hosts=stateful_set(1, 1)), spec).replicas == 1
    paused["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    assert scaling_of(observed(pods=(paused,), hosts=stateful_set(1, 1)), spec).replicas == 2
    known = observed(pods=(paused,), hosts=stateful_set(1, 1), status=status(1))
    assert scaling_of(known, spec).replicas == 1  # there is nothing for a second one
    one = parse_spec(SPEC | {"scaling": {"maxReplicas": 1}})
    assert scaling_of(observed(pods=(paused,), hosts=stateful_set(1, 1)), one).replicas == 1


def test_a_suspended_consumer_forgets_the_number_of_hosts_for_the_lag() -> None:
    before = ScalingStatus.model_validate({"replicas": 8, "reason": "r", "mode": "Lag", "noLagSince": NOW})
    spec = parse_spec(LAG | {"suspend": True})
    asleep = scaling_of(observed(status=status(8, before)), spec)
    assert (asleep.replicas, asleep.mode, asleep.no_lag_since) == (0, None, None)
    assert scaling_of(observed(status=status(8, asleep)), parse_spec(LAG)).replicas == 1


def test_another_mode_begins_with_the_hosts_that_are_there() -> None:
    before = ScalingStatus.model_validate({"replicas": 5, "reason": "r", "mode": "PartitionCount"})
    world = observed(status=status(8, before), hosts=stateful_set(5, 5))
    assert scaling_of(world, parse_spec(LAG)).replicas == 5


def test_the_time_of_the_last_change_moves_only_with_the_number() -> None:
    spec = parse_spec(SPEC)
    first = scaling_of(observed(status=status(8)), spec)
    assert first.last_scale_time == NOW
    later = NOW + timedelta(hours=1)
    assert scaling_of(observed(status=status(8, first), now=later), spec) == first
    assert scaling_of(observed(status=status(16, first), now=later), spec).last_scale_time == later


def test_files_that_wait_for_spark_keep_no_host() -> None:
    before = ScalingStatus.model_validate(
        {"replicas": 1, "reason": "r", "mode": "Lag", "noLagSince": NOW - timedelta(days=1), "lastScaleTime": None}
    )
    said = {"orders-host-0": report(fleet=measured(batch=batch(), pending_files=13))}
    world = observed(LAG | SPARK, status=status(8, before), reports=said)
    assert scaling_of(world, parse_spec(LAG | SPARK)).replicas == 0


@pytest.mark.parametrize("policy", ["Events", "Handler"])
def test_lag_without_files_needs_checkpoints_in_time(policy: str) -> None:
    handler = {"handler": "shop:Orders", "handlerMode": "Replace", "checkpoint": {"policy": policy}}
    spec = parse_spec(LAG | {"processing": handler})
    with pytest.raises(SpecError, match=r"spec\.processing\.checkpoint\.policy.*Batch or Interval"):
        scaling_of(observed(status=status(8)), spec)


# --- hosts that leave ------------------------------------------------------------------------------------------------


def holding(*partitions: str) -> HostReport:
    reports = tuple(PartitionReport(id=partition, epoch=1) for partition in partitions)
    return HostReport(owner="o", state=HostState.RUNNING, partition_count=8, partitions=reports)


def leaving_world(reports: dict[int, HostReport], leaving: str = "", after: float = 0.0, exist: int = 4) -> Observed:
    hosts: Manifest = stateful_set(exist, exist)
    if leaving:
        hosts["metadata"]["annotations"] = {ANNOTATION_LEAVING: leaving}
    return observed(
        status=status(),
        hosts=hosts,
        pods=tuple(pod(f"orders-host-{number}", phase="Running") for number in range(exist)),
        reports={f"orders-host-{number}": said for number, said in reports.items()},
        now=NOW + timedelta(seconds=after),
    )


SINCE = f"2 {NOW.isoformat()}"


@pytest.mark.parametrize(
    ("second", "third", "since", "expected"),
    [
        (("5",), ("6",), "", Running(4, SINCE)),
        (("5",), (), SINCE, Running(3, SINCE)),
        ((), ("6",), SINCE, Running(4, SINCE)),
        ((), (), SINCE, Running(2)),
    ],
)
def test_hosts_that_still_hold_partitions_are_waited_for_from_the_top_down(
    second: tuple[str, ...], third: tuple[str, ...], since: str, expected: Running
) -> None:
    world = leaving_world({2: holding(*second), 3: holding(*third)}, since, 10 if since else 0)
    assert running(world, 2) == expected


def test_a_host_that_does_not_answer_is_waited_for_but_not_for_ever() -> None:
    silent = {2: holding()}
    assert running(leaving_world(silent, SINCE, LEAVING.total_seconds() - 1), 2) == Running(4, SINCE)
    assert running(leaving_world(silent, SINCE, LEAVING.total_seconds()), 2) == Running(2)


def test_a_pod_that_never_started_or_is_gone_is_not_waited_for() -> None:
    world = leaving_world({2: holding()})
    for last in ((), (pod("orders-host-3", phase="Pending"),), (pod("orders-host-3", phase="Failed"),)):
        assert running(replace(world, pods=(*world.pods[:3], *last)), 2) == Running(2)


def test_a_lower_number_restarts_the_wait_and_a_higher_one_does_not() -> None:
    reports = {number: holding(str(number)) for number in range(4)}
    lower = running(leaving_world(reports, SINCE, 100), 1)
    assert lower == Running(4, f"1 {(NOW + timedelta(seconds=100)).isoformat()}")
    assert running(leaving_world(reports, SINCE, 100), 3) == Running(4, f"3 {NOW.isoformat()}")
    assert running(leaving_world(reports, "no time", 100), 2).replicas == 4


@pytest.mark.parametrize("hosts", [4, 6, 0])
def test_growing_suspending_and_stopping_wait_for_no_host(hosts: int) -> None:
    world = leaving_world({number: holding(str(number)) for number in range(4)})
    assert running(world, hosts) == Running(hosts)
    assert running(observed(), 3) == Running(3)


def test_the_start_of_the_wait_is_an_annotation_and_the_status_shows_the_wait() -> None:
    spec = SPEC | {"scaling": {"mode": "Fixed", "replicas": 2}}
    world = leaving_world({number: holding(str(number)) for number in range(4)})
    world = replace(world, consumer=replace(world.consumer, spec=spec))
    plan = make_plan(world, SETTINGS)
    assert plan.hosts == 2
    hosts = named(plan, "orders-host")
    assert hosts["spec"]["replicas"] == 4
    assert hosts["metadata"]["annotations"][ANNOTATION_LEAVING] == SINCE
    assert ANNOTATION_LEAVING not in hosts["spec"]["template"]["metadata"]["annotations"]
    found = make_status(world, plan, (), SETTINGS)
    assert found.hosts.desired == 2
    conditions = {each.type: each for each in found.conditions}
    assert conditions["Reconciling"].message == "2 of 4 hosts are handing over their partitions"


# --- hosts that do not end -------------------------------------------------------------------------------------------


def ending(ordinal: int, seconds: float = 60) -> Manifest:
    """A host whose grace period was over `seconds` ago; its node does not answer."""
    found = pod(f"orders-host-{ordinal}", phase="Running") | {"spec": {"nodeName": "node-7"}}
    found["metadata"]["deletionTimestamp"] = (NOW - timedelta(seconds=seconds)).isoformat()
    return found


@given(wanted=st.integers(0, 40), stuck=st.sets(st.integers(0, 40)))
def test_as_many_hosts_run_as_are_wanted_and_no_ordinal_more(wanted: int, stuck: set[int]) -> None:
    def running_of(replicas: int) -> int:
        return replicas - sum(ordinal < replicas for ordinal in stuck)

    pods = [ending(ordinal) for ordinal in stuck]
    replicas = ordinals(wanted, pods, NOW)
    assert running_of(replicas) == wanted
    assert replicas == 0 or running_of(replicas - 1) < wanted
    assert ordinals(wanted + 1, pods, NOW) > replicas
    assert ordinals(wanted, [ending(ordinal, 59) for ordinal in stuck], NOW) == wanted


@pytest.mark.parametrize(
    "scaling",
    [{"mode": "Fixed", "replicas": 1}, {"maxReplicas": 1}, {"mode": "Lag", "minReplicas": 0, "maxReplicas": 1}],
)
def test_the_only_host_on_a_node_that_died_is_replaced_in_each_mode(scaling: dict[str, Any]) -> None:
    spec = SPEC | {"scaling": scaling}
    world = observed(spec, status=status(), hosts=stateful_set(1, 0), pods=(ending(0),))
    plan = make_plan(world, SETTINGS)
    assert (plan.hosts, named(plan, "orders-host")["spec"]["replicas"]) == (1, 2)
    (budget,) = (each for each in plan.applied if each["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 2  # the drain of another node must not wait for it
    stalled = next(each for each in make_status(world, plan, (), SETTINGS).conditions if each.type == "Stalled")
    assert (stalled.status, stalled.reason) == ("True", "HostsFailing")
    assert "pod orders-host-0 is being deleted and has not ended since 2026-11-21 11:59:00 UTC" in stalled.message
    assert "node node-7 does not answer; another pod replaces it" in stalled.message
    assert "kubectl delete pod orders-host-0 --force" in stalled.message
    # In its grace period nothing is replaced, and nobody has to act.
    world = replace(world, pods=(ending(0, -30),))
    plan = make_plan(world, SETTINGS)
    assert named(plan, "orders-host")["spec"]["replicas"] == 1
    assert not is_at_rest(world, plan, (), make_status(world, plan, (), SETTINGS))


def test_the_replacement_gets_partitions_and_leaves_when_the_pod_has_ended() -> None:
    ready = [{"type": "Ready", "status": "True"}]
    second = pod("orders-host-1", phase="Running", conditions=ready)
    fixed = SPEC | {"scaling": {"mode": "Fixed", "replicas": 1}}
    reports = {"orders-host-1": holding("3")}
    world = observed(fixed, status=status(), hosts=stateful_set(2, 1), pods=(ending(0), second), reports=reports)
    hosts = ordinals(1, world.pods, world.now)
    assert message(world, Liveness(), hosts, 1).ready == ("orders-host-1",)
    # It is forced to end: the first host returns, and the second one hands over.
    again = pod("orders-host-0", phase="Running", conditions=ready)
    plan = make_plan(replace(world, pods=(again, second)), SETTINGS)
    assert plan.running == Running(2, f"1 {NOW.isoformat()}")


def test_a_probe_that_does_not_end_is_replaced() -> None:
    stuck = ending(0) | {"metadata": ending(0)["metadata"] | {"name": "orders-probe-0"}}
    world = asleep(reports={"orders-probe-1": report(fleet=measured())})
    plan = make_plan(replace(world, probes=(stuck,)), SETTINGS)
    assert named(plan, "orders-probe")["spec"]["replicas"] == 2


# --- the probe -------------------------------------------------------------------------------------------------------

ZERO = ScalingStatus.model_validate({"replicas": 0, "reason": "r", "mode": "Lag", "lastScaleTime": NOW})


def named(plan: Plan, name: str) -> Manifest:
    return next(each for each in plan.applied if (each["kind"], each["metadata"]["name"]) == ("StatefulSet", name))


def asleep(**world: Any) -> Observed:
    return observed(LAG, status=status(8, ZERO), hosts=stateful_set(0, 0), **world)


def test_the_probe_is_a_host_but_for_its_command_and_size() -> None:
    plan = make_plan(asleep(), SETTINGS)
    hosts, probe = named(plan, "orders-host"), named(plan, "orders-probe")
    assert (hosts["spec"]["replicas"], probe["spec"]["replicas"]) == (0, 1)
    host, own = hosts["spec"]["template"]["spec"], probe["spec"]["template"]["spec"]
    assert own["containers"][0]["args"] == ["probe"]
    assert [each for each in own["volumes"] if each["name"] != "tmp"] == [
        each for each in host["volumes"] if each["name"] != "tmp"
    ]
    same = ("image", "env", "ports", "securityContext", "volumeMounts")
    assert all(own["containers"][0][name] == host["containers"][0][name] for name in same)
    same = ("securityContext", "serviceAccountName", "automountServiceAccountToken")
    assert all(own[name] == host[name] for name in same)
    selector = probe["spec"]["selector"]["matchLabels"]
    assert selector[labels.LABEL_COMPONENT] == labels.COMPONENT_PROBE
    assert selector.items() <= probe["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("spark", "limit"),
    [({}, "256Mi"), (SPARK, "296Mi"), (spec_with("spark.batch", {"maxFiles": 100_000}, SPARK), "647Mi")],
)
def test_the_probe_has_memory_for_a_batch(spark: dict[str, Any], limit: str) -> None:
    world = observed(LAG | spark, status=status(8, ZERO), hosts=stateful_set(0, 0))
    (container,) = named(make_plan(world, SETTINGS), "orders-probe")["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": limit, "ephemeral-storage": "256Mi"}


@pytest.mark.parametrize(("limit", "request_"), [("500m", "10m"), ("5m", "5m")])
def test_the_probe_has_the_limit_of_cpu_of_hosts(limit: str, request_: str) -> None:
    spec = LAG | {"pods": {"resources": {"limits": {"cpu": limit}}}}
    world = observed(spec, status=status(8, ZERO), hosts=stateful_set(0, 0))
    (container,) = named(make_plan(world, SETTINGS), "orders-probe")["spec"]["template"]["spec"]["containers"]
    resources = container["resources"]
    assert (resources["limits"]["cpu"], resources["requests"]["cpu"]) == (limit, request_)


def live_probe(owner: str = UID) -> dict[Any, Manifest]:
    manifest = named(make_plan(asleep(), SETTINGS), "orders-probe")
    metadata = manifest["metadata"] | {"uid": "p", "ownerReferences": [{"uid": owner, "controller": True}]}
    return {(STATEFUL_SET, "orders-probe"): manifest | {"metadata": metadata}}


@pytest.mark.parametrize("spec", [SPEC, SPEC | {"suspend": True}, LAG | {"suspend": True}])
def test_the_probe_goes_when_hosts_run_or_the_consumer_is_suspended(spec: dict[str, Any]) -> None:
    world = observed(spec, status=status(8, ZERO))
    plan = make_plan(replace(world, children=live_probe()), SETTINGS)
    assert [each["metadata"]["name"] for each in plan.deleted] == ["orders-probe"]
    assert "orders-probe" not in {each["metadata"]["name"] for each in plan.applied}
    assert make_plan(replace(world, children=live_probe("somebody else")), SETTINGS).deleted == ()


def test_no_host_is_healthy_while_the_probe_answers() -> None:
    for reports, ready in (({"orders-probe-0": report(fleet=measured())}, "True"), ({}, "False")):
        world = asleep(reports=reports)
        found = make_status(world, make_plan(world, SETTINGS), (), SETTINGS)
        conditions = {each.type: each.status for each in found.conditions}
        assert (conditions["Ready"], conditions["Stalled"]) == (ready, "False")
        assert found.scaling == ZERO.model_copy(update={"unknown_since": None if reports else NOW})


def test_events_that_the_probe_sees_start_a_host() -> None:
    plan = make_plan(asleep(reports={"orders-probe-0": report(fleet=measured(events=1))}), SETTINGS)
    assert (plan.hosts, plan.scaling.reason) == (1, "events arrived in 7 partitions")


def test_batches_run_and_are_shown_while_only_the_probe_reports() -> None:
    pending = {"pending_files": 20, "pending_bytes": 2000, "processed_files": 30}
    reports = {"orders-probe-0": report(fleet=measured(batch=batch(4), files=50, committed=3, **pending))}
    world = observed(LAG | SPARK, status=status(8, ZERO), hosts=stateful_set(0, 0), reports=reports)
    plan = make_plan(world, SETTINGS)
    assert plan.hosts == 0
    assert [job["metadata"]["labels"][labels.LABEL_BATCH] for job in plan.jobs] == ["4"]
    found = make_status(world, plan, (), SETTINGS).spark
    assert found is not None
    assert (found.pending_files, found.pending_bytes, found.processed_files) == (20, 2000, 30)
