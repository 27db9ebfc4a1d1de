"""Attacks of any other pod of the cluster: requests whose headers never end."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from eventconsumer_api.kube.labels import HOST_PORT
from eventconsumer_api.kube.podsecurity import container_security, pod_security
from tests.attackers import flood
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.e2e.conftest import Demo, image
from tests.e2e.waiting import until

pytestmark = pytest.mark.long
CONNECTIONS, SECONDS = 400, 60
OPERATOR = "app.kubernetes.io/component=operator"
OPERATOR_PORT = 8081
PLAIN = "plain"
SERVE = f"from aiohttp import web; web.run_app(web.Application(), port={HOST_PORT})"


def state(demo: Demo, pod: str) -> dict[str, Any]:
    """The status of the only container of a pod."""
    (found,) = demo.cluster.get("pod", pod)["status"]["containerStatuses"]
    assert isinstance(found, dict)
    return found


def take_the_memory(demo: Demo, pod: str, port: int) -> Outcome:
    """Send requests without an end to a pod."""
    address = str(demo.cluster.get("pod", pod)["status"]["podIP"])
    before = state(demo, pod)["restartCount"]
    asyncio.run(flood.attack(port, "headers", CONNECTIONS, SECONDS, address))
    after = state(demo, pod)
    if after["restartCount"] > before or "terminated" in after["state"]:
        return Gained("the end of the container")
    return Refused("the limits of connections") if after["ready"] else Gained("its probes")


@pytest.fixture
def plain(demo: Demo) -> Iterator[str]:
    """A server with the limits of aiohttp alone, and the memory of a host of the demo."""
    container = {
        "name": PLAIN,
        "image": image("processor"),
        "command": ["python3", "-c", SERVE],
        "resources": {"limits": {"memory": "512Mi"}},
        "securityContext": container_security(),
        "readinessProbe": {"tcpSocket": {"port": HOST_PORT}, "periodSeconds": 1},
    }
    spec = {"restartPolicy": "Never", "securityContext": pod_security(), "containers": [container]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": PLAIN}, "spec": spec}
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    until(lambda: state(demo, PLAIN)["ready"], "the plain server listens")
    yield PLAIN
    demo.cluster.kubectl("delete", "pod", PLAIN, "--grace-period=0", "--force")


def test_requests_without_an_end_stop_neither_the_operator_nor_a_host(demo: Demo, plain: str) -> None:
    (operator,) = demo.cluster.get("pods", "-l", OPERATOR)["items"]
    assert take_the_memory(demo, operator["metadata"]["name"], OPERATOR_PORT) == Refused("the limits of connections")
    assert take_the_memory(demo, "orders-host-0", HOST_PORT) == Refused("the limits of connections")
    assert isinstance(take_the_memory(demo, plain, HOST_PORT), Gained)
