"""Faults of hub, storage and processes from the campaign's table, on a real host without Kubernetes."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventconsumer_demo.cluster import Cluster
from eventhubs_emulator.admin_client import AdminClient
from local_cluster import procfs
from tests.chaos.faults import FAULTS, HUB_PART, STORAGE_PART
from tests.chaos.load import Load, Unread
from tests.chaos.schedule import Action, Fault, NoTarget
from tests.chaos.stage import CampaignStage, Options, freeze, send
from tests.chaos.storage import Storage
from tests.chaos.verifier import Events, compare, drained_files, read_file
from tests.integration.processor.hosts import Consumer
from tests.support.azurite import AzuriteProcess
from tests.support.podprocesses import processes
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

NAME = "chaos-test-a"
HOST = f"{NAME}-host-0"
PARTITIONS = 2
TABLE = [  # `storage-frozen` looks for a pod
    fault for fault in FAULTS if fault.part in (HUB_PART, STORAGE_PART) and fault.name != "storage-frozen"
]


class Scene:
    """A consumer with a running host, and the stage that disturbs it."""

    def __init__(self, folder: Path, emulator: EmulatorProcess, azurite: AzuriteProcess) -> None:
        emulator.admin.create_hub(NAME, partitions=PARTITIONS)
        self.consumer = Consumer(folder, emulator, azurite, NAME)
        self.consumer.config["sink"]["prefix"] = NAME
        self.consumer.config["leases"]["location"]["prefix"] = f"namespace/{NAME}/"
        storage = Storage(azurite.connection_string, self.consumer.drained, self.consumer.leases)
        self.stage = CampaignStage(Cluster("none"), "chaos-test", Options(), emulator.admin, storage)
        self.stage.partitions[NAME] = PARTITIONS
        self.load = Load(emulator.admin, NAME, lambda: self.stage.partitions[NAME], 10.0)
        self.consumer.host(HOST)

    def inject(self, fault: Fault) -> None:
        """Inject a fault, and undo it."""
        action = Action(1, 0.0, fault, NAME, 0.0, 0.5)
        undo = fault.act(self.stage, action)
        if undo:
            undo()
        elif fault.undo:
            fault.undo(self.stage, action)

    def publish(self) -> None:
        """Publish some events to each partition, and wait until they are in files."""
        for partition in range(self.stage.partitions[NAME]):
            self.load.publish(str(partition), 5)
        wait_until(
            lambda: len(self.events().bodies) >= len(self.load.sent), f"all events are in files: {self.consumer.hosts}"
        )

    def events(self) -> Events:
        """The events in all files; none before the container exists."""
        found = Events([], [])
        if self.stage.storage.has_sink():
            for file in drained_files(self.stage.storage.connection, self.consumer.drained, NAME):
                found += read_file(file).events
        return found


@pytest.fixture
def scene(emulator: EmulatorProcess, azurite: AzuriteProcess, tmp_path: Path) -> Iterator[Scene]:
    """A scene with some events in files."""
    found = Scene(tmp_path, emulator, azurite)
    try:
        found.publish()
        yield found
    finally:
        found.consumer.close()


def test_every_fault_of_hub_and_storage_loses_and_repeats_no_event(scene: Scene) -> None:
    assert len(TABLE) > 20
    for fault in TABLE:
        scene.inject(fault)
    scene.publish()
    assert scene.stage.partitions[NAME] == PARTITIONS + 1
    verdict = compare("files", scene.events(), scene.load.sent, scene.load.uncertain)
    assert verdict.is_clean, verdict


def test_leases_are_broken_and_their_blobs_deleted(scene: Scene) -> None:
    storage, leases = scene.stage.storage, scene.consumer.leases
    names = storage.lease_blobs(NAME)
    assert [name.rpartition("/")[2] for name in names] == ["0", "1"]
    scene.consumer.hosts[0].kill()
    storage.break_lease(leases, names[0])
    for name in (names[0], "nothing"):
        with pytest.raises(NoTarget, match=f"{name} is not leased".replace("$", r"\$")):
            storage.break_lease(leases, name)
    storage.delete_lease_blob(names[0])
    storage.delete_lease_blob(names[1])
    assert not storage.lease_blobs(NAME)
    with pytest.raises(NoTarget, match="has no file"):
        storage.drained_until(NAME, "7")


def test_a_frozen_process_is_found_by_its_pod_and_continues(scene: Scene) -> None:
    victims = scene.stage.pod_processes(HOST)
    assert scene.consumer.hosts[0].process.pid in [victim.pid for victim in victims]
    undo = freeze(victims)
    wait_until(lambda: {_state(victim.pid) for victim in victims} == {"T"}, "all are stopped")
    undo()
    scene.publish()
    assert send(victims, signal.SIGKILL) == len(victims)
    assert scene.consumer.hosts[0].process.wait(10) == -signal.SIGKILL
    with pytest.raises(NoTarget, match=f"no process of {HOST}"):
        scene.stage.pod_processes(HOST)


def test_a_partition_without_a_link_is_unread(scene: Scene) -> None:
    unread, partitions = Unread(), [f"{NAME}/0", f"{NAME}/1"]

    def read() -> set[str]:
        return {f"{NAME}/{link['partition']}" for link in scene.stage.admin.links(kind="reader", hub=NAME)}

    unread.see(0, partitions, read())
    assert unread.all_read()
    scene.consumer.hosts[0].kill()
    wait_until(lambda: not read(), "the links are gone")
    unread.see(1, partitions, read())
    unread.end(5)
    assert [(span.began, span.seconds) for span in unread.spans] == [(1, 4), (1, 4)]


def _state(pid: int) -> str:
    process = procfs.observe(pid)
    return process.state if process else ""


@pytest.fixture
def sandbox() -> Iterator[str]:
    """The name of a pod whose only process has a network of its own."""
    name = "chaos-test-network"
    with subprocess.Popen(["unshare", "--net", "sleep", "600"], env=os.environ | {"HOSTNAME": name}) as process:
        wait_until(lambda: processes(name) and "sleep" in _words(process.pid), "it runs")
        yield name
        process.kill()


def _words(pid: int) -> tuple[str, ...]:
    process = procfs.observe(pid)
    return process.argv if process else ()


@pytest.mark.skipif(os.geteuid() != 0, reason="the local cluster needs root, too")
def test_packets_are_dropped_in_the_network_of_one_pod(sandbox: str) -> None:
    stage = CampaignStage(Cluster("none"), "chaos-test", Options(), AdminClient("http://none"), Storage("", "", ""))
    (pid,) = processes(sandbox)

    def rules() -> list[str]:
        inside = ["nsenter", f"--net=/proc/{pid}/ns/net", "iptables", "-S", "OUTPUT"]
        return subprocess.run(inside, check=True, capture_output=True, text=True).stdout.splitlines()

    before = rules()
    undo = stage.drop_packets(sandbox, ("-p", "tcp", "--dport", "10000"))
    assert rules() == [*before, "-A OUTPUT ! -o lo -p tcp -m tcp --dport 10000 -j DROP"]
    undo()
    assert rules() == before
    undo = stage.drop_packets(sandbox, ())
    os.kill(pid, signal.SIGKILL)
    undo()
    with pytest.raises(NoTarget):
        stage.drop_packets(sandbox, ())
