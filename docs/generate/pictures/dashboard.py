"""The chart's Grafana dashboard, drawn from the results of its queries in Prometheus."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "helm/eventconsumer/files/dashboard.json"
COLUMNS = 24  # of Grafana's grid
MOST_SERIES = 12  # in a readable legend
COLOURS = {"green": "#56a64b", "red": "#e02f44"}


@dataclass(frozen=True)
class Series:
    """One line of a panel: a name, and (seconds since the start, value) pairs."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """A panel of the dashboard.

    Attributes:
        title: Its title in Grafana.
        kind: "stat" or "timeseries".
        place: x, y, w, h in Grafana's grid.
        unit: Grafana's name of the unit.
        queries: PromQL and the legend's template, variables filled in.
        words: Text and colour of a value.
    """

    title: str
    kind: str
    place: tuple[int, int, int, int]
    unit: str
    queries: Sequence[tuple[str, str]]
    words: Mapping[str, tuple[str, str]]


def panels(variables: Mapping[str, str], path: Path = DASHBOARD) -> list[Panel]:
    """The dashboard's panels.

    Args:
        variables: Values of `$name` in queries.
        path: The dashboard's JSON.
    """
    return [_panel(each, variables) for each in json.loads(path.read_text())["panels"]]


def _panel(found: Mapping[str, Any], variables: Mapping[str, str]) -> Panel:
    defaults, grid = found["fieldConfig"]["defaults"], found["gridPos"]

    def filled(query: str) -> str:
        return re.sub(r"\$(\w+)", lambda match: variables[match[1]], query)

    words = {
        value: (shown["text"], COLOURS[shown["color"]])
        for mapping in defaults.get("mappings", [])
        for value, shown in mapping["options"].items()
    }
    return Panel(
        found["title"],
        found["type"],
        (grid["x"], grid["y"], grid["w"], grid["h"]),
        defaults["unit"],
        [(filled(target["expr"]), target["legendFormat"]) for target in found["targets"]],
        words,
    )


def series(answer: Mapping[str, Any], legend: str, begin: float) -> list[Series]:
    """The lines of a range query's result.

    Args:
        answer: `data` of Prometheus' response.
        legend: Template such as "{{name}} wanted".
        begin: Unix time of 0 in the picture.
    """
    found = []
    for each in answer["result"]:
        labels: dict[str, str] = each["metric"]
        name = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match, labels=labels: labels.get(match[1], ""), legend)
        values = [(at - begin, float(value)) for at, value in each["values"]]
        found.append(Series(name, [(at, value) for at, value in values if math.isfinite(value)]))
    return sorted((each for each in found if each.points), key=lambda each: each.name)


def draw(shown: Sequence[tuple[Panel, Sequence[Series]]], file: Path) -> None:
    """Draw panels at their position in Grafana.

    Args:
        shown: Each panel with its lines.
        file: The PNG to write.
    """
    bottom = max(panel.place[1] + panel.place[3] for panel, _ in shown)
    with pyplot.rc_context({"font.size": 7.5, "axes.titlesize": 8.5, "axes.grid": True, "grid.alpha": 0.25}):
        picture = pyplot.figure(figsize=(11, bottom * 0.27), facecolor="#f4f5f5")
        for panel, lines in shown:
            x, y, width, height = panel.place
            left, low = x / COLUMNS, 1 - (y + height) / bottom
            room = (left + 0.045, low + 0.55 / bottom, width / COLUMNS - 0.055, (height - 1.9) / bottom)
            axes = picture.add_axes(room)
            axes.set_title(panel.title, loc="left", fontweight="bold")
            (_draw_stat if panel.kind == "stat" else _draw_lines)(axes, panel, lines)
        picture.savefig(file, dpi=100, metadata={"Software": None})
        pyplot.close(picture)


def _draw_stat(axes: Axes, panel: Panel, lines: Sequence[Series]) -> None:
    axes.set_axis_off()
    for number, line in enumerate(lines):
        text, colour = panel.words.get(f"{line.points[-1][1]:g}", (f"{line.points[-1][1]:g}", "#8e8e8e"))
        share = 1 / len(lines)
        axes.add_patch(pyplot.Rectangle((number * share, 0), share * 0.98, 1, color=colour, transform=axes.transAxes))
        axes.text(
            (number + 0.5) * share,
            0.5,
            f"{line.name}\n{text}",
            color="white",
            fontsize=11,
            ha="center",
            va="center",
            transform=axes.transAxes,
        )


def _draw_lines(axes: Axes, panel: Panel, lines: Sequence[Series]) -> None:
    axes.set_facecolor("white")
    for line in lines:
        axes.plot(*zip(*line.points, strict=True), label=line.name, linewidth=1.1)
    axes.set_ylim(bottom=0)
    if all(value == 0 for line in lines for _, value in line.points):
        axes.set_ylim(top=1)
    axes.yaxis.set_major_formatter(FuncFormatter(_formatter(panel.unit)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{int(seconds) // 60}:{int(seconds) % 60:02}"))
    axes.spines[["top", "right"]].set_visible(False)
    if 0 < len(lines) <= MOST_SERIES:
        axes.legend(loc="upper right", fontsize=6, framealpha=0.6, ncols=1 + len(lines) // 6)


def _formatter(unit: str) -> Callable[[float, int], str]:
    ending = {"bytes": "B", "Bps": "B/s", "ops": "/s"}.get(unit, "")

    def text(value: float, _: int) -> str:
        if unit == "s":
            return f"{value:.3g} s"
        power = 0 if abs(value) < 1000 else min(3, int(math.log10(abs(value))) // 3)
        return f"{value / 1000**power:.3g} {['', 'k', 'M', 'G'][power]}{ending}".rstrip()

    return text
