"""A replay on the real cluster: declared in the resource, run once, while hosts continue."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.waiting import until, wait_for

NAME = "again"
EVENTS = 300


def resource(**replay: Any) -> dict[str, Any]:
    """The consumer, with or without a replay."""
    found = consumer(NAME)
    if replay:
        found["spec"]["replay"] = replay
    return found


def apply(demo: Demo, manifest: dict[str, Any]) -> None:
    """Apply it."""
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def wait_replay(demo: Demo, name: str) -> dict[str, Any]:
    """The status of a replay that succeeded."""

    def done() -> dict[str, Any]:
        found = demo.cluster.get("eventconsumer", NAME).get("status", {}).get("replay", {})
        return dict(found) if found.get("name") == name and found["state"] == "Succeeded" else {}

    return until(done, f"replay {name} succeeded")


@pytest.fixture(scope="module")
def again(demo: Demo) -> Iterator[Demo]:
    """A consumer that has drained everything."""
    with emulator_admin(demo.cluster) as admin:
        admin.create_hub(NAME, partitions=2, groups=["$Default", "replays"])
        for number in range(EVENTS):
            admin.put_event(NAME, str(number % 2), b"%d" % number)
    create_secrets(demo.cluster, NAME)
    apply(demo, resource())
    wait_for(demo, NAME, "Ready", "True")
    yield demo
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


def test_a_replay_runs_once_beside_the_hosts(again: Demo) -> None:
    apply(again, resource(name="one", consumerGroup="replays"))
    done = wait_replay(again, "one")
    assert done["events"] == EVENTS
    again.cluster.kubectl("delete", "jobs", "-l", "app.kubernetes.io/component=replay")  # as cleaning up does later
    time.sleep(10)
    jobs = json.loads(again.cluster.kubectl("get", "jobs", "-l", "app.kubernetes.io/component=replay", "-o", "json"))
    assert jobs["items"] == []
    assert wait_replay(again, "one") == done
    wait_for(again, NAME, "Ready", "True")


def test_its_files_are_complete_by_the_auditor_and_the_consumers_own_too(again: Demo) -> None:
    for options in (
        [],
        [
            "--connection-string-file=/var/run/secrets/eventconsumer.io/sink/connection-string",
            f"--container={NAME}-sink",
            f"--prefix={again.cluster.namespace}/{NAME}/_replays/one",
            f"--checkpoint-container={NAME}-checkpointstore",
            "--checkpoint-prefix=_replays/one/",
            "--consumer-group=replays",
        ],
    ):
        printed = again.cluster.kubectl(
            "exec", f"{NAME}-host-0", "--", "eventconsumer", "audit", "--deep", "--json", *options
        )
        report = json.loads(printed)
        assert report["exitCode"] == 0, report
        assert sum(partition["events"] for partition in report["partitions"]) == EVENTS, report


@pytest.mark.long
def test_another_name_is_another_replay(again: Demo) -> None:
    apply(again, resource(name="two", consumerGroup="replays", partitions=["1"]))
    assert wait_replay(again, "two")["events"] == EVENTS // 2


def test_its_own_group_is_refused(again: Demo) -> None:
    with pytest.raises(DemoError) as refused:
        apply(again, resource(name="three", consumerGroup="$Default"))
    assert "replay.consumerGroup must be another consumer group" in refused.value.detail
