"""The errors of the emulator, and the AMQP error each one becomes on the wire.

    EmulatorError
    ├── UsageError              wrong command line or configuration: printed, exit 2
    ├── NotFound                an admin call names a hub, partition or policy that does not exist: HTTP 404
    ├── BadRequest              an admin call is malformed: HTTP 400
    └── AmqpError               has a condition and a description
        ├── ConnectionFailed    close(error), then the socket is closed
        │   └── DecodeError     the bytes are not AMQP (also while decoding a message: the link is detached)
        ├── SessionFailed       end(error)
        └── LinkFailed          attach, then detach(closed, error); or a rejected transfer

Invariant: for any input of a peer, an error is one of these, never a bare Python exception; so every failure has a
condition that a client can handle.
"""


class EmulatorError(Exception):
    """Base of the emulator's errors."""


class UsageError(EmulatorError):
    """The command line or configuration is invalid; the text names the option, the cause and the remedy."""


class NotFound(EmulatorError):
    """An admin call names an entity that does not exist."""


class BadRequest(EmulatorError):
    """An admin call is malformed."""


class AmqpError(EmulatorError):
    """A failure that is reported to the AMQP peer.

    Attributes:
        condition: the AMQP error condition, such as ``amqp:not-found``.
        description: cause and remedy.
    """

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


class ConnectionFailed(AmqpError):
    """The connection must end."""


class DecodeError(ConnectionFailed):
    """Bytes that are not valid AMQP 1.0, or that exceed a bound."""

    def __init__(self, description: str) -> None:
        super().__init__("amqp:decode-error", description)


class SessionFailed(AmqpError):
    """The session must end; the connection continues."""


class LinkFailed(AmqpError):
    """The link is refused or detached; the session continues."""
