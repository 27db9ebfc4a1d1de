"""The compiled scanner's interface: wrong arguments are refused, and nothing of a body stops it."""

import gc
import sys
import time
from array import array

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventconsumer_decoder
from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_host import compiled
from eventconsumer_host.body.compiled import CompiledBodyParser
from eventconsumer_host.body.parser import body_parser
from eventconsumer_host.body.plain import PlainBodyParser
from tests.support.json_bodies import COLUMNS, mapping, struct
from tests.support.json_bodies import array as array_of

PARSER = CompiledBodyParser(COLUMNS)
BODIES = pa.array([b'{"s":"x","i8":5,"list":[{"n":1}]}', None, b"x"], pa.binary())


def numbers(parser: CompiledBodyParser = PARSER, more: int = 0) -> "array[int]":
    return array("Q", bytes(8 * (eventconsumer_decoder.NUMBERS * parser._count + more)))


def raw(ends: list[int], size: int, rows: int) -> tuple[eventconsumer_decoder.Bodies, pa.Buffer]:
    """Bodies, and what must be kept for as long as they are used."""
    kept = pa.py_buffer(array("i", ends).tobytes() + bytes(size))
    at = kept.address
    return eventconsumer_decoder.Bodies(at + 4 * len(ends), size, at, rows, None, 0), kept


@pytest.mark.parametrize(
    ("ends", "size", "rows"), [([0, 5, 3], 5, 2), ([0, 6], 5, 1), ([-1, 3], 5, 1), ([2, 2, 9], 5, 2)]
)
def test_ends_that_do_not_rise_or_reach_beyond_the_memory_are_refused(ends: list[int], size: int, rows: int) -> None:
    bodies, kept = raw(ends, size, rows)
    with (
        pytest.raises(ValueError, match="inconsistent arguments"),
        eventconsumer_decoder.parse(PARSER._plan, bodies, numbers()),
    ):
        pass
    del kept


@given(st.data())
def test_a_plan_that_is_none_is_refused(data: st.DataObject) -> None:
    bodies, kept = raw([0, 2], 2, 1)
    end = data.draw(st.integers(0, len(PARSER._plan) - 1))
    with (
        pytest.raises(ValueError, match="inconsistent arguments"),
        eventconsumer_decoder.parse(PARSER._plan[:end], bodies, numbers()),
    ):
        pass
    changed = bytearray(PARSER._plan)
    changed[end] ^= data.draw(st.integers(1, 255))
    try:
        with eventconsumer_decoder.parse(bytes(changed), bodies, numbers()) as parsed:
            memory = pa.allocate_buffer(parsed.size)
            parsed.write(memory.address, memory.size)
    except ValueError:
        pass
    del kept


def test_memory_and_numbers_of_another_size_are_refused() -> None:
    bodies, kept = raw([0, 2], 2, 1)
    for more in (-1, 1):
        with (
            pytest.raises(ValueError, match="inconsistent arguments"),
            eventconsumer_decoder.parse(PARSER._plan, bodies, numbers(more=more)),
        ):
            pass
    with eventconsumer_decoder.parse(PARSER._plan, bodies, numbers()) as parsed:
        memory = pa.allocate_buffer(parsed.size + 64)
        for size in (parsed.size - 1, parsed.size + 64):
            with pytest.raises(ValueError, match="inconsistent arguments"):
                parsed.write(memory.address, size)
        parsed.write(memory.address, parsed.size)
    del kept


def test_the_plain_parser_takes_its_place_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(body_parser(COLUMNS), CompiledBodyParser)
    monkeypatch.setitem(sys.modules, "eventconsumer_decoder", None)
    compiled.find.cache_clear()
    try:
        parser = body_parser(COLUMNS)
        assert isinstance(parser, PlainBodyParser)
        assert parser.parse(BODIES).equals(PARSER.parse(BODIES))
    finally:
        compiled.find.cache_clear()


def _names(count: int, of: str = "%d") -> bytes:
    return b"{" + b",".join(f'"{of % number}":0'.encode() for number in range(count)) + b"}"


_LEVELS = 990
_UNSORTED = b'{"b":' * _LEVELS + b"0" + b',"a":0}' * _LEVELS
HOSTILE = {
    "levels": b"[" * 1_000_000,
    "levels of objects": b'{"x":' * 200_000,
    "elements without values": b'{"x":[' + b"{}," * 340_000 + b"{}]}",
    "elements": b'{"x":[' + b"1," * 500_000 + b"1]}",
    "names": b'{"s":' + _names(80_000) + b"}",
    "long names": b'{"s":' + _names(20, "%d" + "x" * 49_000) + b"}",
    "escapes": b'{"s":"' + b"\\u0041" * 160_000 + b'"}',
    "text of many levels": b'{"s":[' + b",".join([_UNSORTED[:-1] + b"}"] * 80) + b"]}",
    "a large text": b'{"s":{"b":' * 1 + _UNSORTED[5:-1] + b',"x":"' + b"y" * 900_000 + b'"}}',
    "an open string": b'{"s":"' + b"x" * 1_000_000,
    "digits": b'{"d":' + b"9" * 1_000_000 + b"}",
    "white space": b" " * 1_000_000 + b"{}",
}
WIDE = [
    BodyColumn("x", array_of(struct(**{f"f{number}": "long" for number in range(60)})), ("x",)),
    BodyColumn("s", "string", ("s",)),
    BodyColumn("m", mapping("long"), ("s",)),
    BodyColumn("d", "double", ("d",)),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_event_takes_bounded_time_and_memory(name: str) -> None:
    """A megabyte: tenths of a second of CPU time at most, and at most so many values as its size allows."""
    parser = CompiledBodyParser(WIDE)
    bodies = pa.array([HOSTILE[name], b'{"d":1}'], pa.binary())
    started = time.process_time()
    batch = parser.parse(bodies)
    assert time.process_time() - started < 1
    assert batch["d"].to_pylist()[1] == 1.0
    assert batch.nbytes < 9 * 8 * len(HOSTILE[name]) + 100_000
    if len(HOSTILE[name]) < 1_100_000:
        assert batch.equals(PlainBodyParser(WIDE).parse(bodies))


def test_columns_are_released() -> None:
    before = pa.total_allocated_bytes()
    for _ in range(20):
        batch = PARSER.parse(BODIES)
    assert pa.total_allocated_bytes() - before <= 2 * batch.nbytes + 64 * 100
    del batch
    gc.collect()
    assert pa.total_allocated_bytes() == before
