"""The status: what people read, as a function of the world."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.conditions import ConditionType, Reason
from eventconsumer_api.v1alpha1.status import EventConsumerStatus, SparkStatus
from eventconsumer_api.wire.host_report import (
    BodyErrorReport,
    HostReport,
    NoticesReport,
    PartitionReport,
    Problem,
    RetentionReport,
    TableReport,
    WatermarkReport,
)
from eventconsumer_host.body.record import RefusedColumn
from eventconsumer_host.problems import columns_refused, decoder_missing
from eventconsumer_operator.conditions.status import MESSAGE_LIMIT, make_status, same_but_numbers, wire
from eventconsumer_operator.errors import Forbidden, OperatorError, SpecError, Transient
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.names import application_name
from eventconsumer_operator.resource.observed import Consumer, Observed
from tests.unit.operator.worlds import (
    HANDLER,
    KEY,
    NOW,
    SETTINGS,
    SPARK,
    SPEC,
    UID,
    batch,
    fleet,
    job,
    observed,
    pod,
    report,
    stateful_set,
)

LARGEST_HOSTS, LARGEST_PARTITIONS = 128, 2048
SCALED = SPEC | {"scaling": {"partitionsPerHost": 4}}  # two hosts for eight partitions
NAME = application_name(KEY, UID, 1, 1)
TWO = {"orders-host-0": report(fleet=fleet()), "orders-host-1": report()}


def status_of(world: Observed, *errors: OperatorError) -> EventConsumerStatus:
    return make_status(world, make_plan(world, SETTINGS), errors, SETTINGS)


def verdict(status: EventConsumerStatus, kind: str) -> tuple[str, str]:
    condition = status.condition(ConditionType(kind))
    assert condition is not None
    return condition.status, condition.reason


def message(status: EventConsumerStatus, kind: str) -> str:
    condition = status.condition(ConditionType(kind))
    assert condition is not None
    return condition.message


def healthy(**changes: Any) -> Observed:
    """Two of two hosts, all partitions owned."""
    world: dict[str, Any] = {
        "spec": SCALED,
        "hosts": stateful_set(2, 2),
        "reports": {"orders-host-0": report(fleet=fleet()), "orders-host-1": report()},
        "pods": (pod("orders-host-0"), pod("orders-host-1")),
    }
    return observed(**(world | changes))


def test_a_consumer_group_that_an_older_resource_reads() -> None:
    world = replace(healthy(), older_reader="billing")
    status = status_of(world)
    assert make_plan(world, SETTINGS).hosts == 0
    assert {
        kind: verdict(status, kind)[1] for kind in ("Ready", "Stalled", "HostsAvailable", "Draining")
    } == dict.fromkeys(("Ready", "Stalled", "HostsAvailable", "Draining"), "ConsumerGroupInUse")
    assert "EventConsumer billing of this namespace" in message(status, "Stalled")
    assert "suspend or delete billing" in message(status, "Stalled")
    problem = Problem(field="spec.eventHub.consumerGroup", reason=Reason.FENCED, message="another reader")
    fenced = replace(world, reports={"orders-host-0": report(problems=(problem,))})
    assert "another reader" not in message(status_of(fenced), "Stalled")  # its hosts end
    assert verdict(status_of(replace(world, consumer=suspended(world))), "Stalled") == ("False", "Available")


def suspended(world: Observed) -> Consumer:
    return replace(world.consumer, spec={**world.consumer.spec, "suspend": True})


def test_the_name_of_the_hub_is_remembered_for_one_spec() -> None:
    named = fleet().model_copy(update={"hub_namespace": "shop.servicebus.windows.net", "hub_name": "orders"})
    status = status_of(healthy(reports={"orders-host-0": report(fleet=named)}))
    assert (status.hub.namespace, status.hub.name) == ("shop.servicebus.windows.net", "orders")
    silent = healthy(reports={}, status=status)
    assert status_of(silent).hub.name == "orders"
    changed = replace(silent, consumer=replace(silent.consumer, generation=silent.consumer.generation + 1))
    assert status_of(changed).hub.name is None


def test_events_lost_to_retention_have_their_own_lasting_condition() -> None:
    lost = fleet().model_copy(update={"gap_events": 5, "gaps": {"3": "17-20,22-22"}})
    status = status_of(healthy(reports={"orders-host-0": report(fleet=lost), "orders-host-1": report()}))
    assert verdict(status, "DataGap") == ("True", "DataGap")
    assert "5 events" in message(status, "DataGap") and "partition 3: 17-20,22-22" in message(status, "DataGap")
    assert verdict(status, "Stalled") == ("False", "Available")
    silent = status_of(healthy(status=status, reports={"orders-host-0": report()}))
    assert message(silent, "DataGap") == message(status, "DataGap")


def lost(events: int, acknowledged: int | None = None, **changes: Any) -> EventConsumerStatus:
    """The status after the loss of some events, of which the spec acknowledges some."""
    spec = SCALED if acknowledged is None else SCALED | {"acknowledgedGapEvents": acknowledged}
    told = fleet().model_copy(update={"gap_events": events, "gaps": {"3": f"1-{events}"} if events else {}})
    return status_of(healthy(**({"spec": spec, "reports": {"orders-host-0": report(fleet=told)}} | changes)))


def test_acknowledged_events_clear_the_condition_until_more_are_lost() -> None:
    seen = lost(5, 5)
    assert verdict(seen, "DataGap") == ("False", "GapAcknowledged")
    assert message(seen, "DataGap") == "5 events were lost, all acknowledged by spec.acknowledgedGapEvents"
    assert seen.drained.gap_events == 5
    more = lost(7, 5)
    assert verdict(more, "DataGap") == ("True", "DataGap")
    assert "7 events" in message(more, "DataGap") and "set spec.acknowledgedGapEvents to 7 (now 5)" in message(
        more, "DataGap"
    )
    assert message(lost(5), "DataGap").endswith("then set spec.acknowledgedGapEvents to 5")


def test_an_acknowledgement_of_more_events_than_were_lost_does_not_hide_later_ones() -> None:
    seen = lost(5, 100)
    assert verdict(seen, "DataGap") == ("True", "DataGap")
    assert "set spec.acknowledgedGapEvents to 5 (now 100)" in message(seen, "DataGap")
    assert verdict(lost(0, 100), "DataGap") == ("False", "Available")


@pytest.mark.parametrize("reports", [{}, {"orders-host-1": report()}])
def test_an_acknowledgement_holds_while_no_host_leads(reports: dict[str, Any]) -> None:
    before = lost(5)
    assert verdict(lost(5, 5, status=before, reports=reports), "DataGap") == ("False", "GapAcknowledged")
    assert message(lost(5, 4, status=before, reports=reports), "DataGap") == message(before, "DataGap")
    withdrawn = lost(5, 0, status=lost(5, 5), reports=reports)
    assert verdict(withdrawn, "DataGap") == ("True", "DataGap") and "5 events" in message(withdrawn, "DataGap")


def test_an_acknowledgement_is_for_files_and_not_for_what_hosts_without_files_report() -> None:
    gap = Problem(field="spec.eventHub.name", reason="DataGap", message="3 events of partition 1 were removed")
    told = fleet().model_copy(update={"gap_events": 5})
    seen = lost(5, 5, reports={"orders-host-0": report(fleet=told, problems=(gap,))})
    assert verdict(seen, "DataGap") == ("True", "DataGap")
    assert message(seen, "DataGap") == f"{gap.field}: {gap.message}"


def test_an_acknowledgement_restarts_no_host() -> None:
    assert lost(5).effective == lost(5, 5).effective


def test_without_files_hosts_themselves_tell_what_was_lost() -> None:
    gap = Problem(field="spec.eventHub.name", reason="DataGap", message="3 events of partition 1 were removed")
    status = status_of(
        healthy(reports={"orders-host-0": report(fleet=fleet(), problems=[gap]), "orders-host-1": report()})
    )
    assert verdict(status, "DataGap") == ("True", "DataGap") and "3 events" in message(status, "DataGap")
    assert verdict(status, "Ready") == ("True", "Available")


def test_a_gap_that_hosts_report_is_not_repeated_while_no_host_leads() -> None:
    gap = Problem(field="spec.eventHub.name", reason="DataGap", message="3 events of partition 1 were removed")
    reports = {"orders-host-0": report(problems=(gap,)), "orders-host-1": report()}
    once = status_of(healthy(reports=reports))
    again = status_of(healthy(status=once, reports=reports))
    assert message(again, "DataGap") == message(once, "DataGap") == f"{gap.field}: {gap.message}"


def test_dead_letters_are_reported_and_no_action_is_required() -> None:
    letters = Problem(field="spec.processing.handler", reason="DeadLetters", message="3 events are in dead letters")
    status = status_of(
        healthy(reports={"orders-host-0": report(fleet=fleet()), "orders-host-1": report(problems=[letters])})
    )
    assert verdict(status, "Ready") == ("True", "Available")
    assert "3 events are in dead letters" in message(status, "Draining")


def typed(**reports: HostReport) -> Observed:
    """Two hosts that make a column of bodies."""
    sink = SPEC["sink"] | {"body": {"type": "Json", "schema": "cents BIGINT"}}
    return healthy(spec=SCALED | {"sink": sink}, **({"reports": reports} if reports else {}))


def body_error(error: str, events: int, file: str, minute: int) -> BodyErrorReport:
    """What a host reports of one error."""
    return BodyErrorReport(error=error, events=events, file=file, committed_at=NOW + timedelta(minutes=minute))


def test_bodies_that_do_not_fit_have_their_own_condition_with_counts_of_all_hosts_and_the_newest_file() -> None:
    misfit, cut = "column cents: BIGINT has no exact value for this string", "the body is not UTF-8"
    one, two = report(fleet=fleet()), report()
    assert verdict(status_of(typed()), "BodiesUnreadable") == ("False", "Available")
    assert verdict(status_of(replace(typed(), reports={})), "BodiesUnreadable") == ("Unknown", "NoReport")
    found = [
        one.model_copy(update={"body_errors": (body_error(cut, 4, "f1", 0), body_error(misfit, 2, "f0", 1))}),
        two.model_copy(update={"body_errors": (body_error(misfit, 3, "f9", 2),)}),
    ]
    status = status_of(replace(typed(), reports=dict(zip(TWO, found, strict=True))))
    assert verdict(status, "BodiesUnreadable") == ("True", "BodiesUnreadable")
    assert message(status, "BodiesUnreadable").startswith(
        f"spec.sink.body: bodies of new events do not fit their columns, which are null: 5 events: {misfit}; 4 events: "
        f"{cut}; the newest file with one is f9. Correct the publisher"
    )
    assert (verdict(status, "Ready"), verdict(status, "Stalled")) == (("True", "Available"), ("False", "Available"))
    more = [found[0], two.model_copy(update={"body_errors": (body_error(misfit, 4, "f11", 3),)})]
    later = status_of(replace(typed(), reports=dict(zip(TWO, more, strict=True))))
    assert later != status and same_but_numbers(later, status)  # it is not written each time a count moves
    assert not same_but_numbers(status_of(typed()), status)
    many = one.model_copy(update={"body_errors": tuple(body_error(name, 1, "f", 0) for name in "abcde")})
    text = message(status_of(replace(typed(), reports={"orders-host-0": many})), "BodiesUnreadable")
    assert "1 event: a; 1 event: b; 1 event: c; 2 events: other errors; the newest file" in text


def test_slow_and_refused_columns_are_told_with_field_cause_and_remedy() -> None:
    slow = decoder_missing()
    status = status_of(typed(**{"orders-host-0": report(fleet=fleet(), problems=(slow,))}))
    assert (verdict(status, "Ready"), verdict(status, "Stalled")) == (("True", "Available"), ("False", "Available"))
    assert "spec.processing.image: the image has no compiled decoder" in message(status, "Draining")
    assert "Build the image from the host image of this version" in message(status, "Draining")
    refused = columns_refused([RefusedColumn(BodyColumn("cents", "string", ("cents",)), "files have cents BIGINT")])
    status = status_of(typed(**{"orders-host-0": report(fleet=fleet(), problems=(refused,))}))
    assert verdict(status, "Stalled") == ("True", "ColumnsRefused")
    assert message(status, "Stalled").startswith(
        "spec.sink.body.columns: cents STRING is refused, because files have cents BIGINT"
    )
    assert "use another name" in message(status, "Stalled")


def test_all_is_well() -> None:
    status = status_of(healthy())
    assert {condition.type.value: (condition.status, condition.reason) for condition in status.conditions} == {
        "Ready": ("True", "Available"),
        "Reconciling": ("False", "Available"),
        "Stalled": ("False", "Available"),
        "HostsAvailable": ("True", "Available"),
        "Draining": ("True", "Idle"),
        "DataGap": ("False", "Available"),
        "BodiesUnreadable": ("False", "Disabled"),
        "SparkHealthy": ("True", "Disabled"),
    }
    assert (status.hosts.desired, status.hosts.ready) == (2, 2)
    assert (status.partitions.total, status.partitions.owned, status.partitions.unowned) == (8, 8, 0)
    assert status.hub.created_at == NOW


def test_a_new_resource_waits_for_its_first_host() -> None:
    status = status_of(observed())
    assert verdict(status, "Ready") == ("False", "Progressing")
    assert verdict(status, "Reconciling") == ("True", "Progressing")
    assert verdict(status, "Draining") == ("Unknown", "NoReport")
    assert verdict(status, "Stalled") == ("False", "Available")


def test_unowned_partitions_are_progress_and_not_ready() -> None:
    status = status_of(healthy(reports={"orders-host-0": report(fleet=fleet(owned=6))}))
    assert verdict(status, "Ready") == ("False", "Progressing")
    assert message(status, "Ready") == "6 of 8 partitions are read"
    assert verdict(status, "Draining") == ("True", "Progressing")
    assert verdict(status, "Reconciling") == ("True", "Progressing")


def test_events_that_wait_are_draining_but_not_idle() -> None:
    status = status_of(healthy(reports={"orders-host-0": report(fleet=fleet(lag=5))}))
    assert verdict(status, "Draining") == ("True", "Available")
    assert status.lag.events == 5


def test_a_rollout_is_reconciling() -> None:
    status = status_of(healthy(hosts=stateful_set(2, 2, updated=1)))
    assert verdict(status, "Reconciling") == ("True", "Progressing")


def test_numbers_of_an_old_template_do_not_count() -> None:
    status = status_of(healthy(hosts=stateful_set(2, 2, generation=2, seen=1)))
    assert verdict(status, "Reconciling") == ("True", "Progressing")


def test_surplus_hosts_are_reconciling_until_they_are_gone() -> None:
    status = status_of(healthy(hosts=stateful_set(3, 3)))
    assert verdict(status, "Reconciling") == ("True", "Progressing")
    assert status.hosts.ready == 2  # of those wanted


PROBLEM = Problem(field="spec.sink.container", reason="ContainerInvalid", message="storage refuses it: rename it")


def test_a_problem_of_hosts_stalls_once_with_field_and_remedy() -> None:
    reports = {f"orders-host-{number}": report(problems=(PROBLEM,)) for number in range(2)}
    status = status_of(healthy(reports=reports))
    assert verdict(status, "Stalled") == ("True", "ContainerInvalid")
    assert verdict(status, "Ready") == ("False", "ContainerInvalid")
    assert message(status, "Ready") == "spec.sink.container: storage refuses it: rename it"


def test_one_cause_is_reported_once_with_all_its_fields() -> None:
    told = [
        Problem(field=f"spec.{part}.authentication", reason="SecretKeyMissing", message=f"absent: create it ({part})")
        for part in ("sink", "checkpointStore")
    ]
    status = status_of(healthy(reports={f"orders-host-{number}": report(problems=told) for number in range(2)}))
    assert message(status, "Stalled") == (
        "spec.checkpointStore.authentication and spec.sink.authentication: absent: create it (checkpointStore)"
    )


def cut_off(hosts: int, seconds: float = 5) -> dict[str, Any]:
    """Reports of six hosts, some of which cannot reach storage since `seconds`."""
    problem = Problem(
        field="spec.sink", reason="StorageUnreachable", message="no answer", since=NOW - timedelta(seconds=seconds)
    )
    first = {"orders-host-0": report(fleet=fleet())}
    return first | {
        f"orders-host-{number}": report(problems=(problem,) if number > 5 - hosts else ()) for number in range(1, 6)
    }


def test_one_host_of_six_that_is_cut_off_needs_no_person_at_first() -> None:
    status = status_of(healthy(reports=cut_off(1)))
    assert verdict(status, "Stalled") == ("False", "Available")
    assert verdict(status, "Ready") == ("True", "Available")
    named = "1 of 6 hosts (orders-host-5) since 2026-11-21 11:59:55 UTC: spec.sink: no answer"
    assert named in message(status, "Ready") and named in message(status, "Draining")
    lasting = status_of(healthy(reports=cut_off(2, seconds=121)))
    assert verdict(lasting, "Stalled") == ("True", "StorageUnreachable")
    assert message(lasting, "Stalled").startswith("2 of 6 hosts (orders-host-4 (and 1 more)) since ")


def test_what_no_host_can_reach_needs_a_person_at_once() -> None:
    reports = {name: each for name, each in cut_off(5).items() if each.problems}
    assert verdict(status_of(healthy(reports=reports)), "Stalled") == ("True", "StorageUnreachable")


def test_the_order_in_which_hosts_answer_does_not_matter() -> None:
    other = Problem(field="spec.eventHub.name", reason="EventHubNotFound", message="no such hub")
    one = {"a": report(problems=(PROBLEM,)), "b": report(problems=(other,))}
    two = {"b": report(problems=(other,)), "a": report(problems=(PROBLEM,))}
    assert status_of(healthy(reports=one)) == status_of(healthy(reports=two))


def test_a_reason_this_operator_does_not_know_still_shows_its_message() -> None:
    problem = Problem(field="spec.sink", reason="FromTheFuture", message="do this")
    status = status_of(healthy(reports={"a": report(problems=(problem,))}))
    assert verdict(status, "Stalled") == ("True", "HostsFailing")
    assert message(status, "Stalled") == "spec.sink: do this"


@pytest.mark.parametrize(
    ("spec", "reason", "text"),
    [
        (SCALED | {"suspend": True}, "Suspended", "spec.suspend is true"),
        (SPEC | {"scaling": {"mode": "Fixed", "replicas": 0}}, "ScaledToZero", "spec.scaling.replicas is 0"),
        (SPEC | {"scaling": {"mode": "Fixed"}}, "ScaledToZero", "spec.scaling.replicas is 0"),
    ],
    ids=["suspended", "no replicas", "replicas left out"],
)
def test_what_is_to_rest_is_ready_when_nothing_runs_and_says_why(spec: dict[str, Any], reason: str, text: str) -> None:
    before = status_of(healthy())
    going = status_of(healthy(spec=spec, status=before))
    assert verdict(going, "Ready") == ("False", reason)
    assert verdict(going, "Reconciling") == ("True", "Progressing")
    status = status_of(healthy(spec=spec, hosts=stateful_set(0, 0), pods=(), reports={}, status=going))
    assert verdict(status, "Ready") == ("True", reason)
    assert verdict(status, "HostsAvailable") == ("False", reason)
    assert verdict(status, "Draining") == ("False", reason)
    for kind in ("Ready", "HostsAvailable", "Draining"):
        assert text in message(status, kind)
    assert verdict(status, "Reconciling") == ("False", "Available")
    assert verdict(status, "Stalled") == ("False", "Available")
    assert status.partitions.owned == 0


def test_an_invalid_spec_stalls_and_keeps_what_was_known() -> None:
    before = status_of(healthy())
    world = healthy(status=before, generation=2)
    status = make_status(world, None, (SpecError("spec.sink.container", "wrong"),), SETTINGS)
    assert verdict(status, "Stalled") == ("True", "SpecInvalid")
    assert message(status, "Ready") == "spec.sink.container: wrong"
    assert verdict(status, "HostsAvailable") == ("True", "Available")  # the hosts of the last valid spec
    assert status.observed_generation == 2
    assert status.effective == before.effective


def test_a_lost_right_stalls_and_a_conflict_does_not() -> None:
    assert verdict(status_of(healthy(), Forbidden("no")), "Stalled") == ("True", "Forbidden")
    transient = status_of(healthy(), Transient("busy"))
    assert verdict(transient, "Stalled") == ("False", "Available")
    assert verdict(transient, "Reconciling") == ("True", "Progressing")


def test_a_new_host_that_is_never_ready_is_named_and_the_others_continue() -> None:
    def made(number: int, minutes: float, **status: Any) -> Manifest:
        when = (NOW - timedelta(minutes=minutes)).isoformat()
        found = pod(f"orders-host-{number}", phase="Running", **status)
        return found | {"metadata": found["metadata"] | {"creationTimestamp": when}}

    def unready(minutes: float) -> dict[str, Any]:
        when = (NOW - timedelta(minutes=minutes)).isoformat()
        return {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": when}]}

    old = made(0, 60, conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": NOW.isoformat()}])
    three = SPEC | {"scaling": {"partitionsPerHost": 3}}
    hosts = stateful_set(3, 1)
    young = status_of(healthy(spec=three, hosts=hosts, pods=(old, made(1, 2, **unready(2)), made(2, 2)), reports=TWO))
    begun = (NOW - timedelta(minutes=2)).isoformat()
    assert message(young, "HostsAvailable") == (
        f"1 of 3 hosts are ready; pod orders-host-1 (and 1 more) has not been ready since {begun}: its container runs, "
        "and the host is not ready yet"
    )
    late = status_of(healthy(spec=three, hosts=hosts, pods=(old, made(1, 9, **unready(4)), made(2, 9)), reports=TWO))
    since = (NOW - timedelta(minutes=4)).isoformat()
    for kind in ("HostsAvailable", "Ready", "Reconciling"):
        assert f"pod orders-host-1 (and 1 more) has not been ready since {since}: " in message(late, kind)
        assert "kubectl describe pod orders-host-1" in message(late, kind)
    assert verdict(late, "Stalled") == ("False", "Available")  # it may come yet
    assert verdict(late, "Draining")[0] == "True"  # who holds a partition keeps it until another is ready
    assert late.partitions.owned == 8
    failing = {"containerStatuses": [{"image": "x", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
    named = status_of(healthy(spec=three, hosts=hosts, pods=(old, made(1, 9, **failing)), reports=TWO))
    assert verdict(named, "Stalled") == ("True", "HostsFailing")
    assert "has not been ready since" not in message(named, "HostsAvailable")


def test_without_a_scheduler_the_first_pod_is_named_at_once_with_its_reason() -> None:
    waits = pod("orders-host-0", phase="Pending")
    waits["metadata"]["creationTimestamp"] = "2026-11-21T11:59:58Z"
    status = status_of(healthy(hosts=stateful_set(2, 0), pods=(waits,), reports={}))
    for kind in ("HostsAvailable", "Ready"):
        assert "pod orders-host-0 has not been ready since 2026-11-21T11:59:58Z: not yet scheduled" in message(
            status, kind
        )


def test_pods_that_fail_are_shown_by_their_reason() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    failing = pod(phase="Pending", containerStatuses=[{"image": "x", "state": {"waiting": waiting}}])
    status = status_of(healthy(hosts=stateful_set(2, 0), pods=(failing,), reports={}))
    assert verdict(status, "HostsAvailable") == ("False", "HostsFailing")
    assert verdict(status, "Stalled") == ("True", "HostsFailing")
    assert "pod orders-host-0: ImagePullBackOff: Back-off pulling image" in message(status, "Ready")


@pytest.mark.parametrize(
    "said",
    [
        'configmap "shop" not found',
        'secrets "shop" not found',
        "couldn't find key password in Secret shop/shop",
        "couldn't find key mode in ConfigMap shop/shop",
    ],
)
def test_a_variable_without_a_source_is_named_with_its_remedy(said: str) -> None:
    waiting = {"reason": "CreateContainerConfigError", "message": said}
    failing = pod(phase="Pending", containerStatuses=[{"image": "x", "state": {"waiting": waiting}}])
    status = status_of(healthy(hosts=stateful_set(2, 0), pods=(failing,), reports={}))
    assert verdict(status, "Stalled") == ("True", "HostsFailing")
    named = f"pod orders-host-0: CreateContainerConfigError: {said}: create it, or correct env and envFrom in the spec"
    assert named in message(status, "Ready")


def test_another_error_of_a_container_s_configuration_has_the_kubelet_s_words_only() -> None:
    text = "container has runAsNonRoot and image will run as root"
    waiting = {"reason": "CreateContainerConfigError", "message": text}
    failing = pod(phase="Pending", containerStatuses=[{"image": "x", "state": {"waiting": waiting}}])
    status = status_of(healthy(hosts=stateful_set(2, 0), pods=(failing,), reports={}))
    assert message(status, "Stalled").endswith(text)


def test_a_pod_that_waits_for_its_volumes_names_what_they_need() -> None:
    volumes = [
        {"mountPath": "/config/shop", "configMap": {"name": "shop"}},
        {"mountPath": "/mnt/shop", "configMap": {"name": "shop"}},
        {"mountPath": "/mnt/other", "configMap": {"name": "other", "optional": True}},
        {"mountPath": "/secrets/shop", "secret": {"secretName": "passwords"}},
    ]
    spec = SPEC | {"processing": HANDLER | {"volumes": volumes}}
    when = (NOW - timedelta(minutes=4)).isoformat()

    def said(reason: str) -> str:
        waits = pod(
            phase="Pending",
            conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": when}],
            containerStatuses=[{"image": "x", "state": {"waiting": {"reason": reason}}}],
        )
        return message(status_of(healthy(spec=spec, hosts=stateful_set(2, 0), pods=(waits,), reports={})), "Ready")

    needs = "its volumes need ConfigMap shop and Secret passwords: create what is missing"
    assert needs in said("ContainerCreating")
    assert "has not been ready since" in said("PodInitializing") and needs not in said("PodInitializing")


# --- memory --------------------------------------------------------------------------------------------------------


def test_transition_times_move_only_with_the_status() -> None:
    before = status_of(healthy())
    later = NOW + timedelta(hours=1)
    same = status_of(healthy(status=before, now=later))
    assert same == before
    worse = status_of(healthy(status=before, now=later, reports={"a": report(fleet=fleet(owned=7))}))
    times = {condition.type.value: condition.last_transition_time for condition in worse.conditions}
    assert times["Ready"] == later
    assert times["HostsAvailable"] == NOW


def test_silent_hosts_do_not_wipe_out_what_they_said() -> None:
    before = status_of(healthy())
    status = status_of(healthy(status=before, reports={}, pods=(pod(phase="Running"),)))
    assert status.drained == before.drained
    assert status.lag == before.lag
    assert status.partitions == before.partitions
    assert status.hub == before.hub
    assert verdict(status, "Draining") == ("Unknown", "NoReport")


def test_the_table_is_shown_as_its_last_report_shows_it() -> None:
    spec = SCALED | {"sink": SCALED["sink"] | {"table": {"maxSeconds": 10}}}
    table = TableReport(version=3, files=5, events=50, pending_files=2, pending_events=8, oldest_pending_time=NOW)
    table = table.model_copy(update={"log_retention_seconds": 604_800})
    leader = fleet().model_copy(update={"table": table.model_copy(update={"committed_at": NOW})})
    before = status_of(healthy(spec=spec, reports={"orders-host-0": report(fleet=leader)}))
    shown = table.model_dump(exclude={"committed_at"}) | {"last_commit_time": NOW}
    assert before.table is not None
    assert before.table.model_dump() == shown
    # Another host leads: it has committed nothing yet, and then it has not read the table's log yet.
    for found, version in ((table.model_copy(update={"version": 4}), 4), (None, 3)):
        leader = fleet().model_copy(update={"table": found})
        after = status_of(healthy(spec=spec, status=before, reports={"orders-host-0": report(fleet=leader)}))
        assert after.table is not None
        assert after.table.model_dump() == shown | {"version": version}
    assert status_of(healthy(status=before)).table is None


def test_notices_are_shown_as_their_last_report_shows_them() -> None:
    spec = SCALED | {"sink": SCALED["sink"] | {"notices": {"url": "https://hooks.shop.example/files"}}}
    notices = NoticesReport(pending_events=7, acknowledged_at=NOW)
    leader = fleet().model_copy(update={"notices": notices})
    before = status_of(healthy(spec=spec, reports={"orders-host-0": report(fleet=leader)}))
    assert before.notices and before.notices.model_dump() == {"pending_events": 7, "last_time": NOW}
    # Another host leads: it has sent none yet, and then it has not read the cursor yet.
    for found, pending in ((NoticesReport(pending_events=3), 3), (None, 7)):
        leader = fleet().model_copy(update={"notices": found})
        after = status_of(healthy(spec=spec, status=before, reports={"orders-host-0": report(fleet=leader)}))
        assert after.notices and after.notices.model_dump() == {"pending_events": pending, "last_time": NOW}
    assert status_of(healthy(status=before)).notices is None


def test_retention_is_shown_as_its_last_report_shows_it() -> None:
    spec = SCALED | {"sink": SCALED["sink"] | {"retention": {"bytes": 5}}}
    retention = RetentionReport(files=7, events=70, bytes=700, oldest_file_time=NOW, excess_bytes=3, held="why")
    leader = fleet().model_copy(update={"retention": retention})
    before = status_of(healthy(spec=spec, reports={"orders-host-0": report(fleet=leader)}))
    assert before.retention and before.retention.model_dump() == retention.model_dump()
    after = status_of(healthy(spec=spec, status=before, reports={"orders-host-0": report(fleet=fleet())}))
    assert after.retention == before.retention, "another host leads, and has not read the cursor yet"
    assert status_of(healthy(status=before)).retention is None


def test_a_partition_whose_owner_does_not_hear_the_hub_is_owned_and_not_read() -> None:
    silent = report().model_copy(
        update={"partitions": tuple(PartitionReport(id=str(number), epoch=1, read=False) for number in (6, 7))}
    )
    reports = {"orders-host-0": report(fleet=fleet()), "orders-host-1": silent}
    status = status_of(healthy(reports=reports))
    assert message(status, "Ready") == "6 of 8 partitions are read"
    new = report().model_copy(update={"partitions": (PartitionReport(id="7", epoch=2),)})
    moving = status_of(healthy(reports=reports | {"orders-host-2": new}))
    assert moving.partitions.owned == 7


def test_without_a_leader_ownership_is_what_the_hosts_say() -> None:
    own = [PartitionReport(id=str(number), epoch=1) for number in range(3)]
    answer = report().model_copy(update={"partitions": own})
    status = status_of(healthy(reports={"a": answer}))
    assert status.partitions.owned == 3


# --- spark ---------------------------------------------------------------------------------------------------------


def with_batch(*jobs: Any, **changes: Any) -> Observed:
    leader = fleet(batch=batch(1))
    return healthy(spec=SCALED | SPARK, applications=jobs, reports={"orders-host-0": report(fleet=leader)}, **changes)


def test_an_open_batch_is_shown_with_its_application() -> None:
    status = status_of(with_batch(job(NAME)))
    assert verdict(status, "SparkHealthy") == ("True", "Progressing")
    assert status.spark is not None
    assert (status.spark.last_batch, status.spark.last_application, status.spark.reason) == (1, NAME, "Files")


def test_a_driver_that_does_not_start_is_explained() -> None:
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    driver = pod(f"{NAME}-x", phase="Pending", containerStatuses=[{"state": {"waiting": waiting}}])
    driver["metadata"]["ownerReferences"] = [{"uid": f"uid-of-{NAME}", "controller": True}]
    assert verdict(status_of(with_batch(job(NAME), drivers=(driver,))), "Stalled") == ("False", "Available")
    status = status_of(with_batch(job(NAME), drivers=(driver,), now=NOW + timedelta(seconds=70)))
    assert verdict(status, "SparkHealthy") == ("False", "SparkWaiting")
    assert verdict(status, "Stalled") == ("True", "SparkWaiting")
    assert f"pod {NAME}-x: ErrImagePull: no such image" in message(status, "SparkHealthy")


def test_a_failed_batch_names_the_remedy() -> None:
    when = {"lastTransitionTime": NOW.isoformat()}
    failed = job(NAME, type="Failed", reason="BackoffLimitExceeded", message="it failed", **when)
    status = status_of(with_batch(failed))
    assert verdict(status, "SparkHealthy") == ("False", "SparkRetrying")
    assert verdict(status, "Stalled") == ("False", "Available")
    text = message(status, "SparkHealthy")
    assert "batch 1 (10 files): attempt 1 failed (1 of 3 in a row): BackoffLimitExceeded: it failed" in text
    assert f"kubectl logs job/{NAME}" in text
    assert "attempt 2 follows at 2026-11-21 12:00:30 UTC" in text
    assert status.spark is not None
    assert (status.spark.failures, status.spark.next_attempt_time) == (1, NOW + timedelta(seconds=30))


def test_a_batch_that_failed_too_often_needs_a_person_and_is_tried_all_the_same() -> None:
    memory = SparkStatus(last_batch=1, attempt=3, failures=3, last_failure="no room", next_attempt_time=NOW)
    status = status_of(with_batch(status=EventConsumerStatus(spark=memory, observed_generation=1)))
    assert verdict(status, "SparkHealthy") == ("False", "SparkFailed")
    assert verdict(status, "Stalled") == ("True", "SparkFailed")
    assert "attempt 3 failed (3 of 3 in a row): no room" in message(status, "Stalled")


@pytest.mark.parametrize(("seconds", "healthy_still"), [(5, True), (600, False)])
def test_success_without_a_commit_is_a_failure_after_a_while(seconds: int, healthy_still: bool) -> None:
    ended = job(NAME, type="Complete", lastTransitionTime=NOW.isoformat().replace("+00:00", "Z"))
    status = status_of(with_batch(ended, now=NOW + timedelta(seconds=seconds)))
    assert (verdict(status, "SparkHealthy")[0] == "True") is healthy_still


def test_the_failed_job_of_a_committed_batch_is_history() -> None:
    leader = fleet(committed=1)
    world = healthy(
        spec=SCALED | SPARK, applications=(job(NAME, type="Failed"),), reports={"orders-host-0": report(fleet=leader)}
    )
    status = status_of(world)
    assert verdict(status, "SparkHealthy") == ("True", "Idle")
    assert status.spark is not None and (status.spark.last_batch, status.spark.reason) == (1, "Age")


def test_without_a_leading_host_the_last_word_about_spark_stands_and_says_since_when() -> None:
    failed = job(
        NAME, type="Failed", reason="BackoffLimitExceeded", message="it failed", lastTransitionTime=NOW.isoformat()
    )
    before = status_of(with_batch(failed))
    assert before.hosts.no_leader_since is None
    later = NOW + timedelta(minutes=1)
    changes: dict[str, Any] = {"spec": SCALED | SPARK, "reports": {"orders-host-1": report()}}
    once = status_of(healthy(**changes, status=before, now=later))
    again = status_of(healthy(**changes, status=once, now=later + timedelta(minutes=1)))
    for status in (once, again):
        assert status.hosts.no_leader_since == later
        assert verdict(status, "SparkHealthy") == ("False", "SparkRetrying")
        assert message(status, "SparkHealthy") == (
            "not confirmed since 2026-11-21 12:01:00 UTC, because no leading host reports: "
            + message(before, "SparkHealthy")
        )
    back = status_of(with_batch(failed, status=again, now=later + timedelta(minutes=2)))
    assert back.hosts.no_leader_since is None
    assert "not confirmed" not in message(back, "SparkHealthy")


def test_a_suspension_does_not_end_a_failure_that_needs_a_person() -> None:
    memory = SparkStatus(last_batch=1, attempt=3, failures=3, last_failure="no room", next_attempt_time=NOW)
    before = status_of(with_batch(status=EventConsumerStatus(spark=memory, observed_generation=1)))
    spec = SCALED | SPARK | {"suspend": True}
    status = status_of(healthy(spec=spec, hosts=stateful_set(0, 0), reports={}, status=before))
    assert verdict(status, "SparkHealthy") == ("False", "SparkFailed")
    assert verdict(status, "Stalled") == ("True", "SparkFailed")


def test_before_the_first_report_nothing_is_said_about_batches() -> None:
    status = status_of(healthy(spec=SCALED | SPARK, reports={"orders-host-1": report()}))
    assert verdict(status, "SparkHealthy") == ("Unknown", "NoReport")
    assert status.hosts.no_leader_since == NOW


# --- writing -------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_back_as_the_same() -> None:
    status = status_of(with_batch(job(NAME)))
    assert EventConsumerStatus.model_validate(wire(status)) == status


def test_no_part_is_written_empty() -> None:
    status = status_of(healthy(spec=SCALED | {"suspend": True}, hosts=stateful_set(0, 0), reports={}))
    assert "lag" not in wire(status)
    assert {} not in wire(status).values()


def test_lag_and_totals_are_numbers_and_ownership_is_not() -> None:
    one = status_of(healthy())
    lagging = status_of(healthy(status=one, reports={"orders-host-0": report(fleet=fleet(files=9))}))
    assert one != lagging
    assert same_but_numbers(one, lagging)
    complete = fleet().model_copy(update={"watermark": WatermarkReport(files=NOW)})
    moved = status_of(healthy(status=one, reports={"orders-host-0": report(fleet=complete)}))
    assert moved.drained.watermark == NOW
    assert same_but_numbers(one, moved)
    unowned = status_of(healthy(status=one, reports={"orders-host-0": report(fleet=fleet(owned=7))}))
    assert not same_but_numbers(one, unowned)


def test_long_messages_are_cut() -> None:
    problem = Problem(field="spec.sink", reason="ContainerInvalid", message="x" * 5000)
    status = status_of(healthy(reports={"a": report(problems=(problem,))}))
    assert len(message(status, "Stalled")) == MESSAGE_LIMIT


def test_the_status_of_the_largest_fleet_is_small_while_all_hosts_have_problems() -> None:
    """A request to the API server has at most 1.5 MiB; each client that watches gets each version of the status."""
    ids = [str(number) for number in range(LARGEST_PARTITIONS)]
    gaps = dict.fromkeys(ids, ",".join(["12345678901234567890-12345678901234567890"] * 2))
    leader = fleet(LARGEST_PARTITIONS).model_copy(
        update={"owners": dict.fromkeys(ids, "o" * 206), "gaps": gaps, "gap_events": 2**62}
    )
    problems = tuple(
        Problem(field="spec.sink.container", reason=reason, message=f"partition {number}: " + "m" * 400)
        for number, reason in enumerate([*Reason] * 2)
    )
    reports = {f"orders-host-{number}": report(LARGEST_PARTITIONS, None, problems) for number in range(LARGEST_HOSTS)}
    reports["orders-host-0"] = report(LARGEST_PARTITIONS, leader, problems)
    pods = tuple(pod(name, phase="Running") for name in reports)
    hosts = stateful_set(LARGEST_HOSTS, LARGEST_HOSTS)
    world = observed(SPEC | SPARK, hosts=hosts, pods=pods, reports=reports)
    size = len(json.dumps(wire(status_of(world))))
    print(f"status of {LARGEST_PARTITIONS} partitions and {LARGEST_HOSTS} hosts: {size} bytes")
    assert size < 100_000
