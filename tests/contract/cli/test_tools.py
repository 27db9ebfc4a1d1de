"""Pods for tools, rights, and the stored definition on a real API server; no kubelet runs what is made."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.resource.crdgen import custom_resource_definition
from eventconsumer_api.wire.host_config import Credential
from eventconsumer_cli.doctor import rights
from eventconsumer_cli.doctor.findings import Level
from eventconsumer_cli.doctor.installation import DEFINITION_NAME, schema_digest
from eventconsumer_cli.errors import ClusterError, Forbidden, NotFound, RefusedError
from eventconsumer_cli.init.manifest import Answers, host_config, manifest
from eventconsumer_cli.kube import toolpod
from eventconsumer_cli.kube.client import KubernetesCluster
from eventconsumer_cli.kube.exec import KubernetesShell, Sink
from eventconsumer_cli.kube.kinds import DEFINITION, EVENT_CONSUMER, POD, STATEFUL_SET
from eventconsumer_cli.kube.kubeconfig import connect
from eventconsumer_cli.kube.releases import SERVES, SERVES_ALL, Settings, serving
from eventconsumer_cli.kube.toolbox import Toolbox
from eventconsumer_cli.main import main
from tests.contract.operator.conftest import Cluster, rendered_chart
from tests.support.azurite import AzuriteProcess
from tests.support.kubelet import kubelet
from tests.support.waiting import HANG_SECONDS
from tests.unit.cli.inside import hosts_of, resource
from tests.unit.host.stage import CONFIG


class Echo:
    """A shell whose programs print their arguments."""

    def run(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bytes | None,
        out: Sink,
        err: Sink,
    ) -> int:
        out(" ".join(command).encode())
        return 0


class Host:
    """A shell that runs the program of the host image on this machine, as in a pod with this configuration."""

    def __init__(self, config: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = os.environ | {"PATH": path, "EVENTCONSUMER_CONFIG": str(config)}

    def run(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bytes | None,
        out: Sink,
        err: Sink,
    ) -> int:
        ran = subprocess.run(command, input=stdin or b"", capture_output=True, env=self._environment, check=False)
        out(ran.stdout)
        err(ran.stderr)
        return ran.returncode


def as_user(cluster: Cluster, user: str) -> KubernetesCluster:
    return connect(cluster.server.kubeconfig(user))


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A namespace that admits restricted pods only."""
    return cluster.namespace()


@pytest.fixture
def consumer(cluster: Cluster, namespace: str) -> Manifest:
    """A consumer with the StatefulSet that the operator makes for it; no pod of it comes."""
    admin = as_user(cluster, "admin")
    made = resource()
    made["metadata"] = {"name": "orders", "namespace": namespace}
    found = admin.create(EVENT_CONSUMER, made)
    admin.create(STATEFUL_SET, hosts_of(found))
    return found


@pytest.fixture
def started(cluster: Cluster, namespace: str) -> Iterator[None]:
    """A kubelet that starts each pod of the namespace."""
    with kubelet(as_user(cluster, "admin"), namespace):
        yield


@pytest.mark.usefixtures("started")
def test_an_editor_makes_the_pod_uses_it_and_removes_it(cluster: Cluster, namespace: str, consumer: Manifest) -> None:
    editor = as_user(cluster, "editor")
    with Toolbox(editor, Echo()).at(consumer) as tool:
        pod = editor.get(POD, namespace, tool.place.pod)
        assert pod["metadata"]["ownerReferences"][0]["uid"] == consumer["metadata"]["uid"]
        assert tool.run(["lag"]).output == b"eventconsumer lag"
    # No kubelet confirms a deletion here, so one that is asked for counts.
    deadline = time.monotonic() + HANG_SECONDS
    while not all("deletionTimestamp" in pod["metadata"] for pod in editor.list(POD, namespace)):
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.usefixtures("started", "consumer")
@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (("leases", "orders", "-o", "json"), 1, '"leases": []', "no leases in container"),
        (("adopt", "orders", "--yes"), 1, "", "no chain of files at"),
        (("checkpoint", "import", "-f", __file__, "-y"), 3, "", "is not an export of checkpoints"),
    ],
)
def test_a_command_reaches_the_program_of_the_image(
    cluster: Cluster,
    namespace: str,
    azurite: AzuriteProcess,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    out: str,
    err: str,
) -> None:
    hub = "Endpoint=sb://none.example/;SharedAccessKeyName=a;SharedAccessKey=a2V5"
    (tmp_path / "hub").write_text(hub)
    (tmp_path / "x").write_text(azurite.connection_string)
    monkeypatch.chdir(tmp_path)
    made = json.loads(json.dumps(CONFIG | {"allowInsecureEndpoints": True}))
    made["eventHub"]["credential"]["connectionStringFile"] = "hub"
    made["leases"]["location"]["container"] = made["sink"]["container"] = azurite.container()
    config = tmp_path / "config.json"
    config.write_text(json.dumps(made))
    monkeypatch.setattr("eventconsumer_cli.hosttool.shell_of", lambda _: Host(config))
    assert main([*words, "--kubeconfig", str(cluster.server.kubeconfig("editor")), "-n", namespace]) == code
    seen = capsys.readouterr()
    assert out in seen.out and err in seen.err


def test_the_pod_of_a_configuration_is_admitted_where_pods_are_restricted(cluster: Cluster, namespace: str) -> None:
    made = manifest(Answers("orders", namespace, "orders", hub_secret="a", storage_secret="b"))
    config = host_config(made, Settings(processor_image="i", host_service_account="default"))
    pod = toolpod.of_config(namespace, config, image="i", service_account="default", suffix="x", seconds=60)
    assert as_user(cluster, "editor").create(POD, pod, dry_run=True)["metadata"]["name"] == "eventconsumer-tool-x"


def test_the_pod_that_is_like_a_driver_is_admitted_where_pods_are_restricted(
    cluster: Cluster, namespace: str, consumer: Manifest
) -> None:
    credential = Credential(field="f", secret="registry", key="basic", connection_string_file="x")
    pod = toolpod.of_driver(consumer, "spark:1", credential, proxy=None, suffix="x", seconds=60)
    pod["spec"]["serviceAccountName"] = "default"  # the chart makes that of drivers
    assert as_user(cluster, "editor").create(POD, pod, dry_run=True)["metadata"]["name"] == "orders-tool-x"


def test_programs_in_pods_need_a_right_and_a_node(cluster: Cluster, namespace: str, consumer: Manifest) -> None:
    with (
        pytest.raises(Forbidden, match=f"pods: create is forbidden for you in namespace {namespace}"),
        Toolbox(as_user(cluster, "viewer"), Echo()).at(consumer),
    ):
        pass
    pod = toolpod.of_consumer(consumer, hosts_of(consumer), "x", 60)
    as_user(cluster, "admin").create(POD, pod)
    name = pod["metadata"]["name"]

    def run(user: str, pod: str) -> int:
        shell = KubernetesShell(as_user(cluster, user).client)
        return shell.run(namespace, pod, "tool", ["true"], stdin=None, out=len, err=len)

    with pytest.raises(Forbidden, match=f"pods/exec is forbidden for you in namespace {namespace}"):
        run("viewer", name)
    with pytest.raises(NotFound, match="no longer exists"):
        run("editor", "none")
    with pytest.raises(ClusterError, match=f"cannot start a program in pod {namespace}/{name}"):
        run("editor", name)


def test_rights_match_the_roles(cluster: Cluster, namespace: str) -> None:
    consumers = "eventconsumers.eventconsumer.io"
    pods = ("create pods", "delete pods", "create pods/exec", "get pods/exec")
    for user, missing in (("editor", set()), ("viewer", {f"patch {consumers}", f"create {consumers}", *pods})):
        asked = as_user(cluster, user)
        lacks = {str(right) for right in rights.NEEDED if not rights.is_allowed(asked, right, namespace)}
        assert lacks == missing, user
        bad = [each for each in rights.look(asked, namespace) if each.level is not Level.OK]
        assert bool(bad) is bool(missing)


def test_any_user_finds_the_release_of_a_namespace_unless_two_claim_it(cluster: Cluster, namespace: str) -> None:
    def apply(values: str) -> str:
        names = {SERVES + namespace, SERVES_ALL}
        chart = [each for each in yaml.safe_load_all(rendered_chart(values)) if each]
        text = yaml.safe_dump_all([each for each in chart if each["metadata"]["name"] in names])
        cluster.kubectl("apply", "-f", "-", stdin=text)
        return text

    nobody = as_user(cluster, "nobody")
    with pytest.raises(Forbidden, match=f"no record that you may read names a release for namespace {namespace}"):
        serving(nobody, namespace)
    apply(f"watchNamespaces={{{namespace}}}")
    deadline = time.monotonic() + HANG_SECONDS
    asked = ("auth", "can-i", "get", f"clusterroles.rbac.authorization.k8s.io/{SERVES_ALL}", "--as=nobody")
    while cluster.kubectl(*asked, check=False).stdout.strip() != "yes":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    found = serving(nobody, namespace)
    assert (found.record, found.namespace) == (SERVES + namespace, "operator-system")
    second = apply("scope=Cluster")
    try:
        with pytest.raises(RefusedError, match=f"several releases claim namespace {namespace}: .*{SERVES_ALL}"):
            serving(nobody, namespace)
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=second)


def test_the_stored_definition_has_the_schema_of_this_version(cluster: Cluster) -> None:
    stored = as_user(cluster, "admin").get(DEFINITION, "", DEFINITION_NAME)
    assert schema_digest(stored) == schema_digest(custom_resource_definition())


def test_init_is_judged_by_the_api_server(
    cluster: Cluster, namespace: str, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    options = ("--kubeconfig", str(cluster.server.kubeconfig("editor")), "-n", namespace, "--no-check", "-o", "json")
    secrets = ("--hub-secret", "a", "--storage-secret", "b")
    assert main(["init", "orders", *secrets, *options, "-f", str(tmp_path / "good")]) == 0
    seen = capsys.readouterr()
    assert "the API server would accept it" in seen.err
    made = json.loads(seen.out)
    as_user(cluster, "editor").create(EVENT_CONSUMER, made)
    assert main(["init", "orders", *secrets, *options, "-f", str(tmp_path / "again")]) == 2
    assert "already exists" in capsys.readouterr().err
