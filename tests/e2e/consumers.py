"""Consumers on the demo's cluster: hub, Secrets and resource of each, and pods that run a program of a test."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from eventconsumer_demo import run
from eventconsumer_demo.cluster import Cluster
from eventhubs_emulator.admin_client import AdminClient
from tests.e2e.conftest import ROOT, Demo, image

GOOD_NAMESPACE = run.hub_connection_string().replace(";EntityPath=orders", "")
GOOD_STORAGE = run.storage_connection_string("http://devstoreaccount1.blob.svc.cluster.local:10000")


@contextmanager
def emulator_admin(cluster: Cluster) -> Iterator[AdminClient]:
    """The emulator of the demo, as its administrator reaches it."""
    with cluster.port_forward(run.HUB_NAMESPACE, "service/eventhubs", 8081) as port:
        yield AdminClient(f"http://127.0.0.1:{port}")


def create_hub(demo: Demo, name: str, partitions: int = 2) -> None:
    """A hub in the emulator of the demo."""
    with emulator_admin(demo.cluster) as admin:
        admin.create_hub(name, partitions=partitions)


def create_secrets(cluster: Cluster, name: str) -> None:
    """The valid Secrets of a `consumer`."""
    cluster.secret(f"{name}-hub", connectionString=GOOD_NAMESPACE)
    cluster.secret(f"{name}-storage", connectionString=GOOD_STORAGE)


def consumer(name: str) -> dict[str, Any]:
    """The demo's resource under another name, without Spark, with a separate hub, Secrets and containers."""
    resource: dict[str, Any] = copy.deepcopy(yaml.safe_load((ROOT / "examples/local.yaml").read_text()))
    resource["metadata"]["name"] = name
    spec = resource["spec"]
    del spec["spark"], spec["sink"]["body"]  # the events have bodies of other kinds
    spec["eventHub"]["name"] = name
    spec["scaling"] = {"mode": "Fixed", "replicas": 1}
    spec["eventHub"]["authentication"]["connectionStringSecretRef"]["name"] = f"{name}-hub"
    for part in ("checkpointStore", "sink"):
        spec[part]["container"] = f"{name}-{part.lower()}"
        spec[part]["authentication"]["connectionStringSecretRef"]["name"] = f"{name}-storage"
    return resource


def server(name: str, program: str, port: int) -> dict[str, Any]:
    """A pod that runs a server in Python, and its Service.

    Args:
        name: Of both.
        program: Source of the server.
        port: Its port.
    """
    labels = {"app": name}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "server",
                    "image": image("processor"),
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["tini", "--", "python3", "-c", program],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
                }
            ],
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": labels, "ports": [{"port": port}]},
    }
    return {"apiVersion": "v1", "kind": "List", "items": [pod, service]}
