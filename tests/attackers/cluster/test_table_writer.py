"""Attacks of a writer of the Delta table, on hosts with the limits of memory of their containers."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from eventconsumer_api.kube.podsecurity import container_security, pod_security
from eventconsumer_demo import run
from tests.attackers import bombs
from tests.e2e.conftest import Demo, image
from tests.e2e.consumers import emulator_admin
from tests.e2e.waiting import until

pytestmark = pytest.mark.long
NAME, EVENTS = "orders", 64
HOSTS = f"eventconsumer.io/consumer={NAME},app.kubernetes.io/component=host"
READER = "attack-reader"


@contextmanager
def drained(demo: Demo) -> Iterator[ContainerClient]:
    with demo.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
        connection = run.storage_connection_string(f"http://127.0.0.1:{port}/{run.ACCOUNT}")
        with ContainerClient.from_connection_string(connection, "drained") as container:
            yield container


def publish(demo: Demo) -> None:
    with emulator_admin(demo.cluster) as admin:
        for number in range(EVENTS):
            admin.put_event(NAME, str(number % run.PARTITIONS), b"{}")


def status(demo: Demo) -> dict[str, Any]:
    found: dict[str, Any] = demo.cluster.get("eventconsumer", NAME)["status"]
    return found


def refuses_the_table(demo: Demo) -> bool:
    return any("TableInvalid" in (each["reason"] + each["message"]) for each in status(demo)["conditions"])


def read_plainly(demo: Demo, content: bytes) -> str:
    """The end of a container with the memory of the demo's hosts that reads the file as programs usually do."""
    data = {"binaryData": {"file": base64.b64encode(content).decode()}}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": READER}, **data}
    container = {
        "name": "reader",
        "image": image("processor"),
        "command": ["python3", "-c", bombs.PLAIN_PARQUET, "/mnt/file"],
        "resources": {"limits": {"memory": "512Mi"}},
        "securityContext": container_security(),
        "volumeMounts": [{"name": "mnt", "mountPath": "/mnt"}],
    }
    spec = {
        "restartPolicy": "Never",
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": [{"name": "mnt", "configMap": {"name": READER}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": READER}, "spec": spec}
    demo.cluster.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [config_map, pod]})
    )
    try:
        until(lambda: demo.cluster.get("pod", READER)["status"]["phase"] in {"Succeeded", "Failed"}, "the reader ends")
        (ended,) = demo.cluster.get("pod", READER)["status"]["containerStatuses"]
        return str(ended["state"]["terminated"]["reason"])
    finally:
        demo.cluster.kubectl("delete", f"pod/{READER}", f"configmap/{READER}", "--grace-period=0", "--force")


def test_a_checkpoint_that_needs_gigabytes_stops_no_host(demo: Demo) -> None:
    content = bombs.repeated_text()
    with drained(demo) as container:
        folder = next(
            blob.name.rpartition("/")[0]
            for blob in container.list_blobs()
            if f"/{NAME}/_delta_log/0" in f"/{blob.name}"
        )
        last = max(blob.name for blob in container.list_blobs(folder) if blob.name.endswith(".json"))
        bomb = f"{last.removesuffix('.json')}.checkpoint.parquet"
        container.upload_blob(bomb, content, overwrite=True)
    before = status(demo)["drained"]["events"]
    demo.cluster.kubectl("delete", "pod", "-l", HOSTS)
    until(lambda: refuses_the_table(demo), f"the table is refused: {status(demo)['conditions']}")
    publish(demo)
    until(lambda: status(demo)["drained"]["events"] == before + EVENTS, "draining goes on")
    pods = demo.cluster.get("pods", "-l", HOSTS)["items"]
    assert [each["status"]["containerStatuses"][0]["restartCount"] for each in pods] == [0] * len(pods)
    with drained(demo) as container:
        container.delete_blob(bomb)
    until(lambda: not refuses_the_table(demo), "the table is registered again")
    assert read_plainly(demo, content) == "OOMKilled"
