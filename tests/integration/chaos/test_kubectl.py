"""Faults that use kubectl, from the campaign's table, on a real API server without a cluster."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from eventconsumer_demo.cluster import Cluster
from tests.chaos.faults import FAULTS, SECRET_PART, SPEC_PART
from tests.chaos.schedule import Action, Fault, NoTarget
from tests.chaos.stage import OPERATOR, CampaignStage, Options
from tests.chaos.storage import Storage
from tests.e2e.conftest import NAMESPACE, ROOT
from tests.support.apiserver import ApiServerProcess, find_binary
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

NAME = "chaos-test-a"
HOST, DRIVER, JOB, OPERATOR_POD = f"{NAME}-host-0", f"{NAME}-b1-x", f"{NAME}-b1", "eventconsumer-operator-x"
STATEFUL_SET = f"{NAME}-host"
BY_NAME = {fault.name: fault for fault in FAULTS}
KINDS = "eventconsumers,secrets,pods,statefulsets,jobs,deployments"
SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
POD: dict[str, Any] = {
    "containers": [{"name": "main", "image": "none", "securityContext": SECURITY}],
    "restartPolicy": "Never",
}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD}
LASTING = TEMPLATE | {"spec": POD | {"restartPolicy": "Always"}}
WORKLOAD = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": LASTING}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The API server with the resource's definition and the demo's namespace."""
    server = ApiServerProcess(tmp_path_factory.mktemp("apiserver-chaos"))
    server.start()
    try:
        found = Cluster(NAMESPACE, path=str(find_binary("kubectl").parent), kubeconfig=server.kubeconfig())
        found.run("kubectl", "apply", "--server-side", "-f", str(ROOT / "crds/eventconsumers.yaml"))
        found.ensure_namespace(NAMESPACE)
        served = ("kubectl", "api-resources", "--api-group=eventconsumer.io")
        wait_until(lambda: "eventconsumers" in found.run(*served), "the API server serves the resource")
        yield found
    finally:
        server.stop()


@pytest.fixture(scope="module")
def stage(cluster: Cluster, emulator_process: EmulatorProcess) -> Iterator[CampaignStage]:
    """A consumer with all of its objects, whose pods run as far as the API server knows."""
    found = CampaignStage(cluster, "chaos-test", Options(), emulator_process.admin, Storage("", "", ""))
    found.open()
    populate(found)
    yield found
    found.close()


def populate(stage: CampaignStage) -> None:
    """Create the objects that are missing."""

    def manifest(version: str, kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name} | metadata, "spec": spec}

    def labels(component: str) -> dict[str, str]:
        return {"app.kubernetes.io/component": component, "eventconsumer.io/consumer": NAME}

    apply = ("apply", "-f", "-")
    items = [
        manifest("batch/v1", "Job", JOB, {"template": TEMPLATE}),
        manifest("apps/v1", "StatefulSet", STATEFUL_SET, WORKLOAD | {"serviceName": "x"}),
        manifest("apps/v1", "Deployment", OPERATOR, WORKLOAD),
        manifest("v1", "Pod", HOST, POD, labels=labels("host")),
        manifest("v1", "Pod", OPERATOR_POD, POD, labels=labels("operator")),
    ]
    stage.cluster.kubectl(*apply, stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    uid = stage.get("job", JOB)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": JOB, "uid": uid, "controller": True}
    driver = manifest("v1", "Pod", DRIVER, POD, labels=labels("spark"), ownerReferences=[owner])
    stage.cluster.kubectl(*apply, stdin=json.dumps(driver))
    running = json.dumps({"status": {"phase": "Running"}})
    pods = ("pod", HOST, DRIVER, OPERATOR_POD)
    stage.cluster.kubectl("patch", *pods, "--subresource=status", "--type=merge", "-p", running)


def action(fault: Fault) -> Action:
    """An action of the consumer."""
    return Action(1, 0.0, fault, NAME, 0.0, 0.5)


def objects(stage: CampaignStage) -> dict[str, Any]:
    """Content of all present objects, without those that are being deleted."""
    return {
        f"{each['kind'].lower()}/{each['metadata']['name']}": each.get("data") or each.get("spec")
        for each in stage.get(KINDS)["items"]
        if "deletionTimestamp" not in each["metadata"]
    }


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Names of the objects that differ, or are gone."""
    return [name for name, content in before.items() if after.get(name) != content]


@pytest.mark.parametrize("name", [fault.name for fault in FAULTS if fault.part in (SPEC_PART, SECRET_PART)])
def test_changes_of_a_resource_and_its_secrets_end(stage: CampaignStage, name: str) -> None:
    fault = BY_NAME[name]
    assert fault.undo is not None
    wanted = {SPEC_PART: f"eventconsumer/{NAME}", SECRET_PART: f"secret/{NAME}-{name.partition('-')[0]}"}[fault.part]
    fault.undo(stage, action(fault))  # so that `suspend` is written out
    before = objects(stage)
    fault.act(stage, action(fault))
    assert name == "hub-key-regenerated" or changed(before, objects(stage)) == [wanted]
    fault.undo(stage, action(fault))
    assert changed(before, objects(stage)) == ([wanted] if name == "hub-key-regenerated" else [])


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("host-deleted", f"pod/{HOST}"),
        ("host-deleted-by-force", f"pod/{HOST}"),
        ("host-evicted", f"pod/{HOST}"),
        ("statefulset-deleted", f"statefulset/{STATEFUL_SET}"),
        ("statefulset-orphaned", f"statefulset/{STATEFUL_SET}"),
        ("operator-deleted", f"pod/{OPERATOR_POD}"),
        ("job-deleted", f"job/{JOB}"),
        ("driver-deleted", f"pod/{DRIVER}"),
    ],
)
def test_objects_are_deleted(stage: CampaignStage, name: str, gone: str) -> None:
    populate(stage)
    before = objects(stage)
    BY_NAME[name].act(stage, action(BY_NAME[name]))
    wait_until(lambda: changed(before, objects(stage)) == [gone], f"{gone} alone is deleted", pause=0.5)
    if "orphaned" in name:  # the garbage collector, which does not run here, completes such a deletion
        end = json.dumps({"metadata": {"finalizers": None}})
        stage.kubectl("patch", "statefulset", STATEFUL_SET, "--type=merge", "-p", end)


def test_the_operator_is_scaled(stage: CampaignStage) -> None:
    populate(stage)
    fault = BY_NAME["operator-absent"]
    fault.act(stage, action(fault))
    assert objects(stage)[f"deployment/{OPERATOR}"]["replicas"] == 0
    assert fault.undo is not None
    fault.undo(stage, action(fault))
    assert objects(stage)[f"deployment/{OPERATOR}"]["replicas"] == 1


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("host-killed", f"no process of {HOST}"),
        ("all-hosts-killed", f"no process of {HOST}"),
        ("driver-frozen", f"no process of {DRIVER}"),
        ("operator-cut-from-api", f"no process of {OPERATOR_POD}"),
        ("leader-frozen", "no host reports that it leads"),
        ("hub-frozen", "no pod of eventhubs-emulator"),
        ("storage-frozen", "no pod of azurite"),
    ],
)
def test_a_fault_without_a_target_reports_the_cause(stage: CampaignStage, name: str, cause: str) -> None:
    populate(stage)
    with pytest.raises(NoTarget, match=cause):
        BY_NAME[name].act(stage, action(BY_NAME[name]))


def test_a_second_campaign_has_consumers_of_its_own(stage: CampaignStage) -> None:
    again = CampaignStage(stage.cluster, "chaos-next", Options(in_flight=3), stage.admin, Storage("", "", ""))
    again.open()
    assert again.statuses() == {name: {} for name in [*stage.consumers, *again.consumers]}
    spark = again.get("eventconsumer", again.consumers[0])["spec"]["spark"]
    assert (spark["batch"]["inFlight"], spark["idleTimeoutSeconds"]) == (3, 0)
    again.close()
    assert again.statuses().keys() == set(stage.consumers)
