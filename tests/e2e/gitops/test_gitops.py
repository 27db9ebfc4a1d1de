"""Operator and EventConsumer from a Git repository, by Argo CD's engine: synced, healthy, without conflicts."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventconsumer_demo.cluster import Cluster
from tests.e2e.conftest import ROOT, Demo, image
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.gitops.engine import MARK, Agent, Repository, build, local
from tests.e2e.waiting import until

pytestmark = pytest.mark.long

NAMESPACE = "gitops"
NAME = "parcels"
PARTITIONS = 4
RESOURCE = f"EventConsumer/{NAME}"
# What users' tools put on a resource. None of it may appear on a child: Argo CD would take the child for its own.
TOOLS_LABELS = {"app.kubernetes.io/instance": "shop-app", "app.kubernetes.io/part-of": "shop"}
TOOLS_ANNOTATIONS = {"argocd.argoproj.io/tracking-id": f"shop-app:eventconsumer.io/EventConsumer:{NAMESPACE}/{NAME}"}


@dataclass(frozen=True)
class GitOps:
    """The repository, the engine that applies it, and the cluster."""

    cluster: Cluster
    repository: Repository
    agent: Agent

    def until(self, question: Callable[[], bool], what: str) -> None:
        """Poll until the condition is true; on failure, show the engine's output."""

        def answer() -> bool:
            assert self.agent.runs(), "the engine ended"
            return question()

        try:
            until(answer, what)
        except AssertionError as error:
            state = json.dumps(self.agent.state(), indent=1) if self.agent.runs() else ""
            raise AssertionError(f"{error}\n{state}\n{self.agent.log()[-3000:]}") from None

    def health(self, name: str = RESOURCE) -> str:
        return str(self.agent.state()[name]["health"])

    def live(self) -> dict[str, Any]:
        return self.cluster.get("eventconsumer", NAME)

    def pod_uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.cluster.get("pods")["items"]}


def operator() -> list[dict[str, Any]]:
    """The Kustomize bases with the images of this build and in one namespace, as a user's pipeline renders them."""
    files = ("crds/eventconsumers.yaml", "kustomize/base/operator.yaml", "kustomize/served/namespace.yaml")
    documents = [item for name in files for item in yaml.safe_load_all((ROOT / name).read_text())]
    text = json.dumps(documents).replace('"eventconsumer-system"', f'"{NAMESPACE}"')
    text = text.replace('"event-consumers"', f'"{NAMESPACE}"').replace("=event-consumers", f"={NAMESPACE}")
    text = text.replace("serves:event-consumers", f"serves:{NAMESPACE}")
    text = text.replace("eventconsumer.io/eventconsumer-system", f"eventconsumer.io/{NAMESPACE}")
    for name in ("operator", "processor", "spark"):
        text = text.replace(f"registry.invalid/eventconsumer/{name}:0.1.0", image(name))
    rendered: list[dict[str, Any]] = json.loads(text)
    for document in rendered:
        if document["kind"] == "Deployment":
            document["spec"]["template"]["spec"]["containers"][0]["args"].append("--allow-insecure-endpoints")
    return rendered


def resource(**spec: Any) -> list[dict[str, Any]]:
    """The EventConsumer as its owners write it."""
    manifest = consumer(NAME)
    manifest["metadata"] |= {"namespace": NAMESPACE, "labels": TOOLS_LABELS, "annotations": TOOLS_ANNOTATIONS}
    manifest["spec"] |= {"scaling": {"partitionsPerHost": 2}} | copy.deepcopy(spec)
    return [manifest]


@pytest.fixture(scope="module")
def gitops(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitOps]:
    """Everything applied by the engine, in a namespace that admits restricted pods only."""
    build()
    folder = tmp_path_factory.mktemp("gitops")
    kubeconfig = Path(local("kubeconfig"))
    cluster = Cluster(NAMESPACE, path=local("path"), kubeconfig=kubeconfig)
    cluster.ensure_namespace(NAMESPACE)
    with emulator_admin(demo.cluster) as admin:
        admin.create_hub(NAME, partitions=PARTITIONS)
    create_secrets(cluster, NAME)
    repository = Repository(folder / "repository")
    repository.commit(operator=operator(), consumer=resource())
    agent = Agent(cluster, kubeconfig, repository, folder / "agent.log")
    agent.start()
    try:
        yield GitOps(cluster, repository, agent)
    finally:
        agent.stop()
        print(agent.log()[-2000:])
        cluster.run("kubectl", "delete", "namespace", NAMESPACE, "--wait=true", timeout=180)


def test_operator_and_resource_become_synced_and_healthy(gitops: GitOps) -> None:
    def well() -> bool:
        state = gitops.agent.state()
        return all(each["synced"] and each["health"] in {"Healthy", ""} for each in state.values())

    gitops.until(well, "everything synced and healthy")
    state = gitops.agent.state()
    assert state[RESOURCE]["health"] == "Healthy", state[RESOURCE]
    assert f"{PARTITIONS} of {PARTITIONS} partitions" in state[RESOURCE]["message"]
    assert state["Deployment/eventconsumer-operator"]["health"] == "Healthy"


def test_the_operator_never_writes_the_spec(gitops: GitOps) -> None:
    metadata = gitops.cluster.get("eventconsumer", NAME, "--show-managed-fields")["metadata"]
    fields = [each for each in metadata["managedFields"] if each["manager"] == "eventconsumer-operator"]
    assert fields, "it writes the status"
    assert {each.get("subresource") for each in fields} == {"status"}
    assert all(set(each["fieldsV1"]) == {"f:status"} for each in fields)


def test_labels_and_marks_of_the_owners_tools_are_on_no_child(gitops: GitOps) -> None:
    kinds = "statefulsets,pods,services,configmaps,poddisruptionbudgets,networkpolicies"
    children = gitops.cluster.get(kinds, "-l", f"eventconsumer.io/consumer={NAME}")["items"]
    assert {"StatefulSet", "Pod", "Service", "ConfigMap"} <= {child["kind"] for child in children}
    for child in children:
        metadata = child["metadata"]
        assert not TOOLS_LABELS.keys() & metadata["labels"].keys(), metadata
        assert not {*TOOLS_ANNOTATIONS, MARK} & metadata.get("annotations", {}).keys(), metadata


def test_nothing_drifts_while_operator_and_hosts_restart(gitops: GitOps) -> None:
    before, uids = gitops.live()["metadata"]["generation"], gitops.pod_uids()
    gitops.cluster.kubectl("delete", "pod", "--all", "--wait=false")

    def replaced() -> bool:
        state = gitops.agent.state()
        assert state[RESOURCE]["synced"], state[RESOURCE]
        return not uids & gitops.pod_uids() and all(each["health"] in {"Healthy", ""} for each in state.values())

    gitops.until(replaced, "new pods, and healthy again")
    assert gitops.live()["metadata"]["generation"] == before


def test_a_commit_scales_and_nothing_else_changes(gitops: GitOps) -> None:
    before = gitops.live()["metadata"]["generation"]
    gitops.repository.commit(consumer=resource(scaling={"partitionsPerHost": 1}))
    gitops.until(lambda: gitops.live()["metadata"]["generation"] > before, "the commit is applied")
    gitops.until(lambda: gitops.live()["status"]["hosts"] == {"desired": 4, "ready": 4}, "four hosts")
    gitops.until(lambda: gitops.health() == "Healthy", "healthy with four hosts")
    assert gitops.agent.state()[RESOURCE]["synced"]
    assert gitops.live()["metadata"]["generation"] == before + 1, "nobody but the commit wrote the spec"


def test_suspended_and_resumed_by_commit(gitops: GitOps) -> None:
    gitops.repository.commit(consumer=resource(suspend=True))
    gitops.until(lambda: gitops.health() == "Suspended", "suspended")
    assert gitops.agent.state()[RESOURCE]["synced"]
    gitops.until(lambda: not gitops.cluster.get("pods", "-l", f"eventconsumer.io/consumer={NAME}")["items"], "gone")
    gitops.repository.commit(consumer=resource())
    gitops.until(lambda: gitops.health() == "Healthy", "healthy again")
    assert gitops.live()["status"]["hosts"] == {"desired": 2, "ready": 2}


def test_a_mistake_is_degraded_and_names_the_field(gitops: GitOps) -> None:
    gitops.repository.commit(consumer=resource(processing={"handler": "a:B", "image": "docker.io/stranger/image:1"}))
    gitops.until(lambda: gitops.health() == "Degraded", "degraded")
    assert "spec.processing.image" in gitops.agent.state()[RESOURCE]["message"]
    gitops.repository.commit(consumer=resource())
    gitops.until(lambda: gitops.health() == "Healthy", "healthy again")


def test_kubectl_diff_is_clean_after_apply(gitops: GitOps, demo: Demo) -> None:
    file = ROOT / "examples/local.yaml"  # applied by `kubectl apply` in the demo
    assert demo.cluster.kubectl("diff", "-f", str(file)) == ""
    documents = yaml.safe_dump_all([target for target, _ in gitops.agent.targets()])
    assert gitops.cluster.kubectl("diff", "-f", "-", stdin=documents) == "", "nor to what the engine applied"


def test_what_leaves_the_repository_is_removed_with_its_children(gitops: GitOps) -> None:
    gitops.repository.commit(consumer=None)
    kinds = "eventconsumers,statefulsets,pods,services,configmaps"

    def gone() -> bool:
        children = gitops.cluster.get(kinds, "-l", f"eventconsumer.io/consumer={NAME}")["items"]
        return not children and not gitops.cluster.get("eventconsumers")["items"]

    gitops.until(gone, "resource and children are gone")
    assert gitops.agent.state()["Deployment/eventconsumer-operator"]["health"] == "Healthy"


def test_the_namespace_admits_restricted_pods_only(gitops: GitOps) -> None:
    namespace = json.loads(gitops.cluster.run("kubectl", "get", "namespace", NAMESPACE, "-o", "json"))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    events = gitops.cluster.get("events")["items"]
    assert not [each["message"] for each in events if "violates PodSecurity" in each.get("message", "")]
