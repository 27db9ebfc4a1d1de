"""Generates the CustomResourceDefinition from the pydantic models.

`python -m eventconsumer_api.resource.crdgen > crds/eventconsumers.yaml`. The models are the single source; the YAML is
committed and a test refuses drift. JSON Schema features that a structural schema lacks are translated (references are
inlined, `X or null` becomes an absent X), and all others are errors, so that no constraint of a model is lost on the
way to the API server.
"""

import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from eventconsumer_api.shared.model import TOLD
from eventconsumer_api.v1alpha1 import GROUP, KIND, PLURAL, VERSION, EventConsumerSpec
from eventconsumer_api.v1alpha1.status import EventConsumerStatus

Schema = dict[str, Any]

# Keywords with the same meaning in a structural schema.
_KEPT = {
    "type", "description", "format", "enum", "pattern", "required",
    TOLD, "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "minProperties", "maxProperties",
}  # fmt: skip
_EXTENSIONS = "x-kubernetes-"

# StatefulSet pods carry a label of the form <name>-host-<10 characters>, which may have 63; Services need a DNS label.
NAME_MAX = 47
_NAME_RULES = [
    {
        "rule": f"self.metadata.name.size() <= {NAME_MAX} "
        "&& self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "message": f"metadata.name: use at most {NAME_MAX} lower-case letters, digits and hyphens, "
        "starting with a letter (Services and pods are named after it)",
    }
]


class UnsupportedSchemaError(TypeError):
    """A model uses a feature that structural schemas lack; the message names the location and the keyword."""


def structural(model: type[BaseModel], *, defaults: bool) -> Schema:
    """Return the structural schema of a model, with camelCase names and no references.

    Args:
        model: The model.
        defaults: Whether the API server fills in static scalar defaults. Not in a status: absent means "unknown".

    Raises:
        UnsupportedSchemaError: A keyword has no equivalent in a CustomResourceDefinition.
    """
    document = model.model_json_schema(by_alias=True)
    schema = _convert(document, document.get("$defs", {}), model.__name__)
    return schema if defaults else _without_defaults(schema)


def _without_defaults(node: Schema) -> Schema:
    result = {keyword: value for keyword, value in node.items() if keyword != "default"}
    if "properties" in result:
        result["properties"] = {name: _without_defaults(sub) for name, sub in result["properties"].items()}
    if "items" in result:
        result["items"] = _without_defaults(result["items"])
    return result


def _convert(node: Schema, definitions: dict[str, Schema], where: str) -> Schema:
    node = _resolve(node, definitions)
    result: Schema = {}
    for keyword, value in node.items():
        if keyword in _KEPT or keyword.startswith(_EXTENSIONS):
            result[keyword] = value
        elif keyword == "properties":
            result[keyword] = {name: _convert(sub, definitions, f"{where}.{name}") for name, sub in value.items()}
        elif keyword == "items":
            result[keyword] = _convert(value, definitions, f"{where}[]")
        elif keyword == "additionalProperties":
            # A structural schema with properties implies `false`: the API server prunes or refuses other fields.
            if isinstance(value, dict):
                result[keyword] = _convert(value, definitions, f"{where}.*")
        elif keyword == "patternProperties":
            ((_, inner),) = value.items()
            result["additionalProperties"] = _convert(inner, definitions, f"{where}.*")
        elif keyword == "default":
            # Scalars only: a defaulted object would be written into every resource and conflict with GitOps tools.
            if isinstance(value, str | int | float | bool) and value != "":
                result[keyword] = value
        elif keyword not in {"title", "$defs", "propertyNames"}:
            raise UnsupportedSchemaError(f"{where}: a structural schema has no {keyword!r}; model it differently")
    if result.get("x-kubernetes-int-or-string"):
        del result["type"]
    names = list(_name_rules(node, where))
    if names:
        result["x-kubernetes-validations"] = [*result.get("x-kubernetes-validations", []), *names]
    return result


def _name_rules(node: Schema, where: str) -> Iterator[Schema]:
    """Constraints on the keys of a map, as CEL, because a structural schema has no keyword for them.

    Patterns are omitted: the API server assumes the maximum length for keys and refuses a regular expression over them
    as too costly. The operator, which parses the resource with the same model, refuses such a key.
    """
    field = where.partition(".")[2]
    names = dict(node.get("propertyNames", {}))
    if "enum" in names:
        values = names.pop("enum")
        yield {
            "rule": f"self.all(key, key in [{', '.join(repr(value) for value in values)}])",
            "message": f"{field}: the keys are {', '.join(values)}",
        }
    if "minLength" in names or "maxLength" in names:
        least, most = names.pop("minLength", 0), names.pop("maxLength", None)
        upper = f" && size(key) <= {most}" if most is not None else ""
        yield {
            "rule": f"self.all(key, size(key) >= {least}{upper})",
            "message": f"{field}: keys have {least} to {most if most is not None else 'any number of'} characters",
        }
    if names.keys() - {"type", TOLD}:
        raise UnsupportedSchemaError(f"{where}: no rule for keys with {', '.join(sorted(names))}")


def _resolve(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """Inline a reference, and reduce `X or null` to X; sibling keywords (description, default) win."""
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            beside = {keyword: value for keyword, value in node.items() if keyword != "anyOf"}
            return _resolve(options[0] | beside, definitions)
    if "$ref" in node:
        target = definitions[node["$ref"].removeprefix("#/$defs/")]
        beside = {keyword: value for keyword, value in node.items() if keyword != "$ref"}
        return _resolve(target | beside, definitions)
    return node


def in_words(node: Schema) -> Schema:
    """The schema with a rule and its sentence in the place of each pattern that has one (`model.told`).

    The API server answers a value that a `pattern` refuses with the regular expression alone.
    """
    result = {
        keyword: {name: in_words(sub) for name, sub in value.items()}
        if keyword == "properties"
        else in_words(value)
        if keyword in {"items", "additionalProperties"}
        else value
        for keyword, value in node.items()
        if keyword != TOLD
    }
    if TOLD in node:
        rule = f"self.matches(r'{result.pop('pattern')}')"
        if node.get("x-kubernetes-int-or-string"):
            rule = f"type(self) != string || {rule}"
        known = result.get("x-kubernetes-validations", [])
        result["x-kubernetes-validations"] = [*known, {"rule": rule, "message": node[TOLD]}]
    return result


def custom_resource_definition() -> Schema:
    """Return the CustomResourceDefinition as a plain dict."""
    schema: Schema = {
        "type": "object",
        "description": "Drains an Azure Event Hub into files, each event exactly once, and processes them with Spark.",
        "required": ["spec"],
        "x-kubernetes-validations": _NAME_RULES,
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"{KIND}."},
            "metadata": {"type": "object"},
            "spec": in_words(structural(EventConsumerSpec, defaults=True)),
            "status": structural(EventConsumerStatus, defaults=False),
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["evc"],
                "categories": [PLURAL],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.scaling.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": _columns(),
                }
            ],
        },
    }


def _columns() -> list[Schema]:
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [
        {"name": "Ready", "type": "string", "jsonPath": f"{ready}.status"},
        {"name": "Hub", "type": "string", "jsonPath": ".spec.eventHub.name"},
        {"name": "Group", "type": "string", "jsonPath": ".spec.eventHub.consumerGroup"},
        {"name": "Hosts", "type": "integer", "jsonPath": ".status.hosts.ready"},
        {"name": "Partitions", "type": "integer", "jsonPath": ".status.partitions.owned"},
        {"name": "Lag", "type": "integer", "jsonPath": ".status.lag.events"},
        {"name": "Suspended", "type": "boolean", "jsonPath": ".spec.suspend"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Reason", "type": "string", "jsonPath": f"{ready}.reason", "priority": 1},
    ]


def render() -> str:
    """Return the committed YAML text."""
    import yaml

    class Plain(yaml.SafeDumper):
        """Anchors and aliases are disabled: they are hard to read, and some tools do not support them."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    header = "# Generated from the models in crds/src by `python -m eventconsumer_api.resource.crdgen`; do not edit.\n"
    return header + yaml.dump(custom_resource_definition(), Dumper=Plain, sort_keys=False, width=120)


if __name__ == "__main__":
    sys.stdout.write(render())
