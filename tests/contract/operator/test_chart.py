"""The chart: rendered by helm, accepted by a real API server, and giving no more rights than needed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.operator.conftest import Cluster
from tests.support.apiserver import find_binary

CHART = Path(__file__).parents[3] / "helm/eventconsumer"


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_binary("helm"), *arguments], capture_output=True, text=True, check=False)


def render(*settings: str) -> list[dict[str, Any]]:
    result = helm("template", "release", str(CHART), "-n", "home", "--kube-version", "1.35.0", *settings)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def test_lint() -> None:
    result = helm("lint", "--strict", str(CHART))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("imagen.operator=x", "imagen"),
        ("allowInsecureEndpoints=maybe", "allowInsecureEndpoints"),
        ("watchNamespaces={Not_A_Name}", "watchNamespaces"),
        ("logLevel=LOUD", "logLevel"),
        ("image.operator=", "image"),
        ("scope=Cluster,watchNamespaces={a}", "watchNamespaces"),
        ("replicaCount=0", "replicaCount"),
        ("fleetKey.existingSecret=Not_A_Name", "existingSecret"),
        ("networkPolicies.apiServerPorts={70000}", "apiServerPorts"),
        ("metrics.podMonitor.interval=soon", "interval"),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, named: str) -> None:
    result = helm("template", "release", str(CHART), "--kube-version", "1.35.0", "--set", setting)
    assert result.returncode != 0
    assert named in result.stderr


def test_each_served_namespace_gets_roles_and_accounts_and_nothing_is_cluster_wide() -> None:
    documents = render("--set", "watchNamespaces={a,b}")
    for kind in ("Role", "RoleBinding"):
        places = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in of_kind(documents, kind)]
        assert sorted(places) == [
            (place, name) for place in "ab" for name in ("eventconsumer-operator", "eventconsumer-spark")
        ]
    accounts = {
        (item["metadata"]["namespace"], item["metadata"]["name"]) for item in of_kind(documents, "ServiceAccount")
    }
    wanted = {(place, f"eventconsumer-{name}") for place in "ab" for name in ("host", "spark")}
    assert accounts == wanted | {("home", "eventconsumer-operator")}
    assert not of_kind(documents, "ClusterRoleBinding")
    people = {role["metadata"]["name"] for role in of_kind(documents, "ClusterRole")}
    assert people == {"eventconsumer-viewer", "eventconsumer-editor", "eventconsumer-tools"}
    (deployment,) = of_kind(documents, "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [argument for argument in arguments if argument.startswith("--namespace")] == [
        "--namespace=a",
        "--namespace=b",
    ]


def test_the_operator_serves_its_own_namespace_where_none_is_named() -> None:
    (deployment,) = of_kind(render(), "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not [argument for argument in arguments if argument.startswith("--namespace")]
    assert [item["metadata"]["namespace"] for item in of_kind(render(), "Role")] == ["home", "home"]


def test_no_role_reaches_secrets_or_wildcards() -> None:
    for role in of_kind(render(), "Role"):
        for rule in role["rules"]:
            assert not {"*", "secrets", "serviceaccounts/token", "pods/exec", "roles", "nodes"} & set(rule["resources"])
            assert "*" not in rule["verbs"] + rule["apiGroups"]


def test_insecure_endpoints_are_off_unless_asked_for() -> None:
    def arguments(*settings: str) -> list[str]:
        (deployment,) = of_kind(render(*settings), "Deployment")
        found: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        return found

    assert "--allow-insecure-endpoints" not in arguments()
    assert "--allow-insecure-endpoints" in arguments("--set", "allowInsecureEndpoints=true")


def test_the_crd_is_kept_or_left_out_as_the_values_say() -> None:
    (crd,) = of_kind(render(), "CustomResourceDefinition")
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    (crd,) = of_kind(render("--set", "crds.keep=false"), "CustomResourceDefinition")
    assert "annotations" not in crd["metadata"]
    assert not of_kind(render("--set", "crds.enabled=false"), "CustomResourceDefinition")


def test_the_operators_pod_is_admitted_where_pods_are_restricted(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    (deployment,) = of_kind(render(), "Deployment")
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] = {"name": "operator", "namespace": namespace}
    cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_the_api_server_accepts_everything(cluster: Cluster) -> None:
    documents = [item for item in render() if item["kind"] != "CustomResourceDefinition"]
    namespace = cluster.namespace()
    text = yaml.safe_dump_all(documents).replace("namespace: home", f"namespace: {namespace}")
    cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=text)
