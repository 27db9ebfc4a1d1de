"""The stage of a campaign: the local cluster, two consumers, and the means to disturb their parts.

Hub and storage are reached by the addresses of their Services, not by a port-forward of kubectl: these connections do
not depend on the API server. The control plane's processes are found, frozen and killed by the local cluster's own
records, and started again by its own `up`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from eventconsumer_api.wire.host_report import HostReport
from eventconsumer_demo import run
from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError
from eventhubs_emulator.admin_client import AdminClient
from local_cluster import procfs
from local_cluster.cluster import Cluster as LocalCluster
from local_cluster.layout import Layout, Network
from local_cluster.procfs import Identity
from tests.chaos.orders import COLUMNS
from tests.chaos.schedule import NoTarget, Undo
from tests.chaos.storage import Storage
from tests.e2e.conftest import NAMESPACE, ROOT
from tests.e2e.consumers import GOOD_NAMESPACE, consumer, create_secrets
from tests.support.podprocesses import processes

PARTITIONS = 6
HOSTS = 2
KUBECTL_SECONDS = 12.0
REPORT_SECONDS = 5.0
REPAIR_SECONDS = 150.0
OPERATOR = "eventconsumer-operator"
ROOT_POLICY = ("RootManageSharedAccessKey", run.HUB_KEY, ["Manage"])


@dataclass(frozen=True)
class Options:
    """Settings of the consumers.

    Attributes:
        idle_timeout: spec.spark.idleTimeoutSeconds; 0 with `in_flight` above 1.
        in_flight: spec.spark.batch.inFlight.
        launcher: spec.spark.launcher.
    """

    idle_timeout: int = 600
    in_flight: int = 1
    launcher: str = "Native"


def resource(name: str, campaign: str, options: Options) -> dict[str, Any]:
    """A consumer with table and Spark as in the demo, with small files and batches; its hub has its name.

    Args:
        name: Of the consumer, its hub, its Secrets, its prefix in the container and its output.
        campaign: Name of the campaign; all its consumers share the containers <campaign>-sink and <campaign>-leases.
        options: Settings of Spark.
    """
    found = consumer(name)
    spec = found["spec"]
    spec["scaling"] = {"mode": "Fixed", "replicas": HOSTS}
    spec["checkpointStore"]["container"] = f"{campaign}-leases"
    spec["sink"] |= {"container": f"{campaign}-sink", "prefix": name, "roll": {"maxSeconds": 3}}
    spark = yaml.safe_load(run.RESOURCE.read_text())["spec"]["spark"] | {
        "trigger": {"files": 60, "ageSeconds": 15},
        "launcher": options.launcher,
        "retry": {"attempts": 3, "backoffSeconds": 1, "maxBackoffSeconds": 10},
    }
    if options.in_flight > 1:
        spark |= {"idleTimeoutSeconds": 0, "batch": {"inFlight": options.in_flight}}
    else:
        spark["idleTimeoutSeconds"] = options.idle_timeout
    spark["output"]["path"] = spark["output"]["path"].rpartition("/")[0] + f"/{name}"
    spec["spark"] = spark
    return found


def demo_cluster() -> Cluster:
    """The cluster of `make demo`.

    Raises:
        SystemExit: It does not run, or lacks a part.
    """
    local = LocalCluster(Layout.from_environment(), Network())
    if not local.runs():
        raise SystemExit("the local cluster does not run, or a part of it is missing: start it with `make demo`")
    return Cluster(NAMESPACE, path=str(local.layout.bin), kubeconfig=local.layout.kubeconfig)


@dataclass
class CampaignStage:
    """The consumers of a campaign, and what a fault needs.

    Attributes:
        cluster: kubectl, as administrator.
        name: Name of the campaign; consumers and containers begin with it.
        options: Settings of the consumers.
        admin: Admin API of the emulator.
        storage: Files and leases of the consumers.
        manifests: The resource of each consumer, by name.
        partitions: Number of partitions of each consumer's hub.
    """

    cluster: Cluster
    name: str
    options: Options
    admin: AdminClient
    storage: Storage
    manifests: dict[str, dict[str, Any]] = field(init=False)
    partitions: dict[str, int] = field(init=False)
    _local: LocalCluster = field(init=False)
    _policies: dict[str, str] = field(default_factory=dict)  # name -> key

    def __post_init__(self) -> None:
        self._local = LocalCluster(Layout.from_environment(), Network())
        names = [f"{self.name}-{letter}" for letter in "ab"]
        self.manifests = {name: resource(name, self.name, self.options) for name in names}
        self.manifests[names[0]]["spec"]["sink"]["body"] = {"type": "Json", "columns": COLUMNS}
        self.partitions = dict.fromkeys(names, PARTITIONS)

    @classmethod
    def of(cls, cluster: Cluster, name: str, options: Options) -> CampaignStage:
        """The stage of a campaign in the demo's cluster.

        Raises:
            SystemExit: The emulator or Azurite is not there.
        """
        hub, storage = (
            address(cluster, run.HUB_NAMESPACE, "eventhubs"),
            address(cluster, run.BLOB_NAMESPACE, run.ACCOUNT),
        )
        without_proxy(hub, storage)
        connection = run.storage_connection_string(f"http://{storage}:{run.BLOB_PORT}/{run.ACCOUNT}")
        admin = AdminClient(f"http://{hub}:8081")
        return cls(cluster, name, options, admin, Storage(connection, f"{name}-sink", f"{name}-leases"))

    @property
    def consumers(self) -> list[str]:
        """Names of the consumers."""
        return list(self.manifests)

    @property
    def pod_logs(self) -> Path:
        """The kubelet's folder of pod logs."""
        return self._local.layout.live / "pod-logs"

    # Begin and end

    def open(self) -> None:
        """Create hubs, Secrets and consumers; end faults that a killed campaign has left."""
        self.thaw()
        self.admin.clear_faults()
        for name, manifest in self.manifests.items():
            self.admin.create_hub(name, partitions=PARTITIONS)
            create_secrets(self.cluster, name)
            self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def close(self) -> None:
        """Remove consumers, Secrets and hubs; files and tables stay until `make demo` starts an empty storage."""
        self.admin.set_policies(ROOT_POLICY)
        for name in self.consumers:
            self.cluster.kubectl("delete", "eventconsumer", name, "--ignore-not-found")
            self.cluster.kubectl("delete", "secret", f"{name}-hub", f"{name}-storage", "--ignore-not-found")
            with contextlib.suppress(Exception):  # its links are detached; a hub that is gone is no problem
                self.admin.delete_hub(name)

    # Kubernetes

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """kubectl with a short timeout, for the API server may be frozen.

        Raises:
            DemoError: It failed.
        """
        timeout = f"--request-timeout={KUBECTL_SECONDS - 3:.0f}s"
        return self.cluster.kubectl(timeout, *arguments, stdin=stdin, timeout=KUBECTL_SECONDS)

    def get(self, *what: str) -> dict[str, Any]:
        """`kubectl get … -o json`."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *what, "-o", "json"))
        return found

    def statuses(self) -> dict[str, dict[str, Any]]:
        """The status of each resource of the namespace, by name; one request."""
        path = f"/apis/eventconsumer.io/v1alpha1/namespaces/{self.cluster.namespace}/eventconsumers"
        items = json.loads(self.kubectl("get", "--raw", path))["items"]
        return {each["metadata"]["name"]: each.get("status", {}) for each in items}

    def pods(self, consumer: str, component: str) -> list[str]:
        """Names of the running pods of a component, sorted; without executors."""
        labels = f"eventconsumer.io/consumer={consumer},app.kubernetes.io/component={component},spark-role!=executor"
        return self._running(labels)

    def operators(self) -> list[str]:
        """Names of the operator's running pods."""
        return self._running("app.kubernetes.io/component=operator")

    def _running(self, labels: str) -> list[str]:
        found = self.get("pods", "-l", labels)["items"]
        return sorted(pod["metadata"]["name"] for pod in found if pod["status"].get("phase") == "Running")

    def stand_in(self, namespace: str, application: str) -> str:
        """Name of the pod of the emulator or of Azurite.

        Raises:
            NoTarget: It does not run.
        """
        label = f"app.kubernetes.io/name={application}"
        timeout = ("--namespace", namespace, "--request-timeout=9s")
        text = self.cluster.run("kubectl", *timeout, "get", "pods", "-l", label, "-o", "name", timeout=KUBECTL_SECONDS)
        if not text.strip():
            raise NoTarget(f"no pod of {application}")
        return text.split()[0].removeprefix("pod/")

    def leader(self, consumer: str) -> str:
        """Pod of the leading host.

        Raises:
            NoTarget: No host reports that it leads.
        """
        for pod in self.pods(consumer, "host"):
            path = f"/api/v1/namespaces/{self.cluster.namespace}/pods/{pod}:8080/proxy/status"
            with contextlib.suppress(DemoError):  # the host is frozen, or cut off
                report = self.cluster.kubectl("get", "--raw", path, timeout=REPORT_SECONDS)
                if HostReport.model_validate_json(report).fleet:
                    return pod
        raise NoTarget("no host reports that it leads")

    def delete(self, kind: str, name: str, *options: str) -> None:
        """Delete an object, without waiting for its end.

        Raises:
            NoTarget: There is no such object.
        """
        printed = self.kubectl("delete", kind, name, "--wait=false", "--ignore-not-found", *options)
        if not printed.strip():
            raise NoTarget(f"no {kind} {name}")

    def apply(self, consumer: str) -> None:
        """Apply the resource as at the start of the campaign."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(self.manifests[consumer]))

    def patch(self, consumer: str, spec: dict[str, Any]) -> None:
        """Change the spec of a resource."""
        change = json.dumps({"spec": spec})
        self.kubectl("patch", "eventconsumer", consumer, "--type=merge", "-p", change)

    def secret(self, consumer: str, role: str, value: str) -> None:
        """Write a connection string into the Secret of a role: hub or storage."""
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{consumer}-{role}"},
            "stringData": {"connectionString": value},
        }
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def regenerate_hub_key(self, consumer: str, key: str) -> None:
        """Give the consumer a policy of its own with a new key, as Azure does at a regeneration: the old key ends."""
        self._policies[consumer] = key
        self.admin.set_policies(ROOT_POLICY, *((name, each, ["Listen"]) for name, each in self._policies.items()))

    def hub_connection_string(self, consumer: str) -> str:
        """The valid connection string of the consumer's hub."""
        if consumer not in self._policies:
            return GOOD_NAMESPACE
        name, key, _ = ROOT_POLICY
        return GOOD_NAMESPACE.replace(name, consumer).replace(key, self._policies[consumer])

    # Processes

    def pod_processes(self, pod: str) -> list[Identity]:
        """The processes of a pod.

        Raises:
            NoTarget: None runs on this machine.
        """
        found = [each.identity for pid in processes(pod) if (each := procfs.observe(pid))]
        if not found:
            raise NoTarget(f"no process of {pod} on this machine")
        return found

    def component(self, name: str) -> Identity:
        """The process of a component of the cluster, such as kube-apiserver.

        Raises:
            NoTarget: It does not run.
        """
        found = self._local.processes.alive().get(name)
        if found is None:
            raise NoTarget(f"{name} does not run")
        return found.identity

    def repair(self) -> None:
        """Start the components that have ended, by the cluster's own means, and wait until all are ready.

        Raises:
            RuntimeError: They are not ready.
        """
        result = subprocess.run(
            [sys.executable, "-m", "local_cluster", "up"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=REPAIR_SECONDS,
            check=False,
            start_new_session=True,
        )
        if result.returncode:
            raise RuntimeError(f"`python -m local_cluster up` failed: {result.stderr.strip()[-800:]}")

    def thaw(self) -> None:
        """Continue all processes of the cluster that are stopped."""
        for process in procfs.all_processes():
            if process.state == "T" and str(self._local.layout.live) in " ".join(process.argv):
                procfs.send(process.identity, signal.SIGCONT)
        for pod in self._all_pods():
            send([each.identity for pid in processes(pod) if (each := procfs.observe(pid))], signal.SIGCONT)

    def _all_pods(self) -> list[str]:
        found = json.loads(self.cluster.run("kubectl", "get", "pods", "--all-namespaces", "-o", "json"))["items"]
        return [pod["metadata"]["name"] for pod in found]

    # Network

    def drop_packets(self, pod: str, rule: Sequence[str]) -> Undo:
        """Drop packets that leave a pod; returns the undo, which also works when the pod has ended.

        Args:
            pod: Name of the pod.
            rule: Arguments of iptables that select packets, such as ("-p", "tcp", "--dport", "10000").
        """
        network = os.open(f"/proc/{self.pod_processes(pod)[0].pid}/ns/net", os.O_RDONLY)
        inside = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{network}", "iptables", "-w", "5"]

        def change(operation: str) -> None:
            command = [*inside, operation, "OUTPUT", "!", "-o", "lo", *rule, "-j", "DROP"]
            result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=10)
            if result.returncode:
                raise RuntimeError(f"iptables in the network of {pod} failed: {result.stderr.strip()[-300:]}")

        def undo() -> None:
            change("-D")
            os.close(network)

        try:
            change("-I")
        except RuntimeError:
            os.close(network)
            raise
        return undo


def address(cluster: Cluster, namespace: str, service: str) -> str:
    """The IP address of a Service.

    Raises:
        SystemExit: There is none.
    """
    printed = cluster.run("kubectl", "-n", namespace, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
    if not printed.strip():
        raise SystemExit(f"service {namespace}/{service} has no address: run `make demo` again")
    return printed.strip()


def send(victims: Sequence[Identity], number: signal.Signals) -> int:
    """Signal processes; returns the number of those that still ran."""
    return sum(procfs.send(victim, number) for victim in victims)


def freeze(victims: Sequence[Identity]) -> Undo:
    """Stop processes; returns the undo."""
    send(victims, signal.SIGSTOP)

    def undo() -> None:
        send(victims, signal.SIGCONT)

    return undo


def without_proxy(*addresses: str) -> None:
    """Let this process reach these addresses directly, whatever the environment's proxy is."""
    for variable in ("no_proxy", "NO_PROXY"):
        known = [part for part in os.environ.get(variable, "").split(",") if part]
        os.environ[variable] = ",".join([*known, *addresses])
