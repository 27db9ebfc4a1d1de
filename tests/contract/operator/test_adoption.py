"""Children without their owner, on a real API server: after `kubectl delete --cascade=orphan`, and after a restore.

An API server alone has no garbage collector, so the test takes the owners away, as the collector does for `orphan`. A
restore writes objects without owners, uids and managers, as Velero does
(https://velero.io/docs/main/restore-reference/): names, labels, annotations and content stay.
"""

import json
from typing import Any

import pytest

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.v1alpha1.status import Condition
from eventconsumer_operator.fleet.key import FleetKey
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import (
    CONFIG_MAP,
    CONTENT_MAX_BYTES,
    JOB,
    NETWORK_POLICY,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    STATEFUL_SET,
    controller_uid,
)
from eventconsumer_operator.kube.ownership import ANNOTATION_APPLIED
from tests.contract.operator.conftest import Cluster
from tests.contract.operator.plan.test_pods import ADMINISTRATOR, put
from tests.contract.operator.simulation import host_pod
from tests.support.fakes.hosts import FakeHosts
from tests.support.operatorworld import OperatorWorld
from tests.unit.operator.worlds import SPEC, fleet, report

KINDS = (NETWORK_POLICY, POD_DISRUPTION_BUDGET, CONFIG_MAP, SERVICE, STATEFUL_SET)
CHILDREN = [(kind, "orders-host") for kind in KINDS] + [(NETWORK_POLICY, "orders-host-ipv6")]
REPLAY = SPEC | {"replay": {"name": "again", "consumerGroup": "replay"}}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "11111111-0000-0000-0000-000000000000"}


class AdoptionWorld(OperatorWorld):
    """A namespace with one EventConsumer and a host that leads."""

    def __init__(self, cluster: Cluster, api: KubernetesApi, spec: dict[str, Any] = SPEC) -> None:
        def kubectl(*arguments: str, stdin: str | None = None) -> str:
            return cluster.kubectl(*arguments, stdin=stdin).stdout

        super().__init__(api, cluster.namespace(), kubectl, ADMINISTRATOR)
        self.cluster, self.spec = cluster, spec
        self._key = FleetKey.load(None)
        put(cluster, self.namespace, spec)

    async def reconcile(self) -> dict[str, Condition]:
        """A new operator reconciles twice; the conditions that it writes."""
        status = await self.reconciled(FakeHosts(report(fleet=fleet())), self._key, times=2)
        return {each.type: each for each in status.conditions}

    async def start_host(self) -> None:
        """What StatefulSet controller and kubelet do."""
        await self.api.create(host_pod(await self.get(STATEFUL_SET), "orders-host-0"))
        self.run_pod("orders-host-0", "127.0.0.1")

    def uid(self) -> str:
        return self.kubectl("get", "evc", "orders", "-o", "jsonpath={.metadata.uid}")

    async def children(self) -> dict[tuple[Kind, str], Manifest]:
        return {where: await self.get(*where) for where in CHILDREN}

    async def change(self, kind: Kind, name: str, metadata: dict[str, Any]) -> None:
        await self.api.merge(kind, self.namespace, name, {"metadata": metadata})

    def recreate(self) -> None:
        """The resource is deleted and created again: it has another uid."""
        self.kubectl("delete", "evc", "orders")  # nothing collects its children here
        put(self.cluster, self.namespace, self.spec)


def restored(manifest: Manifest) -> Manifest:
    """What a restore writes."""
    kept = {name: manifest["metadata"][name] for name in ("name", "namespace", "labels", "annotations")}
    kept["labels"] = kept["labels"] | {"velero.io/restore-name": "monday"}
    return {name: value for name, value in manifest.items() if name != "status"} | {"metadata": kept}


@pytest.mark.parametrize("restore", [False, True], ids=["orphaned", "restored"])
async def test_children_without_an_owner_are_adopted(cluster: Cluster, api: KubernetesApi, restore: bool) -> None:
    world = AdoptionWorld(cluster, api)
    await world.reconcile()
    await world.start_host()
    before = await world.children()
    for (kind, name), child in before.items():
        if restore:
            world.kubectl("delete", f"{kind.plural}", name)
            world.kubectl("create", "-f", "-", stdin=json.dumps(restored(child)))
        else:
            await world.change(kind, name, {"ownerReferences": None})
    world.recreate()
    found = await world.children()
    conditions = await world.reconcile()
    assert conditions["Stalled"].status == "False", conditions["Stalled"].message
    for where, child in (await world.children()).items():
        assert child["metadata"]["uid"] == found[where]["metadata"]["uid"]  # the same object
        assert controller_uid(child) == world.uid()
        assert [entry["manager"] for entry in child["metadata"]["managedFields"]] == [labels.FIELD_MANAGER]
    # A field that the operator no longer sets goes: no other manager owns it.
    world.spec = SPEC | {"pods": {"terminationGracePeriodSeconds": 120}}
    put(cluster, world.namespace, world.spec)
    versions = {}
    for _ in range(2):
        await world.reconcile()
        versions, last = await world.children(), versions
    assert versions == last


@pytest.mark.parametrize(("kind", "name"), CHILDREN)
async def test_a_child_that_is_not_the_operators_is_named_and_not_touched(
    cluster: Cluster, api: KubernetesApi, kind: Kind, name: str
) -> None:
    world = AdoptionWorld(cluster, api)
    await world.reconcile()
    await world.start_host()
    child = await world.get(kind, name)
    given = child["metadata"]["labels"]
    cases: dict[str, dict[str, Any]] = {
        "another owner": {"ownerReferences": [OWNER | {"controller": True}]},
        "no labels": {"ownerReferences": None, "labels": dict.fromkeys(given)},
        "another consumer": {"ownerReferences": None, "labels": {labels.LABEL_CONSUMER: "payments"}},
        "no annotation": {"ownerReferences": None, "annotations": {ANNOTATION_APPLIED: None}},
    }
    for case, metadata in cases.items():
        await world.change(kind, name, metadata)
        before = await world.get(kind, name)
        stalled = (await world.reconcile())["Stalled"]
        assert (stalled.status, stalled.reason) == ("True", "NameTaken"), case
        assert f"{kind.name.lower()}/{name} exists" in stalled.message
        assert await world.get(kind, name) == before, case
        own = {name: child["metadata"][name] for name in ("ownerReferences", "labels", "annotations")}
        await world.change(kind, name, own)
    assert (await world.reconcile())["Stalled"].status == "False"


async def test_a_child_with_too_much_content_is_named_once(cluster: Cluster, api: KubernetesApi) -> None:
    """Not written again and again: another client owns what the operator does not hold."""
    world = AdoptionWorld(cluster, api)
    await world.reconcile()
    much = {"data": {f"key-{number}": "x" * 100 for number in range(CONTENT_MAX_BYTES // 100)}}
    for owners in (None, (await world.get(CONFIG_MAP))["metadata"]["ownerReferences"]):
        await api.merge(CONFIG_MAP, world.namespace, "orders-host", much | {"metadata": {"ownerReferences": owners}})
        stalled = (await world.reconcile())["Stalled"]
        before = await world.get(CONFIG_MAP)
        assert (stalled.status, stalled.reason) == ("True", "ObjectRefused")
        assert "configmap/orders-host has more content than the operator holds" in stalled.message
        await world.reconcile()
        assert await world.get(CONFIG_MAP) == before


async def test_a_job_of_the_same_name_without_an_owner_is_named(cluster: Cluster, api: KubernetesApi) -> None:
    world = AdoptionWorld(cluster, api, REPLAY)
    await world.reconcile()
    (job,) = (await api.list(JOB, world.namespace)).items
    for owners in (None, [OWNER | {"controller": True}]):
        await world.change(JOB, job["metadata"]["name"], {"ownerReferences": owners})
        stalled = (await world.reconcile())["Stalled"]
        assert (stalled.status, stalled.reason) == ("True", "NameTaken")
        assert f"job/{job['metadata']['name']} exists" in stalled.message


async def test_the_probe_and_policies_without_an_owner_go_when_they_are_not_wanted(
    cluster: Cluster, api: KubernetesApi
) -> None:
    world = AdoptionWorld(cluster, api)
    await world.reconcile()
    host = await world.get(STATEFUL_SET)
    probe = restored(host)
    probe["metadata"]["name"] = "orders-probe"
    world.kubectl("create", "-f", "-", stdin=json.dumps(probe))
    await world.reconcile()
    assert await api.get(STATEFUL_SET, world.namespace, "orders-probe") is None
