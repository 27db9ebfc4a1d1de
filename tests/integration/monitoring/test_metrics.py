"""Metrics as Prometheus sees them: what is documented is there, and rules and dashboard use nothing else."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.generate import metrics as metricsdoc
from tests.contract.operator.conftest import Cluster, start_cluster
from tests.contract.operator.test_operator import SPEC, Operator
from tests.integration.monitoring.prometheus import ALERTS, ROOT, Prometheus, program
from tests.integration.processor.hosts import Consumer
from tests.support.azurite import AzuriteProcess
from tests.support.fakes.kubernetes import event_consumer
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

RUNBOOKS = ROOT / "docs/runbooks"
DASHBOARD = ROOT / "helm/eventconsumer/files/dashboard.json"
EVENTS = 300
_NAME = re.compile(r"\beventconsumer_[a-z_]+\b")


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> list[str]:
    """Of all alerts and panels."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [rule["expr"] for rule in alerts()] + [target["expr"] for panel in panels for target in panel["targets"]]


def filled(expression: str) -> str:
    """With every variable of the dashboard."""
    return expression.replace("$namespace", ".*").replace("$consumer", ".*")


def documented() -> dict[str, metricsdoc.Described]:
    return {each.name: each for each in (*metricsdoc.operators(), *metricsdoc.hosts())}


def test_the_page_is_what_the_code_says() -> None:
    assert (ROOT / "docs/reference/metrics.md").read_text() == metricsdoc.page(), (
        "run `python -m docs.generate.metrics > docs/reference/metrics.md`"
    )


def test_rules_and_dashboard_use_documented_metrics_and_labels_only() -> None:
    known = documented()
    for text in expressions():
        for name in _NAME.findall(text):
            if name == "eventconsumer_io_consumer":
                continue
            family = name.removesuffix("_bucket")
            assert family in known, f"{name} in {text}"
            for selector in re.findall(rf"{name}\{{([^}}]*)\}}", text):
                labels = set(re.findall(r"(\w+)\s*[=!]~?", selector)) - {
                    "namespace",
                    "eventconsumer_io_consumer",
                    "pod",
                }
                assert labels <= set(known[family].labels), f"{labels} of {name}"


def test_promtool_accepts_and_proves_the_rules(tmp_path: Path) -> None:
    checked = subprocess.run(
        [program("promtool"), "check", "rules", ALERTS], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    text = (Path(__file__).parent / "alerts_test.yaml").read_text()
    (tmp_path / "tests.yaml").write_text(text.replace("[RULES]", f"[{ALERTS}]"))
    tested = subprocess.run(
        [program("promtool"), "test", "rules", tmp_path / "tests.yaml"], capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_is_tested() -> None:
    tests = yaml.safe_load((Path(__file__).parent / "alerts_test.yaml").read_text())["tests"]
    fired = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    assert fired == {rule["alert"] for rule in alerts()}, (
        "add series that fire the alert to tests/integration/monitoring/alerts_test.yaml"
    )


@pytest.mark.parametrize("alert", [rule["alert"] for rule in alerts()])
def test_every_alert_has_a_runbook(alert: str) -> None:
    (rule,) = [rule for rule in alerts() if rule["alert"] == alert]
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{alert.lower()}.md"
    page = (RUNBOOKS / f"{alert.lower()}.md").read_text()
    assert page.startswith(f"# {alert}\n")
    assert all(f"\n## {part}\n" in page for part in ("Meaning", "Diagnosis", "Mitigation")), (
        f"{RUNBOOKS} lacks a part of {alert}"
    )


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from start_cluster(tmp_path_factory.mktemp("apiserver"))


@pytest.fixture
def operator(api_server: Cluster, tmp_path: Path) -> Iterator[Operator]:
    """A real operator with one resource, whose hosts nobody starts."""
    namespace = api_server.namespace()
    api_server.install_chart(namespace)
    api_server.kubectl("apply", "-f", "-", stdin=json.dumps(event_consumer("orders", SPEC, namespace)))
    process = Operator(api_server, namespace, tmp_path / "operator.log")
    process.start()
    yield process
    assert process.stop() == 0, process.log.read_text()[-2000:]


@pytest.fixture
def host(emulator: EmulatorProcess, azurite: AzuriteProcess, tmp_path: Path) -> Iterator[int]:
    """The port of a real host that drains events."""
    emulator.admin.create_hub("orders", partitions=2)
    consumer = Consumer(tmp_path, emulator, azurite, "orders")
    for partition in ("0", "1"):
        consumer.publish(EVENTS // 2, partition)
    process = consumer.host()
    process.get("/healthz")
    found = re.search(r'"port": (\d+)', process.log)
    assert found
    yield int(found[1])
    consumer.close()


@pytest.fixture
def prometheus(operator: Operator, host: int, tmp_path: Path) -> Iterator[Prometheus]:
    """Prometheus with both as targets, labelled as the chart's monitors do."""
    folder = tmp_path / "prometheus"
    folder.mkdir()
    labels = {"namespace": "shop", "pod": "orders-host-0", "eventconsumer_io_consumer": "orders"}
    server = Prometheus(folder, {"operator": (operator.port, {}), "hosts": (host, labels)})
    server.start()
    yield server
    server.stop()


def test_prometheus_scrapes_everything_that_is_documented(prometheus: Prometheus) -> None:
    def soon(question: Callable[[], object], what: str) -> None:
        wait_until(lambda: bool(question()), what)

    soon(lambda: prometheus.value("sum(eventconsumer_committed_events_total)") == EVENTS, "all events are counted")
    (rate,) = [
        text for text in expressions() if text.startswith("sum by") and "eventconsumer_committed_events_total" in text
    ]
    shown = prometheus.value(filled(rate))
    assert shown == pytest.approx(EVENTS / 60), "what a new series begins with is drawn, too"
    soon(lambda: prometheus.value("sum(eventconsumer_lease_epoch) > 1"), "leases")
    soon(
        lambda: prometheus.value("count(time() - eventconsumer_checkpoint_timestamp_seconds < 600)") == 2, "checkpoints"
    )
    soon(lambda: prometheus.value('eventconsumer_storage_requests_total{outcome="ok"} > 0'), "storage")
    soon(
        lambda: prometheus.value('eventconsumer_resource_condition{name="orders",type="Ready",status="False"}') == 1,
        "the resource's condition",
    )
    soon(lambda: prometheus.value('eventconsumer_operator_reconciles_total{result="done"} > 0'), "reconciles")
    soon(
        lambda: prometheus.value(
            'eventconsumer_operator_api_requests_total{verb="PATCH",resource="statefulsets",code=~"20."} > 0'
        ),
        "requests to the API server",
    )
    kinds = {"operator": metricsdoc.operators(), "hosts": metricsdoc.hosts()}
    for job, metrics in kinds.items():
        rows = prometheus.api("targets/metadata", match_target=f'{{job="{job}"}}')
        scraped = {row["metric"]: row["type"] for row in rows if row["metric"].startswith("eventconsumer_")}
        assert scraped == {each.name: each.kind for each in metrics}, job
    for rule in prometheus.api("rules")["groups"]:
        assert all(each["health"] == "ok" and not each.get("lastError") for each in rule["rules"]), rule
    for text in expressions():
        prometheus.api("query", query=filled(text))
