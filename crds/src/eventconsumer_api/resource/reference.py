"""Generates the reference page of the resource from its CustomResourceDefinition.

`python -m eventconsumer_api.resource.reference > docs/reference/eventconsumer.md`. It is generated from the schema that
the API server enforces, so it contains no other fields or limits. It is committed, and a test refuses drift.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from eventconsumer_api.resource.crdgen import Schema, custom_resource_definition

_INTRODUCTION = """\
# EventConsumer

<!-- Generated from the models in crds/src by `python -m eventconsumer_api.resource.reference`; do not edit. -->

`{api_version}`, kind `{kind}`, short name `{short}`, namespaced. {description}

`kubectl explain evc.spec --recursive` shows the same. Fields in bold are required. A field that is *fixed* cannot
change once it is set. Fields that are not listed are refused. Names are camelCase; durations are seconds, sizes bytes.

The number of hosts is also the subresource `scale` (`kubectl scale evc NAME --replicas=N`, or an autoscaler), if
`spec.scaling.mode` is `Fixed`.
"""
_PATH = re.compile(r'("message": ")[\w.\[\]*]+: ')
_KEEPS = re.compile(r"self\.(\w+) == oldSelf\.\1|\(has\(self\.(\w+)\) \? self\.\2")


@dataclass
class _Page:
    """The page while it is written.

    Attributes:
        lines: Lines written so far.
        known: Content of an object -> the path at which it was described first.
    """

    lines: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)


def render() -> str:
    """Return the page's Markdown."""
    crd = custom_resource_definition()["spec"]
    version = crd["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    page = _Page(
        _INTRODUCTION.format(
            api_version=f"{crd['group']}/{version['name']}",
            kind=crd["names"]["kind"],
            short=crd["names"]["shortNames"][0],
            description=schema["description"],
        ).splitlines()
    )
    page.lines += ["", *_rules(schema)]
    for part in ("spec", "status"):
        _describe(page, part, schema["properties"][part])
    page.lines += ["## Columns of `kubectl get`", "", "| column | from |", "|---|---|"]
    for column in version["additionalPrinterColumns"]:
        name = f"{column['name']} (`-o wide`)" if column.get("priority") else column["name"]
        page.lines.append(f"| {name} | {_code(column['jsonPath'])} |")
    return "\n".join(page.lines) + "\n"


def _describe(page: _Page, path: str, schema: Schema) -> None:
    page.known[_content(schema)] = path
    level = "##" if "." not in path else "###"
    page.lines += [f"{level} {path}", "", schema.get("description", ""), ""]
    fixed = _fixed(schema)
    required = schema.get("required", [])
    page.lines += ["| field | type | default | constraints | meaning |", "|---|---|---|---|---|"]
    inner: list[tuple[str, Schema]] = []
    for name, sub in schema["properties"].items():
        place, target = _target(f"{path}.{name}", sub)
        link = ""
        if target is not None:
            known = page.known.get(_content(target))
            link = _anchor(known or place)
            if known is None:
                page.known[_content(target)] = place
                inner.append((place, target))
        cells = (
            f"**{name}**" if name in required else name,
            _type(sub, link),
            _code(_plain(sub["default"])) if "default" in sub else "",
            "; ".join([*(["fixed"] if name in fixed else []), *_constraints(sub)]),
            sub.get("description", "").replace("|", "\\|"),
        )
        page.lines.append("| " + " | ".join(cells) + " |")
    page.lines += ["", *_rules(schema)]
    for place, target in inner:
        _describe(page, place, target)


def _target(path: str, schema: Schema) -> tuple[str, Schema | None]:
    """The object with its own fields to which a field leads, through lists and maps."""
    if "properties" in schema:
        return path, schema
    if "items" in schema:
        return _target(f"{path}[]", schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        return _target(f"{path}.*", schema["additionalProperties"])
    return path, None


def _content(schema: Schema) -> str:
    """Key for equal objects: all keywords except the description, and without the paths in messages."""
    content = json.dumps({name: value for name, value in schema.items() if name != "description"}, sort_keys=True)
    return _PATH.sub(r"\1", content)


def _type(schema: Schema, link: str) -> str:
    if "properties" in schema:
        return f"[object]({link})"
    if "items" in schema:
        return f"list of {_type(schema['items'], link)}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of string to {_type(schema['additionalProperties'], link)}"
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    return "time" if schema.get("format") == "date-time" else str(schema["type"])


def _constraints(schema: Schema) -> Iterator[str]:
    """Bounds of a field, then those of its items or values."""
    if "enum" in schema:
        yield "one of " + ", ".join(_code(value) for value in schema["enum"])
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " entries"),
    ):
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            yield f"{low} to {high}{unit}"
        elif high is not None:
            yield f"at most {high}{unit}"
        elif low is not None:
            yield f"at least {low}{unit}"
    if "pattern" in schema:
        yield _code(schema["pattern"])
    if not schema.get("properties"):
        yield from (_message(rule) for rule in schema.get("x-kubernetes-validations", []))
    for inner, of in (("items", "each"), ("additionalProperties", "each value")):
        sub = schema.get(inner)
        if isinstance(sub, dict) and "properties" not in sub:
            yield from (f"{of}: {text}" for text in _constraints(sub))


def _fixed(schema: Schema) -> set[str]:
    """Fields that a rule compares with their old value."""
    rules = [rule["rule"] for rule in schema.get("x-kubernetes-validations", []) if "oldSelf" in rule["rule"]]
    return {one or other for rule in rules for one, other in _KEEPS.findall(rule)}


def _rules(schema: Schema) -> list[str]:
    messages = [f"- {_message(rule)}" for rule in schema.get("x-kubernetes-validations", [])]
    return ["Rules:", "", *messages, ""] if messages else []


def _message(rule: Schema) -> str:
    return str(rule["message"]).replace("|", "\\|").replace("<", "&lt;")


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _anchor(path: str) -> str:
    """Anchor of a heading on GitHub."""
    return "#" + re.sub(r"[^a-z0-9 _-]", "", path.lower()).replace(" ", "-")


if __name__ == "__main__":
    sys.stdout.write(render())
