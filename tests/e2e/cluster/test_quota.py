"""A quota of CPU limits on the real cluster: the real controllers say in Events only why pods do not exist.

The quota is removed at the end of each test; while it exists, no other consumer of the namespace gets new pods.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Demo
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.waiting import until, wait_for

# contract/operator/test_missing.py has the same on the API server alone.
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
NAME = "limited"


@pytest.fixture
def limited(demo: Demo) -> Iterator[Demo]:
    """A hub with 2 partitions; consumer and quota are removed at the end."""
    with emulator_admin(demo.cluster) as admin:
        if NAME not in {hub["name"] for hub in admin.hubs()}:
            admin.create_hub(NAME, partitions=2)
    create_secrets(demo.cluster, NAME)
    yield demo
    demo.cluster.kubectl("delete", "quota", NAME, "--ignore-not-found")
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")
    until(lambda: not pods(demo), "its pods are gone")


def quota(demo: Demo, cpu: str) -> None:
    hard = {"limits.cpu": cpu}
    manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": NAME}, "spec": {"hard": hard}}
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    until(lambda: demo.cluster.get("quota", NAME).get("status", {}).get("hard") == hard, "the quota is in force")


def apply(demo: Demo, scaling: dict[str, Any]) -> None:
    manifest = consumer(NAME)
    limits = {"limits": {"cpu": "500m"}}
    manifest["spec"] |= {"scaling": scaling, "pods": {"resources": limits}}
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def pods(demo: Demo) -> set[str]:
    listed = demo.cluster.get("pods", "-l", f"eventconsumer.io/consumer={NAME}")["items"]
    return {pod["metadata"]["name"] for pod in listed}


def test_a_host_that_a_quota_refuses_is_a_problem_until_it_is_not_wanted(limited: Demo) -> None:
    quota(limited, "700m")
    apply(limited, {"mode": "Fixed", "replicas": 2})
    until(lambda: pods(limited) == {f"{NAME}-host-0"} or pods(limited) == {f"{NAME}-host-1"}, "one of two hosts exists")
    found = wait_for(limited, NAME, "Stalled", "True")
    assert found["reason"] == "HostsFailing"
    assert f"statefulset/{NAME}-host: 1 of 2 pods have been missing since " in found["message"]
    assert f"exceeded quota: {NAME}, requested: limits.cpu=500m, used: limits.cpu=500m" in found["message"]
    apply(limited, {"mode": "Fixed", "replicas": 1})
    wait_for(limited, NAME, "Stalled", "False")


def test_a_host_runs_in_place_of_a_probe_that_a_quota_refuses(limited: Demo) -> None:
    apply(limited, {"mode": "Lag", "minReplicas": 0, "lag": {"cooldownSeconds": 0, "idleSeconds": 30}})
    wait_for(limited, NAME, "Ready", "True")
    quota(limited, "500m")  # a host fits, but no probe beside it
    until(lambda: limited.cluster.get("eventconsumer", NAME)["status"]["hosts"]["desired"] == 0, "hosts are asleep")
    until(lambda: f"{NAME}-host-0" not in pods(limited), "the host has ended")
    quota(limited, "100m")  # nothing fits
    limited.cluster.kubectl("delete", "pod", f"{NAME}-probe-0", "--ignore-not-found")
    found = wait_for(limited, NAME, "Stalled", "True")
    assert f"statefulset/{NAME}-probe: 1 of 1 pods have been missing since " in found["message"]
    assert f"exceeded quota: {NAME}" in found["message"]
    quota(limited, "2")
    until(lambda: f"{NAME}-host-0" in pods(limited), "a host runs in its place")
