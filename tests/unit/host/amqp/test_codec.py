"""AMQP's types: every value that an independent encoder writes is read back; hostile bytes are one kind of error."""

import struct
import tracemalloc
import uuid
from typing import Any

import pytest
from azure.eventhub._pyamqp._decode import _DECODE_BY_CONSTRUCTOR
from azure.eventhub._pyamqp._encode import encode_value
from azure.eventhub._pyamqp.types import TYPE, VALUE, AMQPTypes
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.amqp import codec
from eventconsumer_host.amqp.codec import FrameError, decode, skip
from eventconsumer_host.source import sdk
from eventhubs_emulator import codec as other
from eventhubs_emulator.values import (
    Array,
    Char,
    Described,
    Float,
    Symbol,
    ULong,
)
from tests.unit.emulator.test_codec import SCALARS

assert sdk  # its import completes pyamqp's decoder


def whole(data: bytes) -> Any:
    """The only value in the bytes."""
    value, end = decode(data, 0, len(data))
    assert end == len(data)
    return value


NAMES = {"NoneType": "null", "bool": "boolean", "str": "string", "bytes": "binary", "UUID": "uuid", "Long": "long"}
leaves: dict[str, st.SearchStrategy[Any]] = {
    NAMES.get(kind.__name__, kind.__name__.lower()): found for kind, found in SCALARS.items() if kind is not float
} | {
    "float": st.floats(width=32, allow_nan=False).map(Float),
    "double": st.floats(allow_nan=False),
    "char": st.characters(exclude_categories=["Cs"]).map(Char),
}
leaf = st.one_of(*leaves.values())
arrays = st.one_of(*leaves.values()).flatmap(
    lambda sample: st.integers(1, 5).map(lambda count: Array(type(sample), (sample,) * count))
)
described = st.tuples(st.integers(0x40, 2**64 - 1).map(ULong) | leaves["symbol"], leaf).map(
    lambda pair: Described(*pair)
)
values = st.recursive(
    leaf | arrays | described,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(leaves["symbol"] | leaves["string"], inner, max_size=6),
    max_leaves=20,
)


def as_decoded(value: Any) -> Any:
    """What the decoder makes of a value: texts are bytes, a described value is the value alone."""
    match value:
        case str():
            return value.encode()
        case bytes():
            return bytes(value)
        case dict():
            return {as_decoded(key): as_decoded(item) for key, item in value.items()}
        case list():
            return list(map(as_decoded, value))
        case Array():
            return [as_decoded(item) for item in value.items]
        case Described():
            return as_decoded(value.value)
    return value


@pytest.mark.parametrize("name", leaves)
@given(st.data())
def test_each_type_is_read_and_has_the_type_that_columns_know(name: str, data: st.DataObject) -> None:
    value = data.draw(leaves[name])
    found = whole(other.encode(value))
    expected = as_decoded(value)
    assert found == expected
    assert isinstance(found, bool) == isinstance(expected, bool)
    assert isinstance(found, bytes | int | float | uuid.UUID | None)


@given(values)
def test_nested_values_are_read_and_skipped(value: Any) -> None:
    encoded = other.encode(value)
    assert whole(encoded) == as_decoded(value)
    assert skip(encoded + b"rest", 0, len(encoded)) == len(encoded)


UNKNOWN = {"char", "decimal32", "decimal64", "decimal128"}  # to pyamqp's encoder
PYAMQP = {getattr(AMQPTypes, name): found for name, found in leaves.items() if name not in UNKNOWN}
typed = st.sampled_from(sorted(PYAMQP)).flatmap(lambda kind: PYAMQP[kind].map(lambda value: {TYPE: kind, VALUE: value}))
composites = st.recursive(
    typed,
    lambda inner: (
        st.lists(inner, max_size=5).map(lambda items: {TYPE: AMQPTypes.list, VALUE: items})
        | st.dictionaries(st.text(max_size=9), inner, max_size=5).map(lambda items: {TYPE: AMQPTypes.map, VALUE: items})
    ),
    max_leaves=20,
)


@given(composites)
def test_values_of_pyamqps_encoder_are_read_as_by_pyamqps_decoder(value: Any) -> None:
    output = bytearray()
    encode_value(output, value)
    data = bytes(output)
    rest, expected = _DECODE_BY_CONSTRUCTOR[data[0]](memoryview(data)[1:])
    assert not len(rest)
    assert whole(data) == expected


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x73\x00\x00\xd8\x00", b"\x00\x00\xd8\x00"),  # half of a surrogate pair is no character
        (b"\x73\xff\xff\xff\xff", b"\xff\xff\xff\xff"),
        (b"\x56\x07", False),
        (b"\x00\x53\x24\x45", {"accepted": []}),
        (b"\x00\xa1\x01a\x45", []),
        (b"\x00\x45\x45", []),  # a list as descriptor
        (b"\xe0\x02\x00\xa1", []),
        (b"\xe0\x05\x02\x00\x53\x24\x45", [{"accepted": []}] * 2),
        (  # a list and a map as keys
            b"\xc1\x0e\x04\xc0\x02\x01\x41\x54\x01\xc1\x03\x02\x41\x42\x54\x02",
            {(True,): 1, ((True, False),): 2},
        ),
    ],
)
def test_rare_shapes(data: bytes, value: Any) -> None:
    assert whole(data) == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x00\x53\x24",  # a descriptor without a value
        b"\x3f",  # no such type
        b"\xa2\x00",
        b"\x71\x00\x00\x00",  # cut off
        b"\xb0\x00\x00",
        b"\xc0\x01\x01",  # a list of one value, which is not there
        b"\xc0\x02\x00\x40",  # a value more than the list says
        b"\xc1\x02\x01\x40",  # an odd map
        b"\xe0\x01\x00",  # an array without a type
        b"\xe0\x02\x01\x3f",
        b"\xe0\x04\x01\x50\x01\x02",  # an item more than the array says
    ],
)
def test_invalid_values_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        whole(data)
    with pytest.raises(FrameError):
        decode(data + b"\x40" * 3, 0, len(data))


@given(st.binary(max_size=200))
def test_random_bytes_are_a_value_or_one_kind_of_error(data: bytes) -> None:
    for read in (decode, skip):
        try:
            read(data, 0, len(data))
        except FrameError as error:
            assert str(error)


@given(values, st.data())
def test_damaged_values_are_a_value_or_one_kind_of_error(value: Any, data: st.DataObject) -> None:
    encoded = bytearray(other.encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(encoded)))
    for damaged in (bytes(encoded), bytes(encoded[:cut])):
        try:
            decode(damaged, 0, len(damaged))
        except FrameError as error:
            assert str(error)


def nested(depth: int) -> bytes:
    """A list in a list in a list."""
    data = b"\x45"
    for _ in range(depth):
        data = b"\xd0" + struct.pack(">II", len(data) + 4, 1) + data
    return data


def nulls(count: int) -> bytes:
    """An array of nulls, each without bytes."""
    return b"\xf0\x00\x00\x00\x05" + struct.pack(">I", count) + b"\x40"


@pytest.mark.parametrize(
    "data",
    [
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",  # four thousand million nulls in no bytes
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x45",
        b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff",
        b"\xb0\xff\xff\xff\xff",
        nested(codec.MAX_DEPTH + 1),
        b"\xc0\x15\x02" + nulls(codec.MAX_ZERO_WIDTH) + nulls(1),
        b"\x00" * 100_000,
    ],
)
def test_a_bomb_is_refused_before_it_is_expanded(data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(FrameError):
        whole(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_key_with_a_map_that_has_such_a_key_is_refused() -> None:
    """Each level would convert and hash all values below it again: 256 times the work for a message."""
    inner = b"\xc1\x05\x02\xc0\x01\x00\x40"  # {[]: null}
    key = b"\xc0" + bytes((len(inner) + 1, 1)) + inner
    with pytest.raises(FrameError, match="a map with a list or a map as key"):
        whole(b"\xc1" + bytes((len(key) + 2, 2)) + key + b"\x40")
    assert whole(b"\xc1" + bytes((len(inner) + 3, 2)) + b"\x54\x01" + inner) == {1: {(): None}}  # as a value


def test_values_nest_as_deep_as_allowed() -> None:
    assert whole(nested(codec.MAX_DEPTH - 1)) is not None
    assert whole(nulls(codec.MAX_ZERO_WIDTH)) == [None] * codec.MAX_ZERO_WIDTH


@given(st.integers(0, 2**32 - 1), st.text(max_size=300), st.binary(max_size=300), st.uuids(), leaves["long"])
def test_sent_values_are_read_by_an_independent_decoder(
    number: int, text: str, raw: bytes, identifier: uuid.UUID, wide: int
) -> None:
    fields = codec.composite(
        0x10,
        codec.NULL,
        codec.boolean(True),
        codec.boolean(False),
        codec.ubyte(number % 256),
        codec.ushort(number % 65536),
        codec.uint(number),
        codec.long(wide),
        codec.timestamp(wide),
        codec.uuid(identifier),
        codec.binary(raw),
        codec.string(text),
        codec.symbol("com.microsoft:epoch"),
        codec.symbols("a", "bc"),
        codec.symbols(),
        codec.mapping([(codec.symbol("k"), codec.described(0x28, codec.string(text)))]),
    )
    found, end = other.decode(fields)
    assert end == len(fields)
    assert found.descriptor == 0x10
    assert found.value == [
        None,
        True,
        False,
        number % 256,
        number % 65536,
        number,
        wide,
        wide,
        identifier,
        raw,
        text,
        "com.microsoft:epoch",
        Array(Symbol, (Symbol("a"), Symbol("bc"))),
        None,
        {"k": Described(ULong(0x28), text)},
    ]
