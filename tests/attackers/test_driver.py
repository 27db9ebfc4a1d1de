"""A Spark driver with executors that was taken over: it has the token of `eventconsumer-spark` in one namespace."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attackers.outcome import Gained, Outcome, Refused
from tests.contract.operator.conftest import Cluster, start_cluster
from tests.support.fakes.kubernetes import event_consumer
from tests.unit.operator.worlds import SPEC

SERVED, OTHER = "shop", "payroll"
DRIVER = f"system:serviceaccount:{SERVED}:eventconsumer-spark"
SECRET = "keys"  # noqa: S105 - a name
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "thief"},
    "spec": {"containers": [{"name": "thief", "image": "registry.example.com/evil:1"}]},
}
ALL = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "thief"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "eventconsumer-spark", "namespace": SERVED}],
}
# Each attack: arguments of kubectl, and a manifest for its input.
ATTACKS: dict[str, tuple[tuple[str, ...], dict[str, Any] | None]] = {
    "a Secret of its namespace": (("get", "secret", SECRET, "-n", SERVED), None),
    "all Secrets": (("get", "secrets", "--all-namespaces"), None),
    "a pod of another namespace": (("create", "-n", OTHER, "-f", "-"), POD),
    "a token of the operator": (("create", "token", "eventconsumer-operator", "-n", "operator-system"), None),
    "a token of a host": (("create", "token", "eventconsumer-host", "-n", SERVED), None),
    "the rights of an administrator": (("create", "-f", "-"), ALL),
    "a command in a pod": (("create", "--raw", f"/api/v1/namespaces/{SERVED}/pods/x/exec?command=id", "-f", "-"), {}),
    "a consumer of its own": (
        ("create", "-n", SERVED, "-f", "-"),
        {**event_consumer("thief", SPEC, SERVED), "metadata": {"name": "thief"}},
    ),
    "the nodes": (("get", "nodes"), None),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server with the chart's rights for one served namespace, and another namespace."""
    for found in start_cluster(tmp_path_factory.mktemp("apiserver"), (DRIVER,)):
        for name in (SERVED, OTHER):
            found.kubectl("create", "namespace", name)
            found.kubectl("create", "serviceaccount", "default", "-n", name)
        found.kubectl("create", "secret", "generic", SECRET, "-n", SERVED, "--from-literal=key=value")
        found.install_chart(SERVED)
        yield found


def attack(cluster: Cluster, name: str) -> Outcome:
    """Play an attack with the driver's token; nothing is stored."""
    arguments, manifest = ATTACKS[name]
    dry = ["--dry-run=server"] if arguments[:1] == ("create",) and manifest else []
    stdin = None if manifest is None else json.dumps(manifest)
    done = cluster.kubectl("--as", DRIVER, *arguments, *dry, stdin=stdin, check=False)
    if done.returncode == 0:
        return Gained(done.stdout.strip() or name)
    assert "forbidden" in done.stderr, done.stderr
    return Refused(done.stderr.strip())


@pytest.mark.parametrize("name", ATTACKS)
def test_its_token_gives_access_to_pods_of_its_namespace_only(name: str, cluster: Cluster) -> None:
    assert isinstance(attack(cluster, name), Refused)


def test_what_it_may_do_is_done_with_the_same_token(cluster: Cluster) -> None:
    """The control: where it has the right, the attack gains."""
    pod = ("create", "-n", SERVED, "--dry-run=server", "-f", "-")
    assert cluster.kubectl("--as", DRIVER, *pod, stdin=json.dumps(POD)).stdout.startswith("pod/thief created")
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(ALL))
    try:
        for name in ("a Secret of its namespace", "all Secrets", "a consumer of its own", "the nodes"):
            assert isinstance(attack(cluster, name), Gained), name
    finally:
        cluster.kubectl("delete", "clusterrolebinding", "thief")
