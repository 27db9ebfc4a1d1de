"""The number of hosts on the real cluster: by kubectl and an autoscaler where it is fixed, and by the lag to zero."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Demo, handler_image
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.waiting import seconds_until, until, wait_for

pytestmark = pytest.mark.timeout(1200)

NAME = "scaled"
PARTITIONS = 4
IDLE_SECONDS = 30
ORDERS = 6_000  # in each partition
HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": NAME},
    "spec": {
        "scaleTargetRef": {"apiVersion": "eventconsumer.io/v1alpha1", "kind": "EventConsumer", "name": NAME},
        "minReplicas": 3,
        "maxReplicas": 4,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    },
}


@pytest.fixture
def scaled(demo: Demo) -> Iterator[Demo]:
    """A consumer of a hub with 4 partitions; removed at the end."""
    with emulator_admin(demo.cluster) as admin:
        if NAME not in {hub["name"] for hub in admin.hubs()}:
            admin.create_hub(NAME, partitions=PARTITIONS)
    create_secrets(demo.cluster, NAME)
    yield demo
    demo.cluster.kubectl("delete", "hpa", NAME, "--ignore-not-found")
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")
    until(lambda: not pods(demo), "its pods are gone")


def apply(demo: Demo, scaling: dict[str, Any], **more: Any) -> None:
    manifest = consumer(NAME)
    manifest["spec"] |= {"scaling": scaling, **more}
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def publish_orders(demo: Demo, each: int) -> None:
    """Orders for the example's shop, from a host's pod, which holds the hub's credential."""
    program = f"""
from azure.eventhub import EventData, EventHubProducerClient
secret = open("/var/run/secrets/eventconsumer.io/event-hub/connection-string").read()
with EventHubProducerClient.from_connection_string(secret, eventhub_name="{NAME}") as producer:
    for first in range(0, {each}, 500):
        for partition in range({PARTITIONS}):
            orders = [EventData('{{"order": "A-%d", "cents": 1}}' % (first + number)) for number in range(500)]
            producer.send_batch(orders, partition_id=str(partition))
"""
    demo.cluster.kubectl("exec", f"{NAME}-host-0", "--", "python3", "-c", program)


def in_hub(demo: Demo) -> int:
    """The number of events. Events in files are counted only after a host has listed them."""
    with emulator_admin(demo.cluster) as admin:
        partitions = admin.hub(NAME)["partitions"]
    return sum(each["last_enqueued_sequence_number"] + 1 for each in partitions)


def pods(demo: Demo) -> set[str]:
    """Names of its pods."""
    listed = demo.cluster.get("pods", "-l", f"eventconsumer.io/consumer={NAME}")["items"]
    return {pod["metadata"]["name"] for pod in listed}


def owned(demo: Demo) -> int:
    return int(demo.cluster.get("eventconsumer", NAME)["status"]["partitions"]["owned"])


def hosts(*numbers: int) -> set[str]:
    return {f"{NAME}-host-{number}" for number in numbers}


def test_a_fixed_number_follows_kubectl_and_an_autoscaler(scaled: Demo) -> None:
    apply(scaled, {"mode": "Fixed", "replicas": 1})
    wait_for(scaled, NAME, "Ready", "True")
    scaled.cluster.kubectl("scale", "eventconsumer", NAME, "--replicas=2")
    until(lambda: pods(scaled) == hosts(0, 1), "two hosts")
    wait_for(scaled, NAME, "Ready", "True")
    scaled.cluster.kubectl("scale", "eventconsumer", NAME, "--replicas=1")
    took = seconds_until(lambda: pods(scaled) == hosts(0), "one host")
    print(f"2 -> 1 hosts took {took:.1f} s")
    until(lambda: owned(scaled) == 4, "the host that stays reads everything")
    scaled.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(HPA))
    until(lambda: pods(scaled) == hosts(0, 1, 2), "an autoscaler lifts the number to its minimum")


@pytest.mark.long  # unit/operator/plan/test_scale.py decides it, integration/processor/test_probe.py runs the probe
def test_the_lag_takes_the_last_host_away_and_brings_it_back(scaled: Demo) -> None:
    apply(
        scaled,
        {
            "mode": "Lag",
            "minReplicas": 0,
            "lag": {"targetSeconds": 5, "cooldownSeconds": 0, "idleSeconds": IDLE_SECONDS},
        },
    )
    wait_for(scaled, NAME, "Ready", "True")
    until(lambda: pods(scaled) == {f"{NAME}-probe-0"}, "only the probe runs")
    wait_for(scaled, NAME, "Ready", "True")
    with emulator_admin(scaled.cluster) as admin:
        for number in range(20):
            admin.put_event(NAME, str(number % 4), b"%d" % number)
    total = in_hub(scaled)

    def drained() -> bool:
        return bool(scaled.cluster.get("eventconsumer", NAME)["status"]["drained"]["events"] == total)

    print(f"first host after {seconds_until(lambda: pods(scaled) >= hosts(0), 'a host comes back'):.1f} s")
    print(f"all in files {seconds_until(drained, 'the events are in files'):.1f} s later")
    assert f"{NAME}-probe-0" not in pods(scaled)


@pytest.mark.long
def test_hosts_come_while_partitions_are_late_and_go_when_none_is(scaled: Demo) -> None:
    apply(
        scaled,
        {"mode": "Lag", "maxReplicas": 3, "lag": {"targetSeconds": 1, "cooldownSeconds": 5}},
        # One event a transaction: a host takes much longer for these than the hub to get them.
        processing={"maxBatchSize": 1, "handler": "shop:Shop", "image": handler_image()},
    )
    wait_for(scaled, NAME, "Ready", "True")

    def status() -> dict[str, Any]:
        return dict(scaled.cluster.get("eventconsumer", NAME)["status"])

    publish_orders(scaled, ORDERS)
    took = seconds_until(lambda: status()["scaling"]["replicas"] > 1, "partitions are late")
    reason = status()["scaling"]["reason"]
    print(f"more hosts after {took:.1f} s: {reason}")
    assert "late" in reason
    until(lambda: len(pods(scaled)) > 1 and owned(scaled) == PARTITIONS, "they share the partitions")
    total = in_hub(scaled)
    assert total >= PARTITIONS * ORDERS
    took = seconds_until(lambda: status()["drained"]["events"] == total, "all are in files")
    print(f"all in files {took:.1f} s later")
    took = seconds_until(lambda: pods(scaled) == hosts(0), "one host is enough again")
    print(f"one host again after {took:.1f} s: {status()['scaling']['reason']}")
    report = json.loads(
        scaled.cluster.kubectl("exec", f"{NAME}-host-0", "--", "eventconsumer", "audit", "--hub", "--json")
    )
    assert report["exitCode"] == 0, report
