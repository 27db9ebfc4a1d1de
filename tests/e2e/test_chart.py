"""The release on the real cluster: upgrade, rollback, removal and reinstallation, while hosts keep running."""

import json
from typing import Any

from eventconsumer_demo import run
from tests.e2e.conftest import ROOT, Demo, image
from tests.e2e.waiting import wait_for

CHART = str(ROOT / "helm/eventconsumer")


def hosts(demo: Demo) -> dict[str, tuple[str, int]]:
    """Uid and restarts of each host pod of the demo."""
    pods = demo.cluster.get("pods", "-l", "app.kubernetes.io/component=host,eventconsumer.io/consumer=orders")["items"]
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
        for pod in pods
    }


def operator(demo: Demo) -> dict[str, Any]:
    """The operator's only pod that is not ending."""
    pods = demo.cluster.get("pods", "-l", "app.kubernetes.io/component=operator")["items"]
    (found,) = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return dict(found)


def arguments(demo: Demo) -> list[str]:
    return list(operator(demo)["spec"]["containers"][0]["args"])


def well(demo: Demo, generation: int) -> None:
    """The consumer is ready, and its spec is unchanged."""
    wait_for(demo, "orders", "Ready", "True")
    assert demo.cluster.get("eventconsumer", "orders")["metadata"]["generation"] == generation


def test_upgrade_and_rollback_restart_the_operator_only(demo: Demo) -> None:
    before, pod = hosts(demo), operator(demo)["metadata"]["uid"]
    key = demo.cluster.get("secret", "eventconsumer-fleet-key")["data"]
    generation = demo.cluster.get("eventconsumer", "orders")["metadata"]["generation"]
    assert len(before) == 4
    demo.cluster.helm(
        "upgrade",
        run.RELEASE,
        CHART,
        "--reset-then-reuse-values",
        "--wait",
        "--timeout",
        "120s",
        "--set",
        "logLevel=DEBUG,resyncSeconds=60,metrics.service.enabled=true",
    )
    assert "--log-level=DEBUG" in arguments(demo)
    assert operator(demo)["metadata"]["uid"] != pod
    well(demo, generation)
    assert hosts(demo) == before
    assert demo.cluster.get("service", "eventconsumer-operator-metrics")
    assert demo.cluster.get("secret", "eventconsumer-fleet-key")["data"] == key, "hosts believe the operator at once"
    demo.cluster.helm("rollback", run.RELEASE, "--wait", "--timeout", "120s")
    assert "--log-level=INFO" in arguments(demo)
    assert not demo.cluster.kubectl("get", "service", "eventconsumer-operator-metrics", "--ignore-not-found")
    well(demo, generation)
    assert hosts(demo) == before


def test_removal_keeps_consumers_and_hosts_and_a_new_release_takes_them_over(demo: Demo) -> None:
    before = hosts(demo)
    generation = demo.cluster.get("eventconsumer", "orders")["metadata"]["generation"]
    demo.cluster.helm("uninstall", run.RELEASE, "--wait")
    assert demo.cluster.get("eventconsumer", "orders")["metadata"]["generation"] == generation
    assert hosts(demo) == before
    images = {name: image(name) for name in ("operator", "processor", "spark", "handler")}
    run.install_operator(demo.cluster, images)
    well(demo, generation)
    assert hosts(demo) == before


def test_every_pod_was_admitted_where_only_restricted_ones_are(demo: Demo) -> None:
    namespace = json.loads(demo.cluster.run("kubectl", "get", "namespace", demo.cluster.namespace, "-o", "json"))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    running = {
        pod["metadata"]["labels"].get("app.kubernetes.io/component") for pod in demo.cluster.get("pods")["items"]
    }
    assert {"operator", "host"} <= running
    events = demo.cluster.get("events")["items"]
    assert not [each["message"] for each in events if "violates PodSecurity" in each.get("message", "")]
