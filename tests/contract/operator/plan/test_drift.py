"""What is there only at times, on a real API server: the probe, hosts that leave, a replay's Job. None of it drifts.

Each world is reconciled twice, at different times, from the objects of the API server: the second time writes nothing.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1.status import EventConsumerStatus, HubStatus, ScalingStatus
from eventconsumer_operator.apply import Outcome, apply
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import JOB, STATEFUL_SET
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.plan.scale import ANNOTATION_LEAVING
from eventconsumer_operator.resource.observed import Observed
from tests.contract.operator.conftest import Cluster
from tests.contract.operator.plan.test_pods import ADMINISTRATOR, put, versions
from tests.contract.operator.simulation import host_pod
from tests.support.fakes.hosts import FakeHosts
from tests.support.operatorworld import stored
from tests.unit.operator.worlds import NOW, SPEC, load, spec_with

LAG = SPEC | {"scaling": {"mode": "Lag", "minReplicas": 0, "maxReplicas": 8}}
# No host is wanted, as an operator decided before.
ASLEEP = EventConsumerStatus(
    hub=HubStatus(partition_count=8),
    scaling=ScalingStatus.model_validate({"replicas": 0, "reason": "r", "mode": "Lag", "lastScaleTime": NOW}),
)


async def reconcile(
    api: KubernetesApi, namespace: str, remembers: Callable[[Observed], Observed] = lambda world: world
) -> Outcome:
    """Plan and apply once; `remembers` adds what only the status tells."""
    world = await load(await stored(api, namespace), FakeHosts(), Key(namespace, "orders"))
    assert world is not None
    world = remembers(world)
    outcome = await apply(api, world, make_plan(world, ADMINISTRATOR))
    assert not outcome.errors
    return outcome


async def assert_rests(
    api: KubernetesApi, namespace: str, remembers: Callable[[Observed], Observed] = lambda world: world
) -> None:
    """A later reconcile writes nothing."""
    before = await versions(api, namespace)
    await asyncio.sleep(1.1)  # so that a time in seconds would be another
    assert (await reconcile(api, namespace, remembers)).changes == ()
    assert await versions(api, namespace) == before


async def found(api: KubernetesApi, namespace: str, name: str) -> Manifest:
    manifest = await api.get(STATEFUL_SET, namespace, name)
    assert manifest is not None
    return manifest


async def test_the_probe_stays_as_it_was_applied_and_goes_once(cluster: Cluster, api: KubernetesApi) -> None:
    def sleeps(world: Observed) -> Observed:
        return replace(world, consumer=replace(world.consumer, status=ASLEEP))

    namespace = cluster.namespace()
    put(cluster, namespace, LAG)
    await reconcile(api, namespace, sleeps)
    assert (await found(api, namespace, "orders-probe"))["spec"]["replicas"] == 1
    assert (await found(api, namespace, "orders-host"))["spec"]["replicas"] == 0
    await assert_rests(api, namespace, sleeps)
    put(cluster, namespace, SPEC)
    await reconcile(api, namespace, sleeps)
    assert await api.get(STATEFUL_SET, namespace, "orders-probe") is None
    await assert_rests(api, namespace, sleeps)


async def test_hosts_that_leave_are_written_down_once(cluster: Cluster, api: KubernetesApi) -> None:
    def fixed(hosts: int) -> dict[str, Any]:
        return SPEC | {"scaling": {"mode": "Fixed", "replicas": hosts}}

    namespace = cluster.namespace()
    put(cluster, namespace, fixed(4))
    await reconcile(api, namespace)
    hosts = await found(api, namespace, "orders-host")
    for ordinal in range(4):
        await api.create(host_pod(hosts, name := f"orders-host-{ordinal}"))
        running = ("-n", namespace, "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}')
        cluster.kubectl("patch", "pod", name, *running)
    put(cluster, namespace, fixed(2))
    assert len((await reconcile(api, namespace)).changes) == 1
    leaving = await found(api, namespace, "orders-host")
    assert leaving["spec"]["replicas"] == 4  # hosts that do not answer may hold partitions
    assert leaving["metadata"]["annotations"][ANNOTATION_LEAVING].startswith("2 ")
    await assert_rests(api, namespace)
    for ordinal in (2, 3):
        cluster.kubectl("delete", "pod", f"orders-host-{ordinal}", "-n", namespace, "--grace-period=0", "--force")
    assert len((await reconcile(api, namespace)).changes) == 1
    rest = await found(api, namespace, "orders-host")
    assert rest["spec"]["replicas"] == 2
    assert ANNOTATION_LEAVING not in rest["metadata"].get("annotations", {})
    await assert_rests(api, namespace)


async def test_a_replay_is_one_job_that_stays_as_it_was_made(cluster: Cluster, api: KubernetesApi) -> None:
    namespace = cluster.namespace()
    put(cluster, namespace, spec_with("replay", {"name": "again", "consumerGroup": "replay"}))
    await reconcile(api, namespace)
    (job,) = (await api.list(JOB, namespace)).items
    await assert_rests(api, namespace)
    start, end = "2026-11-21T12:00:00Z", "2026-11-21T12:01:00Z"
    types = ("SuccessCriteriaMet", "Complete")
    conditions = [{"type": each, "status": "True", "lastTransitionTime": end} for each in types]
    done = {"startTime": start, "completionTime": end, "succeeded": 1, "conditions": conditions}
    patch = json.dumps({"status": done | {"uncountedTerminatedPods": {}}})
    name = job["metadata"]["name"]
    cluster.kubectl("patch", "job", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    await assert_rests(api, namespace)
    assert [each["metadata"]["name"] for each in (await api.list(JOB, namespace)).items] == [name]
