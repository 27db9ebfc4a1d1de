"""The parser of bodies in the compiled decoder: one pass over each body, without the GIL."""

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from eventconsumer_api.spec import json_columns as table
from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.json_columns import ColumnType, Rule
from eventconsumer_host import compiled
from eventconsumer_host.body.plan import (
    FAULTS,
    KINDS,
    MORE_BYTES,
    Array,
    Fault,
    Leaf,
    Map,
    Planned,
    Struct,
    Type,
    plan,
    schema,
    width,
)

_ALIGNMENT = 64  # of each region
# In the order of the compiled decoder, which counts rules from 1 on: 0 is none.
_RULES = (
    Rule.CHARACTERS,
    Rule.DIGITS,
    Rule.WORD,
    Rule.TEXT,
    Rule.SAME,
    Rule.WHOLE,
    Rule.DECIMAL,
    Rule.DECIMAL_TEXT,
    Rule.NEAREST,
    Rule.DATE,
    Rule.INSTANT,
    Rule.TRUNCATED,
    Rule.EPOCH,
)
_STORAGES = {
    ColumnType.STRING: 0,
    ColumnType.BOOLEAN: 1,
    ColumnType.BIGINT: 2,
    ColumnType.TIMESTAMP: 2,
    ColumnType.DOUBLE: 3,
    ColumnType.DECIMAL: 4,
    ColumnType.DATE: 5,
}
_LEAF, _STRUCT, _ARRAY, _MAP = range(4)


class CompiledBodyParser:
    """See `parser.BodyParser`."""

    def __init__(self, columns: Sequence[BodyColumn]) -> None:
        """Make a parser.

        Raises:
            ValueError: A type is none of those that bodies can have.
            ImportError: The compiled decoder is not available.
        """
        self._decoder = compiled.library()
        self._schema = schema(columns)
        self._plan = b"".join(_encoded(plan(columns)))
        self._count = sum(map(_count, self._schema.types))

    def parse(self, bodies: pa.BinaryArray) -> pa.RecordBatch:
        """See `parser.BodyParser`."""
        rows = len(bodies)
        if not rows:
            return pa.RecordBatch.from_pylist([], self._schema)
        valid, ends, data = bodies.buffers()
        raw = self._decoder.Bodies(
            data.address if data else None,
            data.size if data else 0,
            ends.address + 4 * bodies.offset,
            rows,
            valid.address if valid else None,
            bodies.offset,
        )
        numbers = array("Q", bytes(8 * self._decoder.NUMBERS * self._count))
        with self._decoder.parse(self._plan, raw, numbers) as parsed:
            memory = pa.allocate_buffer(parsed.size)
            parsed.write(memory.address, memory.size)
        parts = _Parts(numbers, memory, self._decoder.NUMBERS)
        return pa.record_batch([parts.array(kind) for kind in self._schema.types], self._schema)


class _Parts:
    """The regions of columns in the memory that they were written to, in their order."""

    def __init__(self, numbers: "array[int]", memory: pa.Buffer, each: int) -> None:
        self._numbers = iter([numbers[start : start + each] for start in range(0, len(numbers), each)])
        self._memory, self._end = memory, 0

    def array(self, kind: pa.DataType) -> pa.Array:
        """The next column, as a view."""
        rows, nulls, *sizes = next(self._numbers)
        regions = [self._region(size) for size in sizes]
        valid, values = regions[0] if nulls else None, regions[1]
        if pa.types.is_struct(kind):
            children = [self.array(field.type) for field in kind]
            return pa.Array.from_buffers(kind, rows, [valid], nulls, children=children)
        if pa.types.is_list(kind):
            return pa.Array.from_buffers(kind, rows, [valid, values], nulls, children=[self.array(kind.value_type)])
        if pa.types.is_map(kind):
            entries = [self.array(kind.key_type), self.array(kind.item_type)]
            pairs = pa.struct([kind.key_field, kind.item_field])
            inner = pa.Array.from_buffers(pairs, len(entries[0]), [None], 0, children=entries)
            return pa.Array.from_buffers(kind, rows, [valid, values], nulls, children=[inner])
        return pa.Array.from_buffers(kind, rows, [valid, *regions[1 : 1 + _buffers(kind)]], nulls)

    def _region(self, size: int) -> pa.Buffer:
        start, self._end = self._end, self._end + (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        return self._memory.slice(start, size)


def _buffers(kind: pa.DataType) -> int:
    return 2 if pa.types.is_string(kind) else 1


def _count(kind: pa.DataType) -> int:
    """How many columns are in one, with itself."""
    if pa.types.is_struct(kind):
        return 1 + sum(_count(field.type) for field in kind)
    if pa.types.is_list(kind):
        return 1 + _count(kind.value_type)
    if pa.types.is_map(kind):
        return 1 + _count(kind.key_type) + _count(kind.item_type)
    return 1


def _encoded(columns: Sequence[Planned]) -> Iterator[bytes]:
    """The plan for the compiled decoder: numbers of 32 bits, little endian, and texts behind their sizes."""
    yield _numbers(
        table.DIGITS_MAX,
        table.EXPONENT_DIGITS_MAX,
        len(str(table.EXPONENT_MAX)),
        table.DEPTH_MAX,
        table.NUMBER_DIGITS_MAX,
        table.NAME_LENGTH_MAX,
        table.VALUES_PER_BYTE_MAX,
        table.VALUES_MORE_MAX,
        table.ERROR_BYTES_MAX,
    )
    yield struct.pack("<qq", table.FIRST_MICROS, table.LAST_MICROS)
    yield _numbers(MORE_BYTES)
    yield from _texts(FAULTS[fault] for fault in Fault)
    yield _numbers(len(columns))
    for column in columns:
        yield _numbers(column.required, len(column.path))
        yield from _texts(column.path)
        yield from _texts(column.misfits[kind] for kind in KINDS)
        yield from _texts([column.absent])
        yield from _texts(column.blocked[kind] for kind in KINDS)
        yield from _texts([column.too_many])
        yield from _type(column.type)


def _type(kind: Type) -> Iterator[bytes]:
    match kind:
        case Leaf():
            rules = (_RULES.index(rule) + 1 if (rule := kind.rules.get(each)) else 0 for each in KINDS)
            yield _numbers(_LEAF, _STORAGES[kind.type], kind.precision, kind.scale, *rules)
        case Struct(fields):
            yield _numbers(_STRUCT, len(fields))
            for name, inner in fields:
                yield from _texts([name])
                yield from _type(inner)
        case Array(element):
            yield _numbers(_ARRAY, width(element))
            yield from _type(element)
        case Map(value):
            yield _numbers(_MAP, width(value))
            yield from _type(value)


def _numbers(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _texts(texts: Iterable[str]) -> Iterator[bytes]:
    for text in texts:
        content = text.encode()
        yield _numbers(len(content))
        yield content
