"""Messages of any shape become the same columns as by pyamqp's decoder and `source.columns`."""

import json
from typing import Any

import pyarrow as pa
import pytest
from azure.eventhub._pyamqp._decode import decode_payload
from azure.eventhub._pyamqp._encode import encode_payload
from azure.eventhub._pyamqp.message import Header, Message, Properties
from azure.eventhub._pyamqp.types import TYPE, VALUE, AMQPTypes
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.wire.capture import UNDECODED
from eventconsumer_host.amqp import codec
from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.decode import by_rows, decode
from eventconsumer_host.source import columns, sdk
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.rows import PropertyKind
from eventhubs_emulator.codec import encode
from eventhubs_emulator.messages import encode_event
from eventhubs_emulator.values import Array, Char, Decimal128, Described, Int, Symbol, Timestamp, UInt, ULong
from tests.unit.host.amqp.pieces import came

assert sdk  # its import completes pyamqp's decoder
pytestmark = pytest.mark.usefixtures("decoder")


def by_pyamqp(payloads: list[bytes]) -> EventBatch:
    """What the SDK source makes of the messages."""
    return columns.to_batch(decode_payload(memoryview(payload)) for payload in payloads)


def decoded(payloads: list[bytes]) -> EventBatch:
    return decode(came(payloads))


def assert_same(payloads: list[bytes]) -> None:
    """Once, and repeated."""
    expected = by_pyamqp(payloads)
    assert decoded(payloads).columns.equals(expected.columns)
    assert decoded(payloads * 3).columns.equals(pa.concat_batches([expected.columns] * 3))


def section(code: int, value: Any) -> bytes:
    return encode(Described(ULong(code), value))


def annotations(number: int = 700, **more: Any) -> dict[Any, Any]:
    """As the service writes them."""
    return {
        Symbol("x-opt-sequence-number"): number,
        Symbol("x-opt-offset"): str(number * 100),
        Symbol("x-opt-enqueued-time"): Timestamp(1_700_000_000_000 + number),
        **more,
    }


NUMBERED = section(0x72, annotations())
BODY = section(0x75, b"body")

texts = st.text(max_size=12)
long_texts = st.text(max_size=3).map(lambda text: text * 200)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-200, 200)
    | st.integers(-(2**31), 2**31 - 1).map(Int)
    | st.integers(0, 2**32 - 1).map(UInt)
    | st.integers(0, 2**64 - 1).map(ULong)
    | st.floats()
    | texts
    | long_texts
    | st.binary(max_size=9)
    | st.uuids()
    | st.characters(exclude_categories=["Cs"]).map(Char)
    | st.binary(min_size=16, max_size=16).map(Decimal128)
    | st.integers(-(2**60), 2**60).map(Timestamp)
    | texts.map(lambda text: Array(str, (text,) * 2))
    | st.tuples(st.integers(0x40, 200).map(ULong), texts).map(lambda pair: Described(*pair))
)
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
maps = st.dictionaries(
    texts | texts.map(lambda text: Symbol(text.encode("ascii", "ignore").decode())), anything, max_size=5
)
message_ids = st.none() | texts | long_texts | st.uuids() | st.integers(0, 2**64 - 1).map(ULong) | st.binary(max_size=9)
bare = st.tuples(
    message_ids,
    st.none() | st.binary(max_size=9),
    *[st.none() | texts] * 3,
    message_ids,
    *[(st.none() | texts).map(lambda text: text and Symbol(text.encode("ascii", "ignore").decode()))] * 2,
    *[st.none() | st.integers(0, 2**50).map(Timestamp)] * 2,
    st.none() | texts,
    st.none() | st.integers(0, 99).map(UInt),
    st.none() | texts,
).flatmap(lambda fields: st.integers(0, 13).map(lambda count: list(fields[:count])))
bodies = (
    st.lists(st.binary(max_size=300), min_size=1, max_size=3).map(lambda parts: [(0x75, part) for part in parts])
    | anything.filter(lambda value: value is not None).map(lambda value: [(0x77, value)])
    | st.lists(st.lists(scalars, max_size=3), min_size=1, max_size=2).map(
        lambda found: [(0x76, part) for part in found]
    )
    | st.just([])
)


@st.composite
def payloads(draw: st.DrawFn, number: int = 1) -> bytes:
    """An encoded message with any sections, in the order of the standard."""
    more = {Symbol(key.encode("ascii", "ignore").decode()): draw(scalars) for key in draw(st.lists(texts, max_size=2))}
    if draw(st.booleans()):
        more[Symbol("x-opt-partition-key")] = draw(texts)
    found = annotations(draw(st.integers(-(2**62), 2**62) | st.integers(-128, 127)), **more)
    if draw(st.booleans()):
        found = dict(draw(st.permutations(list(found.items()))))
    parts = [(0x72, found)]
    if draw(st.booleans()):
        parts.append((0x73, draw(bare)))
    if draw(st.booleans()):
        parts.append((0x74, draw(maps)))
    parts += draw(bodies)
    if draw(st.booleans()):
        parts.insert(0, (0x71, {Symbol("last_enqueued_offset"): "5"}))
    if draw(st.booleans()):
        parts.insert(0, (0x70, [True]))
    if draw(st.booleans()):
        parts.append((0x78, {}))
    return b"".join(section(code, value) for code, value in parts)


@given(st.lists(payloads(), min_size=1, max_size=4))
def test_any_messages_give_the_same_columns_as_pyamqp(found: list[bytes]) -> None:
    assert_same(found)


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=300),
            st.dictionaries(texts, texts | st.integers(-(2**31), 2**31 - 1) | st.floats() | st.booleans(), max_size=4),
            st.none() | texts,
            st.none() | texts,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_messages_that_pyamqp_encodes_give_the_same_columns(found: list[tuple[bytes, Any, Any, Any]]) -> None:
    encoded = []
    for number, (body, properties, text, key) in enumerate(found):
        system: dict[Any, Any] = {
            b"x-opt-sequence-number": {TYPE: AMQPTypes.long, VALUE: number},
            b"x-opt-offset": str(number),
            b"x-opt-enqueued-time": {TYPE: AMQPTypes.timestamp, VALUE: 1_700_000_000_000},
        }
        if key is not None:
            system[b"x-opt-partition-key"] = key
        output = bytearray()
        encode_payload(
            output,
            Message(
                header=Header(durable=True),
                message_annotations=system,
                properties=Properties(message_id=text, content_type=text, correlation_id=text, subject=text),
                application_properties=properties,
                data=[body],
            ),
        )
        encoded.append(bytes(output))
    assert_same(encoded)


COMMON = [
    NUMBERED + BODY,
    section(0x72, annotations(**{Symbol("x-opt-partition-key"): "blue"})) + BODY,
    NUMBERED + section(0x74, {"a": "x", "b": 5, "c": Int(2**20), "d": 1.5, "e": None, "f": 2**62}) + BODY,
    NUMBERED + section(0x73, ["m-1", None, None, "s", None, "c-1", Symbol("text/plain")]) + BODY,
    NUMBERED + section(0x75, b"x" * 100_000),
    section(0x70, [True]) + section(0x71, {Symbol("a"): 1}) + NUMBERED + BODY + section(0x78, {}),
    encode_event(b"body", {"k": "v"}, "key").annotated(200, "5", 1)[0],
]


@given(st.lists(st.integers(0, len(COMMON) + 1), max_size=50), st.lists(st.binary(max_size=40), min_size=3, max_size=3))
def test_messages_of_many_shapes_keep_their_order(turns: list[int], found: list[bytes]) -> None:
    others = [NUMBERED + BODY + BODY, BODY + NUMBERED]  # not for the compiled decoder
    for body in found:
        sent = [[*COMMON, *others][turn] if turn else NUMBERED + section(0x75, body) for turn in turns]
        assert decoded(sent).columns.equals(by_pyamqp(sent).columns)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x72" + NUMBERED[3:] + BODY,  # a section named by a wide number
        NUMBERED + BODY + section(0x75, b"more"),
        NUMBERED + section(0x74, {f"k{number}": "v" * 200 for number in range(4)}) + BODY,
        NUMBERED + b"\x00\x53\x74\xc1\x06\x02\xa1\x01\xff\xa1\x00" + BODY,  # a name that is no text
        NUMBERED,
        BODY + NUMBERED,
        section(0x72, {**annotations(), ULong(5): 5, Symbol("iothub-device"): "d"}) + BODY,
        section(0x72, {Symbol("x-opt-sequence-number"): 300, Symbol("other"): 1}) + BODY,
        NUMBERED + section(0x74, None) + BODY,
        section(0x72, annotations(**{Symbol("x-opt-partition-key"): 5})) + BODY,
    ],
)
def test_unusual_messages_give_the_same_columns(payload: bytes) -> None:
    wide = payload.startswith(b"\x00\x80")  # pyamqp takes every section to be named by a small number
    expected = by_pyamqp([NUMBERED + BODY if wide else payload])
    assert decoded([payload]).columns.equals(expected.columns)
    assert decoded([payload] * 3).columns.equals(pa.concat_batches([expected.columns] * 3))


def properties_of(*pairs: tuple[bytes, bytes], section: int = 0x74) -> list[tuple[str, str]]:
    """Names and values of the properties of a message with these pairs, which both decoders give."""
    found = codec.described(section, codec.mapping(pairs))
    payload = NUMBERED + found + BODY if section == 0x74 else found + section_of_fields() + BODY
    batch = decoded([payload])
    assert not batch.undecoded and batch.columns.equals(by_rows([payload]).columns)
    rows = batch.rows()
    column = rows.properties if section == 0x74 else rows.system_properties
    return list(zip(column.keys, column.values, strict=True))


def section_of_fields() -> bytes:
    return section(0x73, [None, None, None, "of the field"])


K, K2 = codec.string("k"), codec.string("k#2")
A, B, C, D = map(codec.string, "abcd")


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(K, A), (codec.symbol("k"), B)], [("k", "a"), ("k#2", "b")]),
        ([(K, A), (K, B), (codec.symbol("k"), C)], [("k", "a"), ("k#2", "b"), ("k#3", "c")]),
        ([(K, A), (K, B), (K2, C)], [("k", "a"), ("k#3", "b"), ("k#2", "c")]),  # its own name is not taken from it
        ([(codec.string("5"), A), (b"\x54\x05", B), (b"\x53\x05", C)], [("5", "a"), ("5#2", "b"), ("5#3", "c")]),
        ([(b"\x54\x01", A), (b"\x41", B)], [("1", "a"), ("true", "b")]),  # one key to Python
        ([(b"\x45", A), (b"\xc0\x01\x00", B)], [("[]", "a"), ("[]#2", "b")]),
        (
            [(K, codec.mapping([(K, A), (codec.symbol("k"), B), (b"\x54\x05", C), (codec.string("5"), D)]))],
            [("k", '{"k":"a","k#2":"b","5":"c","5#2":"d"}')],
        ),
    ],
)
def test_keys_that_are_equal_as_text_are_all_kept(
    pairs: list[tuple[bytes, bytes]], expected: list[tuple[str, str]]
) -> None:
    assert properties_of(*pairs) == expected


def test_an_annotation_with_the_name_of_a_field_is_kept_beside_it() -> None:
    own = [(codec.symbol(str(name)), encode(value)) for name, value in annotations().items()]
    found = properties_of(*own, (codec.symbol("subject"), A), section=0x72)
    assert found == [("subject", "a"), ("subject#2", "of the field")]


@pytest.mark.parametrize(
    ("kind", "ticks", "text"),
    [
        ("datetime-offset", 621_355_968_000_000_001, '{"$datetime-offset":"1970-01-01T00:00:00.0000001Z"}'),
        ("datetime-offset", 0, '{"$datetime-offset":"0001-01-01T00:00:00.0000000Z"}'),
        ("datetime-offset", 3_155_378_975_999_999_999, '{"$datetime-offset":"9999-12-31T23:59:59.9999999Z"}'),
        ("datetime-offset", 3_155_378_976_000_000_000, '{"$datetime-offset":"3155378976000000000"}'),
        ("datetime-offset", -1, '{"$datetime-offset":"-1"}'),
        ("timespan", 0, '{"$timespan":"00:00:00"}'),
        ("timespan", -937_840_050_000, '{"$timespan":"-1.02:03:04.0050000"}'),
        ("timespan", 2**63 - 1, '{"$timespan":"10675199.02:48:05.4775807"}'),
        ("unknown", 5, "5"),
    ],
)
def test_times_and_durations_of_dot_net_keep_their_type(kind: str, ticks: int, text: str) -> None:
    value = b"\x00" + codec.symbol(f"com.microsoft:{kind}") + codec.long(ticks)
    assert properties_of((K, value)) == [("k", text)]
    listed = properties_of((K, b"\xc0" + bytes((len(value) + 1, 1)) + value))
    assert listed == [("k", f"[{text}]")]
    uri = b"\x00" + codec.symbol("com.microsoft:uri") + codec.string("https://a")
    assert properties_of((K, uri)) == [("k", "https://a")]


def test_no_messages_give_an_empty_batch() -> None:
    assert len(decoded([])) == 0


NAMES = {
    0x70: "amqp:header:list",
    0x71: "amqp:delivery-annotations:map",
    0x72: "amqp:message-annotations:map",
    0x73: "amqp:properties:list",
    0x74: "amqp:application-properties:map",
    0x75: "amqp:data:binary",
    0x76: "amqp:amqp-sequence:list",
    0x77: "amqp:amqp-value:*",
    0x78: "amqp:footer:map",
}
"""Of sections: AMQP 1.0, part 3, section 3.2."""


@pytest.mark.parametrize("body", [[(0x75, b"body")], [(0x76, [1]), (0x76, [2])], [(0x77, "text")], [(0x75, b"")], []])
def test_sections_with_symbols_are_read(body: list[tuple[int, Any]]) -> None:
    parts = [(0x70, [True]), (0x71, {}), (0x72, annotations()), (0x73, ["m"]), (0x74, {"k": "v"}), *body, (0x78, {})]
    named = b"".join(encode(Described(Symbol(NAMES[code]), value)) for code, value in parts)
    expected = decoded([b"".join(section(code, value) for code, value in parts)])
    assert not expected.undecoded
    assert decoded([named]).columns.equals(expected.columns)


def nested(depth: int) -> bytes:
    """A list in a list in a list, encoded."""
    data = b"\x45"
    for _ in range(depth):
        data = b"\xd0" + (len(data) + 4).to_bytes(4) + b"\x00\x00\x00\x01" + data
    return data


def booleans(count: int) -> bytes:
    """An array of true, without bytes per item."""
    return b"\xf0\x00\x00\x00\x05" + count.to_bytes(4) + b"\x41"


def with_property(encoded: bytes) -> bytes:
    return NUMBERED + codec.described(0x74, codec.mapping([(codec.string("k"), encoded)])) + BODY


def test_deep_and_long_values_are_read() -> None:
    batch = decoded([with_property(nested(101)), with_property(booleans(1025))])
    assert not batch.undecoded
    deep, long = batch.rows().properties.values
    assert deep == "[" * 102 + "]" * 102
    assert json.loads(long) == [True] * 1025


UNDECODABLE = [
    with_property(nested(300)),
    with_property(booleans(2**32 - 1)),
    NUMBERED + section(0x73, [None] * 14) + BODY,
    NUMBERED + section(0x79, "x") + BODY,
    NUMBERED + encode(Described(Symbol("amqp:unknown:list"), [])) + BODY,
    NUMBERED + section(0x77, "x") + BODY,
    NUMBERED + NUMBERED + BODY,
    NUMBERED + section(0x75, 5),
    NUMBERED + section(0x73, "x") + BODY,
    NUMBERED + BODY[:-1],
    b"\x00\x53\x70" + nested(1) + with_property(nested(300)),  # the annotations are behind a header
    section(0x71, [1]) + section(0x72, {**annotations(), Symbol("other"): Symbol("x")})[:-1] + b"\xff" + BODY[1:],
    codec.described(
        0x72,
        codec.mapping(
            [
                (codec.symbol("bad"), nested(300)),
                (codec.symbol("x-opt-sequence-number"), codec.long(700)),
                (codec.symbol("x-opt-offset"), codec.string("70000")),
                (codec.symbol("x-opt-enqueued-time"), codec.timestamp(1_700_000_000_700)),
            ]
        ),
    )
    + BODY,
]


@pytest.mark.parametrize("payload", UNDECODABLE)
def test_an_undecodable_event_is_kept_whole_and_stops_no_other(payload: bytes) -> None:
    good = [COMMON[2], NUMBERED, COMMON[3]] * 5
    for index in (0, 7, len(good)):
        batch = decoded([*good[:index], payload, *good[index:]])
        assert batch.undecoded == [index]
        alone = batch.slice(index, index + 1)
        assert alone.undecoded == [0]
        rows = alone.rows()
        assert (rows.sequence_numbers, rows.offsets, rows.enqueued_ms) == ([700], ["70000"], [1_700_000_000_700])
        assert rows.bodies == [payload]
        assert rows.system_properties.keys == [UNDECODED]
        assert rows.system_properties.values[0]
        others = batch.columns.take(pa.array([at for at in range(len(batch)) if at != index]))
        assert others.equals(decoded(good).columns)
    assert decoded([payload] * 3).undecoded == [0, 1, 2]


def test_an_event_without_a_readable_enqueued_time_keeps_its_number() -> None:
    strange = section(0x72, {**annotations(), Symbol("x-opt-enqueued-time"): ULong(2**64 - 1)}) + BODY
    batch = decoded([strange])
    assert (batch.undecoded, batch.first, batch.last_enqueued_ms) == ([0], 700, 0)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x01",
        BODY,  # no sequence number
        section(0x72, {Symbol("x-opt-sequence-number"): "x"}) + BODY,
        section(0x72, {Symbol("x-opt-sequence-number"): None}) + BODY,
        section(0x72, {Symbol("x-opt-sequence-number"): float("inf")}) + BODY,
        section(0x72, {**annotations(), Symbol("x-opt-sequence-number"): ULong(2**64 - 1)}) + BODY,
        section(0x72, [1]) + BODY,
        NUMBERED[:-1],
    ],
)
def test_an_event_without_a_readable_number_follows_the_number_before_it(payload: bytes) -> None:
    assert decoded([COMMON[0], payload, payload, COMMON[-1]]).numbers.tolist() == [700, 701, 702, 200]
    assert decode(came([payload, COMMON[0]]), after=698).numbers.tolist() == [699, 700]
    for count in (1, 3):
        with pytest.raises(FrameError, match="number before it is known"):
            decoded([payload] * count)


@pytest.mark.parametrize(
    ("encoded", "text", "kind"),
    [
        (b"\xa0\x03abc", '{"$binary":"YWJj"}', PropertyKind.BINARY),  # the value of a Kafka header
        (b"\xb0\x00\x00\x00\x02\xff\x00", '{"$binary":"/wA="}', PropertyKind.BINARY),
        (b"\xa0\x00", '{"$binary":""}', PropertyKind.BINARY),
        (b"\xa1\x03abc", "abc", PropertyKind.TEXT),
        (b"\xa3\x03abc", "abc", PropertyKind.TEXT),
        (b"\xc0\x09\x02\xa0\x02ab\xa1\x02ab", '[{"$binary":"YWI="},"ab"]', PropertyKind.TEXT),
        (b"\x74    ", '{"$binary":"ICAgIA=="}', PropertyKind.BINARY),  # a decimal32
    ],
)
def test_a_binary_and_a_string_stay_different(encoded: bytes, text: str, kind: PropertyKind) -> None:
    payload = with_property(encoded)
    assert_same([payload])
    found = decoded([payload]).rows().properties
    assert (found.values, list(found.kinds)) == ([text], [kind])


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        (b"", None),
        (section(0x77, None), None),
        (section(0x75, None), None),
        (section(0x75, b""), b""),
        (section(0x75, b"") * 2, b""),
        (section(0x77, ""), b""),
    ],
)
def test_no_body_and_an_empty_body_are_different(parts: bytes, body: bytes | None) -> None:
    sent = [NUMBERED + parts, COMMON[0], NUMBERED + section(0x74, {"k": 1}) + parts]
    assert decoded(sent).rows().bodies == [body, b"body", body]


@given(payloads(), st.data())
def test_damaged_messages_are_events_or_undecoded_events(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for found in (bytes(damaged), bytes(damaged[: data.draw(st.integers(0, len(damaged)))])):
        try:
            batch = decoded([found])
        except FrameError as error:
            assert "number before it is known" in str(error)  # noqa: PT017
            batch = decode(came([found]), after=5)
            assert batch.numbers.tolist() == [6]
        else:
            assert decoded([found] * 3).columns.equals(pa.concat_batches([batch.columns] * 3))
        assert len(batch) == 1
        if batch.undecoded:
            assert batch.rows().bodies == [found]
