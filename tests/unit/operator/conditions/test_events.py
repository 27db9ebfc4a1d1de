"""Kubernetes Events: which, when, and how often; and why pods were restarted."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.conditions import ConditionType, PodReason
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_operator.conditions.events import Recorder, changes
from eventconsumer_operator.conditions.messages import pods_restarted, restart_event
from eventconsumer_operator.conditions.status import make_status
from eventconsumer_operator.errors import Transient
from eventconsumer_operator.kube.manifest import EVENT
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import restarts
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.unit.operator.worlds import KEY, NOW, SETTINGS, fleet, observed, pod, report, stateful_set

PAGE = Path(__file__).parents[4] / "docs/reference/events.md"


def status_of(world: Observed) -> EventConsumerStatus:
    return make_status(world, make_plan(world, SETTINGS), (), SETTINGS)


NEW = observed()
WELL = observed(hosts=stateful_set(8, 8), reports={"a": report(fleet=fleet())})


def after(status: EventConsumerStatus, world: Observed) -> Observed:
    """The same world, with a status from before."""
    kept = {"hosts": world.children.get(next(iter(world.children), None)) if world.children else None}
    return observed(status=status, reports=dict(world.reports), pods=world.pods, now=world.now, **kept)


async def events(api: FakeKubernetes) -> list[Manifest]:
    return list((await api.list(EVENT, KEY.namespace)).items)


# --- which and when ------------------------------------------------------------------------------------------------


def test_news_for_each_change_and_none_for_none() -> None:
    new = status_of(NEW)
    assert [(news.subject, news.reason, news.warning) for news in changes(EventConsumerStatus(), new)] == [
        ("Ready", "Progressing", False)
    ]
    assert changes(new, new) == []
    assert [(news.subject, news.reason) for news in changes(new, status_of(WELL))] == [("Ready", "Available")]


def test_files_that_spark_left_out_are_a_warning() -> None:
    well = status_of(WELL)
    spark = next(each for each in well.conditions if each.type == "SparkHealthy")
    left_out = spark.model_copy(update={"reason": "SparkQuarantined", "message": "batch 7: p/0: bad"})
    told = well.model_copy(update={"conditions": [left_out]})
    (news,) = changes(well, told)
    assert (news.reason, news.warning) == ("SparkQuarantined", True)
    assert "batch 7: p/0: bad" in news.message
    assert changes(told, told) == []


async def test_an_event_is_about_the_resource() -> None:
    api = FakeKubernetes()
    await Recorder(api).record(NEW, status_of(NEW))
    (event,) = await events(api)
    assert event["involvedObject"]["uid"] == NEW.consumer.uid
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Progressing", 1)
    assert event["message"].startswith("Ready: ")


# --- how often -----------------------------------------------------------------------------------------------------


async def flap(recorder: Recorder, times: int) -> None:
    new, well = status_of(NEW), status_of(WELL)
    for _ in range(times):
        await recorder.record(after(well, NEW), new)
        await recorder.record(after(new, WELL), well)


async def test_what_recurs_is_counted_and_makes_no_second_object() -> None:
    api = FakeKubernetes()
    await flap(Recorder(api), 10)
    found = {event["reason"]: event["count"] for event in await events(api)}
    assert found == {"Progressing": 10, "Available": 10}


async def test_a_new_operator_counts_on() -> None:
    api = FakeKubernetes()
    await flap(Recorder(api), 3)
    await flap(Recorder(api), 2)
    assert [event["count"] for event in await events(api)] == [5, 5]


async def test_an_expired_event_is_created_again() -> None:
    api = FakeKubernetes()
    recorder = Recorder(api)
    await flap(recorder, 3)
    for event in await events(api):
        api.remove(EVENT, KEY.namespace, event["metadata"]["name"])
    await flap(recorder, 2)
    assert [event["count"] for event in await events(api)] == [2, 2]


async def test_the_time_of_the_last_one_is_reported() -> None:
    api = FakeKubernetes()
    recorder = Recorder(api)
    new = status_of(NEW)
    for minutes in (0, 7):
        world = observed(now=NOW + timedelta(minutes=minutes))
        await recorder.record(world, new)
    (event,) = await events(api)
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-11-21T12:00:00Z", "2026-11-21T12:07:00Z")


async def test_an_event_that_cannot_be_written_harms_nothing() -> None:
    api = FakeKubernetes()
    api.fail_once("create", Transient("away"))
    recorder = Recorder(api)
    await recorder.record(NEW, status_of(NEW))
    assert await events(api) == []
    await recorder.record(NEW, status_of(NEW))
    assert len(await events(api)) == 1


# --- restarts ------------------------------------------------------------------------------------------------------


def ended(name: str = "orders-host-0", minutes: float = 1, count: int = 1, **terminated: Any) -> Manifest:
    when = (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    last = {"finishedAt": when} | terminated
    status = {"restartCount": count, "state": {"running": {}}, "lastState": {"terminated": last}}
    result = pod(name, phase="Running", containerStatuses=[status])
    result["metadata"]["uid"] = f"uid-of-{name}"
    return result


def disrupted(reason: str, message: str = "") -> Manifest:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": NOW.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    result = pod(phase="Running", conditions=[condition])
    result["metadata"] |= {"deletionTimestamp": "t", "uid": "u"}
    return result


@pytest.mark.parametrize(
    ("found", "reason", "part"),
    [
        (ended(reason="OOMKilled", exitCode=137), "HostOutOfMemory", "raise spec.pods.resources.limits.memory"),
        (ended(reason="Error", exitCode=3), "HostExited", "exited with code 3 (Error): kubectl logs --previous"),
        (ended(reason="Error", exitCode=1, message="boom"), "HostExited", "exited with code 1 (boom)"),
        (
            ended(reason="Completed", exitCode=0),
            "HostProbeFailed",
            "(exit code 0), most likely because",
        ),
        (ended(reason="Error", exitCode=137), "HostKilled", "was killed (exit code 137)"),
        (ended(reason="Error", exitCode=143), "HostProbeFailed", "exit code 143"),
        (disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), "HostEvicted", "Eviction API: evicting"),
        (disrupted("TerminationByKubelet", "low on memory"), "HostEvicted", "low on memory"),
        (disrupted("PreemptionByScheduler", "preempting"), "HostEvicted", "preempting"),
        (disrupted("DeletionByTaintManager", "Taint manager"), "HostNodeLost", "bring the node back"),
    ],
)
def test_why_a_pod_was_restarted(found: Manifest, reason: str, part: str) -> None:
    (restart,) = restarts([found], NOW)
    assert restart.reason == reason
    assert part in restart_event(restart)


def test_old_restarts_and_terminating_pods_are_not_reported() -> None:
    leaving = pod()
    leaving["metadata"]["deletionTimestamp"] = "t"
    assert restarts([ended(minutes=11, reason="OOMKilled", exitCode=137), leaving, pod(phase="Running")], NOW) == ()


def test_many_with_one_reason_make_one_sentence() -> None:
    pods = [ended(f"orders-host-{number}", reason="OOMKilled", exitCode=137) for number in range(3)]
    text = pods_restarted(restarts(pods, NOW))
    assert text.startswith("pod orders-host-0 (and 2 more): HostOutOfMemory: ")
    assert "orders-host-1" not in text


async def test_a_restart_is_one_event_and_in_the_condition_until_the_host_is_ready() -> None:
    api = FakeKubernetes()
    recorder = Recorder(api)
    killed = ended(reason="OOMKilled", exitCode=137)
    world = observed(hosts=stateful_set(8, 7), reports={"a": report(fleet=fleet())}, pods=(killed,))
    status = status_of(world)
    available = status.condition(ConditionType.HOSTS_AVAILABLE)
    assert available is not None and available.status == "False"
    assert "raise spec.pods.resources.limits.memory" in available.message
    for _ in range(3):
        await recorder.record(world, status)
    counts = {event["reason"]: event["count"] for event in await events(api)}
    assert counts["HostOutOfMemory"] == 1
    again = observed(pods=(ended(count=2, minutes=0, reason="OOMKilled", exitCode=137),))
    await recorder.record(again, status)
    counts = {event["reason"]: event["count"] for event in await events(api)}
    assert counts["HostOutOfMemory"] == 2
    late = observed(hosts=stateful_set(8, 7), pods=world.pods, now=NOW + timedelta(minutes=11))
    killed["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    other = ended("orders-host-1", reason="Error", exitCode=3)
    ready = observed(hosts=stateful_set(8, 7), reports={"a": report(fleet=fleet())}, pods=(killed, other))
    for seen, named in ((late, ""), (ready, "pod orders-host-1: HostExited")):
        calm = status_of(seen).condition(ConditionType.HOSTS_AVAILABLE)
        assert calm is not None and "OutOfMemory" not in calm.message and named in calm.message


def test_times_are_read_as_the_api_server_writes_them() -> None:
    (restart,) = restarts([ended(minutes=0, exitCode=3)], datetime(2026, 11, 21, 12, 0, 1, tzinfo=UTC))
    assert restart.identity == "uid-of-orders-host-0/1/2026-11-21T12:00:00Z"


# --- the page ------------------------------------------------------------------------------------------------------


def test_every_reason_of_a_restart_is_on_the_page_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == set(PodReason)
