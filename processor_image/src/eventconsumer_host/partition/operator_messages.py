"""Operator messages about the fleet: verified, stored, and discarded when the operator is silent.

A message is accepted if it has a valid signature of the operator's key, is for this resource, is newer than the last
accepted message, and its time is close to this host's time. The key is a file of the ConfigMap and is read for each
message, so a new key needs no restart. A rejected message changes only a counter. A message affects only which leases
this host acquires and releases: the chain of files is safe with any message.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pydantic import ValidationError

from eventconsumer_api.wire.fleet import FLEET_CLOCK_SECONDS, FLEET_MAX_BYTES, FLEET_SILENCE_SECONDS, FleetMessage
from eventconsumer_host.lease.planned_balancer import Fleet
from eventconsumer_host.metrics import Metrics

LATE_SECONDS = 50.0  # above the operator's longest interval, 45 s with many resources: the operator may be down
FIRST_SECONDS = 5.0  # how long a new host waits for the first message before it acquires leases
_KEY_BYTES = 16 * 1024

log = structlog.get_logger(__name__)


class MessageRefused(Exception):
    """A message is rejected.

    Attributes:
        status: The HTTP status of the response.
        result: The label of the metric.
    """

    def __init__(self, status: int, result: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.result = result


class OperatorMessages:
    """The last accepted message of the operator."""

    def __init__(
        self,
        resource: str,
        key_file: Path | None,
        metrics: Metrics,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Start without a message.

        Args:
            resource: `<namespace>/<name>` of this host's EventConsumer.
            key_file: The operator's public key (PEM), which may be created later; None: all messages are rejected.
            metrics: Counts messages by result.
            clock: Seconds, for the operator's silence; must advance during suspend.
            now: The wall clock, for the times of messages.
        """
        self._changed = asyncio.Event()
        self._resource = resource
        self._key_file = key_file
        self._metrics = metrics
        self._clock = clock
        self._now = now
        self._began = clock()
        self._last: FleetMessage | None = None
        self._heard = 0.0
        self._refused = ""

    def receive(self, body: bytes, signature: str) -> None:
        """Verify and store a message from the network.

        Args:
            body: `FleetMessage` as JSON.
            signature: The signature of the body, base64.

        Raises:
            Refused: The message is rejected.
        """
        try:
            if len(body) > FLEET_MAX_BYTES:
                raise MessageRefused(413, "too large", f"the message has more than {FLEET_MAX_BYTES} bytes")
            self._verify(body, signature)
            try:
                message = FleetMessage.model_validate_json(body)
            except ValidationError as error:
                where = ".".join(str(part) for part in error.errors()[0]["loc"])
                raise MessageRefused(400, "unreadable", f"the message is invalid at {where or 'its root'}") from None
            self.accept(message)
        except MessageRefused as error:
            self.count_refused(error)
            raise
        self._metrics.fleet_messages.labels("accepted").inc()
        self._refused = ""

    def accept(self, message: FleetMessage) -> None:
        """Store a message whose signature is verified.

        Raises:
            Refused: It is for another resource, has a wrong time, or is not newer than the last accepted message.
        """
        last = self._last
        if message.resource != self._resource:
            raise MessageRefused(403, "other resource", "the message is for another EventConsumer")
        if message.time.tzinfo is None:
            raise MessageRefused(400, "unreadable", "the message's time has no time zone")
        if abs((message.time - self._now()).total_seconds()) > FLEET_CLOCK_SECONDS:
            raise MessageRefused(
                403, "clock", f"the message's time is more than {FLEET_CLOCK_SECONDS:.0f} s from this host's"
            )
        if last is not None and message.generation <= last.generation:
            raise MessageRefused(409, "old", f"generation {message.generation} is not above {last.generation}")
        before = self.current()
        self._last, self._heard = message, self._clock()
        if self.current() != before:
            self._changed.set()

    def count_refused(self, error: MessageRefused) -> None:
        """Count a rejected message; repeated rejections with the same result are logged once."""
        self._metrics.fleet_messages.labels(error.result).inc()
        if self._refused != error.result:
            log.warning("an operator message was rejected", why=str(error))
        self._refused = error.result

    @property
    def changed(self) -> bool:
        """Whether an accepted message changed the fleet since the last `acknowledge`."""
        return self._changed.is_set()

    async def wait_changed(self) -> None:
        """Wait until `changed`."""
        await self._changed.wait()

    def acknowledge(self) -> None:
        """Reset `changed`: the caller acts on the current fleet now."""
        self._changed.clear()

    def current(self) -> Fleet | None:
        """The fleet; None before the first message, and while the operator is silent."""
        last = self._last
        if last is None or self._clock() - self._heard >= FLEET_SILENCE_SECONDS:
            return None
        return Fleet(last.hosts, frozenset(last.ready), frozenset(last.gone), last.partitions, frozenset(last.deaf))

    def late(self) -> bool:
        """Whether the next message is overdue: the fleet is uncertain until it arrives."""
        return self._last is None or self._clock() - self._heard >= LATE_SECONDS

    def expected(self) -> bool:
        """Whether the first message is expected soon: this host just started and has the operator's key."""
        if self._last is not None or self._clock() - self._began >= FIRST_SECONDS:
            return False
        return self._key_file is not None and self._key_file.exists()

    def _verify(self, body: bytes, signature: str) -> None:
        key = self._key()
        try:
            key.verify(base64.b64decode(signature, validate=True), body)
        except (InvalidSignature, binascii.Error, ValueError):
            raise MessageRefused(403, "bad signature", "the signature does not match the operator's key") from None

    def _key(self) -> Ed25519PublicKey:
        try:
            if self._key_file is None:
                raise FileNotFoundError("no operator key is configured")
            with self._key_file.open("rb") as file:
                key = load_pem_public_key(file.read(_KEY_BYTES))
        except (OSError, ValueError, UnsupportedAlgorithm) as error:
            text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise MessageRefused(403, "no key", f"the operator's key cannot be read: {text}") from None
        if not isinstance(key, Ed25519PublicKey):
            raise MessageRefused(403, "no key", "the operator's key is not an Ed25519 key")
        return key
