"""The trace of a host's AMQP frames, in its log, for debugging: with EVENTCONSUMER_AMQP_TRACE=1 in its environment.

A line has the performative and its fields. A payload is only counted: it has events, or the token of a credential.
"""

import os
from collections.abc import Iterator
from itertools import count
from typing import Any

import structlog

from eventconsumer_host.amqp.frames import Fields, parse
from eventconsumer_host.amqp.wire import Deliveries, FrameReceiver, Wire

log = structlog.get_logger(__name__)

VARIABLE = "EVENTCONSUMER_AMQP_TRACE"
_numbers = count(1)
# Fields by position (OASIS, AMQP 1.0, sections 2.7 and 5.3.3). Those of `open` and `attach` have more: capabilities.
_NAMES = {
    0x10: "open container-id hostname max-frame-size channel-max idle-time-out",
    0x11: "begin remote-channel next-outgoing-id incoming-window outgoing-window handle-max",
    0x12: "attach name handle role snd-settle-mode rcv-settle-mode source target unsettled incomplete-unsettled "
    "initial-delivery-count max-message-size",
    0x13: "flow next-incoming-id incoming-window next-outgoing-id outgoing-window handle delivery-count link-credit "
    "available drain echo",
    0x14: "transfer handle delivery-id delivery-tag message-format settled more rcv-settle-mode state resume aborted",
    0x15: "disposition role first last settled state",
    0x16: "detach handle closed error",
    0x17: "end error",
    0x18: "close error",
    0x40: "sasl-mechanisms sasl-server-mechanisms",
    0x41: "sasl-init mechanism",
    0x44: "sasl-outcome code",
}


def wire(peer: FrameReceiver, max_frame_size: int) -> Wire:
    """The wire of a new connection, with a trace if the environment asks for it."""
    return (_TracedWire if os.environ.get(VARIABLE) else Wire)(peer, max_frame_size)


class _TracedWire(Wire):
    def __init__(self, peer: FrameReceiver, max_frame_size: int) -> None:
        self._log = log.bind(connection=next(_numbers))
        super().__init__(_TracedPeer(peer, self._log), max_frame_size)

    def send(self, data: bytes) -> None:
        for text in _frames(data):
            self._log.info(f"-> {text}")
        super().send(data)


class _TracedPeer:
    def __init__(self, peer: FrameReceiver, to: Any) -> None:
        self._peer, self._log = peer, to

    def header(self, data: bytes) -> None:
        self._log.info(f"<- {_header(data)}")
        self._peer.header(data)

    def frame(self, kind: int, fields: Fields, payload: bytes) -> None:
        self._log.info(f"<- {_text(fields, len(payload))}")
        self._peer.frame(kind, fields, payload)

    def deliveries(self, handle: int, found: Deliveries) -> None:
        self._log.info(f"<- {len(found)} x transfer(handle={handle}, settled=true), {len(found.data)} bytes in all")
        self._peer.deliveries(handle, found)

    def lost(self, reason: str) -> None:
        self._log.info(f"the connection ended: {reason}")
        self._peer.lost(reason)


def _frames(data: bytes) -> Iterator[str]:
    """The frames that one call sends."""
    while data:
        size = 8 if data.startswith(b"AMQP") else int.from_bytes(data[:4])
        sent, data = data[:size], data[size:]
        if sent.startswith(b"AMQP"):
            yield _header(sent)
        elif size == 8:
            yield "heartbeat"
        else:
            body = sent[4 * sent[4] :]
            fields, payload_at = parse(body)
            yield _text(fields, len(body) - payload_at)


def _header(data: bytes) -> str:
    return f"header AMQP {data[4]} {data[5]}.{data[6]}.{data[7]}"


def _text(fields: Fields, payload: int) -> str:
    name, *names = _NAMES.get(fields.code, f"performative-{fields.code:#04x}").split()
    given = [f"{each}={_value(fields[at])}" for at, each in enumerate(names) if fields[at] is not None]
    return f"{name}({', '.join(given)})" + (f" and {payload} bytes" if payload else "")


def _value(value: Any) -> str:
    match value:
        case bytes():
            text = value.decode(errors="replace")
            return text if text.isprintable() else value.hex()
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(_value(each) for each in value if each is not None)}]"
        case dict():
            return f"{{{', '.join(f'{_value(name)}: {_value(each)}' for name, each in value.items())}}}"
        case _:
            return str(value)
