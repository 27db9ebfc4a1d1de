"""What columns of bodies cost: CPU time of an event, of the compiled scanner beside the plain parser and others.

    python -m tests.bench.columns [--quick] [--out FOLDER]

A body is an order in JSON, with members that no column takes. All parsers get the same 3,000 bodies in one process and
one thread, in turn; the least of the rounds counts. Bad bodies have one byte changed so that they are no JSON, or a
value of another type. `pyarrow.json` gets bodies a line each, and `orjson` one by one, if it is installed; both then
have Arrow columns of the same types. How many of their values are wrong is counted with bodies that have a byte
changed, each read alone, by the oracle of the tests.

Then a host drains orders from a hub into Parquet, without columns and with them, measured as `tests.bench.drain` does:
from the first event that the hub delivers, when the host has started. The ways take turns, and the least of the rounds
counts.
"""

import argparse
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.json

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.json_columns import TimeForm
from eventconsumer_host.body.compiled import CompiledBodyParser
from eventconsumer_host.body.plain import PlainBodyParser
from eventconsumer_host.body.plan import schema
from tests.bench.drain import PARTITIONS, Taken, drain
from tests.bench.drainers import Way
from tests.bench.machine import servers_at
from tests.bench.options import Options
from tests.bench.results import Row, table, write
from tests.support import json_oracle
from tests.support.json_bodies import array, mutated, struct

EVENTS, ROUNDS = 3_000, 7
DRAINED, DRAINS = 200_000, 2  # orders, and rounds
STATISTICS = 4  # columns with bounds
UNIT = "CPU us per event"
WORDS = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "mosaic", "naïve"]


@dataclass(frozen=True)
class Shape:
    """Bodies of one size, and their columns."""

    name: str
    columns: Sequence[BodyColumn]
    bodies: Sequence[bytes]


def order(number: int, rng: Random, size: int, more: int) -> bytes:
    """An order of about so many bytes, with so many members for columns beside the eight."""
    found: dict[str, Any] = {
        "id": f"ord-{number:08d}",
        "customer": rng.randrange(10**9),
        "price": {"cents": rng.randrange(10**6), "currency": "EUR"},
        "weight": round(rng.uniform(0.1, 50), 3),
        "paid": rng.random() < 0.9,
        "at": f"2026-01-02T03:{rng.randrange(60):02d}:{rng.randrange(60):02d}.{rng.randrange(10**6):06d}Z",
    }
    if size > 500:
        found["items"] = [
            {"sku": f"s{rng.randrange(10**6)}", "qty": rng.randrange(1, 9)} for _ in range(rng.randrange(2, 6))
        ]
        found["address"] = {"city": rng.choice(WORDS), "zip": f"{rng.randrange(10**5):05d}", "floor": None}
    else:
        found["store"] = rng.choice(WORDS)
        found["points"] = rng.randrange(100)
    for column in range(more):
        found[f"c{column}"] = (rng.randrange(10**6), rng.choice(WORDS), round(rng.random(), 4))[column % 3]
    left, words = size - len(json.dumps(found)), min(6, 1 + size // 100)
    while left > 0:
        name, note = f"note{left}", " ".join(rng.choices(WORDS, k=words))
        found[name] = note
        left -= len(name) + len(note) + 6
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


_FLAT = [
    BodyColumn("id", "string", ("id",), required=True),
    BodyColumn("customer", "long", ("customer",)),
    BodyColumn("cents", "decimal(18,2)", ("price", "cents")),
    BodyColumn("weight", "double", ("weight",)),
    BodyColumn("paid", "boolean", ("paid",)),
    BodyColumn("at", "timestamp", ("at",), TimeForm.ISO_8601),
]
_SMALL = [*_FLAT, BodyColumn("store", "string", ("store",)), BodyColumn("points", "long", ("points",))]
_NESTED = [
    *_FLAT,
    BodyColumn("items", array(struct(sku="string", qty="long")), ("items",)),
    BodyColumn("address", struct(city="string", zip="string", floor="long"), ("address",)),
]
_MANY = [
    *_NESTED,
    *(BodyColumn(f"c{each}", ("long", "string", "double")[each % 3], (f"c{each}",)) for each in range(32)),
]


SHAPES = {
    "200b_8": (_SMALL, 180, 0),
    "1k_8": (_NESTED, 1000, 0),
    "1k_40": (_MANY, 1000, 32),
    "4k_8": (_NESTED, 4000, 0),
}
"""Name -> columns, bytes of a body, and its members beside those of all shapes."""


def shapes(events: int, names: Iterable[str] = tuple(SHAPES)) -> Iterator[Shape]:
    """The bodies of a run."""
    rng = Random(1)
    for name in names:
        columns, size, more = SHAPES[name]
        yield Shape(name, columns, [order(number, rng, size, more) for number in range(events)])


def spoiled(bodies: Sequence[bytes], share: float) -> list[bytes]:
    """The bodies, of which a share is bad: no JSON, or a value of another type, in turn."""
    made, every = list(bodies), round(1 / share)
    for place in range(0, len(made), every):
        body = made[place]
        made[place] = body[:-1] if place // every % 2 else body.replace(b'"customer":', b'"customer":"x","was":', 1)
    return made


def micros(calls: dict[str, Callable[[], object]], events: int, rounds: int) -> dict[str, float]:
    """CPU us per event of each call, the least of the rounds; the calls take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.process_time()
            call()
            best[name] = min(best[name], (time.process_time() - started) / events * 1e6)
    return best


def by_pyarrow(shape: Shape) -> Callable[[], object]:
    """`pyarrow.json` with the members at the top that columns are made of."""
    options = pa.json.ParseOptions(explicit_schema=_top(shape.columns), unexpected_field_behavior="ignore")
    one = pa.json.ReadOptions(use_threads=False, block_size=1 << 24)
    content = b"\n".join(shape.bodies)
    return lambda: pa.json.read_json(io.BytesIO(content), read_options=one, parse_options=options)


def by_orjson(shape: Shape, loads: Callable[[bytes], Any]) -> Callable[[], object]:
    """A parser that makes Python's values, and Arrow's columns of them."""
    names, fields = _top(shape.columns).names, _top(shape.columns)

    def call() -> object:
        rows = [loads(body) for body in shape.bodies]
        for row in rows:
            row["at"] = json_oracle.datetime.fromisoformat(row["at"])
        kinds = [pa.int64() if pa.types.is_decimal(kind) else kind for kind in fields.types]
        columns = [[row.get(name) for row in rows] for name in names]
        return [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]

    return call


def _top(columns: Iterable[BodyColumn]) -> pa.Schema:
    own = [column for column in columns if len(column.path) == 1]
    return pa.schema([field for field in schema(own) if field.name != "_error"])


def wrong_values(shape: Shape, bodies: int) -> tuple[int, int]:
    """Of changed bodies, each read alone: how many of `pyarrow.json`'s rows have a value that the oracle does not have.

    Returns:
        Wrong rows of `pyarrow.json`, and of the compiled scanner.
    """
    rng = Random(2)
    columns = [
        replace(column, required=False)
        for column in shape.columns
        if len(column.path) == 1 and column.name != "at"  # which it reads in another form
    ]
    fields = _top(columns)
    options = pa.json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore")
    parser, wrong, own = CompiledBodyParser(columns), 0, 0
    for _ in range(bodies):
        body = mutated(rng.choice(shape.bodies), rng.randrange(1, 400), rng.choice(b'0"1e,-.}[ '), rng.randrange(3))
        values, errors = json_oracle.row(body, columns)
        right = [] if errors else [_plain(value) for value in values]
        (row,) = parser.parse(pa.array([body], pa.binary())).to_pylist()
        own += bool(row.pop("_error")) != bool(errors) or (
            not errors and [_plain(each) for each in row.values()] != right
        )
        try:
            found = pa.json.read_json(io.BytesIO(body), parse_options=options).to_pylist()
        except pa.ArrowInvalid:
            continue
        except UnicodeDecodeError:  # it takes what is not UTF-8
            wrong += 1
            continue
        wrong += len(found) != 1 or [_plain(each) for each in found[0].values()] != right
    return wrong, own


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return tuple(map(_plain, value.values()))
        case list() | tuple():
            return tuple(map(_plain, value))
    return value


def rows(options: Options) -> list[Row]:
    """Parse bodies of four shapes, and bad ones of one shape."""
    events, rounds = (EVENTS // 10, 3) if options.quick else (EVENTS, ROUNDS)
    found = []
    try:
        loads = import_module("orjson").loads
    except ModuleNotFoundError:
        loads = None
        options.say("orjson is not installed: its figures are left out.")
    for shape in shapes(events):
        size = sum(map(len, shape.bodies)) / events
        arrays = {
            "": pa.array(shape.bodies, pa.binary()),
            "1 % bad": pa.array(spoiled(shape.bodies, 0.01), pa.binary()),
            "all bad": pa.array(spoiled(shape.bodies, 1), pa.binary()),
        }
        scanner, plain = CompiledBodyParser(shape.columns), PlainBodyParser(shape.columns)
        calls: dict[str, Callable[[], object]] = {
            f"scanner {name}".strip(): partial(scanner.parse, bodies) for name, bodies in arrays.items()
        }
        calls["pyarrow.json"] = by_pyarrow(shape)
        if loads:
            calls["orjson"] = by_orjson(shape, loads)
        taken = micros(calls, events, rounds)
        taken |= micros({"plain": partial(plain.parse, arrays[""])}, events, 1)
        for name, value in taken.items():
            options.say(f"{shape.name} ({size:,.0f} B), {name}: {value:.2f} us, {value / taken['scanner']:.2f} x")
        found.append(Row(f"columns_{shape.name}_vs_pyarrow", UNIT, taken["scanner"], taken["pyarrow.json"]))
        found.append(Row(f"columns_{shape.name}_vs_plain", UNIT, taken["scanner"], taken["plain"]))
        found.append(
            Row(f"columns_{shape.name}_1_percent_bad_vs_good", UNIT, taken["scanner 1 % bad"], taken["scanner"])
        )
        found.append(Row(f"columns_{shape.name}_all_bad_vs_good", UNIT, taken["scanner all bad"], taken["scanner"]))
    changed = events * 4
    wrong, own = wrong_values(next(shapes(50, ["1k_8"])), changed)
    options.say(f"Of {changed:,} changed bodies, pyarrow.json made {wrong} wrong rows, the scanner {own}.")
    found.append(Row("columns_wrong_rows_vs_pyarrow", f"of {changed:,} changed bodies", own, wrong))
    return found + drained(options)


def drained(options: Options) -> list[Row]:
    """Drain orders without and with columns; of one shape, bad ones too."""
    found = []
    events = DRAINED // 10 if options.quick else DRAINED
    with TemporaryDirectory() as name, servers_at(Path(name)) as servers:

        def run(label: str, bodies: Sequence[bytes], *sets: Sequence[BodyColumn]) -> list[Taken]:
            """What draining takes with each set of columns, the cheapest of the rounds."""
            hub, count = f"columns-{label}", len(bodies) // PARTITIONS * PARTITIONS
            servers[0].admin.create_hub(hub, partitions=PARTITIONS)
            for partition in range(PARTITIONS):
                each = ((body, {}) for body in bodies[partition:count:PARTITIONS])
                servers[0].admin.put_events(hub, str(partition), each)
            turns = [
                [drain(Way.OURS, Path(name), servers, hub, count, PARTITIONS, options, columns) for columns in sets]
                for _ in range(1 if options.quick else DRAINS)
            ]
            servers[0].admin.delete_hub(hub)
            return [min(rounds, key=lambda taken: taken.micros) for rounds in zip(*turns, strict=True)]

        for shape in shapes(events, ("1k_8", "1k_40", "200b_8")):
            columns = [replace(each, statistics=at < STATISTICS) for at, each in enumerate(shape.columns)]
            plain, typed = run(shape.name.replace("_", "-"), shape.bodies, (), columns)
            found += [
                Row(f"drain_columns_{shape.name}_cost_vs_bytes", UNIT, typed.micros, plain.micros),
                Row(f"drain_columns_{shape.name}_size_vs_bytes", "MB", typed.size / 1e6, plain.size / 1e6),
            ]
            for share, label in ((0.01, "1_percent"), (1.0, "all")) if shape.name == "1k_8" else ():
                (bad,) = run(label.replace("_", "-"), spoiled(shape.bodies, share), columns)
                found.append(Row(f"drain_columns_{shape.name}_{label}_bad_vs_good", UNIT, bad.micros, typed.micros))
    return found


def main() -> None:
    """Print the rows; write them if a folder is named."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.columns", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the events")
    parser.add_argument("--out", type=Path, help="folder of latest.json to write the rows to")
    options = parser.parse_args()
    found = rows(Options(quick=options.quick))
    print(table(found))
    if options.out:
        write(found, options.out)


if __name__ == "__main__":
    main()
