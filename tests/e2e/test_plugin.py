"""`kubectl eventconsumer` on the real cluster, as users run it: commands that show and control a consumer."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Demo
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.waiting import until, wait_for

pytestmark = pytest.mark.timeout(1200)

NAME = "watched"
PARTITIONS = 4
EVENTS = 40


class Plugin:
    """kubectl with the plugin on its PATH."""

    def __init__(self, demo: Demo) -> None:
        here = str(Path(sys.executable).parent)
        self._env = demo.cluster._env | {"COLUMNS": "120"}
        self._env["PATH"] = f"{here}{os.pathsep}{self._env['PATH']}"
        self._namespace = demo.cluster.namespace

    def command(self, *words: str) -> list[str]:
        return ["kubectl", "eventconsumer", *words, "-n", self._namespace]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=400, env=self._env, check=False
        )

    def json(self, *words: str) -> Any:
        ran = self.run(*words, "-o", "json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._env
        )


@pytest.fixture(scope="module")
def plugin(demo: Demo) -> Iterator[Plugin]:
    """A consumer with two hosts of a hub with 4 partitions, all drained; removed at the end."""
    create_secrets(demo.cluster, NAME)
    with emulator_admin(demo.cluster) as admin:
        if NAME not in {hub["name"] for hub in admin.hubs()}:
            admin.create_hub(NAME, partitions=PARTITIONS)
        for number in range(EVENTS):
            admin.put_event(NAME, str(number % PARTITIONS), b"%d" % number)
    manifest = consumer(NAME)
    manifest["spec"]["scaling"] = {"mode": "Fixed", "replicas": 2}
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    yield Plugin(demo)
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


def both_read(plugin: Plugin) -> bool:
    """Whether two hosts share all partitions."""
    ran = plugin.run("partitions", NAME, "-o", "json")
    owners = [each["owner"] for each in json.loads(ran.stdout)] if ran.returncode == 0 else []
    return sorted(map(owners.count, set(owners))) == [2, 2] and None not in owners


def test_what_it_shows_of_a_consumer_that_drains(demo: Demo, plugin: Plugin) -> None:
    wait_for(demo, NAME, "Ready", "True")
    until(lambda: both_read(plugin), "both hosts read two partitions")
    until(lambda: plugin.json("top", NAME, "--once")["drained"]["events"] == EVENTS, "all is in files")
    partitions = plugin.json("partitions", NAME)
    assert [each["partition"] for each in partitions] == ["0", "1", "2", "3"]
    assert [each["nextSequenceNumber"] for each in partitions] == [EVENTS // PARTITIONS] * PARTITIONS
    assert all(each["lagEvents"] == 0 for each in partitions)
    hosts = plugin.json("hosts", NAME)
    assert [each["pod"] for each in hosts] == [f"{NAME}-host-0", f"{NAME}-host-1"]
    assert [each["leads"] for each in hosts].count(True) == 1
    assert all(each["report"]["state"] == "Running" for each in hosts)
    seen = plugin.run("status", NAME)
    print(seen.stdout, plugin.run("top", NAME, "--once").stdout, plugin.run("hosts", NAME).stdout, sep="\n")
    assert seen.returncode == 0 and "4 of 4 are read" in seen.stdout and f"with {EVENTS} events" in seen.stdout
    assert "what to do next" not in seen.stdout


def test_batches_of_the_demo(demo: Demo, plugin: Plugin) -> None:
    number = demo.cluster.get("eventconsumer", "orders")["status"]["spark"]["lastCommit"]["number"]
    assert plugin.json("batches", "orders")["status"]["lastCommit"]["number"] == number
    assert f"{number}, " in plugin.run("batches", "orders").stdout


def scale(demo: Demo, hosts: int) -> None:
    """Scale to this number of hosts."""
    patch = json.dumps({"spec": {"scaling": {"replicas": hosts}}})
    demo.cluster.kubectl("patch", "eventconsumer", NAME, "--type=merge", "-p", patch)


def test_logs_follow_a_partition_to_its_next_owner(demo: Demo, plugin: Plugin) -> None:
    until(lambda: both_read(plugin), "both hosts read two partitions")
    first, last = f"{NAME}-host-0", f"{NAME}-host-1"
    partition = next(each["partition"] for each in plugin.json("partitions", NAME) if each["owner"] == last)
    ran = plugin.run("logs", NAME, "-p", partition, "--tail", "-1", "-o", "json")
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert lines and all(line.get("partition") in {None, partition} for line in lines)
    follower = plugin.start("logs", NAME, "-p", partition, "-f")
    said: list[str] = []
    shown: list[str] = []
    readers = [threading.Thread(target=said.extend, args=(follower.stderr,))]
    readers.append(threading.Thread(target=shown.extend, args=(follower.stdout,)))
    for reader in readers:
        reader.start()
    try:
        until(lambda: any(last in line for line in shown), shown)
        scale(demo, 1)  # a pod that only starts again may have its partitions back before anybody looks
        until(lambda: any(f"partition {partition} moved from {last} to {first}" in line for line in said), said)
        until(lambda: any(first in line and f"[{partition}] lease" in line for line in shown), shown)
    finally:
        follower.terminate()
        for reader in readers:
            reader.join()
        with follower:  # closes what it wrote into
            scale(demo, 2)
    until(lambda: both_read(plugin), "both hosts read two partitions again")


def test_suspend_and_resume_wait_until_it_is_so(demo: Demo, plugin: Plugin) -> None:
    ran = plugin.run("suspend", NAME, "--wait")
    assert ran.returncode == 0 and "no host is running" in ran.stderr, ran.stderr
    listed = demo.cluster.get("pods", "-l", f"eventconsumer.io/consumer={NAME}")["items"]
    assert not listed
    asked = plugin.run("partitions", NAME)
    assert asked.returncode == 3 and "is suspended" in asked.stderr
    ran = plugin.run("resume", NAME, "--wait")
    assert ran.returncode == 0, ran.stderr
    until(lambda: both_read(plugin), "both hosts read two partitions again")
    # What was drained before is drained: the files continue where they ended.
    assert plugin.json("top", NAME, "--once")["drained"]["events"] == EVENTS


def test_kubectl_completes_names(demo: Demo, plugin: Plugin) -> None:
    ran = subprocess.run(
        ["kubectl", "__complete", "eventconsumer", "status", "-n", demo.cluster.namespace, NAME[:3]],
        capture_output=True,
        text=True,
        timeout=120,
        env=plugin._env,
        check=False,
    )
    assert NAME in ran.stdout.splitlines(), ran
