"""Which characters the schema lets a user write into the fields of a spec."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.resource.crdgen import structural
from eventconsumer_api.v1alpha1 import EventConsumerSpec

# Fields that may have any character, and why. `(parsed)`: by a format of the API server.
ANYTHING = {
    "spec.processing.env[].value": "a value for the handler, such as a certificate",
    "spec.spark.application.env[].value": "likewise, for the program",
    "spec.spark.application.arguments[]": "an argument, such as a query of several lines",
    "spec.spark.application.conf.*": "the form of each property, by a rule",
    "spec.spark.output.body.schema": "DDL or Avro JSON of several lines",
    "spec.pods.annotations.*": "annotations of Kubernetes, such as JSON of several lines",
    "spec.spark.driver.annotations.*": "likewise",
    "spec.spark.executor.annotations.*": "likewise",
    "spec.startingPosition.enqueuedTime": "(parsed) date-time",
    "spec.startingPosition.partitions.*.enqueuedTime": "(parsed) date-time",
    "spec.replay.from": "(parsed) date-time",
    "spec.replay.to": "(parsed) date-time",
    **{
        f"{path}.egress[].to[].ipBlock.{field}": "(parsed) cidr"
        for path in ("spec.processing", "spec.spark.application")
        for field in ("cidr", "except[]")
    },
}
CONTROLS = "".join(map(chr, (*range(0x20), 0x7F, *range(0x80, 0xA0))))


def texts(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields with texts that are not one of a list."""
    is_text = schema.get("type") == "string" or schema.get("x-kubernetes-int-or-string")
    if is_text and "enum" not in schema:
        yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from texts(inner, f"{path}.{name}")
    for key, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(key), dict):
            yield from texts(schema[key], f"{path}{suffix}")


FIELDS = dict(texts(structural(EventConsumerSpec, defaults=True), "spec"))
PATTERNS = sorted({schema["pattern"] for schema in FIELDS.values() if "pattern" in schema})


def test_each_text_has_a_pattern_or_a_reason_to_have_none() -> None:
    assert {path for path, schema in FIELDS.items() if "pattern" not in schema} == ANYTHING.keys()
    for path, reason in ANYTHING.items():
        assert reason.startswith("(parsed)") == ("format" in FIELDS[path])


@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
def test_no_pattern_lets_a_control_character_through(pattern: str, data: st.DataObject) -> None:
    """Neither in the middle, nor at an end, where `$` of some languages ignores a newline (Go's, Rust's do not)."""
    assert pattern.startswith("^") and pattern.endswith("$")
    form = re.compile(f"(?:{pattern.removeprefix('^').removesuffix('$')})" if "$|^" not in pattern else pattern)
    text = data.draw(st.from_regex(form, fullmatch=True, alphabet=st.characters(codec="ascii")))
    at = data.draw(st.integers(0, len(text)))
    control = data.draw(st.sampled_from(CONTROLS))
    assert not form.fullmatch(f"{text[:at]}{control}{text[at:]}")
