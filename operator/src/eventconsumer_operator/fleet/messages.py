"""Operator messages to all hosts of a resource: `FleetMessage`, signed, on `POST /fleet`.

Hosts work without them, so no error here fails a reconcile: a host that does not answer gets the next message. Only
hosts that just reported get a message, so an unreachable host costs one time limit per reconcile.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import structlog

from eventconsumer_api.kube import labels
from eventconsumer_api.wire.fleet import FleetMessage
from eventconsumer_api.wire.host_report import HostReport
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.fleet.host_liveness import Liveness, confirm, look, message
from eventconsumer_operator.fleet.key import FleetKey
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.manifest import POD, name_of
from eventconsumer_operator.resource.names import selector
from eventconsumer_operator.resource.observed import Observed

_log = structlog.get_logger(__name__)

_NAMED = 10  # hosts that a log entry names


class Messenger(Protocol):
    """Sends operator messages."""

    async def send(
        self, addresses: Mapping[str, str], body: bytes, signature: str, *, with_reports: bool = False
    ) -> dict[str, HostReport]:
        """Send a message to all hosts; failures are counted and logged only.

        Args:
            addresses: By pod name.
            body: The message.
            signature: Of the body, base64.
            with_reports: Prefer reports as responses.

        Returns:
            Reports by pod name.
        """


@dataclass(frozen=True)
class _Told:
    """Memory of one resource.

    Attributes:
        uid: Of the resource.
        liveness: Liveness of its hosts.
        message: The last message; None: none was sent.
        addresses: Of the hosts to which it was sent, by pod name.
    """

    uid: str
    liveness: Liveness = field(default_factory=Liveness)
    message: FleetMessage | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)


class Fleets:
    """Host liveness of all resources. A restart loses it; then it is determined again."""

    def __init__(
        self,
        api: Api,
        messenger: Messenger,
        key: FleetKey,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create.

        Args:
            api: For direct reads of pods.
            messenger: Sends the messages.
            key: Signs the messages.
            clock: Seconds since 1970, for generations.
        """
        self.public_pem = key.public_pem
        self._api = api
        self._messenger = messenger
        self._key = key
        self._clock = clock
        self._generation = 0
        self._told: dict[Key, _Told] = {}

    def forget(self, key: Key) -> None:
        """Forget a resource that was deleted."""
        self._told.pop(key, None)

    async def send(self, observed: Observed, hosts: int) -> None:
        """Send a message to the hosts of one resource.

        Args:
            observed: The observed state.
            hosts: Desired number of hosts.
        """
        key, uid = observed.consumer.key, observed.consumer.uid
        before = self._told.get(key, _Told(uid))
        liveness, suspects = look(before.liveness if before.uid == uid else Liveness(), observed)
        if suspects:
            liveness = await self._confirm(observed, liveness, suspects)
        pods = {name_of(pod): pod["status"]["podIP"] for pod in observed.pods if pod.get("status", {}).get("podIP")}
        addresses = {name: address for name, address in pods.items() if name in observed.reports}
        self._told[key] = _Told(uid, liveness, message(observed, liveness, hosts, 0), addresses)
        await self._send(key, observed.now, with_reports=False)

    async def repeat(self, observed: Observed) -> dict[str, HostReport]:
        """Send the last message to the hosts of a resource at rest again.

        Args:
            observed: The objects, which are the same as at the last message.

        Returns:
            Reports by pod name, of hosts that return them.
        """
        return await self._send(observed.consumer.key, observed.now, with_reports=True)

    async def _send(self, key: Key, now: datetime, *, with_reports: bool) -> dict[str, HostReport]:
        told = self._told.get(key)
        if told is None or told.message is None or not told.addresses:
            return {}
        self._generation = max(self._generation + 1, int(self._clock() * 1000))
        current = told.message.model_copy(update={"generation": self._generation, "time": now})
        body = current.model_dump_json(by_alias=True).encode()
        return await self._messenger.send(told.addresses, body, self._key.sign(body), with_reports=with_reports)

    async def _confirm(self, observed: Observed, liveness: Liveness, suspects: frozenset[str]) -> Liveness:
        key = observed.consumer.key
        try:
            pods = await self._api.list(POD, key.namespace, selector(key, labels.COMPONENT_HOST))
        except OperatorError as error:
            _log.info(
                "cannot determine whether hosts have ended", namespace=key.namespace, name=key.name, error=str(error)
            )
            return liveness
        resource = observed.consumer.reference.path
        found = confirm(liveness, suspects, resource, pods.items, observed.now)
        if ended := sorted(found.gone.keys() - liveness.gone.keys()):
            _log.info(
                "hosts have ended; their partitions can be taken over",
                namespace=key.namespace, name=key.name, count=len(ended), hosts=ended[:_NAMED],
            )  # fmt: skip
        return found
