"""A handler: stores orders in a service that speaks Redis' protocol, each exactly once.

Its address is in the variable APP_LEDGER_ADDRESS, from a ConfigMap. Its password is in the file
APP_LEDGER_PASSWORD_FILE, from a Secret, which is read for each connection: a changed Secret needs no restart. An event
is stored under its partition and sequence number, so an event that is received again has no effect.
"""

import contextlib
import os
import socket
from pathlib import Path
from typing import BinaryIO

from eventconsumer_host.handler import Batch, CloseReason, EventProcessor, PartitionContext, TryAgain

TIMEOUT_SECONDS = 5


class Ledger(EventProcessor):
    """Stores orders. The methods are plain: each instance has its own thread, which may block."""

    def __init__(self) -> None:
        """Read the address; without it the host reports HandlerInvalid with this error."""
        self._host, _, self._port = os.environ["APP_LEDGER_ADDRESS"].rpartition(":")
        self._password_file = Path(os.environ["APP_LEDGER_PASSWORD_FILE"])
        self._stream: BinaryIO | None = None

    def process_events(self, context: PartitionContext, batch: Batch) -> None:
        """Store a batch. After an error all of it is sent again: NX keeps what is stored already."""
        requests = [
            _request(b"SET", f"order:{context.partition_id}:{event.sequence_number}".encode(), event.body or b"", b"NX")
            for event in batch
        ]
        try:
            _send(self._stream or self._connect(), requests)
        except OSError as error:  # not caused by an event
            self._disconnect()
            raise TryAgain(f"the ledger at {self._host}:{self._port}: {error}") from error

    def close(self, context: PartitionContext, reason: CloseReason) -> None:
        """Close the connection."""
        self._disconnect()

    def _connect(self) -> BinaryIO:
        connection = socket.create_connection((self._host, int(self._port)), timeout=TIMEOUT_SECONDS)
        with connection:  # the stream keeps it open
            self._stream = connection.makefile("rwb")
        _send(self._stream, [_request(b"AUTH", self._password_file.read_bytes().strip())])
        return self._stream

    def _disconnect(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(OSError):  # it may have something to send still
                stream.close()


def _request(*parts: bytes) -> bytes:
    """A command in Redis' protocol (redis.io/docs/latest/develop/reference/protocol-spec)."""
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def _send(stream: BinaryIO, requests: list[bytes]) -> None:
    """Send commands and read their replies, of one line each.

    Raises:
        OSError: The connection is lost, or the service refuses a command.
    """
    stream.write(b"".join(requests))
    stream.flush()
    for reply in [stream.readline() for _ in requests]:
        if not reply or reply.startswith(b"-"):
            raise OSError(reply.decode(errors="replace").strip() or "the connection is closed")
