"""The status page on the real cluster: off by default, and its content for the demo's consumer when enabled."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from eventconsumer_demo import run
from tests.e2e.conftest import ROOT, Demo
from tests.e2e.waiting import until

SERVICE = "eventconsumer-operator-page"


def get(port: int, path: str) -> tuple[str, str]:
    """Body and content security policy of a response; the body is empty without a response."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as response:
            return response.read().decode(), response.headers["Content-Security-Policy"]
    except OSError:
        return "", ""


@pytest.fixture
def page(demo: Demo) -> Iterator[int]:
    """The page's port, forwarded; the release is restored at the end."""
    assert not demo.cluster.kubectl("get", "service", SERVICE, "--ignore-not-found"), "it is off by default"
    demo.cluster.helm(
        "upgrade",
        run.RELEASE,
        str(ROOT / "helm/eventconsumer"),
        "--reset-then-reuse-values",
        "--wait",
        "--timeout",
        "180s",
        "--set",
        "statusPage.enabled=true",
    )
    try:
        with demo.cluster.port_forward(demo.cluster.namespace, f"service/{SERVICE}", 8082) as port:
            yield port
    finally:
        demo.cluster.helm("rollback", run.RELEASE, "--wait", "--timeout", "180s")


def test_it_shows_the_consumer_that_drains(demo: Demo, page: int) -> None:
    def orders() -> dict[str, Any] | None:
        body, _ = get(page, f"api/consumers/{demo.cluster.namespace}/orders")
        found = json.loads(body) if body else None
        known = found and found["partitions"] and all(each["owner"] for each in found["partitions"])
        return found if known and found["summary"]["ready"] == "True" else None

    found = until(orders, "the operator has seen who reads each partition")
    status = demo.cluster.get("eventconsumer", "orders")["status"]
    assert len(found["partitions"]) == status["partitions"]["total"]
    hosts = {
        pod["metadata"]["name"] for pod in demo.cluster.get("pods", "-l", "app.kubernetes.io/component=host")["items"]
    }
    assert {each["owner"] for each in found["partitions"]} <= hosts
    assert {host["name"] for host in found["hosts"] if host["state"] == "Running"} <= hosts
    assert found["summary"]["drained"]["events"] >= status["drained"]["events"] > 0
    assert all(each["events"][-1] is not None or each["events"][-2] is not None for each in found["partitions"])
    assert {each["type"] for each in found["conditions"]} == {each["type"] for each in status["conditions"]}
    listed = json.loads(get(page, "api/consumers")[0])["consumers"]
    assert (demo.cluster.namespace, "orders") in {(each["namespace"], each["name"]) for each in listed}
    text, policy = get(page, "")
    assert "EventConsumer" in text and policy.startswith("default-src 'self'")
    assert "api/consumers" in get(page, "page.js")[0], "the image holds the page's files"
