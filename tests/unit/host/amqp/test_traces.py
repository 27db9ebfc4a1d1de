"""Bytes that users of Azure's clients published with issues: our reader and codec read them.

All bytes and logs come from Event Hubs, Service Bus or IoT Hub, which share their AMQP front end. Where a log gives the
fields of a frame and not its bytes, Proton's codec encodes them, so that no code of ours is on both sides.
"""

import asyncio
import struct
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from proton import Described, symbol, ubyte, uint, ulong, ushort

from eventconsumer_host.amqp import codec as ours
from eventconsumer_host.amqp import frames
from eventconsumer_host.amqp.connection import Connection, Endpoint
from eventconsumer_host.amqp.decode import decode
from eventconsumer_host.amqp.frames import Fields
from eventconsumer_host.amqp.messages import delivery_annotations
from eventconsumer_host.amqp.wire import Deliveries, Wire
from eventconsumer_host.source.lastenqueued import LastEnqueued, last_enqueued
from tests.support.peer import codec as protons
from tests.unit.host.amqp.pieces import came

pytestmark = pytest.mark.usefixtures("decoder")

# Two events with runtime metrics: https://github.com/amqp/rhea/issues/205
_METRICS = (
    "005371c19308a31d6c6173745f656e7175657565645f73657175656e63655f6e756d6265728100000000000034b9a3146c6173745f656e"
    "7175657565645f6f6666736574a10731333034303234a3166c6173745f656e7175657565645f74696d655f75746383000001697399e3bf"
    "a31f72756e74696d655f696e666f5f72657472696576616c5f74696d655f757463830000016974104f"
)
_EVENTS = [
    "0000012302000002005314c00d0b4343a0004341424040404041" + _METRICS + "65"
    "005372c15606a315782d6f70742d73657175656e63652d6e756d6265728100000000000030d1a30c782d6f70742d6f6666736574a107"
    "31323038303234a313782d6f70742d656e7175657565642d74696d6583000001697399e3bf00537345005375a00d"
    "2248656c6c6f20666f6f203022",
    "0000012602000002005314c00e0b435297a0004341424040404041" + _METRICS + "74"
    "005372c15606a315782d6f70742d73657175656e63652d6e756d6265728100000000000031"
    "68a30c782d6f70742d6f6666736574a10731323232353230a313782d6f70742d656e7175657565642d74696d6583000001697399e3bf"
    "00537345005375a00f2248656c6c6f20666f6f2031353122",
]
# https://github.com/noodlefrenzy/node-amqp10/issues/299, 152 (the outcome), https://github.com/amqp/rhea/issues/412
_SASL_MECHANISMS = (
    "0000003f02010000005340c03201e02f04b3000000074d53534243425300000005504c41494e00000009414e4f4e594d4f555300000008"
    "45585445524e414c"
)
_SASL_OUTCOME = "0000001a02010000005344c00d025000a00857656c636f6d6521"
_HEARTBEAT = "0000000802000000"
# https://github.com/Azure/azure-iot-sdks/issues/263
_BEGIN = "0000002102000000005311c01408600001520152645264700003ffff4040c10100"
# https://github.com/Azure/azure-iot-sdk-node/issues/513, https://github.com/Azure/azure-iot-sdks/issues/320
_ACCEPTED = [
    ("0000001b02000000005315c00e064170000007fd40410053244540", 2045),
    ("0000001b02000000005315c00e0641700000066b40410053244540", 1643),
]
# https://github.com/Azure/azure-sdk-for-python/pull/39952: an event that Azure Functions hands on
_HANDED_ON = (
    "005372c18708a31b782d6f70742d73657175656e63652d6e756d6265722d65706f636854ffa315782d6f70742d73657175656e63652d6e75"
    "6d6265725500a30c782d6f70742d6f66667365745500a313782d6f70742d656e7175657565642d74696d6500a31d636f6d2e6d6963726f73"
    "6f66743a6461746574696d652d6f66667365748300000195f3584286005374c14902a10d446961676e6f737469632d4964a13730302d3161"
    "6132303134383364343634616333633364326162373936666263636233362d373265393437626232326634303466632d3030005375a0086d"
    "65737361676531"
)
_VALUES = [
    # https://github.com/noodlefrenzy/node-amqp10/issues/178
    "a315782d6f70742d73657175656e63652d6e756d626572",
    "5501",
    "a30c782d6f70742d6f6666736574",
    "a1053131353638",
    "a313782d6f70742d656e7175657565642d74696d65",
    "830000015096222212",
    # https://github.com/noodlefrenzy/node-amqp10/issues/243: the array at which that client fails
    "e04210710000000f0000001f0000002f0000003f0000004f0000005f0000006f0000007f0000008f0000009f000000af000000bf000000cf"
    "000000df000000ef000000ff",
]


class Seen(NamedTuple):
    """A frame without deliveries."""

    kind: int
    fields: Fields
    payload: bytes


class Peer:
    """Keeps what the wire passes on."""

    def __init__(self) -> None:
        self.frames: list[Seen] = []
        self.pieces: list[Deliveries] = []
        self.lost_for = ""

    def header(self, data: bytes) -> None:
        """See `wire.FrameReceiver`."""

    def frame(self, kind: int, fields: Fields, payload: bytes) -> None:
        """See `wire.FrameReceiver`."""
        self.frames.append(Seen(kind, fields, payload))
        if fields.code == frames.TRANSFER:
            self.pieces.append(Deliveries.of(payload))

    def deliveries(self, handle: int, found: Deliveries) -> None:
        """See `wire.FrameReceiver`."""
        self.pieces.append(found)

    def lost(self, reason: str) -> None:
        """See `wire.FrameReceiver`."""
        self.lost_for = reason


class Socket(asyncio.WriteTransport):
    """Takes what is written."""

    def abort(self) -> None:
        """See `asyncio.WriteTransport`."""


async def read(data: bytes) -> Peer:
    """Pass bytes through a wire."""
    peer = Peer()
    wire = Wire(peer, 65536)
    wire.connection_made(Socket())
    wire.get_buffer(0)[: len(data)] = data
    wire.buffer_updated(len(data))
    assert not peer.lost_for
    return peer


def performative(code: int, *fields: Any) -> bytes:
    """A frame whose fields a log gives."""
    return protons.frame(protons.encode(Described(ulong(code), list(fields))))


async def test_events_with_runtime_metrics() -> None:
    encoded = [bytes.fromhex(text) for text in _EVENTS]
    assert [struct.unpack(">I", frame[:4])[0] for frame in encoded] == [len(frame) for frame in encoded]
    peer = await read(b"".join(encoded) * 3)
    rows = decode(peer.pieces).rows()
    assert rows.sequence_numbers == [12497, 12648] * 3
    assert rows.offsets == ["1208024", "1222520"] * 3
    assert rows.enqueued_ms == [0x01697399E3BF] * 6
    assert rows.bodies == [b'"Hello foo 0"', b'"Hello foo 151"'] * 3
    assert rows.partition_keys == rows.content_types == rows.message_ids == rows.correlation_ids == [None] * 6
    enqueued = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=0x01697399E3BF)
    retrieved = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=0x016974104F74)
    found = last_enqueued(delivery_annotations(peer.pieces[-1].last))
    assert found == LastEnqueued(13497, "1304024", enqueued, retrieved)


def test_an_event_with_a_described_time_and_an_offset_that_is_a_number() -> None:
    rows = decode(came([bytes.fromhex(_HANDED_ON)])).rows()
    assert (rows.sequence_numbers, rows.offsets, rows.enqueued_ms) == ([0], ["0"], [0x0195F3584286])
    assert rows.bodies == [b"message1"]
    assert rows.properties.keys == ["Diagnostic-Id"]
    assert rows.properties.values == ["00-1aa201483d464ac3c3d2ab796fbccb36-72e947bb22f404fc-00"]
    assert dict(zip(rows.system_properties.keys, rows.system_properties.values, strict=True)) == {
        "x-opt-sequence-number-epoch": "-1"
    }


@pytest.mark.parametrize("text", _VALUES)
def test_values_are_those_of_another_codec(text: str) -> None:
    encoded = bytes.fromhex(text)
    expected, _ = protons.decode(encoded)
    found, end = ours.decode(encoded, 0, len(encoded))
    assert end == len(encoded)
    if isinstance(expected, str):
        found = found.decode()
    assert found == (list(expected.elements) if hasattr(expected, "elements") else expected)


async def test_frames_in_bytes() -> None:
    texts = [_SASL_MECHANISMS, _SASL_OUTCOME, _HEARTBEAT, _BEGIN, *(text for text, _ in _ACCEPTED)]
    mechanisms, outcome, begin, *accepted = (await read(bytes.fromhex("".join(texts)))).frames
    assert (mechanisms.kind, mechanisms.fields.code) == (1, frames.SASL_MECHANISMS)
    assert mechanisms.fields[0] == [b"MSSBCBS", b"PLAIN", b"ANONYMOUS", b"EXTERNAL"]
    assert (outcome.kind, outcome.fields.code, outcome.fields.number(0)) == (1, frames.SASL_OUTCOME, 0)
    assert (begin.fields.code, [begin.fields[index] for index in range(5)]) == (frames.BEGIN, [1, 1, 100, 100, 262143])
    for seen, (_, first) in zip(accepted, _ACCEPTED, strict=True):
        assert seen.fields.code == frames.DISPOSITION
        assert (seen.fields[0], seen.fields.number(1), seen.fields[3]) == (True, first, True)
        assert seen.fields[4] == {"accepted": []}


async def test_frames_of_logs() -> None:
    idle = (
        "The link 'G2:112457621:receiver-link-62df282f' is force detached. Code: consumer(link4508054). Details: "
        "AmqpMessageConsumer.IdleTimerExpired: Idle timeout: 00:10:00."
    )
    error = Described(ulong(0x1D), [symbol("amqp:link:detach-forced"), idle, None])
    tag = bytes.fromhex("88d2a282f8043e4c91d6cc8899522eeb")
    source = Described(ulong(0x28), ["$cbs"] + [None] * 10)
    target = Described(ulong(0x29), ["$cbs"] + [None] * 6)
    data = (
        # https://github.com/Azure/azure-sdk-for-python/issues/11708
        performative(0x10, "1d92f5f7_G7", None, uint(65536), ushort(4999), uint(240000), None, None, None, None, None)
        # https://github.com/Azure/iothub-explorer/issues/57: a sender that is a receiver for the peer
        + performative(
            0x12,
            "$cbs-sender",
            uint(0),
            True,
            ubyte(0),
            ubyte(0),
            source,
            target,
            None,
            None,
            None,
            ulong(2**64 - 1),
            None,
            None,
            None,
        )
        + performative(
            0x13, uint(0), uint(5000), uint(1), uint(65536), uint(0), uint(0), uint(100), uint(0), None, False, None
        )
        # https://github.com/Azure/azure-sdk-for-python/issues/18795: a tag of 16 bytes, an echo for the session alone,
        # and an idle link
        + performative(0x14, uint(2), uint(1), tag, uint(0), None, False, None, None, None, None, True)
        + performative(0x13, uint(1), uint(5000), uint(3), uint(65534), None, None, None, None, None, True, None)
        + performative(0x16, uint(2), True, error)
    )
    opened, attach, flow, transfer, echo, detach = (await read(data)).frames
    assert [opened.fields[index] for index in range(5)] == [b"1d92f5f7_G7", None, 65536, 4999, 240000]
    assert (attach.fields.text(0), attach.fields[2], attach.fields[10]) == ("$cbs-sender", True, 2**64 - 1)
    assert attach.fields[5][0] == attach.fields[6][0] == b"$cbs"
    assert [flow.fields[index] for index in range(8)] == [0, 5000, 1, 65536, 0, 0, 100, 0]
    assert (transfer.fields[2], transfer.fields[4], transfer.fields[10]) == (tag, None, True)
    assert (echo.fields[4], echo.fields[9]) == (None, True)
    assert detach.fields.error(2) == ("amqp:link:detach-forced", idle)


async def test_a_handshake_in_the_bytes_of_the_service() -> None:
    opened = performative(0x10, "1d92f5f7_G7", None, uint(65536), ushort(4999), uint(240000))
    answers = [
        frames.SASL_HEADER + bytes.fromhex(_SASL_MECHANISMS),
        bytes.fromhex(_SASL_OUTCOME),
        frames.AMQP_HEADER,
        opened + bytes.fromhex(_BEGIN) + bytes.fromhex(_HEARTBEAT),
    ]
    asked: list[bytes] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            asked.append(await reader.read(65536))
            writer.write(answer)
        await reader.read(65536)
        writer.write(performative(0x18))
        writer.close()

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    connection = Connection("localhost")
    await connection.connect(Endpoint("127.0.0.1", server.sockets[0].getsockname()[1], tls=False), 10.0)
    assert connection.is_usable
    assert asked[0] == frames.SASL_HEADER and b"ANONYMOUS" in asked[1] and asked[2] == frames.AMQP_HEADER
    await connection.close()
    server.close()
