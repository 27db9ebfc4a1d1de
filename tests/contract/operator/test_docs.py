"""The documentation against a real API server: commands that prepare a cluster are run, manifests are accepted."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api import labels
from tests.contract.operator.conftest import Cluster
from tests.support.manifests import YAML, documents, filled, whole

INSTALL = (Path(__file__).parents[3] / "docs/how-to/install.md").read_text()


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


def consumers() -> list[Any]:
    """The EventConsumers of the documentation and of examples/, whole ones and parts of a spec."""
    found = []
    for block in YAML:
        for document in documents(block):
            name = f"{block.page.stem}-{block.line}".lower().replace("_", "-")
            if document.get("kind") == "EventConsumer":
                spec = filled(document["spec"])
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
