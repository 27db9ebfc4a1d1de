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
    "checkpointStore": {"container": "leases", "authentication": SECRET},
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
    """Apply a resource; return the API server's message when it is refused, else nothing."""
    return cluster.apply(event_consumer(name, spec, namespace))


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> str:
    return cluster.namespace()


def test_the_definition_is_structural_and_gives_scalar_defaults_and_columns(cluster: Cluster) -> None:
    crd = json.loads(cluster.kubectl("get", "crd", "eventconsumers.eventconsumer.io", "-o", "json").stdout)
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions["Established"] == conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"
    namespace = cluster.namespace()
    assert apply(cluster, namespace, GOOD) == ""
    spec = json.loads(cluster.kubectl("get", "evc", "orders", "-n", namespace, "-o", "json").stdout)["spec"]
    assert spec["eventHub"]["consumerGroup"] == "$Default"
    assert spec["suspend"] is False
    assert not {"processing", "scaling", "pods", "startingPosition"} & spec.keys()
    lines = cluster.kubectl("get", "eventconsumers", "-n", namespace, "-o", "wide").stdout.splitlines()
    assert lines[0].split() == [
        "NAME",
        "READY",
        "HUB",
        "GROUP",
        "HOSTS",
        "PARTITIONS",
        "LAG",
        "SUSPENDED",
        "AGE",
        "REASON",
    ]
    assert lines[1].split()[:4] == ["orders", "orders", "$Default", "false"]


# What is refused without a rule; tests/contract/operator/plan/test_rules.py has the rules.
REFUSED: dict[str, tuple[str, Any, str]] = {
    "container": ("sink.container", "Has_Capitals", "spec.sink.container"),
    "container with two hyphens": ("checkpointStore.container", "a--b", "spec.checkpointStore.container"),
    "no sink": ("sink", None, "spec.sink: Required value"),
    "lease too short": ("checkpointStore.leaseDurationSeconds", 5, "spec.checkpointStore.leaseDurationSeconds"),
    "unknown mode": ("scaling.mode", "Cpu", "spec.scaling.mode"),
    "output not abfs": (
        "spark.output.path",
        "s3://bucket/x",
        'Invalid value: "s3://bucket/x": use abfss://<container>@',
    ),
    "placeholder": ("spark.output.path", "abfss://out@<account>.dfs.core.windows.net/a", "in the account of the sink"),
    "program of Python itself": (
        "spark.application.mainFile",
        "local:///usr/local/lib/python3.11/timeit.py",
        "use a Python file below /app in the image",
    ),
    "quantity": ("pods.resources.limits", {"memory": "256mb"}, "use a number with no unit or with m, k, Ki, M, Mi"),
    "memory of Java": ("spark.driver.memory", "256mb", "spec.spark.driver.memory: Invalid value: "),
    "core request": ("spark.driver.coreRequest", "many", "spec.spark.driver.coreRequest"),
    "url without scheme": ("sink.storageAccountUrl", "shop.blob.core.windows.net", "use the URL of the blob endpoint"),
    "folder above": ("sink.prefix", "../x", 'spec.sink.prefix: Invalid value: "../x": use folders of letters'),
    "a file as handler": ("processing.handler", "orders.py", "use module:Class or package.module:Class"),
    "handler without image": ("processing.handler", "orders:Handler", "set processing.image to an image"),
    "schedule": ("spark.trigger.schedule", "every hour", "use the five fields of cron"),
    "hub as URL": ("eventHub.fullyQualifiedNamespace", "sb://a.servicebus.windows.net/", "without sb:// and slashes"),
    "grace too short": ("pods.terminationGracePeriodSeconds", 1, "spec.pods.terminationGracePeriodSeconds"),
    "unknown field": ("sink.colour", "blue", ".spec.sink.colour: field not declared in schema"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_resource_is_refused_by_name(cluster: Cluster, namespace: str, case: str) -> None:
    path, value, expected = REFUSED[case]
    message = apply(cluster, namespace, with_value(path, value), name="refused")
    assert expected in message
    assert "should match" not in message, "a sentence, not a regular expression"


def test_a_name_that_pods_and_services_cannot_have_is_refused(cluster: Cluster, namespace: str) -> None:
    for name in ("1st", "with.dots", "a" * 48):
        assert "metadata.name: use at most 47" in apply(cluster, namespace, GOOD, name=name)
    assert apply(cluster, namespace, GOOD, name="a" * 47) == ""


ACCOUNT = {"storageAccountUrl": "https://shop.blob.core.windows.net"}
SHORT = {"type": "Json", "schema": "a DATE"}
AT = {"name": "at", "type": "TIMESTAMP"}
MANY = [{"name": f"a{number:03}" + "x" * 124, "type": f"STRUCT<{'a' * 2000}: DATE>"} for number in range(200)]
LONG = ", ".join(f"a{number:03}{'x' * 90} DATE" for number in range(155))
CHANGEABLE: dict[str, tuple[str, Any, Any]] = {
    "empty prefix is no prefix": ("sink.prefix", None, ""),
    "default group is no group": ("eventHub.consumerGroup", None, "$Default"),
    "lease prefix": ("checkpointStore.prefix", None, "again/"),
    "secret to secret": ("sink.authentication", SECRET, {"connectionStringSecretRef": {"name": "t", "key": "k"}}),
    "secret to identity": (
        "sink",
        GOOD["sink"] | ACCOUNT,
        GOOD["sink"] | ACCOUNT | {"authentication": IDENTITY},
    ),
    "spark off": ("spark", GOOD["spark"], None),
    "spark on": ("spark", None, GOOD["spark"]),
    "scaling away": ("scaling", {"mode": "Fixed", "replicas": 2}, None),
    "columns on": ("sink.body", None, SHORT),
    "columns off": ("sink.body", SHORT, None),
    "columns to bytes": ("sink.body", SHORT, {"type": "Binary"}),
    "short form and more": ("sink.body", SHORT, SHORT | {"schema": "a DATE, b ARRAY<BIGINT>"}),
    "short to long form": ("sink.body", SHORT, {"type": "Json", "columns": [{"name": "a", "type": "DATE"}]}),
    "columns more and less": (
        "sink.body",
        {"type": "Json", "columns": [{"name": "a", "type": "DECIMAL(9,2)"}, AT, {"name": "b", "type": "DATE"}]},
        {
            "type": "Json",
            "columns": [
                {"name": "c", "type": "DATE"},
                AT | {"path": "$.at", "from": "Iso8601"},
                {"name": "a", "type": "DECIMAL(9, 2)", "required": True, "statistics": True},
            ],
        },
    ),
    "the most columns": (
        "sink.body",
        {"type": "Json", "columns": MANY},
        {"type": "Json", "columns": [each | {"required": True, "path": f"$.{each['name']}"} for each in MANY]},
    ),
    "the longest short form": (
        "sink.body",
        SHORT | {"schema": LONG},
        SHORT | {"schema": f"{LONG}, {'b' * 128} STRUCT<{'f' * 100}: DATE>"},
    ),
    "a number as quantity": ("pods.resources.limits", None, {"cpu": 2}),
}


@pytest.mark.parametrize("case", CHANGEABLE)
def test_the_rest_can_change(cluster: Cluster, namespace: str, case: str) -> None:
    path, before, after = CHANGEABLE[case]
    name = "free-" + case.replace(" ", "-")
    assert apply(cluster, namespace, with_value(path, before), name) == ""
    assert apply(cluster, namespace, with_value(path, after), name) == ""


def test_kubectl_scale_sets_the_number_of_hosts(cluster: Cluster, namespace: str) -> None:
    assert apply(cluster, namespace, with_value("scaling", {"mode": "Fixed", "replicas": 2}), "scaled") == ""
    cluster.kubectl("scale", "evc", "scaled", "-n", namespace, "--replicas=5")
    replicas = cluster.kubectl("get", "evc", "scaled", "-n", namespace, "-o", "jsonpath={.spec.scaling.replicas}")
    assert replicas.stdout == "5"


def test_kubectl_explains_fields(cluster: Cluster) -> None:
    for field, text in (
        ("evc", "Drains an Azure Event Hub into files"),
        ("evc.spec.pods.tolerations.tolerationSeconds", "Time a pod stays after the taint was added, seconds"),
        ("evc.spec.sink.format", "ENUM: Parquet Avro"),
    ):
        deadline = time.monotonic() + HANG_SECONDS
        explained = ""
        # The API server publishes what it explains some seconds after it serves the resource.
        while text not in explained:
            assert time.monotonic() < deadline, explained
            explained = " ".join(cluster.kubectl("explain", field, check=False).stdout.split())
