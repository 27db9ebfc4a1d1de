"""Plots of the rows: grouped bars, ours and the peers side by side, one picture for each question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from tests.bench.results import Row

COLOURS = ("#1f6fb4", "#b8b8b8", "#e08a1e")  # ours, the SDK, another
SHADES = ("#1f6fb4", "#6fa8d6", "#b9d6ee")  # all ours
WIDTH = 0.8  # of a group of bars
SIZES = {"200b": "200 B", "1k": "1 KB", "16k": "16 KB"}
COUNTS = ("32", "256", "2048")


@dataclass(frozen=True)
class Figure:
    """A picture: groups of bars, each bar the field `ours` or `peer` of a row."""

    file: str
    title: str
    unit: str
    bars: Mapping[str, Mapping[str, tuple[str, str]]]  # label of a bar -> label of its group -> row and field
    colours: tuple[str, ...] = COLOURS


def _pair(rows: Mapping[str, str], peer: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Ours and one peer's, from the same rows; `rows` is label of a group -> row."""
    return {
        "ours": {label: (row, "ours") for label, row in rows.items()},
        peer: {label: (row, "peer") for label, row in rows.items()},
    }


def _balance(what: str) -> dict[str, dict[str, tuple[str, str]]]:
    changes = {"1 → 2 hosts": "1_to_2", "8 → 2 hosts": "8_to_2", "1 of 8 dead": "dead"}
    return {
        f"{count} partitions": {
            label: (f"balance_{change}_{what}_{count}", "ours") for label, change in changes.items()
        }
        for count in COUNTS
    }


PROCESSOR = "the SDK's processor"
FIGURES = (
    Figure(
        "receive.png",
        "Receiving: CPU time for each event (less is better)",
        "CPU µs per event",
        _pair({label: f"receive_{key}_vs_sdk" for key, label in SIZES.items()}, "the SDK")
        | {"Go, go-amqp": {label: (f"receive_{key}_vs_go", "peer") for key, label in SIZES.items()}},
    ),
    Figure(
        "drain.png",
        "Draining: hub → Parquet files with checkpoints (more is better)",
        "events per CPU second",
        _pair({label: f"drain_{key}_vs_sdk" for key, label in SIZES.items()}, PROCESSOR),
    ),
    Figure(
        "partitions.png",
        "Draining 1 KB events: cost with partitions per host (less is better)",
        "CPU µs per event",
        _pair({f"{count} per host": f"cost_partitions_{count}" for count in (1, 8, 32)}, PROCESSOR),
    ),
    Figure(
        "backlog.png",
        "Draining 1 KB events: cost with the backlog (less is better)",
        "CPU µs per event",
        _pair({f"{count},000 events": f"cost_backlog_{count}k" for count in (20, 100, 400)}, PROCESSOR),
    ),
    Figure(
        "memory.png",
        "Most memory of a draining process (less is better)",
        "MiB, resident",
        _pair(
            {f"{label} events": f"drain_{key}_peak_memory" for key, label in SIZES.items()}
            | {"1 MiB events,\n32 partitions": "memory_backlog_1mib_32"},
            PROCESSOR,
        ),
    ),
    Figure(
        "latency.png",
        "From enqueued to a file in storage, files of 1 s (less is better)",
        "seconds",
        _pair({"median": "latency_p50", "99th percentile": "latency_p99"}, PROCESSOR),
    ),
    Figure(
        "storage_requests.png",
        "Storage calls of an idle consumer: 32 partitions, 8 hosts (less is better)",
        "calls an hour",
        _pair({"60 s leases": "storage_calls_idle_32_on_8"}, PROCESSOR),
    ),
    Figure(
        "balance_settled.png",
        "Until balanced again, virtual time (less is better)",
        "seconds",
        _balance("settled"),
        SHADES,
    ),
    Figure(
        "balance_unread.png",
        "Longest time that a partition is unread, virtual time (less is better)",
        "seconds",
        _balance("unread"),
        SHADES,
    ),
)


def draw(rows: Sequence[Row], folder: Path) -> None:
    """Write every figure of which rows are there."""
    found = {row.name: row for row in rows}
    for figure in FIGURES:
        bars = {
            label: values
            for label, groups in figure.bars.items()
            if (values := {group: value for group, key in groups.items() if (value := _value(found, *key)) is not None})
        }
        if bars:
            _draw(figure, bars, folder / figure.file)


def _value(rows: Mapping[str, Row], name: str, field: str) -> float | None:
    row = rows.get(name)
    return None if row is None else row.ours if field == "ours" else row.peer


def _draw(figure: Figure, bars: Mapping[str, Mapping[str, float]], file: Path) -> None:
    groups = list(dict.fromkeys(group for values in bars.values() for group in values))
    picture, axes = pyplot.subplots(figsize=(7.5, 4.2), layout="constrained")
    width = WIDTH / len(bars)
    for number, (label, values) in enumerate(bars.items()):
        places = [groups.index(group) - WIDTH / 2 + (number + 0.5) * width for group in values]
        drawn = axes.bar(places, list(values.values()), width * 0.95, label=label, color=figure.colours[number])
        axes.bar_label(
            drawn, [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values.values()], size=8
        )
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel(figure.unit)
    axes.set_title(figure.title, size=11)
    axes.margins(y=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    picture.legend(loc="outside lower center", ncols=len(bars), frameon=False, fontsize=9)
    picture.savefig(file, dpi=110, metadata={"Software": None})
    pyplot.close(picture)
