"""The operator on a real cluster: which events its children survive, and which they do not."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from eventconsumer_demo.cluster import Cluster
from tests.e2e.conftest import ROOT, Demo
from tests.e2e.waiting import until

NAME = "lifecycle"
CHILDREN = ("statefulset", "service", "configmap")


@pytest.fixture
def resource(demo: Demo) -> Iterator[Cluster]:
    """A resource whose Secret does not exist: its hosts run, report that, and do not affect other consumers."""
    manifest = copy.deepcopy(yaml.safe_load((ROOT / "examples/local.yaml").read_text()))
    manifest["metadata"]["name"] = NAME
    for part in ("eventHub", "checkpointStore", "sink"):
        manifest["spec"][part]["authentication"]["connectionStringSecretRef"]["name"] = "nobody-made-this"
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    yield demo.cluster
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


def reason(cluster: Cluster) -> str:
    conditions = cluster.get("eventconsumer", NAME).get("status", {}).get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == "Ready"), "")


def host_pod(cluster: Cluster) -> dict[str, Any]:
    return cluster.get("pod", f"{NAME}-host-0")


def exists(cluster: Cluster, kind: str) -> bool:
    return bool(cluster.kubectl("get", kind, f"{NAME}-host", "--ignore-not-found", "-o", "name").strip())


def test_hosts_run_on_while_the_operator_is_replaced(resource: Cluster) -> None:
    until(lambda: reason(resource) == "SecretKeyMissing")
    before = host_pod(resource)
    resource.kubectl("delete", "pod", "-l", "app.kubernetes.io/component=operator", "--grace-period=0", "--force")
    resource.kubectl("rollout", "status", "deployment/eventconsumer-operator", "--timeout=90s")
    resource.kubectl("delete", "service", f"{NAME}-host")
    until(lambda: exists(resource, "service"))  # the new one works
    after = host_pod(resource)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_change_of_status_restarts_no_pod_and_a_change_of_spec_does(resource: Cluster) -> None:
    until(lambda: reason(resource) == "SecretKeyMissing")
    before = host_pod(resource)["metadata"]["uid"]
    resource.kubectl(
        "patch", "eventconsumer", NAME, "--type=merge", "-p", '{"spec":{"processing":{"prefetchCount": 123}}}'
    )
    until(lambda: host_pod(resource)["metadata"]["uid"] != before)
    text = resource.get("configmap", f"{NAME}-host")["data"]["config.json"]
    assert json.loads(text)["processing"]["prefetchCount"] == 123


def test_suspending_stops_the_pods_and_resuming_starts_them(resource: Cluster) -> None:
    until(lambda: reason(resource) == "SecretKeyMissing")
    resource.kubectl("patch", "eventconsumer", NAME, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    until(lambda: reason(resource) == "Suspended")
    pods = ("get", "pods", "-l", f"eventconsumer.io/consumer={NAME}", "-o", "name")
    until(lambda: not resource.kubectl(*pods).strip())
    resource.kubectl("patch", "eventconsumer", NAME, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    until(lambda: reason(resource) == "SecretKeyMissing")


def test_everything_goes_with_the_resource(resource: Cluster) -> None:
    until(lambda: reason(resource) == "SecretKeyMissing")
    resource.kubectl("delete", "eventconsumer", NAME)  # no finalizer: it is gone at once
    until(lambda: not any(exists(resource, kind) for kind in CHILDREN))
    pods = ("get", "pods", "-l", f"eventconsumer.io/consumer={NAME}", "-o", "name")
    until(lambda: not resource.kubectl(*pods).strip())
