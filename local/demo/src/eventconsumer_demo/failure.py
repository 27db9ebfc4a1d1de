"""Explains a failed demo: the failed step, conditions, events, log lines, and the next command."""

from collections.abc import Callable
from typing import Any

from rich.text import Text

from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError, console

LOG_LINES = 15


def _conditions(cluster: Cluster, name: str) -> str:
    status: dict[str, Any] = cluster.get("eventconsumer", name).get("status", {})
    rows = [
        f"{c['type']}={c['status']} {c.get('reason', '')}: {c.get('message', '')}" for c in status.get("conditions", [])
    ]
    return "\n".join(rows) or "the resource has no status yet"


def _pods(cluster: Cluster) -> str:
    return cluster.kubectl("get", "pods,jobs,statefulsets", "-o", "wide")


def _events(cluster: Cluster) -> str:
    lines = cluster.kubectl(
        "get", "events", "--field-selector", "type!=Normal", "--sort-by", ".lastTimestamp"
    ).splitlines()
    return "\n".join(lines[-LOG_LINES:])


def _logs(cluster: Cluster) -> str:
    """The end of the log of each unhealthy pod, and of the operator."""
    parts = []
    for pod in cluster.get("pods")["items"]:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        states = pod["status"].get("containerStatuses", [])
        healthy = phase == "Succeeded" or (phase == "Running" and all(state["ready"] for state in states))
        if healthy and "operator" not in name:
            continue
        log = cluster.kubectl("logs", name, "--tail", str(LOG_LINES), "--prefix")
        parts.append(f"{name} ({phase})\n{log}")
    return "\n".join(parts)


def explain(error: DemoError, cluster: Cluster | None, name: str) -> None:
    """Print all diagnostics; a part that fails does not hide the others."""
    console.rule(style="red")
    console.print(Text.assemble(("The demo failed:", "red bold"), f" {error}"))
    if error.detail:
        console.print(error.detail)
    if cluster:
        sections: dict[str, Callable[[], str]] = {
            "conditions": lambda: _conditions(cluster, name),
            "pods": lambda: _pods(cluster),
            "warnings": lambda: _events(cluster),
            "logs": lambda: _logs(cluster),
        }
        for title, read in sections.items():
            try:
                text = read()
            except DemoError as nested:
                text = f"not readable: {nested}"
            console.print(f"\n{title}", style="bold")
            console.print(text)
    if error.hint:
        console.print(Text.assemble("\n", ("Hint:", "bold"), f" {error.hint}"))
    console.print("Retry with `make demo`; it continues from the present state. `make demo-down` removes all.")
