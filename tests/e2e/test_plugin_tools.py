"""`kubectl eventconsumer` on the real cluster: programs in host pods and in temporary pods."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Demo
from tests.e2e.consumers import GOOD_NAMESPACE, consumer, create_secrets, emulator_admin
from tests.e2e.test_plugin import Plugin
from tests.e2e.waiting import until, wait_for

pytestmark = pytest.mark.timeout(1200)

NAME = "tooled"
EVENTS = 40
TOOL_PODS = ("pods", "-l", "app.kubernetes.io/component=tool")


@pytest.fixture(scope="module")
def plugin(demo: Demo) -> Iterator[Plugin]:
    """A consumer with one host of a hub with 2 partitions, all drained; removed at the end."""
    create_secrets(demo.cluster, NAME)
    with emulator_admin(demo.cluster) as admin:
        if NAME not in {hub["name"] for hub in admin.hubs()}:
            admin.create_hub(NAME, partitions=2)
            for number in range(EVENTS):
                admin.put_event(NAME, str(number % 2), b"%d" % number)
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(consumer(NAME)))
    wait_for(demo, NAME, "Ready", "True")
    found = Plugin(demo)
    until(lambda: drained(found), "all events in files")
    yield found
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


def drained(plugin: Plugin) -> bool:
    """Whether every event is in a file."""
    ran = plugin.run("files", NAME, "-o", "json")
    return ran.returncode == 0 and json.loads(ran.stdout)["totals"]["events"] == EVENTS


def tool_pods(demo: Demo) -> list[str]:
    """Names of the present temporary pods of commands."""
    return [each["metadata"]["name"] for each in demo.cluster.get(*TOOL_PODS)["items"]]


def none_left(demo: Demo) -> None:
    """Wait until they are deleted, which takes about a second."""
    until(lambda: not tool_pods(demo), "no pod of a tool is left")


def checkpoints(plugin: Plugin) -> dict[str, int | None]:
    """Sequence numbers by partition."""
    shown = plugin.json("checkpoint", "show", NAME)["checkpoints"]
    return {each["partition"]: each["sequenceNumber"] for each in shown}


def test_a_host_pod_answers(demo: Demo, plugin: Plugin) -> None:
    leases = plugin.json("leases", NAME)["leases"]
    assert {each["partition"]: each["state"] for each in leases} == {"0": "held", "1": "held"}
    assert plugin.json("lag", NAME)["totals"]["events"] == 0
    report = plugin.json("audit", NAME, "--deep")
    assert report["exitCode"] == 0 and sum(each["events"] for each in report["partitions"]) == EVENTS
    table = plugin.run("files", NAME, "--limit", "1")
    assert table.returncode == 0 and "parquet" in table.stdout, table
    assert tool_pods(demo) == []


@pytest.mark.long
def test_checkpoints_stay_while_a_host_holds_the_partition(plugin: Plugin) -> None:
    before = checkpoints(plugin)
    ran = plugin.run("checkpoint", "set", NAME, "-p", "0", "--sequence-number", "4", "--allow-behind", "--yes")
    assert ran.returncode == 2, ran
    assert "eventconsumer suspend" in ran.stderr
    assert checkpoints(plugin) == before


@pytest.mark.long
def test_checkpoints_are_saved_moved_and_put_back_while_suspended(demo: Demo, plugin: Plugin, tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    assert plugin.run("suspend", NAME, "--wait").returncode == 0
    before = checkpoints(plugin)
    assert set(before.values()) == {EVENTS // 2 - 1}
    saved = plugin.run("checkpoint", "export", NAME, "-f", str(file))
    assert saved.returncode == 0 and json.loads(file.read_text())["kind"] == "Checkpoints", saved

    place = ("checkpoint", "set", NAME, "-p", "0", "--sequence-number", "4")
    assert plugin.run(*place, "--yes").returncode == 2, "behind files that are there"
    planned = plugin.run(*place, "--allow-behind")
    assert planned.returncode == 2 and "nothing was changed" in planned.stderr, planned  # nobody could be asked
    assert checkpoints(plugin) == before
    moved = plugin.run(*place, "--allow-behind", "--yes")
    assert moved.returncode == 0, moved
    assert checkpoints(plugin) == before | {"0": 4}

    back = plugin.run("checkpoint", "import", NAME, "-f", str(file), "--yes")
    assert back.returncode == 0, back
    assert checkpoints(plugin) == before
    none_left(demo)

    assert plugin.run("resume", NAME, "--wait").returncode == 0
    assert plugin.json("audit", NAME, "--deep")["exitCode"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_command_that_is_stopped_leaves_no_pod(demo: Demo, plugin: Plugin, number: signal.Signals) -> None:
    none_left(demo)
    # A suite that was started in the background ignores SIGINT, and its children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command = plugin.start("audit", NAME, "--new-pod", "--deep")
    until(lambda: tool_pods(demo), "the pod", pause=0.1)
    _signal(command, number)
    _, err = command.communicate(timeout=120)
    assert command.returncode != 0, err
    none_left(demo)


def _signal(kubectl: subprocess.Popen[str], number: signal.Signals) -> None:
    """kubectl replaces itself by the plugin, so its process is the plugin's."""
    kubectl.send_signal(number)


def test_doctor_finds_nothing_broken_and_then_what_is(demo: Demo, plugin: Plugin) -> None:
    ran = plugin.run("doctor", NAME, "-o", "json")
    found: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == 0, [each for each in found["findings"] if each["level"] != "ok"]
    checks = {each["check"] for each in found["findings"]}
    assert {"rights", "definition", "operator", "versions", "secret", "pods", "hub-reachable", "clock"} <= checks
    demo.cluster.secret(f"{NAME}-hub", other="value")
    demo.cluster.kubectl("patch", "secret", f"{NAME}-hub", "--type=json", "-p", _REMOVED)
    try:
        seen = json.loads(plugin.run("doctor", NAME, "--no-inside", "-o", "json").stdout)
        broken = {each["check"] for each in seen["findings"] if each["level"] == "broken"}
        assert seen["exitCode"] == 2 and "secret" in broken, seen
    finally:
        demo.cluster.secret(f"{NAME}-hub", connectionString=GOOD_NAMESPACE)
    wait_for(demo, NAME, "Ready", "True")


_REMOVED = json.dumps([{"op": "remove", "path": "/data/connectionString"}])


@pytest.mark.long
def test_init_asks_hub_and_storage_before_there_is_a_resource(demo: Demo, plugin: Plugin, tmp_path: Path) -> None:
    file = tmp_path / "second.yaml"
    words = ("init", "second", "--hub", NAME, "--storage-secret", f"{NAME}-storage", "-f", str(file))
    wrong = plugin.run(*words, "--hub-secret", "nothing")
    assert wrong.returncode == 2 and not file.exists(), wrong
    right = plugin.run(*words, "--hub-secret", f"{NAME}-hub")
    assert right.returncode == 0, right
    made = yaml.safe_load(file.read_text())
    assert made["metadata"]["name"] == "second"
    demo.cluster.kubectl("apply", "--dry-run=server", "-f", str(file))
    assert "second" not in demo.cluster.kubectl("get", "eventconsumers", "-o", "name")
    none_left(demo)
