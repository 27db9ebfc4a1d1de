"""Schemas that Spark may use, and the reader schema of a batch."""

import json
from typing import Any

import pytest

from eventconsumer_spark.registry.schema import MAX_CHARACTERS, MAX_DEPTH, Refusal, Schema, checked, newest


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{n}", "type": t} for n, t in enumerate(fields)],
    } | more


def nested(depth: int) -> Any:
    schema: Any = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def doubling(levels: int) -> Any:
    """A record with two of a record with two of … : its size in JSON is linear, that in columns exponential."""
    schema: Any = record("R0", "int")
    for level in range(1, levels):
        schema = record(f"R{level}", schema, f"R{level - 1}")
    return schema


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("string", "string"),
        (["null", "int"], "union"),
        (record("Order", "long", ["null", "string"]), "Order"),
        (record("Order", {"type": "map", "values": "bytes"}, namespace="shop"), "shop.Order"),
        (record("shop.Order", record("Item", "int"), "Item", "shop.Item"), "shop.Order"),
        (record("A", {"type": "enum", "name": "E", "symbols": ["X"]}, {"type": "array", "items": "E"}), "A"),
        (record("A", {"type": "fixed", "name": "F", "size": 16}, {"type": "array", "items": "F"}), "A"),
        (record("A", {"type": "bytes", "logicalType": "decimal", "precision": 4}), "A"),
        (nested(MAX_DEPTH - 1), "array"),
    ],
)
def test_a_schema_of_any_type_is_used_as_it_is(schema: Any, name: str) -> None:
    text = json.dumps(schema)
    assert checked(text, 7) == Schema(text, name, 7)


@pytest.mark.parametrize(
    ("schema", "cause"),
    [
        (record("Node", "int", ["null", "Node"]), "is recursive"),
        (record("A", record("B", "A"), namespace="x"), "is recursive"),
        (record("A", record("B", "x.A"), namespace="x"), "is recursive"),
        (nested(MAX_DEPTH), "inside each other"),
        (nested(5000), "inside each other"),
        (doubling(20), "more than 10000 types"),
        ({"type": "array", "items": "null"}, "items without bytes"),
        ({"type": "array", "items": record("Empty")}, "items without bytes"),
        ({"type": "array", "items": record("A", "null", record("B"))}, "items without bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "items without bytes"),
        ({"type": "fixed", "name": "F", "size": 1 << 31}, "fixed type"),
        ({"type": "fixed", "name": "F", "size": "1"}, "fixed type"),
        ("Other", "names a type"),
        (5, "is not an Avro schema"),
        ({"type": 5}, "is not an Avro schema"),
        ({"type": "record", "name": "A"}, "without fields"),
        ({"type": "record", "fields": []}, "without a name"),
        (record("A", record("A", "int")), "twice"),
    ],
)
def test_a_schema_that_could_exhaust_a_driver_or_is_none_is_refused(schema: Any, cause: str) -> None:
    try:
        text = json.dumps(schema)
    except RecursionError:
        text = '{"type": "array", "items": ' * 5000 + '"int"' + "}" * 5000
    refused = checked(text)
    assert isinstance(refused, Refusal)
    assert cause in refused.cause or (len(text) > 100_000 and refused.cause == "is not JSON")


def test_a_text_that_is_no_schema_is_refused() -> None:
    assert checked("{") == Refusal("is not JSON")
    assert checked("[" * 100_000) == Refusal("is not JSON")
    assert checked(json.dumps(record("A" * MAX_CHARACTERS))) == Refusal(f"is longer than {MAX_CHARACTERS} characters")


def test_the_reader_schema_is_the_newest_of_the_name_that_most_events_have() -> None:
    old, new, rare = Schema("1", "Order", 1), Schema("2", "Order", 2), Schema("9", "Other", 9)
    assert newest([]) is None
    assert newest([(old, 10), (new, 1), (rare, 5)]) is new
    assert newest([(new, 1), (rare, 5), (old, 3)]) is rare
    assert newest([(new, 1), (old, 1)]) == newest([(old, 1), (new, 1)]) == new
