"""Publishes messages byte by byte, so also AMQP types that no client library can send."""

import socket
from typing import TypeVar

from eventhubs_emulator.framing import AMQP_HEADER, SASL_FRAME, SASL_HEADER, FrameReader, frame
from eventhubs_emulator.performatives import (
    AMQP,
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    Performative,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
    parse,
)
from eventhubs_emulator.values import Described, ULong
from tests.support.servers import KEY, KEY_NAME, EmulatorProcess

P = TypeVar("P", bound=Performative)
ANSWERS = AMQP | {SaslMechanisms.CODE: SaslMechanisms, SaslOutcome.CODE: SaslOutcome}
PIECE = 60_000  # bytes of a message in one frame


def publish_raw(emulator: EmulatorProcess, hub: str, partition: str, *messages: bytes) -> None:
    """Send encoded messages to a partition, and wait until each is accepted.

    Raises:
        AssertionError: One was not accepted.
        OSError: The connection was closed.
    """
    with socket.create_connection(("localhost", emulator.port), 10) as connection:
        peer = _Peer(connection)
        plain = SaslInit("PLAIN", f"\0{KEY_NAME}\0{KEY}".encode())
        connection.sendall(SASL_HEADER + frame(0, plain.encode(), SASL_FRAME))
        peer.header()
        assert peer.expect(SaslOutcome).code == 0
        connection.sendall(AMQP_HEADER)
        peer.header()
        peer.send(Open("raw", max_frame_size=1 << 20))
        peer.send(Begin(None, 0, 1000, 1000))
        source, target = Described(ULong(0x28), ["me"]), Described(ULong(0x29), [f"{hub}/Partitions/{partition}"])
        peer.send(Attach("raw", 0, False, source=source, target=target, initial_delivery_count=0))
        peer.expect(Flow)  # credit
        for number, message in enumerate(messages):
            for start in range(0, len(message), PIECE):
                more = start + PIECE < len(message)
                peer.send(Transfer(0, number, b"%d" % number, 0, False, more), message[start : start + PIECE])
            answer = peer.expect(Disposition)
            assert (answer.first, answer.state.descriptor) == (number, 0x24), answer


class _Peer:
    """What comes from the server."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames = FrameReader(1 << 24)

    def send(self, performative: Performative, payload: bytes = b"") -> None:
        """Send one frame."""
        self._connection.sendall(frame(0, performative.encode() + payload))

    def header(self) -> None:
        """Take a protocol header."""
        while self._frames.header() is None:
            self._more()

    def expect(self, kind: type[P]) -> P:
        """The next performative of a kind; others are passed over."""
        while True:
            received = self._frames.next()
            if received is None:
                self._more()
            elif received.body:
                performative, _ = parse(received.body, ANSWERS)
                if isinstance(performative, kind):
                    return performative

    def _more(self) -> None:
        data = self._connection.recv(65536)
        if not data:
            raise ConnectionError("the emulator closed the connection")
        self._frames.feed(data)
