"""Messages of any shape become the same columns as by pyamqp's decoder and `source.columns`."""

from typing import Any

import pyarrow as pa
import pytest
from azure.eventhub._pyamqp._decode import decode_payload
from azure.eventhub._pyamqp._encode import encode_payload
from azure.eventhub._pyamqp.message import Header, Message, Properties
from azure.eventhub._pyamqp.types import TYPE, VALUE, AMQPTypes
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_processor.amqp.codec import FrameError
from eventconsumer_processor.amqp.decode import decode
from eventconsumer_processor.source import columns, sdk
from eventconsumer_processor.source.batch import EventBatch
from eventhubs_emulator.codec import encode
from eventhubs_emulator.messages import encode_event
from eventhubs_emulator.values import Array, Char, Decimal128, Described, Int, Symbol, Timestamp, UInt, ULong
from tests.unit.processor.amqp.pieces import came

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
    message_ids, st.none() | st.binary(max_size=9), *[st.none() | texts] * 3, message_ids,
    *[(st.none() | texts).map(lambda text: text and Symbol(text.encode("ascii", "ignore").decode()))] * 2,
    *[st.none() | st.integers(0, 2**50).map(Timestamp)] * 2, st.none() | texts,
    st.none() | st.integers(0, 99).map(UInt), st.none() | texts,
).flatmap(lambda fields: st.integers(0, 13).map(lambda count: list(fields[:count])))  # fmt: skip
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
        NUMBERED + b"\x00\x53\x74\xc1\x0d\x04" + b"\xa1\x01k\xa1\x01a" + b"\xa1\x01k\xa1\x01b" + BODY,  # a name twice
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


def test_no_messages_give_an_empty_batch() -> None:
    assert len(decoded([])) == 0


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
        section(0x72, {**annotations(), Symbol("x-opt-enqueued-time"): ULong(2**64 - 1)}) + BODY,
        section(0x72, [1]) + BODY,
        NUMBERED + section(0x75, 5),
        NUMBERED + section(0x73, "x") + BODY,
        NUMBERED[:-1],
        NUMBERED + BODY[:-1],
    ],
)
def test_invalid_events_are_refused(payload: bytes) -> None:
    for count in (1, 3):
        with pytest.raises(FrameError):
            decoded([payload] * count)


@given(payloads(), st.data())
def test_damaged_messages_are_events_or_one_kind_of_error(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for found in (bytes(damaged), bytes(damaged[: data.draw(st.integers(0, len(damaged)))])):
        try:
            batch = decoded([found])
        except FrameError:
            continue
        assert len(batch) == 1
        assert decoded([found] * 3).columns.equals(pa.concat_batches([batch.columns] * 3))
