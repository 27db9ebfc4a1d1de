"""Pages that are made from the code say what the code says now."""

import ast
import inspect
from collections.abc import Callable

import pytest

from docs.generate import cli as clidoc
from docs.generate import conditions as conditionsdoc
from docs.generate import events as eventsdoc
from docs.generate import figures as figuresdoc
from docs.generate import json_columns as columnsdoc
from docs.generate import properties as propertiesdoc
from docs.generate import settings as settingsdoc
from docs.generate.messages import templates
from docs.generate.pages import DOCS, ROOT
from eventconsumer_api.spec.conditions import ConditionType, Reason
from eventconsumer_operator.conditions import messages


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("conditions", conditionsdoc.page),
        ("events", eventsdoc.page),
        ("settings", settingsdoc.page),
        ("properties", propertiesdoc.page),
        ("json-columns", columnsdoc.page),
        ("cli", clidoc.page),
    ],
)
def test_the_page_is_what_the_code_says(name: str, made: Callable[[], str]) -> None:
    page = DOCS / f"reference/{name}.md"
    assert page.read_text() == made(), (
        f"run `python -m docs.generate.{name.replace('-', '_')} > docs/reference/{name}.md`"
    )


def test_every_condition_and_reason_has_a_meaning() -> None:
    assert {value for _, value, _ in conditionsdoc.meanings(ConditionType)} == set(ConditionType)
    assert {value for _, value, _ in conditionsdoc.meanings(Reason)} == set(Reason)


def test_every_sentence_of_the_operator_is_on_the_page() -> None:
    page = conditionsdoc.page().replace("`", "")
    tree = ast.parse(inspect.getsource(messages))
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    for text in texts:
        if id(text) not in documentation and " " in text.value.strip() and not text.value.startswith("%"):
            assert text.value.strip() in page, f"messages.py:{text.lineno}: docs/generate/examples.py lacks an example"


def test_messages_are_found_where_the_code_builds_them() -> None:
    texts = {each.text for each in templates({"SpecError": 1}, "operator/src")}
    assert "*key* is reserved for Kubernetes and this operator: remove it" in texts
    assert any(text.startswith("*name* is set by the operator") for text in texts)  # from a function's result


def test_flags_and_the_values_that_set_them() -> None:
    found = settingsdoc.values()
    assert found["--processor-image"] == "image.processor"
    assert found["--handler-image-prefix"] == "handlerImagePrefixes"
    assert found["--metrics-namespace"] == "networkPolicies.metricsNamespaces"
    assert found["--allow-insecure-endpoints"] == "allowInsecureEndpoints"
    assert {flag for flag, *_ in settingsdoc.flags()} >= {f"`{flag}`" for flag in found}


def test_every_command_of_every_program_is_on_the_page() -> None:
    page = clidoc.page()
    found = [name for program, (_, tree) in clidoc.programs().items() for name, _ in clidoc.commands(tree, program)]
    assert {"eventconsumer host", "eventconsumer audit", "eventconsumer prune"} <= set(found)
    for name in found:
        assert f"### `{name}" in page


def test_the_readmes_figures_are_those_of_the_benchmarks() -> None:
    text = (ROOT / "README.md").read_text()
    assert figuresdoc.filled(text) == text, "run `python -m docs.generate.figures`"
    assert len(figuresdoc.table().splitlines()) > 6
