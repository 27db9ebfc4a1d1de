"""Every AMQP type is decoded as it was encoded; hostile bytes are a clear error."""

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhubs_emulator.codec import MAX_DEPTH, decode, encode, skip
from eventhubs_emulator.errors import DecodeError
from eventhubs_emulator.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)


def ranged(kind: type, bits: int, signed: bool) -> st.SearchStrategy[Any]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, high).map(kind)


SCALARS = {
    type(None): st.none(),
    bool: st.booleans(),
    UByte: ranged(UByte, 8, False),
    UShort: ranged(UShort, 16, False),
    UInt: ranged(UInt, 32, False),
    ULong: ranged(ULong, 64, False),
    Byte: ranged(Byte, 8, True),
    Short: ranged(Short, 16, True),
    Int: ranged(Int, 32, True),
    Long: ranged(Long, 64, True),
    Timestamp: ranged(Timestamp, 64, True),
    Float: st.floats(width=32, allow_nan=False).map(Float),
    float: st.floats(),
    Char: st.characters().map(Char),
    uuid.UUID: st.uuids(),
    bytes: st.binary(max_size=300),
    str: st.text(max_size=300),
    Symbol: st.text(st.characters(max_codepoint=127), max_size=300).map(Symbol),
    Decimal32: st.binary(min_size=4, max_size=4).map(Decimal32),
    Decimal64: st.binary(min_size=8, max_size=8).map(Decimal64),
    Decimal128: st.binary(min_size=16, max_size=16).map(Decimal128),
}
scalars = st.one_of(*SCALARS.values())
arrays = st.sampled_from(sorted(SCALARS, key=lambda kind: kind.__name__)).flatmap(
    lambda kind: st.lists(SCALARS[kind], max_size=20).map(lambda items: Array(kind, tuple(items)))
)
keys = st.one_of(st.text(), SCALARS[Symbol], SCALARS[ULong])
values = st.recursive(
    st.one_of(scalars, arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=300),
        st.dictionaries(keys, inner, max_size=5),
        st.builds(Described, SCALARS[ULong] | SCALARS[Symbol], inner),
        st.lists(st.lists(inner, max_size=3), max_size=4).map(lambda items: Array(list, tuple(items))),
    ),
    max_leaves=30,
)


def exact(value: Any) -> Any:
    """A value with its types: 1, True and UInt(1) are different things on the wire."""
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return [(exact(key), exact(entry)) for key, entry in value.items()]
    if isinstance(value, Array):
        return Array, value.kind, [exact(item) for item in value.items]
    if isinstance(value, Described):
        return Described, exact(value.descriptor), exact(value.value)
    return type(value), struct.pack(">d", value) if isinstance(value, float) else value


@given(values, st.binary(max_size=5))
def test_a_value_survives_the_way_there_and_back(value: Any, after: bytes) -> None:
    data = encode(value)
    assert (exact(decode(data)[0]), decode(data)[1]) == (exact(value), len(data))
    assert skip(data + after, 0, len(data + after)) == len(data)


@given(values, st.data())
def test_a_value_that_is_cut_off_is_an_error(value: Any, data: st.DataObject) -> None:
    encoded = encode(value)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(DecodeError):
        decode(encoded[:cut])


constructors = st.sampled_from([0x00, 0x40, 0x45, 0xC0, 0xC1, 0xD0, 0xE0, 0xF0, 0xFF, 0x01, 0xA1])


@given(st.binary(max_size=200) | st.lists(constructors, max_size=120).map(bytes))
def test_random_bytes_decode_or_fail_clearly(data: bytes) -> None:
    try:
        value, end = decode(data)
    except DecodeError as error:
        assert error.condition == "amqp:decode-error"
    else:
        assert 0 < end <= len(data)
        assert exact(decode(encode(value))[0]) == exact(value) or "nan" in repr(value)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, "40"),
        (True, "41"),
        (False, "42"),
        (UInt(0), "43"),
        (UInt(7), "5207"),
        (UInt(256), "7000000100"),
        (ULong(0), "44"),
        (ULong(0x24), "5324"),
        (Int(-1), "54ff"),
        (-1, "55ff"),
        (1 << 40, "810000010000000000"),
        (Symbol("PLAIN"), "a305504c41494e"),
        ([], "c00100"),
        ([1], "c003015501"),
        ({}, "c10100"),
        (Array.of(Symbol, "a", "b"), "e00c02b300000001610000000162"),
        (Described(ULong(0x24), []), "005324c00100"),
    ],
)
def test_the_bytes_are_those_of_the_standard(value: Any, data: str) -> None:
    assert encode(value).hex() == data


def test_an_empty_list_is_never_list0() -> None:
    """Clients that index performatives by position do not read list0; the emulator does."""
    assert 0x45 not in encode(Described(ULong(0x24), []))
    assert decode(b"\x45") == ([], 1)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "missing"),
        (b"\x3f", "unknown type 0x3f"),
        (b"\xa2\x01a", "unknown type 0xa2"),
        (b"\xc2\x01\x00", "unknown type 0xc2"),
        (b"\xb0\xff\xff\xff\xffabc", "claims 4294967295 bytes"),
        (b"\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x40", "claims 4294967295 items"),
        (b"\xc0\x03\x01\x40\x40", "left over"),
        (b"\xc1\x02\x01\x40", "odd number"),
        (b"\xc1\x05\x02\xc0\x01\x00\x40", "list or map as key"),
        (b"\xa1\x01\xff", "not valid utf-8"),
        (b"\xa3\x01\xe4", "not valid ascii"),
        (b"\x56\x02", "expected 0 or 1"),
        (b"\x73\x00\x11\x00\x00", "not a Unicode character"),
        (b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40", "claims 4294967295 items"),
        (b"\xe0\x01\x00", "no item type"),
    ],
)
def test_hostile_bytes_are_named(data: bytes, says: str) -> None:
    assert len(decode(b"\xe0\x02\xff\x40")[0].items) == 255  # nulls: the most items without bytes that are allowed
    with pytest.raises(DecodeError, match=says):
        decode(data)


@pytest.mark.parametrize("start", [b"\x00", b"\xc0\xff\x01", b"\x00\x40"])
def test_deep_nesting_is_refused_before_the_stack_is(start: bytes) -> None:
    data = start * 50_000
    with pytest.raises(DecodeError):
        decode(data)
    if start[0] == 0:
        with pytest.raises(DecodeError, match="deeper"):
            skip(data, 0, len(data))


def test_values_may_nest_to_the_limit() -> None:
    value: Any = None
    for _ in range(MAX_DEPTH):
        value = [value]
    assert decode(encode(value))[0] == value
    with pytest.raises(DecodeError, match="deeper"):
        decode(encode([value]))


@pytest.mark.parametrize(
    "value", [UByte(256), UInt(-1), 1 << 63, Symbol("ä"), Decimal32(b"123"), object(), Float(1e300)]
)
def test_values_without_an_encoding_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        encode(value)


def test_an_array_of_described_values_survives() -> None:
    array = Array(Described, (Described(ULong(0x1D), "a"), Described(ULong(0x1D), "b")))
    assert decode(encode(array))[0] == array
    with pytest.raises(ValueError, match="same descriptor"):
        encode(Array(Described, (Described(ULong(1), "a"), Described(ULong(2), "b"))))
