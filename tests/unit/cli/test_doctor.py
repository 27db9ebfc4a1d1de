"""doctor: every finding with its remedy, and an exit code that says how bad it is."""

import base64
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_cli.doctor import registry as registry_check
from eventconsumer_cli.kube.kinds import (
    ACCESS_REVIEW,
    CLUSTER_ROLE,
    CONFIG_MAP,
    DEFINITION,
    DEPLOYMENT,
    EVENT_CONSUMER,
    POD,
    SECRET,
)
from eventconsumer_cli.kube.releases import SERVES_ALL
from eventconsumer_operator.plan.network import COMPONENTS
from tests.support.registry import StandInRegistry
from tests.unit.cli.fakes import EFFECTIVE, HEALTHY
from tests.unit.cli.inside import HANDLER, Inside, cluster_with, record, resource
from tests.unit.cli.running import Ran, Shell, definition

CHECKS: list[dict[str, Any]] = [
    {"check": "hub-reachable", "ok": True, "detail": "2 partitions", "remedy": ""},
    {"check": "clock", "ok": True, "detail": "0.2 s", "remedy": ""},
]


class Clinic(Inside):
    """Everything as it should be; rights can be taken away."""

    def __init__(self) -> None:
        super().__init__(self._check)
        self.missing: set[str] = set()
        self.checks = [dict(each) for each in CHECKS]

    def _check(self, command: Sequence[str], stdin: bytes | None) -> tuple[int, str, str]:
        if tuple(command) == registry_check.PROGRAM:
            command = [sys.executable, *command[1:]]
            ended = subprocess.run(command, input=stdin, capture_output=True, check=False)
            return ended.returncode, ended.stdout.decode(), ended.stderr.decode()
        assert list(command) == ["eventconsumer", "check", "--output", "json"]
        ok = all(each["ok"] is not False for each in self.checks)
        return (0 if ok else 2), json.dumps({"version": 1, "ok": ok, "checks": self.checks}), ""

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        if kind != ACCESS_REVIEW:
            return super().create(kind, manifest, dry_run=dry_run)
        asked = manifest["spec"]["resourceAttributes"]
        right = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        return {"status": {"allowed": f"{asked['verb']} {right}" not in self.missing}}


def clinic() -> Clinic:
    """A healthy consumer."""
    cluster, healthy = Clinic(), cluster_with()
    cluster.objects = healthy.objects
    consumer = resource() | {"status": {"observedGeneration": 9, "conditions": HEALTHY}}
    cluster.put(EVENT_CONSUMER, consumer)
    value = base64.b64encode(b"Endpoint=sb://secret").decode()
    for name in ("orders-hub", "orders-storage"):
        cluster.put(SECRET, {"metadata": {"name": name, "namespace": "shop"}, "data": {"connectionString": value}})
    served = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
    cluster.put(DEFINITION, copy.deepcopy(definition()) | served)
    cluster.put(CLUSTER_ROLE, record())
    cluster.put(DEPLOYMENT, operator())
    return cluster


def operator(ready: int = 1) -> Manifest:
    """What is read of the operator's Deployment."""
    metadata = {"name": "eventconsumer-operator", "namespace": "operators"}
    return {"metadata": metadata, "spec": {"replicas": 1}, "status": {"readyReplicas": ready}}


def findings(seen: Ran, *levels: str) -> dict[str, str]:
    """Details of the findings of these levels, by check."""
    return {each["check"]: each["detail"] for each in seen.json["findings"] if each["level"] in levels}


def test_all_is_well(shell: Shell) -> None:
    seen = shell.run(clinic(), "doctor", "orders", "-o", "json")
    assert seen.code == 0 and seen.json["exitCode"] == 0
    assert {each["level"] for each in seen.json["findings"]} == {"ok"}
    checks = {each["check"] for each in seen.json["findings"]}
    assert checks == {
        "rights",
        "definition",
        "operator",
        "versions",
        "status",
        "secret",
        "pods",
        "hub-reachable",
        "clock",
        "sharing",
    }
    text = shell.run(clinic(), "doctor").out
    assert "all well: " in text and "secret@" not in text and "sb://" not in text


def empty_key(cluster: Clinic) -> None:
    cluster.objects["secrets", "shop", "orders-hub"]["data"] = {"other": "eA==", "connectionString": ""}


def other_schema(cluster: Clinic) -> None:
    stored = cluster.objects["customresourcedefinitions", "", "eventconsumers.eventconsumer.io"]
    del stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replay"]


def stalled(cluster: Clinic) -> None:
    message = "spec.eventHub.name: there is no such hub"
    told = {"type": "Stalled", "status": "True", "reason": "EventHubNotFound", "message": message}
    others = [each for each in HEALTHY if each["type"] not in {"Stalled", "Ready"}]
    cluster.objects["eventconsumers", "shop", "orders"]["status"]["conditions"] = [*others, told]


def no_image(cluster: Clinic) -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    pod = cluster.objects["pods", "shop", "orders-host-0"]
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "host", "state": state}]}


def hub_down(cluster: Clinic) -> None:
    cluster.checks[0] |= {"ok": False, "detail": "no connection", "remedy": "open port 5671"}
    cluster.checks[1] |= {"ok": None, "detail": "not tried"}


def above_the_limit(cluster: Clinic) -> None:
    status = cluster.objects["eventconsumers", "shop", "orders"]["status"]
    status["retention"] = {"files": 1, "excessBytes": 5000, "held": "in no committed batch"}


@pytest.mark.parametrize(
    ("spoil", "code", "check", "said"),
    [
        (lambda clinic: clinic.remove(SECRET, "shop", "orders-hub"), 2, "secret", "the Secret does not exist"),
        (empty_key, 2, "secret", "the Secret has connectionString, other"),
        (
            lambda clinic: clinic.remove(CLUSTER_ROLE, "", "eventconsumer:serves:shop"),
            2,
            "operator",
            "no record names a release for namespace shop",
        ),
        (
            lambda clinic: clinic.remove(DEPLOYMENT, "operators", "eventconsumer-operator"),
            2,
            "operator",
            "there is no Deployment operators/eventconsumer-operator",
        ),
        (
            lambda clinic: clinic.put(DEPLOYMENT, operator(ready=0)),
            2,
            "operator",
            "0 of 1 replicas of operators/eventconsumer-operator are ready",
        ),
        (lambda clinic: clinic.put(CLUSTER_ROLE, record(own="0.0.1")), 1, "versions", "is 0.0.1, this plugin"),
        (
            lambda clinic: clinic.put(CLUSTER_ROLE, record(SERVES_ALL, "more")),
            2,
            "operator",
            "several releases claim namespace shop",
        ),
        (
            lambda clinic: clinic.remove(DEFINITION, "", "eventconsumers.eventconsumer.io"),
            2,
            "definition",
            "does not have eventconsumers.eventconsumer.io",
        ),
        (other_schema, 1, "definition", "differs from the CRD of this plugin"),
        (stalled, 2, "status", "Stalled (EventHubNotFound): spec.eventHub.name"),
        (
            above_the_limit,
            1,
            "retention",
            "5,000 bytes above spec.sink.retention.bytes, because the oldest one is in no committed batch",
        ),
        (no_image, 2, "images", "ImagePullBackOff: not found"),
        (hub_down, 2, "hub-reachable", "no connection"),
        (
            lambda clinic: clinic.missing.add("patch eventconsumers"),
            1,
            "rights",
            "you may not patch eventconsumers.eventconsumer.io in namespace shop",
        ),
    ],
)
def test_each_problem_is_named_with_its_remedy(
    shell: Shell, spoil: Callable[[Clinic], object], code: int, check: str, said: str
) -> None:
    cluster = clinic()
    spoil(cluster)
    seen = shell.run(cluster, "doctor", "orders", "-o", "json")
    bad = findings(seen, "warning", "broken")
    assert seen.code == code and set(bad) == {check} and said in bad[check], bad
    assert all(each["remedy"] for each in seen.json["findings"] if each["level"] in {"warning", "broken"})


def with_handler() -> Clinic:
    """A consumer whose handler has all that it needs."""
    cluster = clinic()
    cluster.objects["eventconsumers", "shop", "orders"]["spec"]["processing"] = copy.deepcopy(HANDLER)
    cluster.put(SECRET, {"metadata": {"name": "database", "namespace": "shop"}, "data": {"password": "eA=="}})
    cluster.put(CONFIG_MAP, {"metadata": {"name": "shop", "namespace": "shop"}, "data": {"shop.toml": "a = 1"}})
    return cluster


def inputs_of(seen: Ran) -> list[tuple[str, str, str]]:
    """Level, text and remedy of each finding about the inputs of a handler."""
    found = [each for each in seen.json["findings"] if each["check"] == "inputs"]
    return [(each["level"], each["detail"], each["remedy"]) for each in found]


def test_what_a_handler_needs_exists(shell: Shell) -> None:
    seen = shell.run(with_handler(), "doctor", "orders", "-o", "json")
    assert seen.code == 0
    assert [(level, detail) for level, detail, _ in inputs_of(seen)] == [
        ("ok", "Secret database for spec.processing.env"),
        ("ok", "ConfigMap more for spec.processing.env: it does not exist; it is optional"),
        ("ok", "ConfigMap shop for spec.processing.envFrom"),
        ("ok", "ConfigMap shop for spec.processing.volumes"),
    ]


def test_what_a_handler_lacks_is_named_with_its_remedy(shell: Shell) -> None:
    cluster = with_handler()
    cluster.objects["secrets", "shop", "database"]["data"] = {"user": "eA=="}
    cluster.remove(CONFIG_MAP, "shop", "shop")
    seen = shell.run(cluster, "doctor", "orders", "-o", "json")
    assert seen.code == 2
    secret, _, variables, files = inputs_of(seen)
    assert secret == (
        "broken",
        "Secret database for spec.processing.env: it has no key password, but user",
        "put password into it, or correct spec.processing.env",
    )
    assert variables[2] == "kubectl -n shop create configmap shop --from-literal=<key>=<value>"
    assert files[1:] == (
        "ConfigMap shop for spec.processing.volumes: it does not exist",
        "kubectl -n shop create configmap shop --from-literal=shop.toml=<value>",
    )
    cluster.forbidden = {"configmaps"}
    levels = [level for level, _, _ in inputs_of(shell.run(cluster, "doctor", "orders", "-o", "json"))]
    assert levels == ["broken", "unknown", "unknown", "unknown"]


def test_a_spark_program_needs_its_inputs_where_spark_is_enabled(shell: Shell) -> None:
    cluster = clinic()
    application = {"envFrom": [{"prefix": "APP_", "configMapRef": {"name": "report"}}]}
    spark = cluster.objects["eventconsumers", "shop", "orders"]["spec"]["spark"] = {"application": application}
    ((level, detail, remedy),) = inputs_of(shell.run(cluster, "doctor", "orders", "-o", "json"))
    assert (level, detail) == ("broken", "ConfigMap report for spec.spark.application.envFrom: it does not exist")
    assert remedy.startswith("kubectl -n shop create configmap report")
    spark["enabled"] = False
    assert inputs_of(shell.run(cluster, "doctor", "orders", "-o", "json")) == []


def test_inputs_of_another_version_are_unknown(shell: Shell) -> None:
    cluster = with_handler()
    cluster.objects["eventconsumers", "shop", "orders"]["spec"]["processing"]["future"] = 1
    ((level, detail, _),) = inputs_of(shell.run(cluster, "doctor", "orders", "-o", "json"))
    assert (level, detail) == ("unknown", "spec.processing has fields that this plugin does not know")


def test_without_rights_to_read_a_check_is_unknown(shell: Shell) -> None:
    cluster = clinic()
    cluster.forbidden = {"secrets", "deployments", "customresourcedefinitions"}
    seen = shell.run(cluster, "doctor", "orders", "-o", "json")
    assert seen.code == 0 and set(findings(seen, "unknown")) == {"secret", "operator", "definition"}
    assert (
        "serves namespace shop; you have no permission to read its Deployment" in findings(seen, "unknown")["operator"]
    )
    cluster.forbidden = {"clusterroles"}
    seen = shell.run(cluster, "doctor", "orders", "-o", "json")
    assert seen.code == 0 and set(findings(seen, "unknown")) == {"operator"}
    assert "no record that you may read names a release for namespace shop" in findings(seen, "unknown")["operator"]


def test_without_a_host_a_pod_is_asked_and_without_a_consumer_the_cluster(shell: Shell) -> None:
    cluster = clinic()
    cluster.remove(POD, "shop", "orders-host-0")
    assert shell.run(cluster, "doctor", "orders").code == 0
    assert len(cluster.made) == 1 and cluster.tool_pods == []
    seen = shell.run(cluster, "doctor", "orders", "--no-inside", "-o", "json")
    assert len(cluster.made) == 1 and "hub-reachable" not in findings(seen, "ok")
    cluster.remove(EVENT_CONSUMER, "shop", "orders")
    assert shell.run(cluster, "doctor").code == 0
    assert shell.run(cluster, "doctor", "orders").code == 1


REGISTRY = "https://registry.example.com"


def with_registry(url: str = REGISTRY, *, allowed: str = REGISTRY, **registry: Any) -> Clinic:
    """A consumer whose bodies are Avro, with a registry."""
    cluster = clinic()
    consumer = cluster.objects["eventconsumers", "shop", "orders"]
    given = {"type": "Confluent", "url": url} | registry
    consumer["spec"]["spark"] = {"output": {"path": "p", "body": {"type": "Avro", "registry": given}}}
    consumer["status"]["effective"] = EFFECTIVE | {"sparkImage": "spark:1"}
    cluster.put(CLUSTER_ROLE, record(schemaRegistries=[allowed]))
    return cluster


def of_registry(seen: Ran) -> tuple[str, str, str]:
    """Level, text and remedy of the finding about the registry."""
    (found,) = (each for each in seen.json["findings"] if each["check"] == "schema-registry")
    return found["level"], found["detail"], found["remedy"]


@pytest.mark.slow
def test_a_schema_registry_is_checked_by_the_program_of_the_spark_image(shell: Shell) -> None:
    with StandInRegistry() as server:
        seen = shell.run(with_registry(server.url, allowed=server.url), "doctor", "orders", "-o", "json")
        assert (seen.code, of_registry(seen)[0]) == (0, "ok"), seen
        server.faults = [403]
        seen = shell.run(with_registry(server.url, allowed=server.url), "doctor", "orders", "-o", "json")
    level, detail, remedy = of_registry(seen)
    assert (seen.code, level, remedy) == (2, "broken", "set spec.spark.output.body.registry.authentication")
    assert f"{server.url} refuses the credential (HTTP 403)" in detail


@pytest.mark.slow
def test_the_pod_of_that_program_is_like_a_driver_and_goes(shell: Shell) -> None:
    secret = {"authentication": {"basicSecretRef": {"name": "registry", "key": "basic"}}}
    cluster = with_registry("http://127.0.0.1:9", allowed="http://127.0.0.1:9", **secret)
    cluster.objects["eventconsumers", "shop", "orders"]["spec"]["proxy"] = {"url": "http://proxy.example:3128"}
    level, detail, _ = of_registry(shell.run(cluster, "doctor", "orders", "-o", "json"))
    # The Secret is not mounted where this test runs.
    assert level == "broken" and detail.endswith("basicSecretRef: Secret registry, or its key basic, does not exist")
    (pod,) = cluster.made
    assert cluster.tool_pods == []
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] not in COMPONENTS, "its egress is not that of hosts"
    (container,) = pod["spec"]["containers"]
    assert (pod["spec"]["serviceAccountName"], container["image"]) == ("eventconsumer-spark", "spark:1")
    assert {each["name"]: each["value"] for each in container["env"]}["HTTPS_PROXY"] == "http://proxy.example:3128"
    (mounted,) = (each["secret"] for each in pod["spec"]["volumes"] if "secret" in each)
    assert (mounted["secretName"], mounted["optional"]) == ("registry", True), "a missing Secret is told by the check"
    identity = {"authentication": {"workloadIdentity": {"clientId": "id"}}}
    cluster = with_registry(type="AzureSchemaRegistry", **identity)
    level, detail, _ = of_registry(shell.run(cluster, "doctor", "orders", "-o", "json"))
    assert level == "broken" and "workload identity is not injected" in detail
    assert cluster.made[0]["metadata"]["labels"]["azure.workload.identity/use"] == "true"


def test_a_registry_that_is_not_allowed_is_reported_and_not_contacted(shell: Shell) -> None:
    cluster = with_registry(allowed="https://other.example.com")
    level, detail, remedy = of_registry(shell.run(cluster, "doctor", "orders", "--no-inside", "-o", "json"))
    assert level == "broken"
    assert f"{REGISTRY} is not an allowed schema registry (https://other.example.com)" in detail
    assert remedy == "correct the URL, or ask the operator's administrator to extend schemaRegistries"
    assert shell.run(cluster, "doctor", "orders").code == 2 and cluster.made == []


def test_a_registry_that_nobody_is_known_to_allow_is_not_connected_to(shell: Shell) -> None:
    cluster = with_registry()
    cluster.forbidden = {"clusterroles"}
    level, detail, remedy = of_registry(shell.run(cluster, "doctor", "orders", "-o", "json"))
    assert (
        level == "unknown" and "whether the administrator allows it is unknown" in detail and "recordReaders" in remedy
    )
    assert cluster.made == []


def test_a_registry_that_no_pod_could_ask_is_reported(shell: Shell) -> None:
    cluster = with_registry()
    cluster.objects["eventconsumers", "shop", "orders"]["status"]["effective"] = {}
    assert of_registry(shell.run(cluster, "doctor", "orders", "-o", "json"))[0] == "unknown"
    cluster = with_registry()
    cluster.start = {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
    level, detail, _ = of_registry(shell.run(cluster, "doctor", "orders", "-o", "json"))
    assert level == "warning" and "no pod could run the check" in detail and "Evicted" in detail
    cluster = with_registry(future=1)
    assert of_registry(shell.run(cluster, "doctor", "orders", "-o", "json"))[0] == "unknown"
    cluster.objects["eventconsumers", "shop", "orders"]["spec"]["spark"]["enabled"] = False
    seen = shell.run(cluster, "doctor", "orders", "-o", "json")
    assert seen.code == 0 and "schema-registry" not in findings(seen, "ok", "unknown", "warning", "broken")
