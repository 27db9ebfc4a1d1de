"""The generated CRD on a real API server: accepted, and its refusals name the field and the remedy."""

import copy
import json
import time
from typing import Any

import pytest

from tests.contract.operator.conftest import Cluster
from tests.support.fakes.kubernetes import event_consumer
from tests.support.waiting import HANG_SECONDS

SECRET = {"connectionStringSecretRef": {"name": "s", "key": "k"}}
IDENTITY = {"workloadIdentity": {"clientId": "0000"}}
GOOD: dict[str, Any] = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "leaseStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
    "spark": {"output": {"path": "abfss://out@shop.dfs.core.windows.net/orders"}},
}


def with_value(path: str, value: Any) -> dict[str, Any]:
    """GOOD with one field set, or removed where `value` is None."""
    spec = copy.deepcopy(GOOD)
    *folders, last = path.split(".")
    node = spec
    for folder in folders:
        node = node.setdefault(folder, {})
    if value is None:
        node.pop(last, None)
    else:
        node[last] = value
    return spec


def apply(cluster: Cluster, namespace: str, spec: dict[str, Any], name: str = "orders") -> str:
    """Apply a resource; return what kubectl prints when it is refused, else nothing."""
    manifest = json.dumps(event_consumer(name, spec, namespace))
    result = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest, check=False)
    return result.stderr if result.returncode else ""


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> str:
    return cluster.namespace()


def test_the_crd_is_structural_and_served(cluster: Cluster) -> None:
    crd = json.loads(cluster.kubectl("get", "crd", "eventconsumers.eventconsumer.io", "-o", "json").stdout)
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"


def test_a_minimal_resource_gets_scalar_defaults_and_no_invented_objects(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    assert apply(cluster, namespace, GOOD) == ""
    spec = json.loads(cluster.kubectl("get", "evc", "orders", "-n", namespace, "-o", "json").stdout)["spec"]
    assert spec["eventHub"]["consumerGroup"] == "$Default"
    assert spec["suspend"] is False
    assert not {"processing", "scaling", "pods", "startingPosition"} & spec.keys()


def test_short_name_category_and_columns(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    assert apply(cluster, namespace, GOOD) == ""
    lines = cluster.kubectl("get", "eventconsumers", "-n", namespace, "-o", "wide").stdout.splitlines()
    assert lines[0].split() == [
        "NAME", "READY", "HUB", "GROUP", "HOSTS", "PARTITIONS", "LAG", "SUSPENDED", "AGE", "REASON",
    ]  # fmt: skip
    assert lines[1].split()[:4] == ["orders", "orders", "$Default", "false"]


REFUSED: dict[str, tuple[str, Any, str]] = {
    "container": ("sink.container", "Has_Capitals", "spec.sink.container"),
    "container with two hyphens": ("leaseStore.container", "a--b", "spec.leaseStore.container"),
    "both credentials": ("sink.authentication", SECRET | IDENTITY, "set exactly one of connectionStringSecretRef"),
    "no credential": ("sink.authentication", {}, "set exactly one of connectionStringSecretRef"),
    "identity without namespace": (
        "eventHub.authentication",
        IDENTITY,
        "eventHub: fullyQualifiedNamespace and name are required with workloadIdentity",
    ),
    "identity without account": (
        "leaseStore.authentication",
        IDENTITY,
        "leaseStore: storageAccountUrl is required with workloadIdentity",
    ),
    "no sink": ("sink", None, "spec.sink: Required value"),
    "lease too short": ("leaseStore.leaseDurationSeconds", 5, "spec.leaseStore.leaseDurationSeconds"),
    "unknown mode": ("scaling.mode", "Cpu", "spec.scaling.mode"),
    "fixed without number": ("scaling.mode", "Fixed", "scaling.replicas is required with mode: Fixed"),
    "number without fixed": ("scaling.replicas", 3, "scaling.replicas is required with mode: Fixed"),
    "spark without output": ("spark", {"enabled": True}, "spark.output.path is required where spark.enabled is true"),
    "output not abfs": ("spark.output.path", "s3://bucket/x", "spec.spark.output.path"),
    "program of Python itself": (
        "spark.application.mainFile",
        "local:///usr/local/lib/python3.11/timeit.py",
        "spec.spark.application.mainFile",
    ),
    "quantity": ("pods.resources.limits", {"memory": "lots"}, "spec.pods.resources.limits.memory"),
    "core request": ("spark.driver.coreRequest", "many", "spec.spark.driver.coreRequest"),
    "url without scheme": ("sink.storageAccountUrl", "shop.blob.core.windows.net", "spec.sink.storageAccountUrl"),
    "grace too short": ("pods.terminationGracePeriodSeconds", 1, "spec.pods.terminationGracePeriodSeconds"),
    "unknown field": ("sink.colour", "blue", ".spec.sink.colour: field not declared in schema"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_resource_is_refused_by_name(cluster: Cluster, namespace: str, case: str) -> None:
    path, value, expected = REFUSED[case]
    assert expected in apply(cluster, namespace, with_value(path, value), name="refused")


@pytest.mark.parametrize("name", ["1st", "with.dots", "a" * 48])
def test_a_name_that_pods_and_services_cannot_have_is_refused(cluster: Cluster, namespace: str, name: str) -> None:
    assert "metadata.name: write at most 47" in apply(cluster, namespace, GOOD, name=name)


def test_the_longest_name_is_accepted(cluster: Cluster, namespace: str) -> None:
    assert apply(cluster, namespace, GOOD, name="a" * 47) == ""


IMMUTABLE: dict[str, tuple[str, Any, Any]] = {
    "eventHub.name changed": ("eventHub.name", "orders", "other"),
    "eventHub.name added": ("eventHub.name", None, "orders"),
    "eventHub.name removed": ("eventHub.name", "orders", None),
    "eventHub.fullyQualifiedNamespace added": ("eventHub.fullyQualifiedNamespace", None, "a.example"),
    "eventHub.fullyQualifiedNamespace changed": ("eventHub.fullyQualifiedNamespace", "a.example", "b.example"),
    "eventHub.consumerGroup set": ("eventHub.consumerGroup", None, "other"),
    "leaseStore.container changed": ("leaseStore.container", "leases", "others"),
    "sink.container changed": ("sink.container", "drained", "others"),
    "sink.prefix added": ("sink.prefix", None, "folder"),
    "sink.prefix removed": ("sink.prefix", "folder", None),
}


@pytest.mark.parametrize("case", IMMUTABLE)
def test_what_identifies_hub_and_checkpoints_cannot_change(cluster: Cluster, namespace: str, case: str) -> None:
    path, before, after = IMMUTABLE[case]
    name = "immutable-" + "".join(character for character in case.lower() if character.isalnum())[-30:]
    assert apply(cluster, namespace, with_value(path, before), name) == ""
    assert f"{path} cannot change" in apply(cluster, namespace, with_value(path, after), name)


CHANGEABLE: dict[str, tuple[str, Any, Any]] = {
    "empty prefix is no prefix": ("sink.prefix", None, ""),
    "default group is no group": ("eventHub.consumerGroup", None, "$Default"),
    "lease prefix": ("leaseStore.prefix", None, "again/"),
    "secret to secret": (
        "sink.authentication",
        SECRET,
        {"connectionStringSecretRef": {"name": "t", "key": "k"}},
    ),
    "spark off": ("spark", GOOD["spark"], None),
    "spark on": ("spark", None, GOOD["spark"]),
    "scaling away": ("scaling", {"mode": "Fixed", "replicas": 2}, None),
    "a number as quantity": ("pods.resources.limits", None, {"cpu": 2}),
}


@pytest.mark.parametrize("case", CHANGEABLE)
def test_the_rest_can_change(cluster: Cluster, namespace: str, case: str) -> None:
    path, before, after = CHANGEABLE[case]
    name = "free-" + case.replace(" ", "-")
    assert apply(cluster, namespace, with_value(path, before), name) == ""
    assert apply(cluster, namespace, with_value(path, after), name) == ""


def test_a_secret_can_give_way_to_an_identity(cluster: Cluster, namespace: str) -> None:
    spec = with_value("sink.storageAccountUrl", "https://shop.blob.core.windows.net")
    assert apply(cluster, namespace, spec, "identity") == ""
    spec["sink"]["authentication"] = IDENTITY
    assert apply(cluster, namespace, spec, "identity") == ""


def test_kubectl_scale_sets_the_number_of_hosts(cluster: Cluster, namespace: str) -> None:
    assert apply(cluster, namespace, with_value("scaling", {"mode": "Fixed", "replicas": 2}), "scaled") == ""
    cluster.kubectl("scale", "evc", "scaled", "-n", namespace, "--replicas=5")
    replicas = cluster.kubectl("get", "evc", "scaled", "-n", namespace, "-o", "jsonpath={.spec.scaling.replicas}")
    assert replicas.stdout == "5"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("evc", "Drains an Azure Event Hub into files"),
        ("evc.spec.leaseStore.leaseDurationSeconds", "Duration of a partition lease, seconds."),
        ("evc.spec.pods.tolerations.tolerationSeconds", "Time a host stays after the taint was added, seconds"),
        ("evc.spec.sink.format", "ENUM: Parquet Avro"),
        ("evc.status.conditions.reason", "Machine-readable reason"),
    ],
)
def test_kubectl_explains_fields(cluster: Cluster, field: str, text: str) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    explained = ""
    # The API server publishes what it explains some seconds after it serves the resource.
    while text not in explained:
        assert time.monotonic() < deadline, explained
        explained = " ".join(cluster.kubectl("explain", field, check=False).stdout.split())
