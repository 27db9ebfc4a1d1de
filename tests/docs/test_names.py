"""Names in code style exist: fields, values of the chart, metrics, reasons, flags, files, tests."""

import json
import re
from enum import StrEnum
from pathlib import Path

import pytest
import yaml

from docs.generate import metrics as metricsdoc
from docs.generate.pages import DOCS, ROOT, blocks, names, pages
from eventconsumer_api import v1alpha1
from eventconsumer_api.resource.crdgen import custom_resource_definition
from eventconsumer_api.spec import spark
from eventconsumer_api.spec.conditions import ConditionType, PodReason, Reason
from eventconsumer_audit.codes import Code, Level
from eventconsumer_tools.certify import hub, storage
from eventconsumer_tools.certify.command import groups

PAGES = [page for page in pages() if page.parent.name != "decisions"]  # a dated record also has the names before it
SCHEMA = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
METRICS = {each.name for each in (*metricsdoc.operators(), *metricsdoc.hosts())}
ALERTS = {
    rule["alert"]
    for group in yaml.safe_load((ROOT / "helm/eventconsumer/files/alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
}
_METRIC = re.compile(r"eventconsumer_[a-z_]+")
_PACKAGES = re.compile(r"eventconsumer_(api|storage|operator|host|tools|audit|spark|demo|cli|io_consumer)\b")


def field(path: str) -> bool:
    """Whether a dotted path is one of the resource; a number or a name stands for any item or key."""
    node = SCHEMA
    for part in re.sub(r"\[[^\]]*\]", "", path).split("."):
        while "items" in node:
            node = node["items"]
        if part in node.get("properties", {}):
            node = node["properties"][part]
        elif isinstance(node.get("additionalProperties"), dict):
            node = node["additionalProperties"]
        else:
            return False
    return True


def known_words() -> set[str]:
    """Words with a capital inside the documentation may use in code style."""
    enums = [each for module in (spark, v1alpha1) for each in vars(module).values() if isinstance(each, type)]
    words = {str(one.value) for each in enums if issubclass(each, StrEnum) for one in each}
    return (
        words
        | {str(one.value) for each in (ConditionType, Reason, PodReason, Code, Level) for one in each}
        | ALERTS
        | set(re.findall(r'"([A-Z][A-Za-z]+)"', json.dumps(SCHEMA)))
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_fields_exist(page: Path) -> None:
    for name in names(page):
        for path in re.findall(r"(?<![\w./])((?:spec|status)\.[A-Za-z][\w.\[\]]*[\w\]])", name):
            if not path.startswith(("status.phase",)) and "jsonpath" not in name:
                assert field(path), f"{page.relative_to(ROOT)}: there is no field {path}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_metrics_exist(page: Path) -> None:
    queries = [block.text for block in blocks(page) if block.language in {"yaml", "promql"}]
    for name in (*names(page), *queries):
        for metric in _METRIC.findall(name):
            if not _PACKAGES.match(metric):
                assert metric.removesuffix("_bucket") in METRICS, f"{page.relative_to(ROOT)}: no metric {metric}"


def test_a_metric_is_on_the_panel_that_a_page_names() -> None:
    board = json.loads((ROOT / "helm/eventconsumer/files/dashboard.json").read_text())
    queries = {panel["title"]: " ".join(target["expr"] for target in panel["targets"]) for panel in board["panels"]}
    rows = re.findall(r"^\| `(eventconsumer_\w+)` \| ([^|]+) \|", (DOCS / "how-to/tuning.md").read_text(), re.MULTILINE)
    assert len(rows) >= 4
    for metric, panel in rows:
        on = {title for title, text in queries.items() if metric in text}
        assert on == (set() if panel == "–" else {panel}), metric


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_exist(page: Path) -> None:
    for name in names(page):
        path = name.partition("::")[0].rstrip("/")
        if re.fullmatch(
            r"(tests|helm|docs|kustomize|gitops|examples|crds|storage|operator|processor_image|cli|spark|local|requirements)/[\w./-]+",
            path,
        ):
            assert (ROOT / path).exists(), f"{page.relative_to(ROOT)}: {path} does not exist"


@pytest.mark.parametrize("page", [page for page in PAGES if DOCS in page.parents], ids=lambda page: page.name)
def test_values_of_the_chart_exist(page: Path) -> None:
    values = yaml.safe_load((ROOT / "helm/eventconsumer/values.yaml").read_text())
    maps = [key for key, value in values.items() if isinstance(value, dict) and value and key not in {"resources"}]
    for name in names(page):
        if found := re.fullmatch(rf"((?:{'|'.join(maps)})(?:\.\w+)+)(=.*)?", name):
            node = values
            for part in found[1].split("."):
                if node == {}:
                    break
                assert part in node, f"{page.relative_to(ROOT)}: the chart has no value {found[1]}"
                node = node[part]


@pytest.mark.parametrize("page", [page for page in PAGES if DOCS in page.parents], ids=lambda page: page.name)
def test_conditions_and_reasons_exist(page: Path) -> None:
    """`Type: Reason`, and the word behind "condition" or "reason"."""
    text = page.read_text()
    words = known_words()
    for found in re.findall(r"(?:[Cc]onditions?|[Rr]easons?) `([A-Z][A-Za-z]+)`", text):
        assert found in words, f"{page.relative_to(ROOT)}: there is no {found}"
    for alert in re.findall(r"\bEventConsumer[A-Z]\w+", text):
        assert alert in ALERTS, f"{page.relative_to(ROOT)}: there is no alert {alert}"


def test_every_reason_and_condition_is_documented() -> None:
    text = (DOCS / "reference/events.md").read_text() + (DOCS / "reference/conditions.md").read_text()
    for each in (*ConditionType, *Reason, *PodReason):
        assert f"`{each.value}`" in text, each


def test_every_check_of_certify_is_documented_and_no_other() -> None:
    accounts = (storage.WRITABLE, *storage.ACCOUNT, *storage.FILES, *storage.LEASES)
    known = {each.name for each in (hub.REACHABLE, *groups())} | {each.name for each in accounts}
    table = (DOCS / "how-to/certify.md").read_text().partition("## Checks")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([^`]+)`", table)) == known


def test_names_that_do_not_exist_are_found() -> None:
    assert field("spec.spark.output.path") and field("status.conditions") and field("spec.pods.tolerations.key")
    assert not field("spec.spark.outputs") and not field("spec.sink.roll.maxMinutes")
    assert "SparkBehind" in known_words() and "SparkSlow" not in known_words()
