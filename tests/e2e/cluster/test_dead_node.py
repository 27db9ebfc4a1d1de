"""A host and a Spark driver on a node that died, on a real cluster: the Node has no kubelet, so their pods never end.

The operator runs in the test's process; the controllers of StatefulSets, Jobs and nodes are real. The pods have no
image, and need none; the reports of the host are the test's. The cluster is left as it was.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes.aio import client, config

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.labels import HOST_SERVICE_ACCOUNT, SPARK_SERVICE_ACCOUNT
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import POD, STATEFUL_SET
from eventconsumer_operator.settings import Settings
from local_cluster.cluster import Cluster
from local_cluster.layout import Layout, Network
from tests.e2e.conftest import ROOT
from tests.support.definition import wait_until_served
from tests.support.fakes.hosts import FakeHosts
from tests.support.fakes.kubernetes import event_consumer
from tests.support.operatorworld import OperatorWorld
from tests.support.waiting import HANG_SECONDS
from tests.unit.operator.worlds import SPARK, SPEC, batch, fleet, report

pytestmark = pytest.mark.timeout(900)
LAYOUT, NETWORK = Layout.from_environment(), Network()
NAMESPACE, NODE = "dead-node", "node-without-kubelet"
CRD = "eventconsumers.eventconsumer.io"
# No node has the label: only the test binds pods.
NOWHERE = {"nodeSelector": {"nowhere.example/node": "true"}, "terminationGracePeriodSeconds": 30}
ADMINISTRATOR = Settings(
    namespaces=(NAMESPACE,), processor_image="host:1", spark_image="spark:1", node_label_prefixes=("nowhere.example/",)
)


class NodeWorld(OperatorWorld):
    """The namespace, and a node that dies."""

    def __init__(self, cluster: Cluster, api: KubernetesApi) -> None:
        super().__init__(api, NAMESPACE, cluster.kubectl, ADMINISTRATOR)

    async def stalled(self) -> str:
        """Reconcile; the message of Stalled, empty while it is not True."""
        conditions = (await self.reconciled(FakeHosts())).conditions
        return "".join(each.message for each in conditions if (each.type, each.status) == STALLED)

    async def until_pod(self, ordinal: int) -> Manifest:
        async with asyncio.timeout(HANG_SECONDS):
            while (found := await self.api.get(POD, NAMESPACE, f"orders-host-{ordinal}")) is None:
                await asyncio.sleep(0.5)
        return found

    async def until_driver(self, attempt: int) -> str:
        """The pod of an attempt at batch 1."""
        selector = f"eventconsumer.io/attempt={attempt}"
        async with asyncio.timeout(HANG_SECONDS):
            while not (found := self.kubectl("get", "pods", "-l", selector, "-o", "name").split()):
                await asyncio.sleep(0.5)
        return found[0].removeprefix("pod/")

    async def replicas(self) -> int:
        found = await self.api.get(STATEFUL_SET, NAMESPACE, "orders-host")
        return int(found["spec"]["replicas"]) if found else 0

    def run_on_the_node(self, pod: str) -> None:
        """Bind a pod as a scheduler does, and run it as a kubelet does, which then dies."""
        binding: dict[str, Any] = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}}
        binding["target"] = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/binding"
        self.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))
        self.run_pod(pod, "10.201.0.9", conditions=[{"type": "Ready", "status": "False"}])


STALLED = ("Stalled", "True")


def local_cluster(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "local_cluster", *arguments], check=False).returncode


@pytest.fixture
async def world() -> AsyncIterator[NodeWorld]:
    cluster = Cluster(LAYOUT, NETWORK)
    ran_before = cluster.runs()
    assert ran_before or local_cluster("up") == 0
    defined = bool(cluster.kubectl("get", "crd", CRD, "--ignore-not-found", "-o", "name").strip())
    try:
        if not defined:
            cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds/eventconsumers.yaml"))
            wait_until_served(cluster.kubectl, CRD)
        cluster.kubectl("create", "namespace", NAMESPACE)
        for account in (HOST_SERVICE_ACCOUNT, SPARK_SERVICE_ACCOUNT):
            cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", account)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(node))
        settings = client.Configuration()
        await config.load_kube_config(config_file=str(LAYOUT.kubeconfig), client_configuration=settings)
        async with client.ApiClient(settings) as connection:
            yield NodeWorld(cluster, KubernetesApi(connection))
    finally:
        cluster.kubectl("delete", "node", NODE, "--ignore-not-found")
        cluster.kubectl("-n", NAMESPACE, "delete", "pods", "--all", "--force", "--grace-period=0")
        cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
        if not defined:
            cluster.kubectl("delete", "crd", CRD)
        if not ran_before:
            local_cluster("down")


async def test_the_only_host_is_replaced_until_its_pod_has_ended(world: NodeWorld) -> None:
    spec = SPEC | {"scaling": {"mode": "Fixed", "replicas": 1}, "pods": NOWHERE}
    world.kubectl("apply", "-f", "-", stdin=json.dumps(event_consumer("orders", spec, NAMESPACE)))
    await world.stalled()
    first = await world.until_pod(0)
    world.run_on_the_node("orders-host-0")
    # As the taint manager does after 300 s; the grace period is over at once, and 60 s later it is sure.
    world.kubectl("delete", "pod", "orders-host-0", "--wait=false", "--grace-period=1")
    assert "is being deleted" not in await world.stalled()
    assert await world.replicas() == 1
    await asyncio.sleep(62)
    said = await world.stalled()
    assert "pod orders-host-0 is being deleted and has not ended since" in said
    assert f"node {NODE} does not answer; another pod replaces it" in said
    assert (await world.until_pod(1))["metadata"]["labels"]["app.kubernetes.io/component"] == "host"
    assert (await world.until_pod(0))["metadata"]["uid"] == first["metadata"]["uid"]  # nobody ended it
    # A remedy of the message.
    world.kubectl("delete", "pod", "orders-host-0", "--force", "--grace-period=0")
    async with asyncio.timeout(HANG_SECONDS):
        while (await world.until_pod(0))["metadata"]["uid"] == first["metadata"]["uid"]:
            await asyncio.sleep(0.5)
    assert "is being deleted" not in await world.stalled()
    assert await world.replicas() == 1


async def test_a_driver_that_never_ends_does_not_stop_its_batch(world: NodeWorld) -> None:
    spark = SPARK["spark"] | {"driver": {"nodeSelector": NOWHERE["nodeSelector"]}, "retry": {"backoffSeconds": 0}}
    spec = SPEC | {"scaling": {"mode": "Fixed", "replicas": 1}, "pods": NOWHERE, "spark": spark}
    world.kubectl("apply", "-f", "-", stdin=json.dumps(event_consumer("orders", spec, NAMESPACE)))
    await world.reconciled(FakeHosts())
    await world.until_pod(0)
    world.run_on_the_node("orders-host-0")
    leads = FakeHosts(report(fleet=fleet(batch=batch())))
    await world.reconciled(leads)
    driver = await world.until_driver(1)
    world.run_on_the_node(driver)
    world.kubectl("delete", "pod", driver, "--wait=false", "--grace-period=1")
    async with asyncio.timeout(HANG_SECONDS):
        while not (spark_status := (await world.reconciled(leads)).spark) or not spark_status.failures:
            await asyncio.sleep(1)
    assert f"the driver pod {driver} is being deleted and has not ended since" in spark_status.last_failure
    assert f"node {NODE} does not answer" in spark_status.last_failure
    await world.reconciled(leads)
    assert await world.until_driver(2) != driver
    assert await world.api.get(POD, NAMESPACE, driver)  # nobody ended it
