"""The CRD says what the models say: nothing drifts, nothing is lost."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import annotated_types
import pytest
from pydantic import BaseModel, Field

from eventconsumer_api.resource import crdgen
from eventconsumer_api.shared.model import Model
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_api.v1alpha1.status import EventConsumerStatus

ROOT = Path(__file__).parents[3]
BOUNDS = {
    annotated_types.Ge: ("ge", "minimum"),
    annotated_types.Le: ("le", "maximum"),
    annotated_types.MinLen: ("min_length", "minLength"),
    annotated_types.MaxLen: ("max_length", "maxLength"),
}


def test_committed_copies_equal_the_generated_definition() -> None:
    rendered = crdgen.render()
    assert "&id" not in rendered  # the YAML has no anchors
    for copy in ("crds/eventconsumers.yaml", "helm/eventconsumer/files/eventconsumers.yaml"):
        assert (ROOT / copy).read_text() == rendered, f"{copy} drifted: run `make crds`"


def models_with_schemas(
    model: type[BaseModel], schema: dict[str, Any], path: str
) -> list[tuple[str, Any, dict[str, Any]]]:
    """Every field of a model and of the models in it, with the schema generated for it."""
    found = []
    for name, field in model.model_fields.items():
        alias = field.alias or name
        sub = schema["properties"][alias]
        found.append((f"{path}.{alias}", field, sub))
        for kind in [field.annotation, *get_args(field.annotation)]:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                inner = sub.get("items") or sub.get("additionalProperties") or sub
                found += models_with_schemas(kind, inner, f"{path}.{alias}")
    return found


@pytest.mark.parametrize(("model", "defaults"), [(EventConsumerSpec, True), (EventConsumerStatus, False)])
def test_every_constraint_and_description_of_the_models_is_in_the_schema(
    model: type[BaseModel], defaults: bool
) -> None:
    schema = crdgen.structural(model, defaults=defaults)
    fields = models_with_schemas(model, schema, "spec")
    assert len(fields) > 20
    for path, field, sub in fields:
        assert sub.get("description"), f"{path} has no description"
        check_constraints(path, field.metadata, sub)
        # What Annotated aliases hide inside Optional, list and dict, pydantic keeps in the annotation.
        inner = {list: sub.get("items"), dict: sub.get("additionalProperties")}.get(get_origin(field.annotation), sub)
        options = get_args(field.annotation)
        for option in options[1:] if get_origin(field.annotation) is dict else options:  # keys: see below
            for part in getattr(option, "__metadata__", ()):
                check_constraints(path, getattr(part, "metadata", [part]), inner)


def test_keys_of_maps_are_constrained_by_rules() -> None:
    class Sized(Model):
        by_name: dict[Annotated[str, Field(min_length=2, max_length=7, pattern="^a+$")], int] = Field(
            default={}, max_length=3, description="Numbers."
        )
        by_choice: dict[Literal["left", "right"], int] = Field(default={}, max_length=2, description="Numbers.")

    properties = crdgen.structural(Sized, defaults=True)["properties"]
    by_name, by_choice = properties["byName"], properties["byChoice"]
    assert by_name["additionalProperties"] == {"type": "integer"}
    (rule,) = by_name["x-kubernetes-validations"]
    assert rule == {
        "rule": "self.all(key, size(key) >= 2 && size(key) <= 7)",
        "message": "byName: keys have 2 to 7 characters",
    }
    (rule,) = by_choice["x-kubernetes-validations"]
    assert rule == {
        "rule": "self.all(key, key in ['left', 'right'])",
        "message": "byChoice: the keys are left, right",
    }


def check_constraints(path: str, constraints: Iterable[Any], schema: Any) -> None:
    suffix = {"array": "Items", "object": "Properties"}.get(schema.get("type", ""), "Length")
    for constraint in constraints:
        pattern = getattr(constraint, "pattern", None)
        if pattern is not None:
            assert schema["pattern"] == pattern, path
        for kind, (attribute, keyword) in BOUNDS.items():
            if isinstance(constraint, kind):
                assert schema[keyword.replace("Length", suffix)] == getattr(constraint, attribute), path


def walk(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, dict):
        return [node, *(found for value in node.values() for found in walk(value))]
    if isinstance(node, list):
        return [found for value in node for found in walk(value)]
    return []


def test_the_schema_is_structural() -> None:
    schema = crdgen.custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for node in walk(schema["properties"]):
        assert not {"$ref", "anyOf", "allOf", "oneOf", "title", "const"} & node.keys()
        if node.get("type") == "object":
            assert node.get("additionalProperties") is not False


def test_only_scalars_have_defaults_and_the_status_has_none() -> None:
    spec = crdgen.structural(EventConsumerSpec, defaults=True)
    defaults = [node["default"] for node in walk(spec) if "default" in node]
    assert "$Default" in defaults
    assert all(isinstance(default, str | int | bool) for default in defaults)
    assert "default" not in spec["properties"]["scaling"]["properties"]["replicas"], "autoscalers own it"
    assert not [node for node in walk(crdgen.structural(EventConsumerStatus, defaults=False)) if "default" in node]


def test_a_type_without_a_structural_schema_is_refused_by_name() -> None:
    class Odd(Model):
        either: int | str

    with pytest.raises(crdgen.UnsupportedSchemaError, match=r"Odd\.either: a structural schema has no 'anyOf'"):
        crdgen.structural(Odd, defaults=True)


def test_the_api_server_can_hold_every_bound() -> None:
    """It keeps bounds as doubles: one that rounds up to 2**63 becomes the least integer, which no number is below."""
    found = [
        bound
        for node in walk(crdgen.custom_resource_definition()["spec"]["versions"])
        for bound in (node.get("minimum"), node.get("maximum"))
        if isinstance(bound, int)
    ]
    assert len(found) > 20
    assert all(int(float(bound)) == bound for bound in found)


def test_the_api_server_gives_a_sentence_for_each_text_that_people_type() -> None:
    """A few keep the pattern: Kubernetes defines their form, or a rule of the object says more."""
    named = crdgen.structural(EventConsumerSpec, defaults=True)
    assert not [node for node in walk(crdgen.in_words(named)) if "x-told" in node]
    told = named["properties"]["sink"]["properties"]["container"]
    rule = crdgen.in_words(told)["x-kubernetes-validations"][-1]
    assert rule == {"rule": f"self.matches(r'{told['pattern']}')", "message": told["x-told"]}
    left = {node["pattern"] for node in walk(crdgen.in_words(named)) if isinstance(node.get("pattern"), str)}
    assert len(left) == 4, left  # label names and values, files of volumes, the URL of the proxy
