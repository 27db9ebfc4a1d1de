"""Sends operator messages to all hosts of a resource: `FleetMessage`, signed, on `POST /fleet`.

Hosts work without them, so no error here fails a reconcile: a host that does not answer gets the next message. Only
hosts that just reported get a message, so an unreachable host costs one time limit per reconcile.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import aiohttp
import structlog

from eventconsumer_api import labels
from eventconsumer_api.fleet import FLEET_PATH, FLEET_SIGNATURE_HEADER
from eventconsumer_api.log_throttle import LogThrottle
from eventconsumer_operator import metrics
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.fleet.host_liveness import Liveness, confirm, look, message
from eventconsumer_operator.fleet.key import FleetKey
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.manifest import POD, name_of
from eventconsumer_operator.resource.hosts import TIMEOUT, url_host
from eventconsumer_operator.resource.names import selector
from eventconsumer_operator.resource.observed import Observed

_log = structlog.get_logger(__name__)

_TEXT_BYTES = 500  # of an answer that rejects a message
_NAMED = 10  # hosts that a log entry names


class Messenger(Protocol):
    """Sends operator messages."""

    async def send(self, addresses: Mapping[str, str], body: bytes, signature: str) -> None:
        """Send a message to all hosts; addresses by pod name. Failures are counted and logged only."""


class HttpMessenger:
    """`Messenger` over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        """Use `session`, which the caller closes, and the port on which all hosts answer."""
        self._session = session
        self._port = port
        self._repeats = LogThrottle()

    async def send(self, addresses: Mapping[str, str], body: bytes, signature: str) -> None:
        """See `Messenger`."""
        results = await asyncio.gather(*(self._send(*each, body, signature) for each in addresses.items()))
        for result in results:
            metrics.FLEET_MESSAGES.labels(result).inc()

    async def _send(self, name: str, address: str, body: bytes, signature: str) -> str:
        try:
            async with self._session.post(
                f"http://{url_host(address)}:{self._port}{FLEET_PATH}",
                data=body,
                headers={FLEET_SIGNATURE_HEADER: signature, "Content-Type": "application/json"},
                timeout=TIMEOUT,
                allow_redirects=False,
                auto_decompress=False,
            ) as answer:
                if answer.status < 300:
                    self._repeats.over(name)
                    return "delivered"
                why = (await answer.content.read(_TEXT_BYTES)).decode(errors="replace").strip()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.debug("operator message not delivered to a host", host=name, error=f"{type(error).__name__}: {error}")
            return "unreachable"
        if times := self._repeats.again(name):  # the host chooses the text, so a new text is not logged at once
            _log.info("a host rejected an operator message", host=name, http=answer.status, why=why, times=times)
        return "refused"


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
        self._livenesses: dict[Key, tuple[str, Liveness]] = {}

    def forget(self, key: Key) -> None:
        """Forget a resource that was deleted."""
        self._livenesses.pop(key, None)

    async def send(self, observed: Observed, hosts: int) -> None:
        """Send a message to the hosts of one resource.

        Args:
            observed: The observed state.
            hosts: Desired number of hosts.
        """
        key, uid = observed.consumer.key, observed.consumer.uid
        of, before = self._livenesses.get(key, (uid, Liveness()))
        liveness, suspects = look(before if of == uid else Liveness(), observed)
        if suspects:
            liveness = await self._confirm(observed, liveness, suspects)
        self._livenesses[key] = (uid, liveness)
        pods = {name_of(pod): pod["status"]["podIP"] for pod in observed.pods if pod.get("status", {}).get("podIP")}
        addresses = {name: address for name, address in pods.items() if name in observed.reports}
        if addresses:
            self._generation = max(self._generation + 1, int(self._clock() * 1000))
            told = message(observed, liveness, hosts, self._generation)
            body = told.model_dump_json(by_alias=True).encode()
            await self._messenger.send(addresses, body, self._key.sign(body))

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
