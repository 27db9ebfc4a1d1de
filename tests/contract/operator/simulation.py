"""Plays what an API server alone lacks: StatefulSet controller, kubelet, and the hosts in the pods.

Hosts are real HTTP servers on loopback addresses of their own, so the operator asks them as it asks pods. What they
answer, and what becomes of Jobs, is up to the test.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web
from kubernetes.aio import client

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.wire.fleet import FLEET_PATH, FLEET_SIGNATURE_HEADER
from eventconsumer_api.wire.host_report import HostReport
from eventconsumer_operator.errors import Forbidden, Transient
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import POD, STATEFUL_SET

# A network for each process in which tests run at the same time: all hosts have the same port.
_NETWORK = 78 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_addresses = (f"127.{_NETWORK}.{high}.{low}" for high, low in itertools.product(range(1, 250), range(1, 250)))

Answer = Callable[[str, int], HostReport]
"""(pod name, number of pods) -> what that host reports."""


class Simulation:
    """One StatefulSet and its pods.

    Attributes:
        answer: What hosts report; may be replaced at any time.
        start_pods: Whether the kubelet starts pods; else they stay `waiting`.
        waiting: Why containers do not start while `start_pods` is false.
        heard: What hosts were told about their fleet: pod name, body, signature.
    """

    def __init__(self, connection: Any, namespace: str, name: str, answer: Answer) -> None:
        self.answer = answer
        self.start_pods = True
        self.waiting = {"reason": "ErrImagePull", "message": "no such image"}
        self.heard: list[tuple[str, bytes, str]] = []
        self._api = KubernetesApi(connection)
        self._core = client.CoreV1Api(connection)
        self._apps = client.AppsV1Api(connection)
        self._namespace = namespace
        self._name = name
        self._servers: dict[str, web.AppRunner] = {}
        self._addresses: dict[str, str] = {}
        self._refused: set[str] = set()

    async def run(self) -> None:
        """Follow the StatefulSet until cancelled."""
        try:
            while True:
                # Like the real ones, they wait for an API server that is away, and for objects that change meanwhile.
                with contextlib.suppress(Transient, aiohttp.ClientError, client.ApiException):
                    stateful_set = await self._api.get(STATEFUL_SET, self._namespace, self._name)
                    if stateful_set is not None:
                        await self._follow(stateful_set)
                await asyncio.sleep(0.1)
        finally:
            for name in list(self._servers):
                await self._stop(name)

    async def _follow(self, stateful_set: Manifest) -> None:
        wanted = [f"{self._name}-{ordinal}" for ordinal in range(stateful_set["spec"]["replicas"])]
        found = await self._api.list(POD, self._namespace, stateful_set["spec"]["selector"]["matchLabels"])
        existing = {pod["metadata"]["name"]: pod for pod in found.items}
        for name in existing.keys() - wanted:
            await self._stop(name)
            options = client.V1DeleteOptions(grace_period_seconds=0)
            await self._core.delete_namespaced_pod(name, self._namespace, body=options)
        for name in wanted:
            if name not in existing and not await self._create(stateful_set, name):
                continue
            existing[name] = {}
            await self._start(name)
        count = sum(name in existing for name in wanted)
        ready = count if self.start_pods else 0
        status = {
            "replicas": count,
            "readyReplicas": ready,
            "updatedReplicas": count,
            "availableReplicas": ready,
            "observedGeneration": stateful_set["metadata"]["generation"],
        }
        if status.items() > stateful_set.get("status", {}).items() or stateful_set.get("status") != status:
            await self._apps.patch_namespaced_stateful_set_status(self._name, self._namespace, {"status": status})

    async def _create(self, stateful_set: Manifest, name: str) -> bool:
        """Create a pod; return whether the API server accepts it. Where not, only an Event says so."""
        try:
            await self._api.create(host_pod(stateful_set, name))
        except Forbidden as refused:
            if name not in self._refused:  # then it would be counted
                self._refused.add(name)
                await self._api.create(failed_create(stateful_set, name, str(refused)))
            return False
        self._refused.discard(name)
        return True

    async def _start(self, name: str) -> None:
        if not self.start_pods:
            state = {"state": {"waiting": self.waiting}, "ready": False}
            await self._set_pod_status(name, {"phase": "Pending"}, state)
            return
        if name in self._servers:
            return
        address = self._addresses.setdefault(name, next(_addresses))

        async def respond(_: web.Request) -> web.Response:
            report = self.answer(name, len(self._servers))
            return web.Response(text=report.model_dump_json(by_alias=True), content_type="application/json")

        async def hear(request: web.Request) -> web.Response:
            self.heard.append((name, await request.read(), request.headers[FLEET_SIGNATURE_HEADER]))
            return web.Response(status=204)

        application = web.Application()
        application.router.add_get("/status", respond)
        application.router.add_post(FLEET_PATH, hear)
        self._servers[name] = web.AppRunner(application, access_log=None)
        await self._servers[name].setup()
        await web.TCPSite(self._servers[name], address, labels.HOST_PORT).start()
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self._set_pod_status(name, status, {"state": {"running": {}}, "ready": True})

    async def _set_pod_status(self, name: str, status: dict[str, Any], container: dict[str, Any]) -> None:
        common = {"name": "host", "image": "i", "imageID": "", "restartCount": 0}
        body = {"status": status | {"containerStatuses": [common | container]}}
        await self._core.patch_namespaced_pod_status(name, self._namespace, body)

    async def _stop(self, name: str) -> None:
        server = self._servers.pop(name, None)
        if server:
            await server.cleanup()


def failed_create(stateful_set: Manifest, name: str, error: str) -> Manifest:
    """The Event as `recordPodEvent` in pkg/controller/statefulset/stateful_pod_control.go of Kubernetes writes it."""
    owner = stateful_set["metadata"]
    text = error.partition(": ")[2].removesuffix(" (HTTP 403)")
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.refused", "namespace": owner["namespace"]},
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "namespace": owner["namespace"],
            "name": owner["name"],
            "uid": owner["uid"],
        },
        "type": "Warning",
        "reason": "FailedCreate",
        "source": {"component": "statefulset-controller"},
        "message": f"Create Pod {name} in StatefulSet {owner['name']} failed error: {text}",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def host_pod(stateful_set: Manifest, name: str) -> Manifest:
    """A pod as the StatefulSet controller makes it."""
    template = stateful_set["spec"]["template"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": stateful_set["metadata"]["name"],
        "uid": stateful_set["metadata"]["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": template["metadata"]
        | {"name": name, "namespace": stateful_set["metadata"]["namespace"], "ownerReferences": [owner]},
        "spec": template["spec"],
    }
