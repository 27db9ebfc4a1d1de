"""The two request-and-reply services of a namespace: ``$cbs`` (put a token) and ``$management`` (read properties).

A client attaches a pair of links, sends a request and waits for the message that carries the request's id as
correlation id, in the same AMQP type. The reply-to of clients is not reliable, so a reply is sent to the link that
receives from the same service in the same session, or in the same connection if that session has none.

As in Event Hubs, a connection has at most one pair of links to ``$cbs``, and an idle pair is detached.
"""

from collections import deque
from typing import Any

from .contexts import ConnectionContext, SessionContext
from .errors import DecodeError, LinkFailed, NotFound
from .faults import SERVER_BUSY, Endpoint
from .hub import Partition
from .links import Incoming, Outgoing
from .messages import Request, encode_response, parse_request
from .performatives import Attach, address_of
from .tokens import LISTEN, SAS_TYPE, SEND, Grant, TokenRefused, check_jwt, check_sas, path_of
from .values import Array, Int, Symbol, Timestamp

SERVICES = ("$cbs", "$management")
MAX_REQUEST_SIZE = 64 * 1024
"""Maximum bytes of a request; a token has a few kilobytes at most."""
MAX_WAITING_REPLIES = 100
"""Maximum of replies that wait for the client's credit; with more, the link is detached."""
CBS_IDLE_SECONDS = 300.0
"""A link to ``$cbs`` without requests for longer is detached.

Source: the traces in https://github.com/Azure/azure-event-hubs-node/issues/96 and 127.
"""


def open_service(link: "ReplyLink | RequestLink") -> Endpoint:
    """Admits a link to a service; returns its endpoint.

    Raises:
        LinkFailed: a fault refuses it, or the connection has such a link to ``$cbs``. Source of the text: the trace
            in https://github.com/Azure/azure-event-hubs-node/issues/186.
    """
    connection = link.connection
    endpoint = Endpoint(link.service.removeprefix("$"), "", None, None, connection.number)
    connection.broker.faults.check_attach(endpoint)
    for other in connection.broker.service_links:
        if other.endpoint == endpoint and type(other) is type(link) and link.service == "$cbs":
            text = f"A link to connection '{connection.number}' $cbs node has already been opened."
            raise LinkFailed("amqp:not-allowed", text)
    connection.broker.service_links.append(link)
    return endpoint


def check_idle(link: "ReplyLink | RequestLink", now: float) -> None:
    """Detaches a link to ``$cbs`` that was idle for too long (seconds since the epoch)."""
    if link.service == "$cbs" and now - link.used_at > CBS_IDLE_SECONDS:
        link.detach(
            LinkFailed(
                "amqp:connection:forced",
                f"The connection was inactive for more than the allowed {CBS_IDLE_SECONDS * 1000:.0f} milliseconds and "
                "is closed by container 'LinkTracker'.",
            )
        )


class ReplyLink(Outgoing):
    """The link on which a client receives the replies of a service."""

    def __init__(self, session: SessionContext, attach: Attach, service: str) -> None:
        super().__init__(session, attach)
        self.service = service
        self.used_at = self.connection.broker.clock() / 1000
        self.endpoint = open_service(self)
        self.address = address_of(attach.target)
        self._waiting: deque[bytes] = deque()

    def reply(self, message: bytes) -> None:
        """Sends a reply as soon as the client gives credit."""
        if len(self._waiting) >= MAX_WAITING_REPLIES:
            self.detach(LinkFailed("amqp:resource-limit-exceeded", "Too many replies wait for credit on this link."))
            return
        self._waiting.append(message)
        self.used_at = self.connection.broker.clock() / 1000
        self.connection.wake()

    def pump(self, budget: int) -> int:
        """Sends waiting replies."""
        size = self.flush()
        while self._waiting and self.credit > 0 and not self.blocked:
            self.enqueue(self._waiting.popleft())
            size += self.flush()
        if not self._waiting:
            self.finish_drain()
        return size

    def tick(self, now: float) -> None:
        """Detaches the link if it is idle."""
        check_idle(self, now)

    def close(self) -> None:
        """Forgets the link."""
        super().close()
        self.connection.broker.service_links.remove(self)


class RequestLink(Incoming):
    """The link on which a client sends requests to a service."""

    max_message_size = MAX_REQUEST_SIZE

    def __init__(self, session: SessionContext, attach: Attach, service: str) -> None:
        super().__init__(session, attach)
        self.service = service
        self.used_at = self.connection.broker.clock() / 1000
        self.endpoint = open_service(self)

    def tick(self, now: float) -> None:
        """Detaches the link if it is idle."""
        check_idle(self, now)

    def close(self) -> None:
        """Forgets the link."""
        super().close()
        self.connection.broker.service_links.remove(self)

    def on_message(self, message: bytes, message_format: int) -> None:
        """Handles a request."""
        self.used_at = self.connection.broker.clock() / 1000
        request = parse_request(message)
        answer = put_token(self.connection, request) if self.service == "$cbs" else read(self.connection, request)
        if answer is None:
            return
        status, description, body, condition = answer
        properties: dict[str, Any] = {"status-code": Int(status), "status-description": description}
        if condition:
            properties["error-condition"] = Symbol(condition)
        target = self._reply_link(request.reply_to)
        if target is None:
            raise LinkFailed("amqp:precondition-failed", f"Attach a link that receives from '{self.service}' first.")
        target.reply(encode_response(request.message_id, properties, body))

    def _reply_link(self, reply_to: str | None) -> ReplyLink | None:
        mine = [link for link in self.session.links.values() if isinstance(link, ReplyLink)]
        others = [
            link
            for session in self.connection.sessions.values()
            for link in session.links.values()
            if isinstance(link, ReplyLink)
        ]
        fitting = [link for link in mine + others if link.service == self.service]
        named = [link for link in fitting if reply_to is not None and link.address == reply_to]
        return next(iter(named + fitting), None)


Answer = tuple[int, str, Any, str | None]
"""Status code, status description, body, and the error condition if there is one."""


def put_token(connection: ConnectionContext, request: Request) -> Answer | None:
    """Handles a token.

    Returns:
        The response; None: no response (a fault).
    """
    broker = connection.broker
    fault = broker.faults.cbs
    if fault is not None:
        broker.counters["cbs_failed"] += 1
        return None if fault.status is None else (fault.status, fault.description, None, None)
    properties = request.properties
    if properties.get("operation") != "put-token":
        return 400, f"Operation {str(properties.get('operation'))[:50]!r} is not supported, use put-token.", None, None
    audience, token = properties.get("name"), request.body
    token = token.decode("ascii", "replace") if isinstance(token, bytes) else token
    if not isinstance(audience, str) or not isinstance(token, str):
        return 400, "put-token needs the audience as property 'name' and the token as text in the body.", None, None
    try:
        grant = check_token(connection, str(properties.get("type")), token, audience, properties.get("expiration"))
    except TokenRefused as error:
        broker.counters["cbs_refused"] += 1
        return 401, str(error), None, None
    except DecodeError as error:
        return 400, error.description, None, None
    hub = path_of(audience).partition("/")[0]
    if hub and hub not in broker.hubs:
        return 404, f"The messaging entity '{audience}' could not be found.", None, None
    connection.grant(grant)
    broker.counters["cbs_accepted"] += 1
    return 202, "Accepted", None, None


def check_token(connection: ConnectionContext, kind: str, token: str, audience: str, expiration: Any = None) -> Grant:
    """Verifies a token of either type.

    Raises:
        TokenRefused: it does not authenticate.
        DecodeError: its type is unknown.
    """
    broker, now = connection.broker, connection.broker.clock() / 1000
    if kind == SAS_TYPE:
        return check_sas(token, audience, broker.policies, now)
    if kind == "jwt":
        if not broker.allow_jwt:
            raise TokenRefused(
                "InvalidIssuer: Bearer tokens are not accepted here; start the emulator with --allow-jwt."
            )
        seconds = expiration / 1000 if isinstance(expiration, Timestamp) else None
        return check_jwt(token, audience, seconds, now)
    raise DecodeError(
        "Property 'type' in the 'application-properties' section is either missing, has the wrong type, or has an "
        f"unexpected value: use '{SAS_TYPE}' or 'jwt'."
    )


def read(connection: ConnectionContext, request: Request) -> Answer:
    """Handles a READ of a hub's or a partition's properties."""
    broker, properties = connection.broker, request.properties
    broker.counters["management_reads"] += 1
    kind, name = properties.get("type"), properties.get("name")
    if properties.get("operation") != "READ" or not isinstance(name, str):
        return 400, "The request needs the properties operation=READ, type and name.", None, "amqp:not-allowed"
    if not _may_read(connection, name, properties.get("security_token")):
        text = f"Unauthorized access. 'Listen' claim(s) are required to perform this operation. Resource: '{name}'."
        return 401, text, None, "amqp:unauthorized-access"
    hub = broker.hubs.get(name.lower())
    if hub is None:
        return 404, f"The messaging entity '{name}' could not be found.", None, "amqp:not-found"
    if not broker.may_ask(hub):
        text = "The request was terminated because the entity is being throttled. Wait 4 seconds and try again."
        return 503, text, None, SERVER_BUSY
    if kind == "com.microsoft:eventhub":
        body = {
            "type": kind,
            "name": hub.name,
            "created_at": Timestamp(hub.created_ms),
            "partition_count": Int(len(hub.partitions)),
            "partition_ids": Array.of(str, *(partition.id for partition in hub.partitions)),
            "georeplication_factor": Int(1),
        }
        return 200, "OK", body, None
    if kind == "com.microsoft:partition":
        try:
            partition = hub.partition(str(properties.get("partition")))
        except NotFound as error:
            return 400, str(error), None, "com.microsoft:argument-out-of-range"
        return 200, "OK", {"type": kind, "name": hub.name, **partition_properties(partition, broker.clock())}, None
    return 400, f"There is nothing of type {str(kind)[:50]!r} to read.", None, "amqp:not-allowed"


def partition_properties(partition: Partition, now_ms: int) -> dict[str, Any]:
    """Properties of a partition as in Event Hubs; an empty one has -1, "-1" and the year 1."""
    return {
        "partition": partition.id,
        "begin_sequence_number": partition.begin_sequence_number,
        "last_enqueued_sequence_number": partition.last_sequence_number,
        "last_enqueued_offset": partition.last_offset,
        "last_enqueued_time_utc": Timestamp(partition.last_enqueued_ms),
        "runtime_info_retrieval_time_utc": Timestamp(now_ms),
        "is_partition_empty": len(partition) == 0,
    }


def _may_read(connection: ConnectionContext, hub: str, token: Any) -> bool:
    """Whether a claim of the connection, or the token in the request itself, allows reading the properties."""
    path, now = hub.lower(), connection.broker.clock() / 1000
    if any(connection.has_right(path, right, now) for right in (LISTEN, SEND)):
        return True
    if not isinstance(token, str):
        return False
    try:
        check_token(connection, SAS_TYPE if token.startswith("SharedAccessSignature ") else "jwt", token, hub)
    except TokenRefused:
        return False
    return True
