"""What the status page's API tells of what the operator observed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from eventconsumer_api.resource.remedies import ABNORMAL_TRUE, AS_WANTED, REMEDIES, remedy, severity
from eventconsumer_api.spec.conditions import ConditionType, Reason
from eventconsumer_api.v1alpha1.status import Condition, EventConsumerStatus, LagStatus
from eventconsumer_api.wire.host_report import PartitionLag, Problem
from eventconsumer_operator.conditions.status import make_status
from eventconsumer_operator.keys import Key
from eventconsumer_operator.page import view
from eventconsumer_operator.page.histories import ALL_PARTITIONS, Histories, sample_of
from eventconsumer_operator.page.history import MAX_PARTITIONS
from eventconsumer_operator.page.model import Choice, ErrorView
from eventconsumer_operator.page.server import AnswerCache
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.reconcile import Reconciler
from eventconsumer_operator.resource.observed import Observed
from tests.support.fakes.kubernetes import FakeKubernetes, event_consumer
from tests.unit.operator.test_reconcile import Cluster
from tests.unit.operator.worlds import KEY, NOW, SETTINGS, SPEC, fleet, observed, pod, report, stateful_set


def condition(kind: ConditionType, status: str, reason: str) -> Condition:
    return Condition(
        type=kind, status=status, reason=reason, message="", last_transition_time=NOW, observed_generation=1
    )


def recorded(*worlds: Observed) -> Histories:
    histories = Histories()
    for world in worlds:
        histories.record(world, make_status(world, make_plan(world, SETTINGS), (), SETTINGS))
    return histories


def detail(histories: Histories) -> view.ConsumerDetail:
    entry = histories.get(KEY)
    assert entry is not None
    return view.detail(KEY, entry)


def world(owners: dict[str, str], *, after: int = 0, lag: int = 0) -> Observed:
    told = fleet(partitions=2, lag=lag).model_copy(
        update={"owners": owners, "lags": {"0": PartitionLag(events=lag, seconds=1.6)}}
    )
    return observed(
        pods=(pod(), pod("orders-host-1")),
        hosts=stateful_set(1, 1),
        reports={"orders-host-0": report(2, told)},
        now=NOW + timedelta(seconds=after),
    )


def test_a_consumer_is_shown_with_partitions_owners_and_moves() -> None:
    found = detail(
        recorded(
            world({"0": "shop/orders/a.1", "1": "shop/orders/b.1"}, lag=9), world({"0": "shop/orders/b.1"}, after=60)
        )
    )
    assert [each.owner for each in found.partitions] == ["b", ""]
    assert found.partitions[0].events[-3:] == [9, None, 0]
    assert found.partitions[0].seconds[-1] == 2
    assert [(move.partition, move.source, move.target) for move in found.moves] == [("1", "b", ""), ("0", "a", "b")]
    assert [(each.host, each.end) for each in found.partitions[0].tenures] == [("a", found.moves[0].time), ("b", None)]
    assert [(host.name, host.state, host.leads) for host in found.hosts] == [
        ("orders-host-0", "Running", True),
        ("orders-host-1", "", False),
    ]
    assert found.timeline.start is not None
    end = found.timeline.start + timedelta(seconds=found.timeline.slots * found.timeline.slot_seconds)
    assert end - timedelta(seconds=30) <= NOW + timedelta(seconds=60) < end
    assert found.summary.observed_at == NOW + timedelta(seconds=60)


def test_silent_hosts_leave_owners_unknown_and_no_pods_mean_nobody() -> None:
    led = world({"0": "shop/orders/a.1"})
    silent = observed(pods=(pod(),), now=NOW + timedelta(seconds=30))
    assert sample_of(silent).owners is None
    assert [each.owner for each in detail(recorded(led, silent)).partitions] == ["a", ""]
    assert sample_of(observed()).owners == {}
    assert detail(recorded(led, observed(now=NOW + timedelta(seconds=30)))).partitions[0].owner == ""


def test_the_list_is_in_order_and_what_is_gone_is_forgotten() -> None:
    histories = recorded(world({}))
    other = observed()
    for name in ("b", "a"):
        key = Key("shop", name)
        consumer = Observed(now=NOW, consumer=other.consumer.__class__(key, "u", "1", 1, SPEC))
        histories.record(consumer, EventConsumerStatus())
    assert [each.name for each in view.consumer_list(histories, Choice()).consumers] == ["a", "b", "orders"]
    histories.forget(KEY)
    assert histories.get(KEY) is None and len(histories) == 2


def test_a_page_of_two_thousand_is_small() -> None:
    histories = Histories()
    base = world({"0": "shop/orders/a.1"}, lag=7)
    status = make_status(base, make_plan(base, SETTINGS), (), SETTINGS)
    for number in range(2000):
        consumer = replace(base.consumer, key=Key("shop", f"c{number:04}"))
        late = status.model_copy(update={"lag": LagStatus(events=number, seconds=number % 1500)})
        histories.record(replace(base, consumer=consumer), late)
    found = view.consumer_list(histories, Choice(sort="lag", page=2))
    assert (found.total, found.found, found.pages) == (2000, 2000, 20)
    lags = [(each.lag.seconds or 0, each.lag.events or 0) for each in found.consumers]
    assert lags == sorted(lags, reverse=True) and len(lags) == 100 and lags[0][0] < 1500
    assert len(found.model_dump_json(by_alias=True)) < 60_000


def test_a_problem_has_its_remedy() -> None:
    problem = Problem(field="spec.sink.container", reason="ContainerInvalid", message="no such container")
    blocked = observed(
        pods=(pod(),), hosts=stateful_set(1, 0), reports={"orders-host-0": report(None, None, (problem,))}
    )
    found = detail(recorded(blocked))
    (stalled,) = [each for each in found.conditions if each.type == "Stalled"]
    assert (stalled.severity, stalled.remedy) == ("problem", REMEDIES[Reason.CONTAINER_INVALID])
    assert "no such container" in stalled.message
    assert found.summary.severity == "problem"


def test_every_reason_has_a_remedy_or_needs_none() -> None:
    assert REMEDIES.keys() | AS_WANTED == set(Reason)
    assert not REMEDIES.keys() & AS_WANTED


@pytest.mark.parametrize("kind", ConditionType)
def test_a_condition_as_it_should_be_asks_for_nothing(kind: ConditionType) -> None:
    well = condition(kind, "False" if kind in ABNORMAL_TRUE else "True", Reason.AVAILABLE)
    assert (severity(well), remedy(well)) == ("ok", "")
    ill = condition(kind, "True" if kind in ABNORMAL_TRUE else "False", Reason.HUB_DIVERGED)
    assert (severity(ill), remedy(ill)) == ("problem", REMEDIES[Reason.HUB_DIVERGED])


@pytest.mark.parametrize(
    ("kind", "status", "reason", "expected"),
    [
        (ConditionType.READY, "False", Reason.PROGRESSING, "notice"),
        (ConditionType.RECONCILING, "True", Reason.PROGRESSING, "notice"),
        (ConditionType.DRAINING, "Unknown", Reason.NO_REPORT, "notice"),
        (ConditionType.HOSTS_AVAILABLE, "False", Reason.SUSPENDED, "ok"),
        (ConditionType.SPARK_HEALTHY, "True", Reason.SPARK_BEHIND, "notice"),
        (ConditionType.SPARK_HEALTHY, "False", Reason.SPARK_RETRYING, "notice"),
        (ConditionType.SPARK_HEALTHY, "False", Reason.SPARK_FAILED, "problem"),
        (ConditionType.STALLED, "True", "ReasonOfANewerOperator", "problem"),
    ],
)
def test_how_bad_a_condition_is(kind: ConditionType, status: str, reason: str, expected: str) -> None:
    assert severity(condition(kind, status, reason)) == expected


async def test_a_reconcile_is_recorded_and_a_deletion_forgotten() -> None:
    cluster = Cluster(SPEC)
    histories = Histories()
    cluster.hosts.answer = report(fleet=fleet())
    reconciler = Reconciler(cluster.api, cluster.api.mirror(), cluster.hosts, SETTINGS, histories=histories)
    await reconciler.reconcile(KEY)
    cluster.follow()
    await reconciler.reconcile(KEY)
    assert detail(histories).summary.partitions.total == 8
    api = FakeKubernetes()
    api.put(event_consumer("another", SPEC))
    gone = Reconciler(api, api.mirror(), cluster.hosts, SETTINGS, histories=histories)
    await gone.reconcile(KEY)
    assert histories.get(KEY) is None


def test_many_viewers_cost_no_more_than_one() -> None:
    now, made = [0.0], [0]

    def make() -> ErrorView:
        made[0] += 1
        return ErrorView(error=str(made[0]))

    rendered = AnswerCache(lambda: now[0])
    assert {rendered.get("a", make) for _ in range(9)} == {b'{"error":"1"}'}
    assert rendered.get("b", make) == b'{"error":"2"}', "of something else"
    now[0] = 0.9
    assert rendered.get("a", make) == b'{"error":"1"}'
    now[0] = 1.0
    assert rendered.get("a", make) == b'{"error":"3"}'


@pytest.mark.slow
def test_hosts_that_invent_partitions_of_many_consumers_take_bounded_memory() -> None:
    """Each report is within the limits of one consumer."""
    histories = Histories()
    owners = {str(number): f"shop/orders/host-{number}.{'u' * 40}" for number in range(MAX_PARTITIONS)}
    lags = {str(number): PartitionLag(events=number, seconds=1) for number in range(MAX_PARTITIONS)}

    def world(number: int) -> Observed:
        update = {"partition_count": MAX_PARTITIONS, "owners": owners, "lags": lags}
        crowded = report(fleet=fleet().model_copy(update=update))
        found = observed(pods=(pod(),), reports={"orders-host-0": crowded})
        return replace(found, consumer=replace(found.consumer, key=Key("shop", f"c{number}")))

    count = 2 * ALL_PARTITIONS // MAX_PARTITIONS
    for number in range(count):
        histories.record(world(number), EventConsumerStatus())
    kept = [len(entry.history.owners) for _, entry in histories]
    assert sum(entry.history.partitions for _, entry in histories) == sum(kept) == ALL_PARTITIONS
    assert len(kept) == count and min(kept) == 0
    for number in range(count // 2):  # those that were first
        histories.forget(Key("shop", f"c{number}"))
    histories.record(world(count - 1), EventConsumerStatus())
    last = histories.get(Key("shop", f"c{count - 1}"))
    assert last is not None and last.history.partitions == MAX_PARTITIONS
