"""An operator in the test's process on a real API server. It reconciles when the test says so."""

import json
from collections.abc import Callable
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_operator.fleet.key import FleetKey
from eventconsumer_operator.fleet.messages import Fleets
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, STORED
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.reconcile import Reconciler
from eventconsumer_operator.resource.observed import consumer_from
from eventconsumer_operator.settings import Settings
from tests.support.fakes.hosts import FakeHosts


async def stored(api: KubernetesApi, namespace: str) -> Store:
    """A store of what the API server has."""
    store = Store()
    for kind in STORED:
        selector = None if kind == EVENT_CONSUMER else {labels.LABEL_MANAGED_BY: labels.MANAGED_BY}
        store.replace(kind, namespace, await api.list(kind, namespace, selector))
    return store


class OperatorWorld:
    """A namespace with the EventConsumer `orders`."""

    def __init__(self, api: KubernetesApi, namespace: str, run: Callable[..., str], settings: Settings) -> None:
        """Begin without the EventConsumer.

        Args:
            api: The operator's client.
            namespace: Its name.
            run: Runs kubectl as administrator; returns what it prints.
            settings: Of the operator.
        """
        self.api, self.namespace, self.settings = api, namespace, settings
        self._run = run

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace."""
        return self._run("-n", self.namespace, *arguments, stdin=stdin)

    async def reconciled(self, hosts: FakeHosts, key: FleetKey | None = None, times: int = 1) -> EventConsumerStatus:
        """A new operator reconciles; with a key it sends messages to hosts. Returns the status that it writes."""
        fleets = Fleets(self.api, hosts, key) if key else None
        reconciler = Reconciler(self.api, await stored(self.api, self.namespace), hosts, self.settings, fleets)
        for _ in range(times):
            await reconciler.reconcile(Key(self.namespace, "orders"))
        return consumer_from(json.loads(self.kubectl("get", "evc", "orders", "-o", "json"))).status

    async def get(self, kind: Kind, name: str = "orders-host") -> Manifest:
        """An object that exists."""
        found = await self.api.get(kind, self.namespace, name)
        assert found is not None, (kind.name, name)
        return found

    def run_pod(self, name: str, address: str, **status: Any) -> None:
        """What a kubelet says of a pod that runs."""
        change = json.dumps({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]} | status})
        self.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", change)
