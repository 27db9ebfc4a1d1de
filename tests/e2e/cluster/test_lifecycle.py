"""The local cluster itself: the environment of pods, and complete removal, also after the cluster was killed.

Runs before the other end-to-end tests (its folder sorts first) and only if no cluster runs, because it removes its own
cluster.
"""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local_cluster import procfs, sweep
from local_cluster.cluster import Cluster
from local_cluster.errors import CommandFailed
from local_cluster.layout import Layout, Network
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.timeout(1800)
LAYOUT, NETWORK = Layout.from_environment(), Network()

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe", "namespace": "probe", "labels": {"app": "probe"}},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "probe",
                "command": ["tini", "--", "python3", "-m", "http.server", "8080", "--directory", "/secret"],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
                "volumeMounts": [{"name": "secret", "mountPath": "/secret"}],
            }
        ],
        "volumes": [{"name": "secret", "secret": {"secretName": "probe"}}],
    },
}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "probe", "labels": RESTRICTED}}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "door", "namespace": "probe"},
    "spec": {"selector": {"app": "probe"}, "ports": [{"port": 80, "targetPort": 8080}]},
}


def secret(value: str) -> dict[str, Any]:
    metadata = {"name": "probe", "namespace": "probe"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"value": value}}


@dataclass(frozen=True)
class Traces:
    """The objects of a cluster on the machine, while it runs or afterwards."""

    processes: list[str]
    mounts: list[str]
    rules: list[str]
    interfaces: list[str]

    @classmethod
    def look(cls) -> "Traces":
        programs = {component.argv[0].rsplit("/", 1)[-1] for component in Cluster(LAYOUT, NETWORK).components}
        own = sweep.own_processes(procfs.all_processes(), LAYOUT.live, programs)
        rules = "".join(command("iptables-save") + command("ip6tables-save"))
        links = json.loads(command("ip", "-json", "link"))
        return cls(
            processes=[process.program for process in own if process.state != "Z"],
            mounts=sweep.mounts_below(Path("/proc/self/mountinfo").read_text(), LAYOUT.state),
            rules=re.findall(r"(?m)^:(?:KUBE|EVENTCONSUMER)\S*", rules),
            interfaces=[link["ifname"] for link in links if link["ifname"].startswith(("veth", NETWORK.interface))],
        )


def command(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def local_cluster(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "local_cluster", *arguments], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def wait_for(condition: str) -> None:
    Cluster(LAYOUT, NETWORK).kubectl(
        "wait", "-n", "probe", "pod/probe", f"--for={condition}", f"--timeout={HANG_SECONDS:.0f}s"
    )


def apply(*objects: dict[str, Any]) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    Cluster(LAYOUT, NETWORK).kubectl("apply", "-f", "-", stdin=json.dumps(items))


def start_probe() -> None:
    image = json.loads(subprocess.check_output([sys.executable, "-m", "local_cluster", "images", "emulator"]))[
        "emulator"
    ]
    pod = json.loads(json.dumps(POD))
    pod["spec"]["containers"][0]["image"] = image
    apply(NAMESPACE, secret("one"), SERVICE, pod)
    wait_for("condition=Ready")


def in_pod(program: str) -> str:
    return Cluster(LAYOUT, NETWORK).kubectl("exec", "-n", "probe", "probe", "--", "python3", "-c", program)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A new cluster with one pod; always removed at the end."""
    cluster = Cluster(LAYOUT, NETWORK)
    if cluster.runs():
        pytest.skip("a cluster runs on this machine; these tests would end it (`make demo-down` first)")
    local_cluster("up")
    try:
        local_cluster("build", "emulator")
        start_probe()
        yield cluster
    finally:
        local_cluster("down")


def test_up_again_changes_nothing(cluster: Cluster) -> None:
    before = cluster.processes.alive()
    local_cluster("up")
    assert cluster.processes.alive() == before


def test_a_restricted_pod_resolves_names_and_reaches_services_and_nothing_else(cluster: Cluster) -> None:
    assert in_pod("import socket; print(socket.gethostbyname('door.probe.svc.cluster.local'))").startswith("10.201.1.")
    assert in_pod("import urllib.request as u; print(u.urlopen('http://door/value', timeout=5).read())") == "b'one'\n"
    for unreachable in ("http://example.com", "http://198.51.100.1"):
        program = f"""
import urllib.request
try: urllib.request.urlopen("{unreachable}", timeout=5)
except OSError as error: print(type(error.reason).__name__)
"""
        assert in_pod(program).strip() in {"gaierror", "OSError"}, unreachable


def test_a_privileged_pod_is_refused_in_a_restricted_namespace(cluster: Cluster) -> None:
    pod = {"name": "root", "namespace": "probe"}
    spec = {"containers": [{"name": "root", "image": "x", "securityContext": {"privileged": True}}]}
    with pytest.raises(CommandFailed, match="violates PodSecurity"):
        apply({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": spec})


def test_logs_and_port_forward(cluster: Cluster) -> None:
    kubectl = [str(cluster.tools.path("kubectl")), f"--kubeconfig={LAYOUT.kubeconfig}", "-n", "probe"]
    forward = subprocess.Popen([*kubectl, "port-forward", "pod/probe", ":8080"], stdout=subprocess.PIPE, text=True)
    try:
        assert forward.stdout is not None
        address = re.search(r"127\.0\.0\.1:\d+", forward.stdout.readline())
        assert address is not None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{address[0]}/value", timeout=10) as answer:
            assert answer.read() == b"one"
    finally:
        forward.terminate()
        forward.communicate(timeout=10)
    assert "GET /value" in cluster.kubectl("logs", "-n", "probe", "probe")


def test_a_changed_secret_reaches_the_pod_in_seconds(cluster: Cluster) -> None:
    apply(secret("two"))
    wait_until(lambda: in_pod("print(open('/secret/value').read())").strip() == "two", "the pod reads the new Secret")


def test_lost_processes_come_back_and_objects_stay(cluster: Cluster) -> None:
    before = cluster.processes.alive()
    lost = {"kubelet", "containerd", "kube-apiserver"}
    for name in lost:
        os.kill(before[name].pid, signal.SIGKILL)
    assert f"{len(before) - len(lost)} of {len(before)} processes run" in local_cluster("up")
    after = cluster.processes.alive()
    assert {name for name in before if before[name] != after[name]} == lost
    # The new kubelet first has to learn of its pods.
    wait_until(lambda: "still here" in in_pod("print('still here')"), "the pod answers", retried=CommandFailed)
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    assert cluster.kubectl("get", "-n", "probe", "pod/probe", "-o", restarts) == "0"


@pytest.mark.parametrize(
    "containers_die",
    [pytest.param(False, marks=pytest.mark.long, id="containers-survive"), pytest.param(True, id="containers-die")],
)
def test_a_dead_cluster_is_removed_and_started_again(cluster: Cluster, *, containers_die: bool) -> None:
    if not cluster.kubectl("get", "namespace", "probe", "--ignore-not-found"):
        start_probe()
    victims = [record.identity for record in cluster.processes.alive().values()]
    if containers_die:  # as when a virtual machine's session ends: mounts, namespaces and rules stay, no process does
        shims = sweep.own_processes(procfs.all_processes(), LAYOUT.live, [])
        roots = [shim.identity for shim in shims]
        victims += roots + [process.identity for process in procfs.descendants(roots, procfs.all_processes())]
    for victim in victims:
        procfs.send(victim, signal.SIGKILL)
    wait_until(lambda: not any(procfs.is_alive(victim) for victim in victims), "the killed processes end", pause=0.05)
    left = Traces.look()
    assert left.mounts
    assert left.rules
    assert bool(left.processes) is not containers_die
    local_cluster("up")
    assert cluster.runs()
    assert cluster.kubectl("get", "namespace", "probe", "--ignore-not-found") == ""
    assert "containerd-shim-runc-v2" not in Traces.look().processes


def test_down_leaves_no_trace(cluster: Cluster) -> None:
    start_probe()
    running = Traces.look()
    assert running.processes
    assert running.mounts
    assert running.rules
    assert running.interfaces
    local_cluster("down")
    assert Traces.look() == Traces([], [], [], [])
    assert not LAYOUT.live.exists()
    assert not LAYOUT.kubeconfig.exists()
