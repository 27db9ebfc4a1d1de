"""Avro bodies as publishers encode them."""

import io
from typing import Any

import fastavro


def encoded(schema: Any, value: Any) -> bytes:
    """A body as fastavro encodes it, without the id of its schema."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return buffer.getvalue()


def framed(schema_id: int, body: bytes) -> bytes:
    """A body with the id of its schema in front, as Confluent's serializers frame it."""
    return b"\0" + schema_id.to_bytes(4, "big") + body
