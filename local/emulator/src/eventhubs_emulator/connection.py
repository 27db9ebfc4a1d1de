"""A connection as a state machine without a socket: ``receive`` takes bytes, ``take_output`` gives bytes.

Handshake: an optional SASL layer, then open; the client's rights come later, from the tokens that it puts on ``$cbs``
(or immediately, with SASL PLAIN). Both sides send heartbeats. Invariant: for any input, the connection either continues
or ends with a close frame that contains the reason, and its memory is bounded: one frame, ``MAX_HELD`` bytes of
unfinished messages, and output only as fast as the caller takes it.
"""

import logging
from collections.abc import Callable
from enum import Enum, auto

from .broker import Broker
from .errors import AmqpError, ConnectionFailed, LinkFailed
from .framing import AMQP_FRAME, AMQP_HEADER, EMPTY_FRAME, SASL_FRAME, SASL_HEADER, Frame, FrameReader, frame
from .links import Link
from .performatives import (
    SASL,
    Attach,
    Begin,
    Close,
    Open,
    Performative,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    error_value,
    parse,
)
from .session import Session
from .tokens import NEVER, Grant

MAX_FRAME_SIZE = 65536
"""Bytes; the value of Event Hubs."""
CHANNEL_MAX = 4999
"""The highest channel, as in Event Hubs."""
MAX_HELD = 64 * 1024 * 1024
"""Bytes of unfinished messages on all links of a connection."""
HANDSHAKE_SECONDS = 60.0
"""Time limit for the client to open the connection."""

log = logging.getLogger(__name__)


class State(Enum):
    """State of the handshake."""

    HEADER = auto()
    SASL = auto()
    SASL_DONE = auto()
    OPENING = auto()
    OPEN = auto()
    CLOSED = auto()


class Connection:
    """One client's connection.

    Args:
        broker: the namespace.
        number: identifies the connection in logs and in the admin API.
        wake: called when there may be output.
        drop: called to drop the connection without a close frame.
        idle_ms: milliseconds without a frame from the client after which it is closed.
    """

    def __init__(
        self,
        broker: Broker,
        number: int,
        wake: Callable[[], None],
        drop: Callable[[], None],
        idle_ms: int = 240_000,
    ) -> None:
        self.broker = broker
        self.number = number
        self.wake = wake
        self.drop = drop
        self.container_id = ""
        self.peer_max_frame_size = 512
        self.sessions: dict[int, Session] = {}
        self.output: list[bytes] = []
        self._state = State.HEADER
        self._reader = FrameReader(MAX_FRAME_SIZE)
        self._ending: set[int] = set()
        self._grants: dict[str, Grant] = {}
        self._held = 0
        self._idle = idle_ms / 1000
        self._peer_idle = 0.0
        self._opened_at = broker.clock() / 1000
        self._heard_at = self._said_at = self._opened_at

    # Bytes in and out

    @property
    def closed(self) -> bool:
        """Whether the connection is over, once the output is written."""
        return self._state is State.CLOSED

    def receive(self, data: bytes) -> None:
        """Takes bytes from the client."""
        self._heard_at = self.broker.clock() / 1000
        self._reader.feed(data)
        try:
            while not self.closed and self._step():
                pass
        except ConnectionFailed as error:
            self.fail(error)

    def take_output(self, budget: int) -> bytes:
        """The next output: control frames first, then about ``budget`` bytes of events."""
        size = 0
        if not self.closed:
            for session in tuple(self.sessions.values()):
                session.answer_late()
                for link in session.outgoing():
                    if size < budget:
                        size += link.pump(budget - size)
        data = b"".join(self.output)
        self.output.clear()
        if data:
            self._said_at = self.broker.clock() / 1000
        return data

    def _step(self) -> bool:
        """Takes one header or frame; False if more bytes are needed."""
        if self._state in (State.HEADER, State.SASL_DONE):
            header = self._reader.header()
            if header is not None:
                self._on_header(header)
            return header is not None
        received = self._reader.next()
        if received is None:
            return False
        if received.body:
            self._on_frame(received)
        return True

    def _on_header(self, header: bytes) -> None:
        if header == AMQP_HEADER:
            self.output.append(AMQP_HEADER)
            self._state = State.OPENING
        elif header == SASL_HEADER and self._state is State.HEADER:
            mechanisms = SaslMechanisms(("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"))
            self.output += (SASL_HEADER, frame(0, mechanisms.encode(), SASL_FRAME))
            self._state = State.SASL
        else:
            # The standard's response to an unsupported protocol: the supported header, then the end.
            self.output.append(SASL_HEADER)
            self._state = State.CLOSED
            self.log(f"protocol {header!r} refused")

    # Frames

    def _on_frame(self, received: Frame) -> None:
        if self._state is State.SASL:
            self._on_sasl(received)
            return
        if received.kind != AMQP_FRAME:
            raise ConnectionFailed("amqp:connection:framing-error", f"a frame of type {received.kind} is not expected")
        performative, end = parse(received.body)
        match performative:
            case Open() if self._state is State.OPENING:
                self._on_open(performative)
            case Close() if self._state is State.OPEN:
                self.output.append(frame(0, Close().encode()))
                self.end()
                self.log("connection closed by client")
            case Begin() if self._state is State.OPEN:
                self._on_begin(received.channel, performative)
            case _ if self._state is State.OPEN:
                self._on_session_frame(received.channel, performative, received.body[end:])
            case _:
                raise ConnectionFailed("amqp:not-allowed", "the connection must be opened first")

    def _on_sasl(self, received: Frame) -> None:
        if received.kind != SASL_FRAME:
            raise ConnectionFailed("amqp:connection:framing-error", "a SASL frame is expected")
        init, _ = parse(received.body, SASL)
        assert isinstance(init, SaslInit)
        accepted = init.mechanism in ("MSSBCBS", "ANONYMOUS", "EXTERNAL")
        if init.mechanism == "PLAIN":
            accepted = self._plain(init.initial_response or b"")
        self.output.append(frame(0, SaslOutcome(0 if accepted else 1).encode(), SASL_FRAME))
        self._state = State.SASL_DONE if accepted else State.CLOSED
        if not accepted:
            self.log(f"SASL {init.mechanism[:20]} refused")

    def _plain(self, response: bytes) -> bool:
        """Whether a PLAIN response names a policy and its key; grants the policy's rights if so."""
        _, _, rest = response.partition(b"\0")
        name, _, key = rest.partition(b"\0")
        policy = self.broker.policies.get(name.decode("utf-8", "replace"))
        if policy is None or policy.key.encode() != key:
            return False
        self.grant(Grant("", policy.rights, NEVER))
        return True

    def _on_open(self, peer: Open) -> None:
        size = 0xFFFFFFFF if peer.max_frame_size is None else peer.max_frame_size
        if size < 512:
            raise ConnectionFailed("amqp:invalid-field", f"a maximum frame size of {size} is below 512")
        self.peer_max_frame_size = min(size, 1024 * 1024)
        self.container_id = peer.container_id[:200]
        self._peer_idle = (peer.idle_time_out or 0) / 1000
        reply = Open(
            container_id="eventhubs-emulator",
            max_frame_size=MAX_FRAME_SIZE,
            channel_max=CHANNEL_MAX,
            idle_time_out=int(self._idle * 1000),
        )
        self.output.append(frame(0, reply.encode()))
        self._state = State.OPEN
        self.log("connection opened")

    def _on_begin(self, channel: int, begin: Begin) -> None:
        if channel in self.sessions or channel > CHANNEL_MAX:
            raise ConnectionFailed("amqp:not-allowed", f"channel {channel} is in use or above {CHANNEL_MAX}")
        self._ending.discard(channel)
        self.sessions[channel] = Session(self, channel, begin)

    def _on_session_frame(self, channel: int, performative: Performative, payload: bytes) -> None:
        session = self.sessions.get(channel)
        if session is None:
            if channel not in self._ending:
                raise ConnectionFailed("amqp:not-allowed", f"no session has begun on channel {channel}")
            return
        session.on_frame(performative, payload)
        if session.ended:
            del self.sessions[channel]
            self._ending.add(channel)

    # Authorization

    def grant(self, grant: Grant) -> None:
        """Stores the rights of a token; a newer token for the same path replaces it."""
        if len(self._grants) >= 1000 and grant.path not in self._grants:
            raise LinkFailed("amqp:resource-limit-exceeded", "Too many tokens on one connection.")
        self._grants[grant.path] = grant

    def has_right(self, path: str, right: str, now: float) -> bool:
        """Whether a valid token grants a right on a path."""
        return any(
            grant.covers(path) and right in grant.rights and grant.expires_at > now for grant in self._grants.values()
        )

    def authorize(self, path: str, right: str) -> None:
        """Checks a right.

        Raises:
            LinkFailed: no valid token grants it.
        """
        if not self.has_right(path, right, self.broker.clock() / 1000):
            raise LinkFailed(
                "amqp:unauthorized-access",
                f"Unauthorized access. '{right}' claim(s) are required to perform this operation. Resource: '{path}'.",
            )

    def expire_claims(self) -> None:
        """Expires every token."""
        self._grants.clear()
        self.tick()

    # Life

    def hold(self, size: int) -> None:
        """Counts bytes of unfinished messages.

        Raises:
            ConnectionFailed: there are too many.
        """
        self._held += size
        if self._held > MAX_HELD:
            raise ConnectionFailed("amqp:resource-limit-exceeded", f"unfinished messages exceed {MAX_HELD} bytes")

    def tick(self) -> None:
        """Checks the clock: heartbeat, idle client, expired tokens."""
        now = self.broker.clock() / 1000
        if self._state is not State.OPEN:
            if now - self._opened_at > HANDSHAKE_SECONDS:
                self.fail(ConnectionFailed("amqp:connection:forced", "The connection was not opened in time."))
            return
        if now - self._heard_at > self._idle:
            self.fail(
                ConnectionFailed(
                    "amqp:connection:forced",
                    f"The connection was inactive for more than the allowed {int(self._idle * 1000)} milliseconds.",
                )
            )
            return
        if self._peer_idle and now - self._said_at > self._peer_idle / 3:
            self.output.append(EMPTY_FRAME)
            self.wake()
        for session in tuple(self.sessions.values()):
            for link in tuple(session.links.values()):
                link.tick(now)

    def fail(self, error: AmqpError) -> None:
        """Closes the connection with an error."""
        if not self.closed:
            if self._state is State.OPEN:
                self.output.append(frame(0, Close(error_value(error)).encode()))
            self.end()
            self.log("connection failed", None, error)

    def end(self) -> None:
        """Ends every session; ``output`` may still be written."""
        self._state = State.CLOSED
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()
        self.wake()

    def log(self, event: str, link: "Link | Attach | None" = None, error: AmqpError | None = None) -> None:
        """One line for an event of this connection."""
        name = f" link={link.name[:100]!r}" if link is not None else ""
        where = f" {endpoint}" if (endpoint := getattr(link, "endpoint", None)) else ""
        reason = f": {error}" if error else ""
        log.info("connection=%d %s%s%s%s", self.number, event, name, where, reason)
