"""The documentation against a real API server: commands that prepare a cluster are run, manifests are accepted."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.kube import labels
from tests.contract.operator.conftest import Cluster
from tests.docs.test_commands import check_kubectl
from tests.support.apiserver import find_binary
from tests.support.chart import SERVED, VALUES_FILE
from tests.support.manifests import YAML, documents, whole

ROOT = Path(__file__).parents[3]
INSTALL = (ROOT / "docs/how-to/install.md").read_text()


def commands(text: str, start: str) -> list[list[str]]:
    """The kubectl commands of the code block that follows a text, without the program's name."""
    block = re.search(r"(?:^    .+\n?)+", text[text.index(start) :], re.MULTILINE)
    assert block is not None
    joined = re.sub(r"\\\n\s*", " ", block[0])
    found = [shlex.split(line) for line in joined.splitlines()]
    assert all(command[0] == "kubectl" for command in found)
    return [command[1:] for command in found]


def test_in_cluster_scope_spark_gets_its_account_and_its_rights_by_hand(cluster: Cluster) -> None:
    cluster.install_chart("operator-system", "scope=Cluster")
    shop, other = cluster.namespace(), cluster.namespace()
    account = f"system:serviceaccount:{shop}:{labels.SPARK_SERVICE_ACCOUNT}"

    def may(verb: str, resource: str, namespace: str) -> bool:
        asked = ("auth", "can-i", verb, resource, "-n", namespace, f"--as={account}")
        return cluster.kubectl(*asked, check=False).stdout.strip() == "yes"

    assert not may("create", "pods", shop)
    for command in commands(INSTALL, "With `scope=Cluster`"):
        cluster.kubectl(*(word.replace("<namespace>", shop) for word in command))
    cluster.kubectl("get", "serviceaccount", labels.SPARK_SERVICE_ACCOUNT, "-n", shop)
    for right in ("create pods", "deletecollection pods", "create services", "get configmaps"):
        assert may(*right.split(), shop), right
    assert not may("create", "pods", other)
    assert not may("get", "secrets", shop)
    assert not may("create", "jobs.batch", shop)
    # The server is shared, and others test what the operator may not do.
    cluster.kubectl("delete", "clusterrolebinding", "eventconsumer-operator")


@pytest.mark.parametrize("served", [SERVED, ("--set", "scope=Cluster")], ids=["namespaces", "cluster"])
def test_each_command_in_the_words_after_helm_install_is_a_line_of_its_own(
    cluster: Cluster, served: tuple[str, ...]
) -> None:
    chart = ROOT / "helm/eventconsumer"
    flags = ("--namespace", "home", "-f", VALUES_FILE, *served, "--set", "statusPage.enabled=true,crds.enabled=false")
    shown = subprocess.run(
        [find_binary("helm"), "install", "release", chart, "--dry-run=client", "--take-ownership", *flags],
        env=os.environ | {"KUBECONFIG": str(cluster.server.kubeconfig())},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.partition("NOTES:\n")[2]
    found = [line for line in shown.splitlines() if line.startswith("  ")]
    assert len(found) == 4, shown
    for line in found:
        subprocess.run(["bash", "-n", "-c", line], check=True)
        words = shlex.split(line)
        assert words[0] == "kubectl"
        assert not re.search(r"\s{2,}|\bkubectl\b.*\bkubectl\b", line.strip()), f"a command and more: {line}"
        check_kubectl(words)
        # kubectl itself accepts the options: the answer is about the file or the service, not about its use
        answer = cluster.kubectl(*words[1:], "--request-timeout=5s", check=False)
        assert "unknown" not in answer.stderr and "Usage" not in answer.stderr, answer.stderr
    assert "kubectl" not in "".join(line for line in shown.splitlines() if not line.startswith("  ")).replace(
        "`kubectl eventconsumer init`", ""
    )


def consumers() -> list[Any]:
    """The EventConsumers of the documentation and of examples/, whole ones and parts of a spec."""
    found = []
    for block in YAML:
        for document in documents(block):
            name = f"{block.page.stem}-{block.line}".lower().replace("_", "-")
            if document.get("kind") == "EventConsumer":
                spec = document["spec"]  # as it is copied
            elif document.keys() == {"spec"}:
                spec = whole(document["spec"])
            else:
                continue
            manifest = {
                "apiVersion": "eventconsumer.io/v1alpha1",
                "kind": "EventConsumer",
                "metadata": {"name": name, "namespace": "default"},
            }
            found.append(pytest.param(manifest | {"spec": spec}, id=str(block)))
    return found


@pytest.mark.parametrize("manifest", consumers())
def test_the_api_server_accepts_every_consumer_of_the_documentation(cluster: Cluster, manifest: dict[str, Any]) -> None:
    assert cluster.apply(manifest, dry_run=True) == ""


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_kubectl_applies_every_example_as_copied(cluster: Cluster, example: Path) -> None:
    applied = cluster.kubectl("apply", "--dry-run=server", "-n", "default", "-f", str(example), check=False)
    assert applied.returncode == 0 and "Warning" not in applied.stderr, applied.stderr
