"""A cluster in which programs of the host image run: pods start, programs answer what a test says."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_cli.errors import NotFound
from eventconsumer_cli.kube.exec import Sink
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, POD, STATEFUL_SET
from eventconsumer_cli.kube.releases import ANNOTATION
from eventconsumer_operator.plan.config import host_config
from eventconsumer_operator.plan.hosts import stateful_set
from eventconsumer_operator.resource.observed import consumer_from
from eventconsumer_operator.resource.spec import parse_spec
from eventconsumer_operator.settings import Settings
from tests.unit.cli.fakes import FakeCluster

SETTINGS = Settings(namespaces=("shop",), processor_image="processor:1", spark_image="spark:1")
SECRET = {"connectionStringSecretRef": {"name": "orders-hub", "key": "connectionString"}}
STORAGE = {"connectionStringSecretRef": {"name": "orders-storage", "key": "connectionString"}}
SPEC: dict[str, Any] = {
    "eventHub": {"name": "orders", "consumerGroup": "$Default", "authentication": SECRET},
    "checkpointStore": {"container": "leases", "authentication": STORAGE},
    "sink": {"container": "drained", "authentication": STORAGE},
}

HANDLER: dict[str, Any] = {
    "handler": "shop:Shop",
    "image": "shop:1",
    "env": [
        {"name": "APP_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}}},
        {"name": "APP_A", "valueFrom": {"configMapKeyRef": {"name": "more", "key": "a", "optional": True}}},
    ],
    "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "shop"}}],
    "volumes": [
        {"mountPath": "/config/shop", "configMap": {"name": "shop", "items": [{"key": "shop.toml", "path": "a"}]}}
    ],
}


_TOOLS = (labels.COMPONENT_TOOL, labels.COMPONENT_SPARK_TOOL)


@dataclass(frozen=True)
class Call:
    """One program that was run."""

    pod: str
    container: str
    command: tuple[str, ...]
    stdin: bytes | None


class Inside(FakeCluster):
    """A cluster whose pods run `program`: it gets the command and stdin, and gives exit code, stdout and stderr."""

    def __init__(self, program: Callable[[Sequence[str], bytes | None], tuple[int, str, str]] | None = None) -> None:
        super().__init__()
        self.program = program or (lambda command, stdin: (0, "", ""))
        self.calls: list[Call] = []
        self.made: list[Manifest] = []
        self.start: dict[str, Any] = {"phase": "Running", "containerStatuses": [_state({"running": {}})]}

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        made = super().create(kind, manifest, dry_run=dry_run)
        if kind == POD and not dry_run:
            self.made.append(manifest)
            self.objects["pods", manifest["metadata"]["namespace"], manifest["metadata"]["name"]]["status"] = self.start
        return made

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
        """See `eventconsumer_cli.kube.exec.Shell`."""
        self._allow("pods/exec")
        if ("pods", namespace, pod) not in self.objects:
            raise NotFound(f"pod {pod} not found")
        words = list(command)
        if words[0] == "env":
            words = words[next(index for index, word in enumerate(words[1:], 1) if "=" not in word) :]
        self.calls.append(Call(pod, container, tuple(words), stdin))
        code, printed, said = self.program(words, stdin)
        out(printed.encode())
        err(said.encode())
        return code

    @property
    def tool_pods(self) -> list[str]:
        """Names of the pods that were made for commands and are there."""
        return [
            name
            for (plural, _, name), each in self.objects.items()
            if plural == "pods" and each["metadata"]["labels"].get(labels.LABEL_COMPONENT) in _TOOLS
        ]


def _state(state: dict[str, Any], name: str = labels.COMPONENT_TOOL) -> dict[str, Any]:
    return {"name": name, "state": state}


def resource(**spec: Any) -> Manifest:
    """The consumer `shop/orders`."""
    return {
        "apiVersion": "eventconsumer.io/v1alpha1",
        "kind": "EventConsumer",
        "metadata": {"name": "orders", "namespace": "shop", "uid": "uid-of-orders", "resourceVersion": "1"},
        "spec": SPEC | spec,
    }


def record(
    name: str = "eventconsumer:serves:shop",
    namespace: str = "operators",
    own: str = version("eventconsumer-cli"),
    **settings: object,
) -> Manifest:
    """The record of a release in a namespace, with the image of `SETTINGS`."""
    said = {"version": 1, "processorImage": "processor:1", "hostServiceAccount": "eventconsumer-host"} | settings
    annotations = {f"{ANNOTATION}{namespace}": json.dumps(said)}
    labels = {"app.kubernetes.io/version": own}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "rules": []}


def hosts_of(consumer: Manifest) -> Manifest:
    """The StatefulSet that the operator makes for it."""
    found, spec = consumer_from(consumer), parse_spec(consumer["spec"])
    return stateful_set(found, spec, host_config(found, spec, SETTINGS), 1, SETTINGS.processor_image)


def host_pod(name: str = "orders-host-0", *, ready: bool = True, owner: str = "orders-host") -> Manifest:
    """A pod of that StatefulSet."""
    template = hosts_of(resource())["spec"]["template"]
    metadata = template["metadata"] | {
        "name": name,
        "namespace": "shop",
        "ownerReferences": [{"kind": "StatefulSet", "name": owner, "uid": "uid", "controller": True}],
    }
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"metadata": metadata, "spec": template["spec"], "status": status}


def cluster_with(
    program: Callable[[Sequence[str], bytes | None], tuple[int, str, str]] | None = None,
    *,
    hosts: bool = True,
    **spec: Any,
) -> Inside:
    """A cluster with the consumer, and a host that is ready unless `hosts` says no."""
    cluster, consumer = Inside(program), resource(**spec)
    cluster.put(EVENT_CONSUMER, consumer)
    cluster.put(STATEFUL_SET, hosts_of(consumer))
    if hosts:
        cluster.put(POD, host_pod())
    return cluster
