"""Scrape targets of a local Prometheus, selected and labelled as by the chart's monitors."""

import json
import threading
from pathlib import Path
from typing import Any

from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError

PORTS = {"host": 8080, "operator": 8081}
EVERY = 2.0  # seconds


def groups(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """File-based service discovery of Prometheus for pods.

    Args:
        pods: Pods from the API server.
    """
    found = []
    for pod in pods:
        metadata, address = pod["metadata"], pod.get("status", {}).get("podIP")
        labels = metadata.get("labels", {})
        port = PORTS.get(labels.get("app.kubernetes.io/component", ""))
        if not address or port is None or pod["status"].get("phase") != "Running":
            continue
        names = {"job": labels["app.kubernetes.io/component"]}
        if consumer := labels.get("eventconsumer.io/consumer"):
            names |= {
                "eventconsumer_io_consumer": consumer,
                "namespace": metadata["namespace"],
                "pod": metadata["name"],
            }
        found.append({"targets": [f"{address}:{port}"], "labels": names})
    return found


class Watch:
    """Writes the file repeatedly while the block runs."""

    def __init__(self, cluster: Cluster, file: Path) -> None:
        """Write this file about the pods of the cluster's namespace."""
        self._cluster, self._file = cluster, file
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._file.write_text("[]")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(EVERY):
            try:
                found = groups(self._cluster.get("pods")["items"])
            except DemoError:  # the cluster does not exist yet
                continue
            beside = self._file.with_suffix(".new")
            beside.write_text(json.dumps(found))
            beside.rename(self._file)
