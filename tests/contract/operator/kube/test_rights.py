"""The rights that the chart gives: exactly what the operator asks for in a life with everything in it, and no more."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.aio import client, config

from eventconsumer_api.wire.host_report import BatchReport
from eventconsumer_operator.errors import Changed
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.leader import NAME
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, ObjectList
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.kube.writethrough import WriteThrough
from tests.contract.operator.conftest import OPERATOR_USER, Cluster, rendered_chart, start_cluster
from tests.contract.operator.test_operator import SPEC, Hub, Operator, ProcessWorld, build, condition, ready
from tests.support.fakes.kubernetes import event_consumer

Right = tuple[str, str, str]
"""Verb, API group, resource."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server whose audit log has this file's requests only."""
    yield from start_cluster(tmp_path_factory.mktemp("rights"))


def render(values: str) -> list[dict[str, Any]]:
    """The chart's objects."""
    return [each for each in yaml.load_all(rendered_chart(values), yaml.CSafeLoader) if each]


def granted(values: str) -> set[Right]:
    """What the chart's roles allow the operator."""
    documents = render(values)
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in documents
        if each["kind"].endswith("RoleBinding") and each["subjects"][0]["name"] == "eventconsumer-operator"
    }
    return {
        (verb, group, resource)
        for each in documents
        if (each["kind"], each["metadata"]["name"]) in bound
        for rule in each["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def asked(cluster: Cluster) -> set[Right]:
    """What the operator asked for so far; fails where it was refused."""
    result = set()
    for request in cluster.server.requests(OPERATOR_USER):
        if not request.resource:
            continue  # discovery, which every account may do
        assert request.code != 403, request
        result.add((request.verb, request.group, request.resource))
        if request.verb == "patch" and request.code == 201:
            result.add(("create", request.group, request.resource))  # server-side apply made it: both are checked
    return result


async def until_asked(world: ProcessWorld, right: Right) -> None:
    """Wait until the operator asked for a right."""

    async def is_asked() -> bool:
        return right in asked(world.cluster)

    await world.until_true(is_asked)


async def test_the_chart_grants_what_the_operator_asks_for_and_nothing_else(own: Cluster, tmp_path: Path) -> None:
    hub = Hub()
    values = "replicaCount=2"
    async with build(own, hub, tmp_path, "--leader-elect", "--network-policies", values=values) as world:
        world.apply(SPEC)
        await world.until(ready)
        # A batch, and Spark switched off while its Job runs.
        hub.open_batch = BatchReport(number=1, files=10, bytes=10_000, events=1000, reason="Files")
        await until_asked(world, ("create", "batch", "jobs"))
        await until_asked(world, ("list", "", "events"))  # no controller creates the Job's pod
        hub.open_batch = None
        without = {name: value for name, value in SPEC.items() if name != "spark"}
        world.apply(without | {"spark": SPEC["spark"] | {"enabled": False}})
        await until_asked(world, ("delete", "batch", "jobs"))
        # Something recurs, and its event is counted.
        for suspend in (True, False, True, False):
            world.apply(without | {"suspend": suspend})
            wanted = "Suspended" if suspend else "Available"
            await world.until(lambda status, wanted=wanted: condition(status, "Ready")[1] == wanted)  # type: ignore[misc]
        await until_asked(world, ("patch", "", "events"))
        # A probe that is not needed any more.
        await leave_a_probe(world)
        await until_asked(world, ("delete", "apps", "statefulsets"))
        # The administrator does not want network policies any more.
        world.operator.stop(signal.SIGTERM)
        other = Operator(own, world.namespace, tmp_path / "other.log", "--leader-elect")
        other.start()
        try:
            await until_asked(world, ("delete", "networking.k8s.io", "networkpolicies"))
        finally:
            other.stop(signal.SIGTERM)
        await conflict(own, world.namespace)
        world.operator.start()
    found, wanted_rights = asked(own), granted(values)
    assert found - wanted_rights == set(), "the operator asks for more than the chart grants"
    assert wanted_rights - found == set(), "the chart grants more than the operator asks for"


async def leave_a_probe(world: ProcessWorld) -> None:
    """What is left of a resource that had scaled to zero."""
    uid = (await world.get("evc", "orders"))["metadata"]["uid"]
    live = await world.get("sts", "orders-host")
    owner = {
        "apiVersion": EVENT_CONSUMER.api_version,
        "kind": EVENT_CONSUMER.name,
        "name": "orders",
        "uid": uid,
        "controller": True,
    }
    probe = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "orders-probe",
            "namespace": world.namespace,
            "labels": live["metadata"]["labels"],
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": 0,
            "serviceName": "x",
            "selector": live["spec"]["selector"],
            "template": live["spec"]["template"],
        },
    }
    world.cluster.kubectl("create", "-f", "-", stdin=json.dumps(probe))


async def conflict(cluster: Cluster, namespace: str) -> None:
    """The operator's view of a resource is old when it writes the status: it reads that one object."""
    settings = client.Configuration()
    path = str(cluster.server.kubeconfig(OPERATOR_USER, namespace))
    await config.load_kube_config(config_file=path, client_configuration=settings)
    async with client.ApiClient(settings) as connection:
        api, store = KubernetesApi(connection), Store()
        listing: ObjectList = await api.list(EVENT_CONSUMER, namespace)
        store.replace(EVENT_CONSUMER, namespace, listing)
        (old,) = listing.items
        cluster.kubectl("-n", namespace, "annotate", "evc", "orders", "changed=1")
        status = event_consumer("orders", {}, namespace) | {"status": old["status"]}
        status["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        with pytest.raises(Changed):
            await WriteThrough(api, store).apply_status(status)
        found = store.get(EVENT_CONSUMER, namespace, "orders")
        assert found is not None and found["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]


def test_only_operators_side_by_side_have_rights_to_leases() -> None:
    for count in (1, 2):
        leases = {right for right in granted(f"replicaCount={count}") if right[2] == "leases"}
        assert bool(leases) == (count > 1)


async def test_one_operator_serves_all_namespaces(own: Cluster, tmp_path: Path) -> None:
    async with build(own, Hub(), tmp_path, "--all-namespaces", values="scope=Cluster") as world:
        world.apply(SPEC)
        await world.until(ready)
        other = own.namespace()
        assert own.apply(event_consumer("orders", SPEC, other)) == ""

        async def made() -> bool:
            return own.kubectl("-n", other, "get", "sts", "orders-host", check=False).returncode == 0

        await world.until_true(made)
        assert (await world.get("sts", "orders-host"))["spec"]["replicas"] == 4
        assert "forbidden" not in world.operator.log.read_text().lower()
    assert granted("scope=Cluster") <= granted("replicaCount=1")


async def test_of_two_operators_one_works_and_the_other_takes_over(own: Cluster, tmp_path: Path) -> None:
    hub = Hub()
    async with build(own, hub, tmp_path, "--leader-elect", values="replicaCount=2") as world:
        world.apply(SPEC)
        await world.until(ready)
        second = Operator(own, world.namespace, tmp_path / "second.log", "--leader-elect")
        second.start()
        try:
            lease = await holder(own)
            await asyncio.sleep(2)
            assert await holder(own) == lease and second.running
            world.operator.stop(signal.SIGKILL)
            hub.lag = 4711
            await world.until(lambda status: status["lag"]["events"] == 4711)
            assert await holder(own) != lease
            # A planned end releases the lease at once.
            world.operator.start()
            await asyncio.sleep(2)
            lease = await holder(own)
            assert second.stop(signal.SIGTERM) == 0

            async def taken_over() -> bool:
                return await holder(own) not in {"", lease}

            async with asyncio.timeout(10):
                await world.until_true(taken_over)
        finally:
            if second.running:
                second.stop(signal.SIGKILL)


async def holder(cluster: Cluster) -> str:
    result = await asyncio.to_thread(cluster.kubectl, "-n", "operator-system", "get", "lease", NAME, "-o", "json")
    found: dict[str, Any] = json.loads(result.stdout)
    return str(found["spec"].get("holderIdentity", ""))
