"""What is expected and missing: pods, ready pods, reports. It needs an action, and an unknown number is absent."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_operator.conditions.status import make_status
from eventconsumer_operator.errors import Forbidden
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.missing import missing
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import SLOW, STUCK
from eventconsumer_operator.resource.refusals import PAUSE_SECONDS, Refusals
from eventconsumer_operator.rest import is_at_rest
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.unit.operator.worlds import NOW, SETTINGS, SPEC, fleet, job, observed, pod, report, stateful_set

TWO = SPEC | {"scaling": {"partitionsPerHost": 4}}
QUOTA = 'pods "orders-host-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'


def world(**changes: Any) -> Observed:
    """One of two hosts exists, and reads all partitions."""
    seen: dict[str, Any] = {
        "hosts": stateful_set(2, 1),
        "pods": (pod("orders-host-0"),),
        "reports": {"orders-host-0": report(fleet=fleet())},
    }
    return observed(TWO, **(seen | changes))


def status_of(seen: Observed) -> EventConsumerStatus:
    return make_status(seen, make_plan(seen, SETTINGS), (), SETTINGS)


def stalled(status: EventConsumerStatus) -> tuple[str, str, str]:
    found = next(each for each in status.conditions if each.type == "Stalled")
    return found.status, found.reason, found.message


def after(seen: Observed, status: EventConsumerStatus, passed: timedelta, **changes: Any) -> Observed:
    return replace(seen, consumer=replace(seen.consumer, status=status), now=seen.now + passed, **changes)


def test_a_host_that_does_not_exist_for_minutes_needs_an_action_and_keeps_its_cause() -> None:
    seen = replace(world(), refusals={"set": QUOTA})
    first = status_of(seen)
    assert stalled(first)[0] == "False"
    assert not is_at_rest(seen, make_plan(seen, SETTINGS), (), first)  # it becomes due by time
    # The Event has expired.
    later = after(seen, first, SLOW, refusals={})
    _, reason, message = stalled(status_of(later))
    assert reason == "HostsFailing"
    assert message == (
        "statefulset/orders-host: 1 of 2 pods have been missing since 2026-11-21 12:00:00 UTC: "
        f"the API server refuses it: {QUOTA}: raise the quota, or lower spec.pods.resources"
    )
    # All pods existed for a moment: it begins again, without the old cause.
    back = status_of(replace(later, pods=(pod("orders-host-0"), pod("orders-host-1"))))
    assert (stalled(back)[0], back.missing) == ("False", [])
    again = status_of(after(later, back, SLOW))
    assert (again.missing[0].cause, stalled(again)[0]) == ("", "False")
    unknown = stalled(status_of(after(later, again, 2 * SLOW)))[2]
    assert "a quota or an admission policy" in unknown and "kubectl describe statefulset/orders-host" in unknown


@pytest.mark.parametrize(
    ("status", "due"),
    [
        ({}, SLOW),
        ({"failed": 1}, SLOW + timedelta(minutes=6)),  # the Job controller pauses between two pods
        ({"conditions": [{"type": "Complete", "status": "True"}]}, None),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, None),
    ],
)
def test_the_pod_of_a_replay(status: dict[str, Any], due: timedelta | None) -> None:
    spec = TWO | {"replay": {"name": "one", "consumerGroup": "replay"}}
    made = job("orders-01234567-replay-one") | {"status": status}
    seen = replace(world(pods=(pod("orders-host-0"), pod("orders-host-1"))), replays=(made,))
    seen = replace(seen, consumer=replace(seen.consumer, spec=spec))
    first = status_of(seen)
    assert bool(missing(seen)) == (due is not None)
    if due is None:
        return
    early, late = (after(seen, first, due - timedelta(seconds=less)) for less in (1, 0))
    assert stalled(status_of(early))[0] == "False"
    found = status_of(late)
    assert stalled(found)[:2] == ("True", "ObjectRefused")
    assert f"kubectl describe job/{made['metadata']['name']} shows the cause" in stalled(found)[2]


def ready_pod(name: str, since: datetime) -> Manifest:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": f"{since}"}
    return pod(name, phase="Running", conditions=[ready])


def test_ready_hosts_that_do_not_answer_need_an_action_and_the_lag_is_unknown() -> None:
    hosts = tuple(ready_pod(f"orders-host-{number}", NOW) for number in range(2))
    before = status_of(world(pods=hosts, reports={"orders-host-0": report(fleet=fleet(lag=7))}))
    assert (before.lag.events, before.partitions.owned) == (7, 8)
    silent = after(world(pods=hosts), before, timedelta(seconds=10), reports={})
    first = status_of(silent)
    assert (first.lag.events, first.partitions.owned, stalled(first)[0]) == (7, 8, "False")
    later = after(silent, first, SLOW)
    found = status_of(later)
    assert stalled(found)[:2] == ("True", "HostsFailing")
    assert "pod orders-host-0 (and 1 more) is ready and has not answered the operator since" in stalled(found)[2]
    assert (found.lag.events, found.lag.seconds) == (None, None)
    assert (found.partitions.total, found.partitions.owned, found.partitions.unowned) == (8, None, None)
    # They answer, and none leads.
    mute = status_of(replace(later, reports={"orders-host-0": report()}))
    assert "none of them has led since" in stalled(mute)[2]
    # They were started a moment ago.
    fresh = tuple(ready_pod(f"orders-host-{number}", later.now) for number in range(2))
    assert stalled(status_of(replace(later, pods=fresh)))[0] == "False"


def test_a_pod_that_is_not_ready_for_ten_minutes_needs_an_action() -> None:
    unready = [{"type": "Ready", "status": "False", "lastTransitionTime": f"{NOW}"}]
    seen = world(pods=(pod("orders-host-0"), pod("orders-host-1", phase="Running", conditions=unready)))
    for passed, wanted in ((STUCK - timedelta(seconds=1), "False"), (STUCK, "True")):
        status, _, message = stalled(status_of(replace(seen, now=NOW + passed)))
        assert status == wanted
    assert "kubectl describe pod orders-host-1 shows the cause" in message


def test_partitions_that_nobody_has_counted_are_absent() -> None:
    found = status_of(observed(TWO)).partitions
    assert (found.total, found.owned, found.unowned) == (None, None, None)


async def test_the_newest_refusal_is_read_once_in_a_while_and_only_while_pods_are_missing() -> None:
    api = FakeKubernetes()

    def event(name: str, text: str, when: str, reason: str = "FailedCreate", uid: str = "set") -> None:
        head = {"name": name, "namespace": "shop"}
        api.put(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": head,
                "involvedObject": {"uid": uid},
                "reason": reason,
                "message": text,
                "lastTimestamp": when,
            }
        )

    create = "Create Pod orders-host-1 in StatefulSet orders-host failed error: "
    event("old", f"{create}the first", "2026-11-21T11:00:00Z")
    event("new", f"(combined from similar events): {create}{QUOTA}", "2026-11-21T11:30:00Z")
    event("other", "another reason", "2026-11-21T11:50:00Z", reason="FailedUpdate")
    event("foreign", "another object", "2026-11-21T11:50:00Z", uid="x")
    refusals, seen = Refusals(api), world()
    assert await refusals.of(seen, 0.0) == {}
    assert api.reads["list"] == 0  # a controller creates pods within seconds
    lasting = after(seen, status_of(seen), timedelta(seconds=10))
    for now in (0.0, PAUSE_SECONDS - 1):
        assert await refusals.of(lasting, now) == {"set": QUOTA}
    assert api.reads["list"] == 1
    api.fail_once("list", Forbidden("no right to list events"))
    assert await refusals.of(lasting, PAUSE_SECONDS) == {}
    both = replace(lasting, pods=(pod("orders-host-0"), pod("orders-host-1")))
    assert await refusals.of(both, 3 * PAUSE_SECONDS) == {}
    assert api.reads["list"] == 1
