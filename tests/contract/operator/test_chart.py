"""The chart: rendered by helm, accepted by a real API server, and giving no more rights than needed."""

import copy
import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.operator.conftest import Cluster
from tests.support.apiserver import find_binary
from tests.support.chart import SERVED, VALUES_FILE

CHART = Path(__file__).parents[3] / "helm/eventconsumer"
REQUIRED = ("-f", str(VALUES_FILE), *SERVED)


@functools.cache
def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_binary("helm"), *arguments], capture_output=True, text=True, check=False)


@functools.cache
def _documents(*settings: str) -> list[dict[str, Any]]:
    required = REQUIRED if not any("Cluster" in setting for setting in settings) else ("-f", str(VALUES_FILE))
    result = helm("template", "release", str(CHART), "-n", "home", "--kube-version", "1.35.0", *required, *settings)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.load_all(result.stdout, yaml.CSafeLoader) if document]


def render(*settings: str) -> list[dict[str, Any]]:
    """The chart's objects with these flags; helm runs once for each of them."""
    return copy.deepcopy(_documents(*settings))


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def test_lint_also_with_all_options_at_once() -> None:
    parts = ("service", "serviceMonitor", "podMonitor", "rules", "dashboard")
    options = [f"metrics.{part}.enabled=true" for part in parts] + ["statusPage.enabled=true"]
    for settings in ([], [part for option in options for part in ("--set", option)]):
        result = helm("lint", "--strict", str(CHART), *REQUIRED, *settings)
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("imagen.operator=x", "imagen"),
        ("allowInsecureEndpoints=maybe", "allowInsecureEndpoints"),
        ("endpointSuffixes={blob.core.windows.net}", "move each domain to hubSuffixes"),
        ("storageSuffixes={*.Blob.core.windows.net}", "write the part after blob. or dfs."),
        ("watchNamespaces={Not_A_Name}", "watchNamespaces"),
        ("logLevel=LOUD", "logLevel"),
        ("scope=Cluster,watchNamespaces={a}", "watchNamespaces"),
        ("replicaCount=0", "replicaCount"),
        ("fleetKey.existingSecret=Not_A_Name", "existingSecret"),
        ("networkPolicies.apiServerPorts={70000}", "apiServerPorts"),
        ("metrics.podMonitor.interval=soon", "interval"),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, named: str) -> None:
    result = helm("template", "release", str(CHART), "--kube-version", "1.35.0", *REQUIRED, "--set", setting)
    assert result.returncode != 0
    assert named in result.stderr


@pytest.mark.parametrize("image", ["operator", "processor", "spark"])
def test_an_image_has_no_default_and_names_its_registry(image: str) -> None:
    default = yaml.safe_load((CHART / "values.yaml").read_text())["image"][image]

    def refusal(reference: str) -> str:
        chosen = ("--set-string", f"image.{image}={reference}")
        result = helm("template", "release", str(CHART), "-n", "home", "--kube-version", "1.35.0", *REQUIRED, *chosen)
        return result.stderr if result.returncode else ""

    assert f"image.{image} is not set" in refusal(default)
    assert f"image.{image}=<registry>/{image}@sha256:<digest>" in refusal(default)
    # Container runtimes take such names from docker.io.
    for unnamed in (f"{image}:1", f"eventconsumer/{image}:1", f"eventconsumer/{image}@sha256:{'0' * 64}"):
        assert f"image.{image}: {unnamed} names no registry" in refusal(unnamed)
    for named in (
        f"registry.example.com/{image}:1",
        f"localhost/{image}:1",
        f"registry:5000/{image}@sha256:{'0' * 64}",
    ):
        assert refusal(named) == ""


def test_each_served_namespace_gets_roles_and_accounts_and_only_its_record_is_cluster_wide() -> None:
    documents = render("--set", "watchNamespaces={a,b}")

    def places(kind: str) -> list[tuple[str, str]]:
        found = of_kind(documents, kind)
        return sorted((item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in found)

    for kind in ("Role", "RoleBinding"):
        names = ("eventconsumer-operator", "eventconsumer-spark")
        assert places(kind) == [(place, name) for place in "ab" for name in names]
    accounts = [(place, f"eventconsumer-{name}") for place in "ab" for name in ("host", "spark")]
    assert places("ServiceAccount") == [*accounts, ("home", "eventconsumer-operator")]
    # A record is a ClusterRole, because only administrators of the cluster can write it. It permits to read records.
    records = [("", f"eventconsumer:serves:{place}") for place in "ab"]
    assert places("ClusterRole") == sorted(
        [*records, *(("", f"eventconsumer-{name}") for name in ("editor", "tools", "viewer"))]
    )
    assert places("ClusterRoleBinding") == records
    for role in of_kind(documents, "ClusterRole"):
        name = role["metadata"]["name"]
        if ("", name) in records:
            (rule,) = role["rules"]
            assert (rule["resources"], rule["verbs"]) == (["clusterroles"], ["get"])
            assert rule["resourceNames"] == [name, "eventconsumer:serves-all"]
    for binding in of_kind(documents, "ClusterRoleBinding"):
        assert binding["roleRef"]["name"] == binding["metadata"]["name"]
        assert [each["name"] for each in binding["subjects"]] == ["system:authenticated"]


def test_helm_refuses_a_second_release_for_a_namespace(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    served = ("--set", f"watchNamespaces={{{namespace}}}", "--set", "userRoles.enabled=false,crds.enabled=false")
    record = [each for each in render(*served) if each["metadata"]["name"] == f"eventconsumer:serves:{namespace}"]
    for each in record:  # as `helm install` marks them
        each["metadata"]["annotations"] = each["metadata"].get("annotations", {}) | {
            "meta.helm.sh/release-name": "release",
            "meta.helm.sh/release-namespace": "home",
        }
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(record))

    def install(release: str, home: str) -> str:
        access = ("--kubeconfig", str(cluster.server.kubeconfig()), "--dry-run=server")
        result = helm("install", release, str(CHART), "-n", home, *access, *REQUIRED, *served)
        return result.stderr if result.returncode else ""

    assert install("release", "home") == ""
    assert f'"eventconsumer:serves:{namespace}" in namespace "" exists and cannot be imported' in install(
        "more", "away"
    )


def test_the_served_namespaces_have_no_default() -> None:
    none = ("--set-json", "watchNamespaces=[]")
    refused = helm("template", "release", str(CHART), "-n", "home", "--kube-version", "1.35.0", *REQUIRED, *none)
    assert refused.returncode != 0
    assert "watchNamespaces is empty: name the namespaces" in refused.stderr
    assert "Do not name home, the operator's own namespace" in refused.stderr
    assert render("--set", "scope=Cluster")


def test_the_notes_warn_of_its_own_namespace_and_of_images_without_digest(cluster: Cluster) -> None:
    def notes(*settings: str) -> str:
        # Other tests leave the roles of users, which are in no namespace.
        dry = ("--dry-run=server", "--take-ownership", "--set", "crds.enabled=false")
        access = ("--kubeconfig", str(cluster.server.kubeconfig()))
        result = helm("install", "release", str(CHART), "-n", "home", *access, *dry, *REQUIRED, *settings)
        assert result.returncode == 0, result.stderr
        return result.stdout.partition("NOTES:")[2]

    pinned = ",".join(f"image.{name}=localhost/{name}@sha256:{'0' * 64}" for name in ("operator", "processor", "spark"))
    own = "watchNamespaces names home, the operator's own namespace"
    assert "WARNING" not in notes("--set", pinned)
    assert own in notes("--set", f"{pinned},watchNamespaces={{home,shop}}")
    assert "image.spark has no digest" in notes()
    unread = "recordReaders is empty"
    assert unread not in notes("--set", pinned) and unread in notes("--set-json", "recordReaders=[]")


def test_no_role_reaches_secrets_or_wildcards() -> None:
    roles = of_kind(render(), "Role")
    assert [role["metadata"]["namespace"] for role in roles] == ["shop", "shop"]
    for role in roles:
        for rule in role["rules"]:
            assert not {"*", "secrets", "serviceaccounts/token", "pods/exec", "roles", "nodes"} & set(rule["resources"])
            assert "*" not in rule["verbs"] + rule["apiGroups"]


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
    text = yaml.safe_dump_all(documents)
    for name in ("home", "shop"):
        text = text.replace(f"namespace: {name}", f"namespace: {cluster.namespace()}")
    cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=text)
