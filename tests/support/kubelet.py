"""What a kubelet does for the API server of `tests.support.apiserver`: pods run, without their containers."""

import contextlib
import threading
from collections.abc import Iterator

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_cli.errors import NotFound
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import POD, name_of


@contextlib.contextmanager
def kubelet(admin: Cluster, namespace: str) -> Iterator[list[Manifest]]:
    """Give each pod of a namespace the status of a running one; the result has each of them, also after its end.

    A command that waits for its pod ends after the pod is in the result.
    """
    seen: dict[str, Manifest] = {}
    started: list[Manifest] = []
    ended = threading.Event()
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}

    def run() -> None:
        while not ended.wait(0.2):
            for pod in admin.list(POD, namespace):
                if pod["metadata"]["uid"] in seen:
                    continue
                seen[pod["metadata"]["uid"]] = pod
                started.append(pod)
                containers = [
                    {
                        "name": each["name"],
                        "state": state,
                        "ready": True,
                        "restartCount": 0,
                        "image": "i",
                        "imageID": "i",
                    }
                    for each in pod["spec"]["containers"]
                ]
                change = {"status": {"phase": "Running", "containerStatuses": containers}}
                with contextlib.suppress(NotFound):  # deleted since it was listed
                    admin.merge(POD, namespace, f"{name_of(pod)}/status", change)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield started
    finally:
        ended.set()
        thread.join()
