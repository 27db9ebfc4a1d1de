"""The launchers Kubeflow and Apache against a real API server with the definitions that their projects publish."""

import asyncio
import dataclasses
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.wire.host_report import BatchReport
from eventconsumer_operator.errors import Refused
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import APACHE_APPLICATION, KUBEFLOW_APPLICATION
from eventconsumer_operator.plan import make_plan
from tests.contract.operator.conftest import ROOT, Cluster, start_cluster
from tests.contract.operator.kube.test_rights import asked, granted, until_asked
from tests.contract.operator.test_operator import SPEC, Hub, ProcessWorld, build, message, ready
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.unit.operator.spark.test_sparkapplications import PLACED, PLACING, templates
from tests.unit.operator.worlds import IDENTITY, SPARK, batch, fleet, observed, report
from tests.unit.operator.worlds import SPEC as PLAN_SPEC

GROUPS = {"Kubeflow": "sparkoperator.k8s.io", "Apache": "spark.apache.org"}
KINDS = {"Kubeflow": KUBEFLOW_APPLICATION, "Apache": APACHE_APPLICATION}
BOTH = pytest.mark.parametrize("launcher", list(GROUPS))
FULL: dict[str, Any] = {
    "driver": {"cores": 2, "coreRequest": "250m", "cpuLimit": "1500m", "memory": "2g"} | PLACED["driver"],
    "executor": {"instances": 4, "minInstances": 2, "cores": 3, "memory": "512m"} | PLACED["executor"],
    "application": {
        "mainFile": "local:///app/examples/latest_by_key.py",
        "arguments": ["--top", "10"],
        "conf": {"spark.sql.shuffle.partitions": "7"},
    },
}
IDENTITY_SINK = {"storageAccountUrl": "https://shop.blob.core.windows.net", "authentication": IDENTITY}


def plural(launcher: str) -> str:
    return f"sparkapplications.{GROUPS[launcher]}"


def define(cluster: Cluster, launcher: str) -> None:
    """Install the published definition."""
    cluster.define(ROOT / f"tests/support/definitions/{GROUPS[launcher]}_sparkapplications.yaml", plural(launcher))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server whose audit log has this file's requests only."""
    yield from start_cluster(tmp_path_factory.mktemp("launchers"))


@pytest.fixture(scope="module")
def defined(own: Cluster) -> Cluster:
    """The same with both definitions, and the priority class that the specs name."""
    for launcher in GROUPS:
        define(own, launcher)
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "drain"},
        "value": 1,
    }
    own.kubectl("create", "-f", "-", stdin=json.dumps(priority))
    return own


def made(launcher: str, namespace: str, spark: dict[str, Any], sink: dict[str, Any]) -> Manifest:
    """What the operator would create."""
    spec = PLAN_SPEC | {
        "spark": SPARK["spark"] | {"launcher": launcher} | spark,
        "sink": PLAN_SPEC["sink"] | sink,
    }
    world = observed(spec, reports={"orders-host-0": report(fleet=fleet(batch=batch(1)))})
    key = Key(namespace, world.consumer.key.name)
    world = dataclasses.replace(world, consumer=dataclasses.replace(world.consumer, key=key))
    (manifest,) = make_plan(world, dataclasses.replace(PLACING, namespaces=(namespace,))).jobs
    return manifest


@BOTH
@pytest.mark.parametrize(("spark", "sink"), [({}, {}), (FULL, IDENTITY_SINK)], ids=["small", "full"])
def test_the_published_definition_has_every_field(
    defined: Cluster, launcher: str, spark: dict[str, Any], sink: dict[str, Any]
) -> None:
    namespace = defined.namespace()
    manifest = made(launcher, namespace, spark, sink)
    defined.kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(manifest))
    live = json.loads(
        defined.kubectl("-n", namespace, "get", plural(launcher), manifest["metadata"]["name"], "-o", "json").stdout
    )
    for name, value in manifest["spec"].items():
        assert contains(live["spec"][name], value), name
    manifest["spec"]["nonsense"] = 1
    unknown = defined.kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(manifest), check=False)
    assert unknown.returncode != 0 and "nonsense" in unknown.stderr


def contains(live: Any, made: Any) -> bool:
    """Whether all that was made is there; the API server may add defaults."""
    if isinstance(made, dict):
        return isinstance(live, dict) and all(name in live and contains(live[name], made[name]) for name in made)
    return bool(live == made)


@BOTH
@pytest.mark.parametrize("sink", [{}, IDENTITY_SINK], ids=["secret", "identity"])
def test_both_pods_are_admitted_where_only_restricted_ones_are(
    defined: Cluster, launcher: str, sink: dict[str, Any]
) -> None:
    """The definition lets everything pass in a template, so the templates are tried as pods: with an image."""
    namespace = defined.namespace()
    for number, template in enumerate(templates(made(launcher, namespace, FULL, sink))):
        pod = {"apiVersion": "v1", "kind": "Pod", **json.loads(json.dumps(template))}
        pod["metadata"] = {"name": f"pod-{number}", "namespace": namespace, "labels": template["metadata"]["labels"]}
        pod["spec"]["containers"][0]["image"] = "spark:1"
        defined.kubectl("create", "--validate=strict", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


@BOTH
async def test_a_kind_that_is_not_served_is_refused_with_the_remedy(launcher: str, api: KubernetesApi) -> None:
    """By the real API server, which has no such definition here, and by the fake."""
    fake = FakeKubernetes()
    fake.unserved.add(KINDS[launcher])
    for each in (api, fake):
        with pytest.raises(Refused, match=r"does not serve sparkapplications\..*install the"):
            await each.create(made(launcher, "default", {}, {}))


async def applications(world: ProcessWorld, launcher: str) -> Any:
    """Without discovery, which kubectl would remember from before the definition was there."""
    text = await world.kubectl("get", "--raw", KINDS[launcher].path(world.namespace))
    return json.loads(text)["items"] if text else []


async def test_a_missing_definition_is_named_and_its_installation_is_the_remedy(tmp_path: Path) -> None:
    launcher, folder = "Apache", tmp_path / "server"
    folder.mkdir()
    servers = start_cluster(folder)
    cluster = next(servers)
    hub = Hub()
    try:
        flags = ("--spark-launcher", launcher)
        async with build(cluster, hub, tmp_path, *flags, values=f"sparkLaunchers={{{launcher}}}") as world:
            world.apply(SPEC | {"spark": SPEC["spark"] | {"launcher": launcher}})
            await world.until(ready)  # hosts do not wait for it
            hub.open_batch = BatchReport(number=1, files=10, bytes=10_000, events=1000, reason="Files")
            status = await world.until(lambda status: "does not serve" in message(status, "Ready"))
            assert plural(launcher) in message(status, "Ready")
            assert "set spec.spark.launcher: Native" in message(status, "Ready")
            await asyncio.to_thread(define, cluster, launcher)
            (application,) = await world.until_true(lambda: applications(world, launcher))
            await world.until(ready)

            async def watched() -> bool:
                return f"{GROUPS[launcher]} is served now" in world.operator.log.read_text()

            await world.until_true(watched)
            # What the launcher's operator writes when the driver has ended with an error.
            now = "2026-11-21T12:00:00Z"
            past = {"currentStateSummary": "Failed", "lastTransitionTime": now, "message": "the driver failed"}
            final = {"currentStateSummary": "TerminatedWithoutReleaseResources", "lastTransitionTime": now}
            failed = {"currentState": final, "stateTransitionHistory": {"0": past, "1": final}}
            name, patch = application["metadata"]["name"], json.dumps({"status": failed})
            flags = ("--subresource=status", "--type=merge", "-p", patch)
            await world.kubectl("patch", plural(launcher), name, *flags)
            await world.until(lambda status: status["spark"]["failures"] == 1)
    finally:
        servers.close()


async def test_rights_match_the_enabled_launchers(defined: Cluster, tmp_path: Path) -> None:
    hub = Hub()
    values = "sparkLaunchers={Kubeflow,Apache}"
    flags = ("--spark-launcher", "Kubeflow", "--spark-launcher", "Apache", "--network-policies")
    async with build(defined, hub, tmp_path, *flags, values=values) as world:
        for number, (launcher, group) in enumerate(GROUPS.items(), 1):
            spec = SPEC | {"spark": SPEC["spark"] | {"launcher": launcher}}
            world.apply(spec)
            await world.until(ready)
            hub.open_batch = BatchReport(number=number, files=10, bytes=10_000, events=1000, reason="Files")
            await until_asked(world, ("create", group, "sparkapplications"))
            hub.open_batch, hub.committed = None, number
            world.apply(spec | {"spark": spec["spark"] | {"enabled": False}})
            await until_asked(world, ("delete", group, "sparkapplications"))
        world.apply(SPEC | {"spark": SPEC["spark"] | {"launcher": "Kubeflow"}})
        await leave_a_driver(world)
        await until_asked(world, ("delete", "", "pods"))
        world.operator.stop(signal.SIGTERM)
        world.operator.start()
    more = granted(values) - granted("replicaCount=1")
    assert more - asked(defined) == set(), "the chart grants more than the launchers need"
    assert asked(defined) - granted(values) == set(), "the operator asks for more than the chart grants"
    assert more == {
        (verb, group, "sparkapplications")
        for group in GROUPS.values()
        for verb in ("list", "watch", "create", "delete")
    } | {("delete", "", "pods")}


def test_without_launchers_there_is_no_right_to_anything_of_theirs() -> None:
    assert not [right for right in granted("replicaCount=1") if right[2] == "sparkapplications"]
    kubeflow, apache = granted("sparkLaunchers={Kubeflow}"), granted("sparkLaunchers={Apache}")
    assert {right[1] for right in kubeflow if right[2] == "sparkapplications"} == {GROUPS["Kubeflow"]}
    assert {right[1] for right in apache if right[2] == "sparkapplications"} == {GROUPS["Apache"]}
    assert ("delete", "", "pods") in kubeflow and ("delete", "", "pods") not in apache


async def leave_a_driver(world: ProcessWorld) -> None:
    """The pod of a driver whose application is gone."""
    uid = (await world.get("evc", "orders"))["metadata"]["uid"]
    manifest = made("Kubeflow", world.namespace, {}, {})
    driver, _ = templates(manifest)
    pod = {"apiVersion": "v1", "kind": "Pod", **json.loads(json.dumps(driver))}
    pod["metadata"] |= {"name": "gone-driver", "namespace": world.namespace}
    pod["metadata"]["labels"]["sparkoperator.k8s.io/app-name"] = "gone"
    pod["metadata"]["ownerReferences"][0]["uid"] = uid
    pod["spec"]["containers"][0]["image"] = "spark:1"
    world.cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
