"""The operator's edges: flags, triggers, health, events, pod failures, the log."""

import asyncio
import io
import json
import logging
from typing import Any

import pytest

from eventconsumer_api.status import EventConsumerStatus
from eventconsumer_operator import logs
from eventconsumer_operator.events import changes, event
from eventconsumer_operator.health import Health
from eventconsumer_operator.keys import Key
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.podfailures import pod_failures
from eventconsumer_operator.settings import parse_settings
from eventconsumer_operator.status import make_status
from eventconsumer_operator.watch import Triggers, dead_watchers
from eventconsumer_operator.workqueue import WorkQueue
from tests.fakes.virtual import virtual
from tests.unit.operator.worlds import SETTINGS, fleet, observed, pod, report, stateful_set

IMAGES = ["--processor-image", "p", "--spark-image", "s"]


# --- settings ------------------------------------------------------------------------------------------------------


def test_namespaces_are_those_given_once_each() -> None:
    settings = parse_settings([*IMAGES, "--namespace", "a", "--namespace", "b", "--namespace", "a"], {})
    assert settings.namespaces == ("a", "b")


def test_without_namespaces_it_serves_its_own() -> None:
    assert parse_settings(IMAGES, {"POD_NAMESPACE": "mine"}).namespaces == ("mine",)


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--spark-image", "s", "--namespace", "a"], {})
    assert "--processor-image" in capsys.readouterr().err


def test_endpoints_are_safe_unless_the_flag_says_otherwise() -> None:
    assert parse_settings([*IMAGES, "--namespace", "a"], {}).allow_insecure_endpoints is False
    given = parse_settings([*IMAGES, "--namespace", "a", "--allow-insecure-endpoints"], {})
    assert given.allow_insecure_endpoints is True


# --- triggers ------------------------------------------------------------------------------------------------------


def consumer_event(kind: str | None, generation: int = 1, **metadata: Any) -> dict[str, Any]:
    own = {"namespace": "shop", "name": "orders", "uid": "u", "generation": generation}
    return {"type": kind, "object": {"metadata": own | metadata}}


async def test_only_a_new_spec_or_an_end_is_worth_a_look() -> None:
    keys: list[Key] = []
    triggers = Triggers(keys.append)
    orders = Key("shop", "orders")
    await triggers.consumer(event=consumer_event(None))
    await triggers.consumer(event=consumer_event("MODIFIED"))  # our own status
    await triggers.consumer(event=consumer_event("MODIFIED"))
    assert keys == [orders]
    await triggers.consumer(event=consumer_event("MODIFIED", generation=2))
    assert keys == [orders] * 2
    await triggers.consumer(event=consumer_event("MODIFIED", generation=2, deletionTimestamp="t"))
    await triggers.consumer(event=consumer_event("DELETED", generation=2))
    await triggers.consumer(event=consumer_event("ADDED", uid="another"))
    assert keys == [orders] * 5


async def test_a_child_names_its_resource_by_label() -> None:
    keys: list[Key] = []
    triggers = Triggers(keys.append)
    metadata = {"namespace": "shop", "name": "x-host", "labels": {"eventconsumer.io/consumer": "x"}}
    await triggers.child(event={"type": "MODIFIED", "object": {"metadata": metadata}})
    await triggers.child(event={"type": "MODIFIED", "object": {"metadata": {"namespace": "shop", "name": "y"}}})
    assert keys == [Key("shop", "x")]


async def test_watchers_that_do_not_run_are_named() -> None:
    assert dead_watchers(["a"]) == [
        "watcher for eventconsumers.v1alpha1.eventconsumer.io@a",
        "watcher for statefulsets.v1.apps@a",
        "watcher for jobs.v1.batch@a",
    ]
    sleeper = asyncio.create_task(asyncio.sleep(60), name="watcher for jobs.v1.batch@a")
    assert len(dead_watchers(["a"])) == 2
    sleeper.cancel()


# --- health --------------------------------------------------------------------------------------------------------


@virtual
async def test_a_starting_operator_is_healthy_for_a_while() -> None:
    health = Health(WorkQueue(), lambda: ["w"])
    assert health.problems() == []
    await asyncio.sleep(301)
    assert health.problems() == ["w does not run"]


@virtual
async def test_a_watcher_that_dies_is_noticed_at_once() -> None:
    dead: list[str] = []
    health = Health(WorkQueue(), lambda: dead)
    assert health.problems() == []
    dead.append("w")
    assert health.problems() == ["w does not run"]


@virtual
async def test_a_queue_that_stands_still_is_noticed() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    health = Health(queue, lambda: [])
    queue.add(Key("shop", "orders"))
    await asyncio.sleep(100)
    assert health.problems() == []
    await asyncio.sleep(100)
    assert health.problems() == ["the queue stands still: a key is late by 200 s"]


# --- events --------------------------------------------------------------------------------------------------------


def status(**world: Any) -> EventConsumerStatus:
    seen = observed(**world)
    return make_status(seen, make_plan(seen, SETTINGS), (), SETTINGS)


def test_an_event_for_each_change_and_none_for_none() -> None:
    new = status()
    assert [(condition.type, condition.reason) for condition in changes(EventConsumerStatus(), new)] == [
        ("Ready", "Progressing")
    ]
    assert changes(new, new) == []
    well = status(hosts=stateful_set(8, 8), reports={"a": report(fleet=fleet())})
    assert [condition.status for condition in changes(new, well)] == ["True"]


def test_an_event_is_about_the_resource() -> None:
    world = observed()
    (ready,) = changes(EventConsumerStatus(), status())
    manifest = event(world, ready)
    assert manifest["involvedObject"]["uid"] == world.consumer.uid
    assert manifest["type"] == "Normal"
    assert manifest["reason"] == "Progressing"
    assert event(world, ready) == manifest  # a repeated reconcile in the same second writes no second one


# --- pods ----------------------------------------------------------------------------------------------------------


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"image": "host:1"} | state]}


@pytest.mark.parametrize(
    ("pods", "sentences"),
    [
        ([pod(phase="Running", **container(state={"running": {}}))], ()),
        ([pod(phase="Pending", **container(state={"waiting": {"reason": "ContainerCreating"}}))], ()),
        (
            [pod(phase="Pending", **container(state={"waiting": {"reason": "ErrImageNeverPull"}}))],
            ("pod orders-host-0: ErrImageNeverPull: image host:1",),
        ),
        (
            [
                pod(
                    phase="Running",
                    **container(
                        state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                        lastState={"terminated": {"exitCode": 3, "reason": "Error"}},
                    ),
                )
            ],
            (
                "pod orders-host-0: CrashLoopBackOff: the container ended with exit code 3 (Error); "
                "kubectl logs --previous shows why",
            ),
        ),
        (
            [
                pod(
                    f"orders-host-{number}",
                    phase="Pending",
                    conditions=[
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/1 nodes are available: 1 Insufficient cpu.",
                        }
                    ],
                )
                for number in range(3)
            ],
            ("pod orders-host-0 (and 2 more): Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",),
        ),
        (
            [pod(phase="Failed", reason="Evicted", message="the node was low on memory")],
            ("pod orders-host-0: Evicted: the node was low on memory",),
        ),
    ],
)
def test_why_pods_do_not_start(pods: list[Any], sentences: tuple[str, ...]) -> None:
    assert pod_failures(pods) == sentences


def test_a_pod_that_is_being_deleted_does_not_count() -> None:
    leaving = pod(phase="Failed", reason="Shutdown")
    leaving["metadata"]["deletionTimestamp"] = "t"
    assert pod_failures([leaving]) == ()


# --- the log -------------------------------------------------------------------------------------------------------


def test_the_log_is_json_without_secrets() -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        logs.configure("INFO")
        handler = root.handlers[0]
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(stream := io.StringIO())
        try:
            raise ValueError("AccountKey=c2VjcmV0;x")
        except ValueError:
            logging.getLogger("x").exception("failed with %s", "SharedAccessKey=abc")
        line = json.loads(stream.getvalue())
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert line["event"] == "failed with SharedAccessKey=***"
    assert "c2VjcmV0" not in stream.getvalue()
    assert line["level"] == "error"
