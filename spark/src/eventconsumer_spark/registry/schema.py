"""PURE: checks a schema of a registry before Spark uses it.

Other programs write schemas and bodies, and Spark decodes them with the memory of a whole batch. So a schema is refused
from which a short body, or the schema itself, makes an object of any size: a recursive one (a deep body overflows the
stack of Avro's decoder), one whose named types expand without limit, and an array of items without bytes (an array of
any length then has a body of a few bytes). Lengths in bodies are limited by spark-defaults.conf.

Source: avro.apache.org/docs/1.12.0/specification, "Schema Declaration" and "Binary Encoding".
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any

MAX_CHARACTERS = 262_144
"""Maximum length of a schema, characters."""
MAX_DEPTH = 32
"""Maximum number of types inside each other."""
MAX_TYPES = 10_000
"""Maximum number of types, where a named type counts at each use, as Spark makes columns of them."""
MAX_FIXED_BYTES = 1_048_576

_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True)
class Schema:
    """A schema that Spark may use.

    Attributes:
        text: As JSON.
        name: Full name of its record; for another type the type.
        version: Greater for a newer schema with the same name.
    """

    text: str
    name: str
    version: int = 0


@dataclass(frozen=True)
class Refusal:
    """Why bodies of a schema are not decoded: a sentence after the schema's id."""

    cause: str


class _Refused(Exception):
    pass


@dataclass(frozen=True)
class _Shape:
    """Extent of a type: number of types in it, depth, and whether a value can have no byte."""

    types: int = 1
    depth: int = 1
    empty: bool = False


@dataclass
class _Walk:
    shapes: dict[str, _Shape] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)


def checked(text: str, version: int = 0) -> Schema | Refusal:
    """The schema, if Spark may use it.

    Args:
        text: The schema as JSON.
        version: Greater for a newer schema with the same name.
    """
    if len(text) > MAX_CHARACTERS:
        return Refusal(f"is longer than {MAX_CHARACTERS} characters")
    try:
        content = json.loads(text)
        _shape(content, "", _Walk(), 1)
    except (ValueError, RecursionError):
        return Refusal("is not JSON")
    except _Refused as error:
        return Refusal(str(error))
    # As Python parsed it: Avro's parser must not find another schema in the same text.
    return Schema(json.dumps(content), _root(content), version)


def newest(schemas: list[tuple[Schema, int]]) -> Schema | None:
    """The schema by which all bodies of a batch are read; None: there is none.

    Of the schemas with the name that most events have, it is the newest: versions of different names have no order.

    Args:
        schemas: Each schema with its number of events.
    """
    events: dict[str, int] = {}
    for schema, count in schemas:
        events[schema.name] = events.get(schema.name, 0) + count
    if not events:
        return None
    most = max(events, key=lambda name: (events[name], name))
    return max((each for each, _ in schemas if each.name == most), key=lambda each: (each.version, each.text))


def _root(content: Any) -> str:
    if isinstance(content, dict):
        kind = content.get("type")
        return _full_name(content, "") if "name" in content else str(kind)
    return content if isinstance(content, str) else "union"


def _shape(content: Any, namespace: str, walk: _Walk, level: int) -> _Shape:
    if level > MAX_DEPTH:
        raise _Refused(f"has more than {MAX_DEPTH} types inside each other")
    if isinstance(content, str):
        return _named(content, namespace, walk)
    if isinstance(content, list):
        return _around([_shape(each, namespace, walk, level + 1) for each in content], empty=False)
    if not isinstance(content, dict):
        raise _Refused("is not an Avro schema")
    kind = content.get("type")
    if kind in ("record", "error"):
        return _record(content, namespace, walk, level)
    if kind in ("enum", "fixed"):
        size = content.get("size", 1)
        if kind == "fixed" and not (isinstance(size, int) and 0 <= size <= MAX_FIXED_BYTES):
            raise _Refused(f"has a fixed type without a size of 0 to {MAX_FIXED_BYTES} bytes")
        shape = walk.shapes[_new_name(content, namespace, walk)] = _Shape(empty=kind == "fixed" and size == 0)
        return shape
    if kind in ("array", "map"):
        inner = _shape(content.get("items" if kind == "array" else "values"), namespace, walk, level + 1)
        if kind == "array" and inner.empty:
            raise _Refused("has an array of items without bytes")
        return _around([inner], empty=False)
    return _shape(kind, namespace, walk, level + 1)


def _record(content: dict[str, Any], namespace: str, walk: _Walk, level: int) -> _Shape:
    name = _new_name(content, namespace, walk)
    fields = content.get("fields")
    if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
        raise _Refused("has a record without fields")
    walk.open.add(name)
    inner = [_shape(each.get("type"), name.rpartition(".")[0], walk, level + 1) for each in fields]
    walk.open.remove(name)
    shape = walk.shapes[name] = _around(inner, empty=all(each.empty for each in inner))
    return shape


def _around(inner: list[_Shape], *, empty: bool) -> _Shape:
    whole = _Shape(1 + sum(each.types for each in inner), 1 + max((each.depth for each in inner), default=0), empty)
    if whole.types > MAX_TYPES:
        raise _Refused(f"has more than {MAX_TYPES} types")
    if whole.depth > MAX_DEPTH:
        raise _Refused(f"has more than {MAX_DEPTH} types inside each other")
    return whole


def _named(name: str, namespace: str, walk: _Walk) -> _Shape:
    if name in _PRIMITIVE:
        return replace(_Shape(), empty=name == "null")
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    # Without a namespace, if there is none in it: parsers find it both ways.
    for each in (full, name):
        if each in walk.open:
            raise _Refused("is recursive")
        if each in walk.shapes:
            return walk.shapes[each]
    raise _Refused("names a type that it does not contain")


def _new_name(content: dict[str, Any], namespace: str, walk: _Walk) -> str:
    name = _full_name(content, namespace)
    if name in walk.shapes or name in walk.open:
        raise _Refused("defines a type twice")
    return name


def _full_name(content: dict[str, Any], namespace: str) -> str:
    name, own = content.get("name"), content.get("namespace", namespace)
    if not isinstance(name, str) or not name or not isinstance(own, str):
        raise _Refused("has a type without a name")
    return name if "." in name or not own else f"{own}.{name}"
