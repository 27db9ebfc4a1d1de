"""From the previous release to this tree, and back, under constant load: each event is in one file.

The operator is upgraded and rolled back alone first: hosts of the other release read its configuration and do not
restart. Then the hosts follow.

The previous release is the newest one in tests/golden/versions.txt; UPGRADE_FROM names another commit. Its images are
built from a clone of it by its own builder, and its own chart installs it. A cluster has only one operator and one
definition of the resource, so the installation of an earlier test is removed first.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_demo import run
from eventconsumer_demo.cluster import Cluster
from tests.e2e.conftest import NAMESPACE, ROOT
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.test_handover import PARTITIONS, Publisher
from tests.e2e.waiting import until
from tests.support.previous import check_out, need_previous, python_path
from tests.support.readers import Readers

pytestmark = [pytest.mark.timeout(3600), pytest.mark.long]

NAME = "upgrade"
HOSTS = 2
CRD = "eventconsumers.eventconsumer.io"
SETTLED_SECONDS = 5.0
LOAD_SECONDS = 5.0


def local_cluster(root: Path, *arguments: str) -> str:
    """Run the local cluster's program of a tree; its images are those of that tree."""
    done = subprocess.run(
        [sys.executable, "-m", "local_cluster", *arguments],
        cwd=root,
        env=os.environ | {"PYTHONPATH": python_path(root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Release:
    """An installed version of the product.

    Attributes:
        root: Its tree.
        images: References of the operator's and the hosts' images.
    """

    root: Path
    images: dict[str, str]

    @classmethod
    def build(cls, root: Path) -> "Release":
        """Build its images, and load them into the running cluster."""
        names = ("operator", "processor")
        local_cluster(root, "build", *names)
        return cls(root, json.loads(local_cluster(root, "images", *names)))

    def install(self, cluster: Cluster, hosts: "Release | None" = None) -> None:
        """Install or upgrade as in docs/how-to/upgrade.md.

        Args:
            cluster: The cluster.
            hosts: The release whose image the hosts have; None: this one.
        """
        # The chart requires an image of Spark; these consumers run no batches, so it is never pulled.
        given = {
            "operator": self.images["operator"],
            "processor": (hosts or self).images["processor"],
            "spark": "localhost/eventconsumer/spark:unused",
        }
        images = [word for name, image in given.items() for word in ("--set-string", f"image.{name}={image}")]
        cluster.helm(
            "upgrade",
            "--install",
            run.RELEASE,
            str(self.root / "helm/eventconsumer"),
            "--reset-then-reuse-values",
            *images,
            "--set",
            f"allowInsecureEndpoints=true,watchNamespaces={{{NAMESPACE}}}",
            "--wait",
            "--timeout",
            "300s",
            timeout=330,
        )


@dataclass
class UpgradeStage:
    """A consumer under load, and the two releases."""

    commit: str
    cluster: Cluster
    old: Release
    new: Release
    publisher: Publisher
    readers: Readers

    def runs(self, release: Release) -> bool:
        """Whether exactly the hosts that are wanted run a release, ready, and every partition is read."""
        pods = hosts(self.cluster)
        images = {pod["spec"]["containers"][0]["image"] for pod in pods}
        ready = [
            each["status"] == "True" for pod in pods for each in pod["status"]["conditions"] if each["type"] == "Ready"
        ]
        return len(pods) == HOSTS == sum(ready) and images == {release.images["processor"]} and self.readers.all_read()

    def settle(self, release: Release) -> None:
        """Wait until the fleet runs a release and stays stable."""
        since = [time.monotonic()]

        def settled() -> bool:
            if not self.runs(release):
                since[0] = time.monotonic()
            return time.monotonic() - since[0] > SETTLED_SECONDS

        try:
            until(settled, f"{HOSTS} hosts run {release.images['processor']}")
        except AssertionError as error:
            conditions = self.cluster.get("eventconsumer", NAME).get("status", {}).get("conditions")
            raise AssertionError(f"{error}: {conditions}") from None

    def change(self, release: Release) -> float:
        """Move the fleet to another release; returns the longest time that a partition was unread, seconds."""
        time.sleep(LOAD_SECONDS)  # so that events are on their way into files
        self.readers.begin()
        release.install(self.cluster)
        self.settle(release)
        return self.readers.longest()

    def change_operator(self, release: Release, hosts_of: Release) -> float:
        """Move the operator alone to another release; returns as `change`. No host restarts, and draining goes on."""
        before = fleet(self.cluster)
        time.sleep(LOAD_SECONDS)
        self.readers.begin()
        release.install(self.cluster, hosts=hosts_of)
        until(lambda: operators(self.cluster) == [release.images["operator"]], "the other operator runs, alone")
        # A field that hosts do not use: the operator has reconciled when it has observed this generation.
        generation = self.cluster.get("eventconsumer", NAME)["metadata"]["generation"]
        changed = {"spec": {"spark": {"enabled": False, "timeoutSeconds": 60 + generation}}}
        self.cluster.kubectl("patch", "eventconsumer", NAME, "--type=merge", "-p", json.dumps(changed))
        until(lambda: observed(self.cluster), "the other operator has reconciled")
        sent = self.publisher.sent
        until(lambda: self.drained() > sent, "events of the time after that are in files")
        assert fleet(self.cluster) == before, "hosts restarted, or will: the template of their pods changed"
        return self.readers.longest()

    def drained(self) -> int:
        """Events in files."""
        return int(self.cluster.get("eventconsumer", NAME).get("status", {}).get("drained", {}).get("events", 0))

    def all_drained(self) -> bool:
        """Whether all published events are in files."""
        with self.publisher.turn:
            return self.drained() == self.publisher.sent


def hosts(cluster: Cluster) -> list[dict[str, Any]]:
    """The host pods of the consumer."""
    found: list[dict[str, Any]] = cluster.get("pods", "-l", f"eventconsumer.io/consumer={NAME}")["items"]
    return found


def fleet(cluster: Cluster) -> dict[str, Any]:
    """The template of the hosts, and the pods that were made from it."""
    found = cluster.get("statefulset", f"{NAME}-host")
    pods = {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
        for pod in hosts(cluster)
    }
    return {"template": found["spec"]["template"], "revision": found["status"]["updateRevision"], "pods": pods}


def operators(cluster: Cluster) -> list[str]:
    """Images of the operator's pods."""
    pods = cluster.get("pods", "-l", "app.kubernetes.io/component=operator")["items"]
    return [pod["spec"]["containers"][0]["image"] for pod in pods]


def observed(cluster: Cluster) -> bool:
    """Whether the operator has reconciled the present spec."""
    resource = cluster.get("eventconsumer", NAME)
    return bool(resource["status"]["observedGeneration"] == resource["metadata"]["generation"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The local cluster without the product, with the stand-ins for Azure."""
    need_previous()  # the test is skipped before the cluster starts
    status = subprocess.run([sys.executable, "-m", "local_cluster", "status"], capture_output=True, check=False)
    for command in (["tools"], ["up"], ["build", "emulator", "azurite"]):
        local_cluster(ROOT, *command)
    found = Cluster(NAMESPACE, path=local_cluster(ROOT, "path"), kubeconfig=Path(local_cluster(ROOT, "kubeconfig")))
    found.ensure_namespace(NAMESPACE)
    remove(found)
    run.stand_ins(found, json.loads(local_cluster(ROOT, "images")))
    yield found
    if status.returncode:
        local_cluster(ROOT, "down")


def remove(cluster: Cluster) -> None:
    """Uninstall the product, with the definition of its resource."""
    if cluster.kubectl("get", "crd", CRD, "--ignore-not-found"):
        cluster.run("kubectl", "delete", "eventconsumer", "--all", "--all-namespaces", timeout=300)
    cluster.helm("uninstall", run.RELEASE, "--ignore-not-found", "--wait")
    cluster.kubectl("delete", "crd", CRD, "--ignore-not-found")


@pytest.fixture(scope="module")
def stage(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpgradeStage]:
    """The previous release, installed and draining; this tree's images are in the cluster, too."""
    commit = need_previous()
    tree = check_out(commit, tmp_path_factory.mktemp("previous") / "tree")
    old = Release.build(tree)
    old.install(cluster)
    with emulator_admin(cluster) as admin:
        admin.create_hub(NAME, partitions=PARTITIONS)
        create_secrets(cluster, NAME)
        manifest = consumer(NAME)
        manifest["spec"]["scaling"]["replicas"] = HOSTS
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
        readers = Readers(lambda: admin.links(kind="reader", hub=NAME), PARTITIONS)
        publisher = Publisher(admin, NAME)
        readers.start()
        try:
            # Only now: what a builder finds unused it forgets, and from here on pods use the previous images.
            until(lambda: len(hosts(cluster)) == HOSTS and readers.all_read(), "the previous release drains")
            found = UpgradeStage(commit, cluster, old, Release.build(ROOT), publisher, readers)
            publisher.start()
            found.settle(old)
            yield found
        finally:
            if publisher.is_alive():
                publisher.end()
            readers.end()
            cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found", timeout=300)


def test_an_upgrade_of_the_operator_alone_restarts_no_host(stage: UpgradeStage) -> None:
    unread = stage.change_operator(stage.new, hosts_of=stage.old)
    print(f"operator upgraded from {stage.commit[:12]}: unread for {unread:.1f} s at most")


def test_an_upgrade_while_draining_restarts_no_host_twice_and_settles(stage: UpgradeStage) -> None:
    unread = stage.change(stage.new)
    print(f"upgrade from {stage.commit[:12]}: unread for {unread:.1f} s at most")
    operator = stage.cluster.get("deployment", "eventconsumer-operator")["spec"]["template"]["spec"]["containers"][0]
    assert operator["image"] == stage.new.images["operator"]
    assert not [pod for pod in hosts(stage.cluster) if pod["status"]["containerStatuses"][0]["restartCount"]]
    until(lambda: ready(stage.cluster), "the consumer is Ready")


def test_a_rollback_of_the_operator_alone_restarts_no_host(stage: UpgradeStage) -> None:
    unread = stage.change_operator(stage.old, hosts_of=stage.new)
    print(f"operator rolled back to {stage.commit[:12]}: unread for {unread:.1f} s at most")


def test_a_rollback_too(stage: UpgradeStage) -> None:
    unread = stage.change(stage.old)
    print(f"rollback to {stage.commit[:12]}: unread for {unread:.1f} s at most")
    until(lambda: ready(stage.cluster), "the consumer is Ready")
    stage.change(stage.new)


def test_every_event_is_in_exactly_one_file(stage: UpgradeStage) -> None:
    stage.publisher.end()
    until(stage.all_drained, f"{stage.publisher.sent} events are in files")
    printed = stage.cluster.kubectl(
        "exec", f"{NAME}-host-0", "--", "eventconsumer", "audit", "--deep", "--hub", "--json", timeout=300
    )
    report: dict[str, Any] = json.loads(printed)
    assert report["exitCode"] == 0, report


def ready(cluster: Cluster) -> bool:
    """Whether the present operator reports the consumer as healthy."""
    resource = cluster.get("eventconsumer", NAME)
    conditions = {each["type"]: each["status"] for each in resource["status"]["conditions"]}
    return conditions["Ready"] == "True" and resource["status"]["hosts"] == {"desired": HOSTS, "ready": HOSTS}
