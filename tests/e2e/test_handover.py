"""Hosts start, stop, are killed and updated under constant load on the real cluster: the time a partition is not read.

The times, and the numbers of events that are read twice, are printed: they depend on the machine, and
tests/bench/failover.py measures them. Assertions: every event is in exactly one file (a deep audit), and partitions
stay with the host that keeps or regains its name.
"""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from eventconsumer_api.wire.host_report import HostReport
from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError
from eventhubs_emulator.admin_client import AdminClient
from tests.e2e.conftest import Demo
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.waiting import until
from tests.support.podprocesses import processes
from tests.support.readers import Readers
from tests.support.waiting import HANG_SECONDS

NAME = "handover"
PARTITIONS = 8
EVENT_SECONDS = 0.25  # between two events of a partition
SETTLED_SECONDS = 4.0
LOAD_SECONDS = 4.0
QUIET_SECONDS = 2.0  # without an event being read: all were


class Publisher(threading.Thread):
    """Puts an event on every partition again and again."""

    def __init__(self, admin: AdminClient, hub: str = NAME) -> None:
        super().__init__(daemon=True)
        self._hub = hub
        self.turn = threading.Lock()  # whoever holds it keeps new events away
        self._admin = admin
        self._ended = threading.Event()

    def run(self) -> None:
        """Publish until `end`; a call without an answer is left to the next."""
        while not self._ended.wait(EVENT_SECONDS):
            with self.turn, contextlib.suppress(OSError):
                for partition in range(PARTITIONS):
                    self._admin.put_event(self._hub, str(partition), b"an event")

    @property
    def sent(self) -> int:
        """Number of events in the hub."""
        partitions = self._admin.hub(self._hub)["partitions"]
        return sum(int(partition["last_enqueued_sequence_number"]) + 1 for partition in partitions)

    def end(self) -> None:
        """Stop publishing."""
        self._ended.set()
        self.join()


@dataclass
class HandoverStage:
    """The consumer under load."""

    cluster: Cluster
    admin: AdminClient
    publisher: Publisher
    readers: Readers
    figures: list[str] = field(default_factory=list)

    def apply(self, manifest: dict[str, Any]) -> None:
        """Create the consumer, and wait for its first file."""
        began = time.monotonic()
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

        def files() -> object:
            return self.cluster.get("eventconsumer", NAME).get("status", {}).get("drained", {}).get("files")

        until(files, "the first file", pause=0.2)
        roll = manifest["spec"]["sink"]["roll"]["maxSeconds"]
        took = time.monotonic() - began
        self.figures.append(f"apply to the first file in the status: {took:.1f} s (roll.maxSeconds: {roll})")

    def evict(self, ordinal: int) -> None:
        """Evict a host, as `kubectl drain` does."""
        pod = f"{NAME}-host-{ordinal}"
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.cluster.namespace},
        }
        path = f"/api/v1/namespaces/{self.cluster.namespace}/pods/{pod}/eviction"
        self.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    def owned(self, ordinal: int) -> set[str]:
        """Partitions of a host, from its HTTP side; empty: it does not respond."""
        path = f"/api/v1/namespaces/{self.cluster.namespace}/pods/{NAME}-host-{ordinal}:8080/proxy/status"
        try:
            report = HostReport.model_validate_json(self.cluster.kubectl("get", "--raw", path))
        except DemoError:
            return set()
        return {partition.id for partition in report.partitions}

    def settled(self, hosts: int) -> bool:
        """Whether these hosts own all partitions evenly, and read them."""
        counts = [len(self.owned(ordinal)) for ordinal in range(hosts)]
        return self.readers.all_read() and sum(counts) == PARTITIONS and max(counts) - min(counts) <= 1

    def settle(self, hosts: int) -> float:
        """Wait until the fleet is settled and stays settled; returns when that began."""
        deadline, since = time.monotonic() + HANG_SECONDS, 0.0
        while not since or time.monotonic() - since < SETTLED_SECONDS:
            assert time.monotonic() < deadline, f"{[self.owned(number) for number in range(3)]} is not {hosts} hosts"
            if not self.settled(hosts):
                since = 0.0
            elif not since:
                since = time.monotonic()
            time.sleep(0.2)
        return since

    def again(self) -> int:
        """Number of events that the hub sent to readers more than once; no event is published during this call."""
        with self.publisher.turn:
            more, since = -1, time.monotonic()
            while time.monotonic() - since < QUIET_SECONDS:
                given = self.admin.counters()["events_out"]  # only this load runs
                before, more = more, given - self.publisher.sent
                if more != before or not self.readers.all_read():
                    since = time.monotonic()
                time.sleep(0.1)
            return more

    def measure(self, what: str, hosts: int, act: Callable[[], object]) -> None:
        """Do something to a settled fleet; print its times, and the number of events that were read again."""
        self.settle(self.running())
        again = self.again()
        time.sleep(LOAD_SECONDS)  # so that events are on their way into files
        self.readers.begin()
        began = time.monotonic()
        act()
        settled = self.settle(hosts) - began
        unread = self.readers.longest()
        more = self.again() - again
        self.figures.append(f"{what}: settled after {settled:.1f} s, unread for {unread:.1f} s at most, {more} again")
        print(self.figures[-1])

    def running(self) -> int:
        """The number of hosts of the StatefulSet."""
        return int(self.cluster.get("statefulset", f"{NAME}-host")["spec"]["replicas"])

    def pod_uid(self, ordinal: int) -> str:
        """The pod's uid; empty: no pod."""
        name = f"{NAME}-host-{ordinal}"
        return self.cluster.kubectl("get", "pod", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")

    def scale(self, hosts: int) -> None:
        """Scale with kubectl."""
        self.cluster.kubectl("scale", "eventconsumer", NAME, f"--replicas={hosts}")


@pytest.fixture(scope="module")
def stage(demo: Demo) -> Iterator[HandoverStage]:
    """A consumer of eight partitions with one host."""
    with emulator_admin(demo.cluster) as admin:
        admin.create_hub(NAME, partitions=PARTITIONS)
        create_secrets(demo.cluster, NAME)
        readers = Readers(lambda: admin.links(kind="reader", hub=NAME), PARTITIONS)
        publisher = Publisher(admin)
        readers.start()
        publisher.start()
        found = HandoverStage(demo.cluster, admin, publisher, readers)
        try:
            found.apply(consumer(NAME))
            found.settle(1)
            yield found
        finally:
            publisher.end()
            readers.end()
            print("\n".join(["", *found.figures]))
            demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


@pytest.fixture
def two(stage: HandoverStage) -> HandoverStage:
    """The consumer with two hosts that own their partitions, also where no earlier test has run."""
    if stage.running() != 2:
        stage.scale(2)
    stage.settle(2)
    return stage


def test_a_second_host_gets_its_share_in_seconds(stage: HandoverStage) -> None:
    stage.measure("1 -> 2 hosts", 2, lambda: stage.scale(2))


def test_a_killed_process_takes_its_partitions_back(two: HandoverStage) -> None:
    found = processes(f"{NAME}-host-0")
    if not found:
        pytest.skip("the pods' processes are not on this machine")
    before = [two.owned(0), two.owned(1)]
    two.measure("SIGKILL of a host's process", 2, lambda: os.kill(found[0], signal.SIGKILL))
    assert [two.owned(0), two.owned(1)] == before


@pytest.mark.long
def test_a_pod_deleted_by_force_is_replaced_and_its_partitions_taken_over(two: HandoverStage) -> None:
    before, uid = two.owned(1), two.pod_uid(0)

    def act() -> None:
        two.cluster.kubectl("delete", "pod", f"{NAME}-host-0", "--grace-period=0", "--force")
        until(lambda: two.pod_uid(0) not in {"", uid}, "another pod", pause=0.2)

    two.measure("a pod deleted by force", 2, act)
    assert two.owned(1) == before  # the other host kept its own


def test_a_rolling_update_leaves_each_partition_with_its_host(two: HandoverStage) -> None:
    before = [two.owned(0), two.owned(1)]
    uids = [two.pod_uid(0), two.pod_uid(1)]

    def act() -> None:
        change = {"spec": {"pods": {"resources": {"requests": {"cpu": "60m"}}}}}
        two.cluster.kubectl("patch", "eventconsumer", NAME, "--type=merge", "-p", json.dumps(change))
        until(
            lambda: not any(two.pod_uid(number) in {"", uids[number]} for number in range(2)),
            "both are replaced",
        )

    two.measure("a rolling update of 2 hosts", 2, act)
    assert [two.owned(0), two.owned(1)] == before


def test_draining_a_node_takes_one_host_at_a_time(two: HandoverStage) -> None:
    before, uid = [two.owned(0), two.owned(1)], two.pod_uid(0)

    def act() -> None:
        two.evict(0)
        with pytest.raises(DemoError) as refused:
            two.evict(1)
        assert "disruption budget" in refused.value.detail
        until(lambda: two.pod_uid(0) not in {"", uid}, "another pod", pause=0.2)

    two.measure("an eviction", 2, act)
    assert [two.owned(0), two.owned(1)] == before


def test_a_host_that_leaves_hands_over_first(two: HandoverStage) -> None:
    def act() -> None:
        two.scale(1)
        until(lambda: two.running() == 1, "the StatefulSet shrinks")

    two.measure("2 -> 1 hosts", 1, act)


def test_every_event_is_in_exactly_one_file(stage: HandoverStage) -> None:
    stage.publisher.end()

    def drained() -> bool:
        status = stage.cluster.get("eventconsumer", NAME).get("status", {})
        return bool(status.get("drained", {}).get("events") == stage.publisher.sent)

    until(drained, f"{stage.publisher.sent} events are in files")
    printed = stage.cluster.kubectl(
        "exec", f"{NAME}-host-0", "--", "eventconsumer", "audit", "--deep", "--hub", "--json"
    )
    report: dict[str, Any] = json.loads(printed)
    assert report["exitCode"] == 0, report
