"""Any spec that the CRD's schema accepts, as a hypothesis strategy made from that schema itself.

The CEL rules are not followed: whatever holds for these specs holds for those that the API server lets through.
"""

from typing import Any

from hypothesis import strategies as st

from eventconsumer_api.resource.crdgen import structural
from eventconsumer_api.v1alpha1 import EventConsumerSpec

Strategy = st.SearchStrategy[Any]


def specs(chosen: dict[str, Strategy]) -> Strategy:
    """Specs; `chosen` has strategies for some fields by path, such as spec.processing.image."""
    return _of(structural(EventConsumerSpec, defaults=True), "spec", chosen)


def _of(schema: dict[str, Any], path: str, chosen: dict[str, Strategy]) -> Strategy:
    if path in chosen:
        return chosen[path]
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return text(schema) | st.integers(0, 100)
    kind = schema["type"]
    if kind == "object":
        return _object(schema, path, chosen)
    if kind == "array":
        items = _of(schema["items"], f"{path}[]", chosen)
        return st.lists(items, min_size=schema.get("minItems", 0), max_size=max(schema.get("minItems", 0), 2))
    if kind == "integer":
        return st.integers(schema.get("minimum", 0), schema.get("maximum", 2**31))
    return st.booleans() if kind == "boolean" else text(schema)


def _object(schema: dict[str, Any], path: str, chosen: dict[str, Strategy]) -> Strategy:
    if "properties" in schema:
        parts = {name: _of(sub, f"{path}.{name}", chosen) for name, sub in schema["properties"].items()}
        required = {name: parts.pop(name) for name in schema.get("required", [])}
        return st.fixed_dictionaries(required, optional=parts)
    names = chosen.get(f"{path}{{}}", st.from_regex(r"[a-z]{1,8}", fullmatch=True))
    return st.dictionaries(names, _of(schema["additionalProperties"], f"{path}.*", chosen), max_size=3)


def text(schema: dict[str, Any]) -> Strategy:
    if schema.get("format") == "date-time":
        return st.datetimes().map(lambda when: f"{when.isoformat()}Z")
    least, most = schema.get("minLength", 0), schema.get("maxLength", 100)
    if "pattern" not in schema:
        return st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=least, max_size=min(most, 30))
    pattern = schema["pattern"].removeprefix("^").removesuffix("$")
    ascii_only = st.characters(codec="ascii")  # what \\w means to the API server
    return st.from_regex(f"(?:{pattern})", fullmatch=True, alphabet=ascii_only).filter(
        lambda text: least <= len(text) <= most
    )
