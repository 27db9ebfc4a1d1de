"""Types of columns."""

from collections.abc import Mapping
from typing import Any

DeltaType = str | Mapping[str, Any]
"""A type as in the log of a Delta table: the name of a primitive one, or an object for a struct, an array or a map.

Source: "Schema Serialization Format" in PROTOCOL.md of github.com/delta-io/delta.
"""
