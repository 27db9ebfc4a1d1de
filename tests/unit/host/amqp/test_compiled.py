"""The compiled decoder gives the same as `decode.by_rows`, or names a message that it does not decode."""

import json
import struct
import sys
from array import array
from collections.abc import Sequence
from contextlib import suppress
from ctypes import addressof, c_char
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventconsumer_decoder
from eventconsumer_host import compiled
from eventconsumer_host.amqp import codec
from eventconsumer_host.amqp.decode import by_rows, decode_compiled
from eventconsumer_host.amqp.wire import Deliveries
from eventhubs_emulator.messages import encode_event, parse_event
from eventhubs_emulator.values import Described, Float, Int, Symbol, Timestamp, UInt, ULong
from tests.unit.host.amqp.pieces import piece
from tests.unit.host.amqp.test_decode import (
    BODY,
    COMMON,
    NUMBERED,
    annotations,
    long_texts,
    payloads,
    section,
    texts,
)

LIMIT = 2**31 - 1  # of what is in a column
NOTHING = piece([])


@st.composite
def pieces_of(draw: st.DrawFn, sent: Sequence[bytes]) -> list[Deliveries]:
    """Messages as they may come: in any pieces, and behind any heads."""
    pieces: list[Deliveries] = []
    left = list(sent)
    while left:
        count = len(left) - draw(st.integers(0, len(left) - 1))
        own, left = left[:count], left[count:]
        pieces.append(piece(own, draw(st.binary(max_size=4))))
        if draw(st.booleans()):
            pieces.append(NOTHING)
    return pieces


def fitting(sent: Sequence[bytes]) -> list[bool]:
    """Which messages fit, each by itself."""
    return [not len(decode_compiled([piece([payload])])[1]) for payload in sent]


def assert_same(pieces: Sequence[Deliveries]) -> list[bool]:
    """What fits is decoded as by rows, in order, and the rest is named; returns what fits."""
    sent = [payload for own in pieces for payload in own.messages()]
    fits = fitting(sent)
    batch, rest = decode_compiled(pieces)
    assert rest.tolist() == [index for index, fit in enumerate(fits) if not fit]
    assert rest.dtype == np.int64
    taken = [payload for payload, fit in zip(sent, fits, strict=True) if fit]
    if batch is None:
        assert not taken
    else:
        batch.columns.validate(full=True)
        assert batch.columns.equals(by_rows(taken).columns)
    return fits


def fits(payload: bytes) -> bool:
    return assert_same([piece([payload])])[0]


@given(st.lists(payloads(), max_size=6).flatmap(pieces_of))
def test_any_messages_in_any_pieces(pieces: list[Deliveries]) -> None:
    assert_same(pieces)


values = (
    texts
    | long_texts
    | texts.map(str.encode)
    | st.binary(max_size=20)
    | st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-(2**31), 2**31 - 1).map(Int)
    | st.integers(0, 2**32 - 1).map(UInt)
    | st.integers(0, 2**64 - 1).map(ULong)
    | st.integers(-(2**63), 2**63 - 1).map(Timestamp)
    | st.floats()
    | st.floats(width=32).map(Float)
    | st.uuids()
)
"""Values of properties that publishers send."""


ids = st.none() | texts | st.uuids() | st.integers(0, 2**64 - 1).map(ULong)
events = st.tuples(
    st.binary(max_size=300),
    st.dictionaries(texts, values, max_size=6),
    st.none() | texts,
    st.tuples(ids, st.none(), st.none(), st.none() | texts, st.none(), ids, st.just(Symbol("text/plain"))),
)


@given(st.lists(events, min_size=1, max_size=4), st.data())
def test_messages_as_the_service_sends_them_fit(found: list[tuple[Any, ...]], data: st.DataObject) -> None:
    sent = []
    for number, (body, properties, key, fields) in enumerate(found):
        encoded = section(0x73, list(fields)) + section(0x74, properties) + section(0x75, body)
        sent.append(parse_event(encoded, key).annotated(number + 200, str(number), 1_700_000_000_000)[0])
    assert all(assert_same(data.draw(pieces_of(sent))))


@given(st.permutations([(0x70, [True]), (0x71, {}), (0x73, ["m", None, None, "s"]), (0x74, {"a": 1}), (0x78, {})]))
def test_sections_fit_in_any_order(parts: list[tuple[int, Any]]) -> None:
    more = b"".join(section(code, value) for code, value in parts[2:])
    own = section(0x72, annotations(**{Symbol("iothub"): "x"}))
    sent = [section(*parts[0]) + BODY + more + own + section(*parts[1])]
    assert all(assert_same([piece(sent)]))


def with_value(encoded: bytes) -> bytes:
    """A message with a value among its application properties and its annotations."""
    own = codec.mapping(
        [
            (codec.symbol("x-opt-sequence-number"), codec.long(700)),
            (codec.symbol("other"), encoded),
            (codec.symbol("x-opt-offset"), codec.string("70000")),
            (codec.symbol("x-opt-enqueued-time"), codec.timestamp(1_700_000_000_000)),
        ]
    )
    return (
        codec.described(0x72, own)
        + codec.described(0x74, codec.mapping([(codec.string("k"), encoded)]))
        + codec.composite(0x73, codec.NULL, encoded)
        + BODY
    )


SCALARS = [
    b"\x40",
    b"\x41",
    b"\x42",
    b"\x56\x00",
    b"\x56\x01",
    b"\x56\x02",
    b"\x43",
    b"\x44",
    *[bytes((code, byte)) for code in (0x50, 0x51, 0x52, 0x53, 0x54, 0x55) for byte in (0, 1, 127, 128, 255)],
    *[bytes((code,)) + raw for code in (0x60, 0x61) for raw in (b"\x00\x00", b"\x7f\xff", b"\x80\x00", b"\xff\xff")],
    *[bytes((code,)) + struct.pack(">I", n) for code in (0x70, 0x71) for n in (0, 2**31 - 1, 2**31, 2**32 - 1)],
    *[bytes((code,)) + struct.pack(">Q", n) for code in (0x80, 0x81, 0x83) for n in (0, 2**63 - 1, 2**63, 2**64 - 1)],
    *[bytes((code, 3)) + "aé".encode() for code in (0xA0, 0xA1, 0xA3)],
    *[bytes((code, 0, 0, 0, 3)) + "aé".encode() for code in (0xB0, 0xB1, 0xB3)],
    *[codec.binary(bytes(range(255, 255 - count, -1))) for count in (0, 1, 2, 3, 4, 255)],
    codec.binary(bytes(300)),
    codec.uuid(UUID(int=2**127 + 5)),
    b"\xa1\x00",
    b"\x72\x7f\xc0\x00\x00",
    b"\x72\x3d\xcc\xcc\xcd",
]


def test_every_kind_of_single_value() -> None:
    for encoded in SCALARS:
        assert fits(with_value(encoded)), encoded.hex()
        assert_same([piece([NUMBERED + codec.composite(0x73, *[encoded] * 7) + BODY])])


OTHERS = [
    b"\xa1\x01\xff",
    b"\xa1\x03\xed\xa0\x80",
    b"\xa1\x02\xc0\x80",
    b"\xb1\x00\x00\x00\x02\xc3\x28",
    b"\x45",
    b"\xc0\x01\x00",
    b"\xc1\x01\x00",
    b"\xe0\x04\x01\x54\x01\x02"[:6],
    codec.symbols("a"),
    section(0x80, "x"),
    b"\x73\x00\x00\x00\x61",
    b"\x74\x00\x00\x00\x00",
    b"\x84" + bytes(8),
    b"\x94" + bytes(16),
    b"\x46",
    b"\x57\x00",
    b"\x62\x00\x00",
    b"\xa2\x00",
    b"\x00",
    b"",
]


def test_other_values_do_not_fit() -> None:
    for encoded in OTHERS:
        assert not fits(with_value(encoded)), encoded.hex()


def floats_of(properties: dict[str, Any]) -> tuple[list[str], list[int]]:
    batch, rest = decode_compiled([piece([NUMBERED + section(0x74, properties) + BODY])])
    assert batch is not None
    assert not len(rest)
    rows = batch.rows().properties
    return rows.values, list(rows.kinds)


EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    1e-4,
    9.999999999999999e-05,
    1e-5,
    1.5e-5,
    123456789.0,
    1e15,
    9999999999999998.0,
    1e16,
    1.5e16,
    1e17,
    1e22,
    1e23,
    1e100,
    5e-324,
    2.2250738585072014e-308,
    sys.float_info.max,
    2**53 + 2.0,
    713055720537950.25,
    264099775761461.125,
    2.0**-44,
    9007199254740993.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    *[2.0**power for power in range(-1074, 1024, 37)],
]


between_two_texts = st.builds(lambda number, power: number / 2**power, st.integers(2**50, 2**53), st.integers(0, 60))


@given(st.lists(st.floats() | between_two_texts | st.floats(width=32).map(Float), min_size=1, max_size=30))
def test_doubles_and_floats_are_written_as_python_writes_doubles(found: list[float]) -> None:
    texts, kinds = floats_of({str(index): value for index, value in enumerate(found)})
    assert texts == [json.dumps(value) for value in found]
    assert set(kinds) == {2}


def test_doubles_at_the_edges() -> None:
    for value in (*EDGES, *[-value for value in EDGES]):
        assert floats_of({"k": value})[0] == [json.dumps(value)]


def entries(*pairs: tuple[bytes, bytes]) -> bytes:
    return NUMBERED + codec.described(0x74, codec.mapping(pairs)) + BODY


LEFT = [
    section(0x72, {**annotations(), Symbol("subject"): "a"}) + section(0x73, [None] * 3 + ["b"]) + BODY,  # a name twice
    b"",
    BODY,
    NUMBERED + BODY + BODY,
    NUMBERED + NUMBERED + BODY,
    NUMBERED + section(0x76, [1]),
    NUMBERED + section(0x77, "x"),
    NUMBERED + BODY + section(0x79, 1),
    NUMBERED + BODY + section(2**40 + 0x78, {}),
    NUMBERED + BODY + encode_event(b"", {}, None).annotated(1, "1", 1)[0],
    NUMBERED + section(0x75, "text"),
    NUMBERED + section(0x75, None),
    NUMBERED + section(0x74, None) + BODY,
    NUMBERED + section(0x73, None) + BODY,
    NUMBERED + section(0x73, {}) + BODY,
    NUMBERED + section(0x73, [None] * 14) + BODY,
    NUMBERED + section(0x73, [True]) + BODY,
    NUMBERED + section(0x73, [1.5]) + BODY,
    NUMBERED + section(0x74, [1]) + BODY,
    NUMBERED + b"\x00\x53\x74\xc1\x04\x01\xa1\x01k" + BODY,  # a name without a value
    NUMBERED + b"\x00\x53\x74\xc1\x06\x02\xa1\x01k\x40\x40" + BODY,  # more than it counts
    NUMBERED + b"\x00\xa3\x01x\x40" + BODY,  # a section with a name
    NUMBERED + section(0x70, Described(ULong(1), "x")) + BODY,
    entries((b"\xa1\x01k", b"\x40"), (b"\xa3\x01k", b"\x41")),
    entries((b"\xa0\x01k", b"\x40")),
    entries((b"\x54\x01", b"\x40")),
    entries((b"\xa1\x01\xff", b"\x40")),
    entries(*[(codec.string(str(index)), b"\x40") for index in range(65)]),
    section(0x72, annotations(**{Symbol("x-opt-partition-key"): None})) + BODY,
    section(0x72, annotations(**{Symbol("x-opt-partition-key"): b"binary"})) + BODY,
    *[
        section(0x72, {**annotations(), Symbol(f"x-opt-{name}"): UInt(5)}) + BODY
        for name in ("sequence-number", "offset", "enqueued-time")
    ],
    *[
        section(0x72, {key: value for key, value in annotations().items() if key != f"x-opt-{name}"}) + BODY
        for name in ("sequence-number", "offset", "enqueued-time")
    ],
]
TAKEN = [
    b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x72" + NUMBERED[3:] + BODY,
    NUMBERED + section(0x75, b""),
    NUMBERED,
    section(0x71, {}) + NUMBERED + section(0x78, {}),  # no body
    NUMBERED + section(0x73, [b"\xff"]) + BODY,
    NUMBERED + section(0x73, [None, b"\xff"]) + BODY,
    NUMBERED + b"\x00\xa3\x10amqp:data:binary\xa0\x01x",
    b"\x00\xb3\x00\x00\x00\x1camqp:message-annotations:map" + NUMBERED[3:] + BODY,
    NUMBERED + b"\x00\x53\x73\x45" + BODY,
    NUMBERED + section(0x73, ["m"] + [None] * 12) + BODY,
    NUMBERED + b"\x00\x53\x74\xd1\x00\x00\x00\x08\x00\x00\x00\x02\xa1\x01k\x40" + BODY,
    entries((b"\xb1\x00\x00\x00\x01k", b"\x40"), (b"\xb3\x00\x00\x00\x01l", b"\x41"), (b"\xa1\x00", b"\x44")),
    entries(*[(codec.string(str(index)), b"\x40") for index in range(64)]),
    *[
        section(0x72, {**annotations(), Symbol("x-opt-sequence-number"): number}) + BODY
        for number in (-(2**63), -1, 0, 127, 128, 2**63 - 1)
    ],
    section(0x72, {**annotations(), Symbol("x-opt-sequence-number"): Int(-5)}) + BODY,
    *COMMON,
]


def test_messages_that_fit_and_that_do_not() -> None:
    assert [payload for payload in LEFT if fits(payload)] == []
    assert [payload for payload in TAKEN if not fits(payload)] == []
    for payload in COMMON:
        assert all(assert_same([piece([payload] * 20), NOTHING, piece([payload])]))


def damaged(draw: st.DataObject, payload: bytes) -> bytes:
    """Some bytes are others, or the end is missing."""
    found = bytearray(payload)
    for _ in range(draw.draw(st.integers(0, 3))):
        found[draw.draw(st.integers(0, len(found) - 1))] = draw.draw(st.integers(0, 255))
    return bytes(found[: draw.draw(st.integers(0, len(found)))]) if draw.draw(st.booleans()) else bytes(found)


@given(
    payloads() | st.sampled_from(COMMON) | st.sampled_from(SCALARS).map(with_value) | st.binary(min_size=1), st.data()
)
def test_damaged_messages_are_the_same_by_rows_or_do_not_fit(payload: bytes, data: st.DataObject) -> None:
    found = damaged(data, payload)
    batch, rest = decode_compiled([piece([COMMON[2], found, COMMON[2]])])
    assert batch is not None
    assert rest.tolist() in ([], [1])
    if len(rest):
        return
    assert batch.columns.equals(by_rows([COMMON[2], found, COMMON[2]]).columns)


def test_no_messages() -> None:
    for pieces in ([], [NOTHING], [Deliveries(b"abc", 2, array("q"))] * 3):
        batch, rest = decode_compiled(pieces)
        assert batch is None
        assert not len(rest)


@pytest.mark.parametrize(
    ("head", "stops"),
    [
        (0, [-1]),
        (0, [LIMIT]),
        (5, [4]),
        (0, [20, 10]),
        (2, [10, 11]),
        (2**63, [2**63 - 1]),
        (0, [-(2**63)]),
        (2**64 - 1, [2**63 - 1] * 2),
    ],
)
def test_positions_that_are_none_are_an_error(head: int, stops: list[int]) -> None:
    bad = Deliveries(COMMON[2], head, array("q", stops))
    for pieces in ([bad], [piece([COMMON[2]]), bad]):
        with pytest.raises(ValueError, match="inconsistent arguments"):
            decode_compiled(pieces)


def test_more_than_a_column_may_hold_is_an_error_before_memory_is_taken() -> None:
    size = 2**20
    large = piece([NUMBERED + section(0x75, bytes(size))])
    with pytest.raises(OverflowError):
        decode_compiled([large] * (LIMIT // size + 1))


def measured(payload: bytes) -> tuple[Any, Any, list[Any]]:
    data, stops, fitting = pa.py_buffer(payload), array("q", (len(payload),)), array("B", (0,))
    pieces = array("Q", (data.address, len(payload), 0, stops.buffer_info()[0], 1))
    kept = [pieces, stops, data, fitting]
    at, of = pieces.buffer_info()[0], fitting.buffer_info()[0]
    raw, sizes = eventconsumer_decoder.Pieces(at, 1, of, 1), eventconsumer_decoder.Sizes()
    eventconsumer_decoder.measure(raw, sizes)
    return raw, sizes, kept


@given(payloads(), st.data())
def test_nothing_is_written_but_what_was_measured(payload: bytes, data: st.DataObject) -> None:
    raw, sizes, kept = measured(payload)
    memory = bytearray(b"\xaa" * (sizes.total + 128))
    whole = np.frombuffer(memory, np.uint8)
    if kept[3][0]:
        eventconsumer_decoder.fill(raw, sizes, whole.ctypes.data, sizes.total)
    assert memory[sizes.total :] == b"\xaa" * 128
    with pytest.raises(ValueError, match="inconsistent arguments"):
        eventconsumer_decoder.fill(raw, sizes, whole.ctypes.data, data.draw(st.integers(0, sizes.total - 1)))
    kept[3][0] = 1 - kept[3][0]  # one more than was measured, or one less
    with pytest.raises(ValueError, match="inconsistent arguments"):
        eventconsumer_decoder.fill(raw, sizes, whole.ctypes.data, sizes.total)
    kept[3][0] = 1
    sizes.regions[data.draw(st.integers(0, len(sizes.regions) - 1))] = data.draw(st.integers(0, 2**64 - 1))
    with suppress(ValueError):
        eventconsumer_decoder.fill(raw, sizes, whole.ctypes.data, len(memory) - 128)
    assert memory[sizes.total :] == b"\xaa" * 128


def by_loop(data: bytes, head: bytes, mask: bytes, most: int, capacity: int) -> list[int]:
    stops: list[int] = []
    pos = 0
    while len(stops) < capacity and pos + 4 <= len(data):
        size = int.from_bytes(data[pos : pos + 4])
        frame = data[pos : pos + size]
        if not len(head) <= size <= most or len(frame) < size:
            break
        if any((frame[index] ^ head[index]) & mask[index] for index in range(4, len(head))):
            break
        pos += size
        stops.append(pos)
    return stops


@given(st.data())
def test_frames_are_found_as_by_a_plain_loop(data: st.DataObject) -> None:
    head = data.draw(st.binary(min_size=4, max_size=24))
    mask = bytes(data.draw(st.sampled_from((0, 255, 15))) for _ in head)
    sent = b""
    for _ in range(data.draw(st.integers(0, 6))):
        rest = data.draw(st.binary(max_size=40))
        size = data.draw(st.sampled_from([len(head) + len(rest)] * 9 + [0, 3, len(head) - 1, 2**32 - 1]))
        frame = bytearray(size.to_bytes(4) + head[4:] + rest)
        place = data.draw(st.integers(4, len(head) + 20))
        if place < len(frame):
            frame[place] = data.draw(st.integers(0, 255))
        sent += frame
    sent = sent[: len(sent) - data.draw(st.sampled_from((0, 0, 1, 30)))] if sent else sent
    most, capacity = data.draw(st.sampled_from((10, 40, 512, 2**40))), data.draw(st.sampled_from((0, 1, 3, 100)))
    stops = array("q", bytes(8 * capacity))
    found = eventconsumer_decoder.scan(sent, len(sent), head=head, mask=mask, most=most, stops=stops)
    assert stops[:found].tolist() == by_loop(sent, head, mask, most, capacity)
    assert not any(stops[found:])


def test_a_scan_refuses_what_does_not_belong_together() -> None:
    stops = array("q", bytes(8))
    good: dict[str, Any] = {"head": bytes(8), "mask": bytes(8), "most": 100, "stops": stops}
    assert eventconsumer_decoder.scan(b"\x00\x00\x00\x08" + bytes(4), 8, **good) == 1
    assert eventconsumer_decoder.scan(b"", 0, **good) == 0
    for wrong in ({"mask": bytes(7)}, {"head": b"", "mask": b""}, {"stops": array("i", bytes(8))}):
        with pytest.raises(ValueError, match="inconsistent arguments"):
            eventconsumer_decoder.scan(bytes(8), 8, **{**good, **wrong})
    with pytest.raises(ValueError, match="inconsistent arguments"):
        eventconsumer_decoder.scan(bytes(8), 9, **good)


@pytest.mark.parametrize("place", [(4, 5), (33, 0), (2**64 - 1, 0)])
def test_positions_outside_of_the_buffer_are_refused(place: tuple[int, int]) -> None:
    data = bytearray(b"\x82\x02ab" * 8)
    address = addressof(c_char.from_buffer(data))
    with pytest.raises(ValueError, match="inconsistent arguments"):
        eventconsumer_decoder.join(address, len(data), eventconsumer_decoder.Place(*place))
    assert data == b"\x82\x02ab" * 8


def test_nothing_is_decoded_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eventconsumer_decoder", None)
    compiled.find.cache_clear()
    try:
        assert compiled.find() is None
        with pytest.raises(ImportError, match="not installed"):
            decode_compiled([])
    finally:
        compiled.find.cache_clear()
