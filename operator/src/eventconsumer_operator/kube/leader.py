"""Leader election with a Lease object: one of several operators works, the others wait.

Two working operators would do no harm, only the same work twice: the safety of data does not depend on the election.
The leader renews the Lease. A waiting operator takes the Lease over if it did not change for its duration, measured
with the operator's own clock. A leader that cannot renew stops before that. Losing the Lease ends the process.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_operator.errors import Changed, Gone, OperatorError, Transient
from eventconsumer_operator.kube.manifest import LEASE

log = structlog.get_logger(__name__)

NAME = "eventconsumer-operator"
DURATION_SECONDS = 15.0
RENEW_SECONDS = 4.0
STOP_SECONDS = 10.0  # without a renewal for this long the leader stops; less than the duration
_RETRY_SECONDS = 2.0


class LeadLost(Exception):  # noqa: N818 - named after what happened
    """Another operator leads, or the Lease could not be renewed in time."""


class LeaseApi(Protocol):
    """The requests to the API server."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return the object, or None if there is none."""

    async def create(self, manifest: Manifest) -> Manifest | None:
        """Create the object; return it, or None if an object of that name exists."""

    async def replace(self, manifest: Manifest) -> Manifest:
        """Write the whole object if it is still at its resourceVersion, else raise Changed or Gone."""


class Elector:
    """One candidate."""

    def __init__(self, leases: LeaseApi, namespace: str, identity: str) -> None:
        """Compete for the Lease `NAME` of `namespace` as `identity`, which must be unique."""
        self._leases = leases
        self._namespace = namespace
        self._identity = identity
        self._held: Manifest | None = None
        self._seen = ""
        self._seen_at = float("-inf")

    async def win(self) -> None:
        """Wait until this process leads."""
        told = ""
        while True:
            try:
                holder = await self._try()
            except (Changed, Gone):
                continue  # another candidate was faster, or the Lease was deleted
            except OperatorError as error:
                holder = str(error)
            if self._held is not None:
                log.info("leading", identity=self._identity)
                return
            if holder != told:
                log.info("waiting for the leader lease", holder=holder)
                told = holder
            await asyncio.sleep(_RETRY_SECONDS)

    async def keep(self) -> None:
        """Renew until cancelled.

        Raises:
            LeadLost: The Lease is lost.
        """
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(RENEW_SECONDS if loop.time() - renewed < RENEW_SECONDS else _RETRY_SECONDS)
            try:
                async with asyncio.timeout_at(renewed + STOP_SECONDS):
                    began = loop.time()
                    await self._renew()
                    renewed = began
            except TimeoutError as error:
                raise LeadLost(f"the Lease was not renewed for {STOP_SECONDS:g} s") from error
            except Transient as error:
                if loop.time() - renewed >= STOP_SECONDS - _RETRY_SECONDS:
                    raise LeadLost(f"the Lease could not be renewed: {error}") from error
                log.warning("failed to renew the leader lease; retrying", lease=NAME, error=str(error))

    async def release(self) -> None:
        """Release the Lease, so that the next operator need not wait until it expires."""
        if self._held is None:
            return
        held, self._held = self._held, None
        try:
            async with asyncio.timeout(_RETRY_SECONDS):
                await self._leases.replace(held | {"spec": held["spec"] | {"holderIdentity": ""}})
        except (OperatorError, TimeoutError) as error:
            log.warning(
                "failed to release the leader lease; the next operator waits until it expires",
                lease=NAME,
                error=str(error) or "no answer",
            )

    async def _try(self) -> str:
        """Take the Lease if it is free; else return its holder."""
        found = await self._leases.get(LEASE, self._namespace, NAME)
        if found is None:
            manifest = {
                "apiVersion": LEASE.api_version,
                "kind": LEASE.name,
                "metadata": {"name": NAME, "namespace": self._namespace},
                "spec": self._spec({}),
            }
            self._held = await self._leases.create(manifest)
            return "another operator was faster"
        now = asyncio.get_running_loop().time()
        version = found["metadata"]["resourceVersion"]
        if version != self._seen:
            self._seen, self._seen_at = version, now
        holder = found.get("spec", {}).get("holderIdentity")
        duration = found.get("spec", {}).get("leaseDurationSeconds") or DURATION_SECONDS
        if holder and holder != self._identity and now - self._seen_at < duration:
            return f"{holder} leads"
        self._held = await self._leases.replace(found | {"spec": self._spec(found.get("spec", {}))})
        return ""

    async def _renew(self) -> None:
        held = self._held
        if held is None:
            raise LeadLost("the Lease was released")
        try:
            self._held = await self._leases.replace(held | {"spec": held["spec"] | {"renewTime": _now()}})
        except (Changed, Gone):
            # The Lease has changed: perhaps by a renewal whose answer was lost.
            found = await self._leases.get(LEASE, self._namespace, NAME)
            holder = (found or {}).get("spec", {}).get("holderIdentity")
            if found is None or holder != self._identity:
                raise LeadLost(f"{holder or 'no operator'} leads") from None
            self._held = await self._leases.replace(found | {"spec": found["spec"] | {"renewTime": _now()}})

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(DURATION_SECONDS),
            "acquireTime": _now(),
            "renewTime": _now(),
            "leaseTransitions": before.get("leaseTransitions", -1) + 1,
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
