"""The reading and steering commands on a real API server, as users with the rights that people have."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventconsumer_api.kube.kinds import Kind
from eventconsumer_cli import completion
from eventconsumer_cli.errors import NotFound, RefusedError
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, POD
from eventconsumer_cli.kube.kubeconfig import connect
from eventconsumer_cli.main import main
from tests.contract.operator.conftest import ROOT, Cluster
from tests.unit.cli.fakes import HEALTHY
from tests.unit.cli.inside import host_pod

STATUS = {
    "observedGeneration": 1,
    "conditions": HEALTHY,
    "hosts": {"desired": 1, "ready": 1},
    "partitions": {"total": 4, "owned": 4, "unowned": 0},
    "lag": {"events": 77, "seconds": 3},
    "table": {"version": 5, "files": 8, "events": 900, "pendingFiles": 2, "pendingEvents": 30},
}
HOST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "orders-host-0",
        "labels": {"eventconsumer.io/consumer": "orders", "app.kubernetes.io/component": "host"},
    },
    "spec": host_pod()["spec"] | {"nodeName": "nowhere"},
}


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """With the example's consumer, and a host pod that no kubelet runs."""
    name = cluster.namespace()
    example = yaml.safe_load((ROOT / "examples/local.yaml").read_text())
    assert cluster.apply(example | {"metadata": {"name": "orders", "namespace": name}}) == ""
    patch = json.dumps({"status": STATUS})
    cluster.kubectl("patch", "evc", "orders", "-n", name, "--subresource=status", "--type=merge", "-p", patch)
    cluster.kubectl("apply", "--server-side", "-n", name, "-f", "-", stdin=json.dumps(HOST))
    running = json.dumps({"status": {"phase": "Running"}})
    cluster.kubectl("patch", "pod", "orders-host-0", "-n", name, "--subresource=status", "--type=merge", "-p", running)
    return name


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


def test_status_as_a_viewer(cluster: Cluster, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(cluster.server.kubeconfig("viewer", namespace))
    assert main(["status", "--kubeconfig", config]) == 0
    assert re.search(r"orders +Ready +orders +1/1 +4/4 +77 +3s", capsys.readouterr().out)
    assert main(["status", "orders", "--kubeconfig", config]) == 0
    said = capsys.readouterr().out
    # There is no kubelet, and a viewer may neither proxy nor forward: what the operator wrote is there all the same.
    assert "77 events in no file" in said and "neither pods/proxy (get) nor pods/portforward (create)" in said
    assert main(["table", "--kubeconfig", config]) == 0
    assert "30 events in 2 files" in (said := capsys.readouterr().out) and "pods/proxy" in said
    assert main(["status", "-A", "-o", "json", "--kubeconfig", config]) == 0
    assert {each["metadata"]["name"] for each in json.loads(capsys.readouterr().out)["items"]} == {"orders"}


def test_hosts_that_cannot_be_asked_are_shown_as_kubernetes_knows_them(
    cluster: Cluster, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(cluster.server.kubeconfig("editor", namespace))
    assert main(["hosts", "--kubeconfig", config]) == 0
    said = capsys.readouterr()
    assert re.search(r"orders-host-0 +no +Running", said.out)
    assert f"pod {namespace}/orders-host-0" in said.err  # may be asked, and does not answer
    assert main(["partitions", "--kubeconfig", config]) == 4
    assert "does not respond" in (told := capsys.readouterr().err) or "is not reachable" in told


def test_suspend_is_an_editors(cluster: Cluster, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    viewer, editor = (str(cluster.server.kubeconfig(user, namespace)) for user in ("viewer", "editor"))
    assert main(["suspend", "orders", "--kubeconfig", viewer]) == 4
    said = capsys.readouterr().err
    assert 'cannot patch resource "eventconsumers"' in said and "ask an administrator" in said
    assert main(["suspend", "orders", "--kubeconfig", editor]) == 0
    found = json.loads(
        cluster.kubectl("get", "evc", "orders", "-n", namespace, "-o", "json", "--show-managed-fields").stdout
    )
    assert found["spec"]["suspend"] is True
    assert "kubectl-eventconsumer" in {each["manager"] for each in found["metadata"]["managedFields"]}
    assert main(["resume", "orders", "--kubeconfig", editor]) == 0


def test_a_user_without_rights_learns_the_missing_right(
    cluster: Cluster, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(cluster.server.kubeconfig("nobody", namespace))
    for words in (["status"], ["status", "orders"], ["partitions"], ["top", "--once"]):
        assert main([*words, "--kubeconfig", config]) == 4
        assert 'User "nobody" cannot' in capsys.readouterr().err


def test_the_cluster_as_commands_use_it(cluster: Cluster, namespace: str) -> None:
    found = connect(cluster.server.kubeconfig(namespace=namespace))
    assert found.namespace == namespace
    assert [each["kind"] for each in found.list(POD, namespace, HOST["metadata"]["labels"])] == ["Pod"]
    assert found.list(POD, namespace, {"no": "such"}) == []
    example = found.get(EVENT_CONSUMER, namespace, "orders")
    other = {key: example[key] for key in ("apiVersion", "kind", "spec")}
    other["metadata"] = {"name": "other", "namespace": namespace}
    assert found.create(EVENT_CONSUMER, other, dry_run=True)["metadata"]["name"] == "other"
    with pytest.raises(NotFound):
        found.get(EVENT_CONSUMER, namespace, "other")
    found.create(EVENT_CONSUMER, other)
    with pytest.raises(RefusedError, match="already exists"):
        found.create(EVENT_CONSUMER, other)
    with pytest.raises(RefusedError, match="replicas is required"):
        found.merge(EVENT_CONSUMER, namespace, "other", {"spec": {"scaling": {"mode": "Fixed"}}})
    found.delete(EVENT_CONSUMER, namespace, "other")
    found.delete(EVENT_CONSUMER, namespace, "other")
    with pytest.raises(NotFound, match="does not serve"):
        found.list(Kind("eventconsumer.io/v1alpha1", "Nothing", "nothings"), namespace)


def test_lists_of_several_pages_are_whole(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventconsumer_cli.kube.client._PAGE", 2)
    name = cluster.namespace()
    for number in range(5):
        cluster.kubectl("create", "configmap", f"map-{number}", "-n", name)
    found = connect(cluster.server.kubeconfig(namespace=name)).list(Kind("v1", "ConfigMap", "configmaps"), name)
    assert {f"map-{number}" for number in range(5)} <= {each["metadata"]["name"] for each in found}


def test_completion_asks_the_cluster(
    cluster: Cluster, namespace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.server.kubeconfig("nobody")))
    config = str(cluster.server.kubeconfig())
    for variable in ("_KUBECTL_EVENTCONSUMER_COMPLETE", "_TYPER_COMPLETE_FISH_ACTION", "_TYPER_COMPLETE_ARGS"):
        monkeypatch.setenv(variable, "")
    assert completion.main(["status", "--kubeconfig", config, "-n", namespace, "or"]) == 0
    assert capsys.readouterr().out == "orders\n:4\n"
    assert completion.main(["status", "--kubeconfig", config, "-n", namespace[:-1]]) == 0
    assert namespace in capsys.readouterr().out.splitlines()
    assert completion.main(["status", "or"]) == 0  # without rights: nothing, and no error
    said = capsys.readouterr()
    assert said.out.strip() == ":4" and said.err == ""


def test_a_cluster_that_is_not_trusted(tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    config = yaml.safe_load(cluster.server.kubeconfig().read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    assert main(["status", "--kubeconfig", str(tmp_path / "config")]) == 4
    assert f"the certificate of the cluster at {cluster.server.url} is not trusted" in capsys.readouterr().err
