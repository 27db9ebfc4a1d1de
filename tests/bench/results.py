"""What benchmarks found: rows, goals, and the page and file in docs/benchmarks that show them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs/benchmarks"
_BEGIN, _END = "<!-- figures -->\n", "<!-- end of figures -->\n"


@dataclass(frozen=True)
class Row:
    """One figure, ours beside a peer's where there is one."""

    name: str
    unit: str
    ours: float
    peer: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours by the peer's."""
        return self.ours / self.peer if self.peer else None


@dataclass(frozen=True)
class Goal:
    """A bound for a row's `ours` or `ratio`."""

    row: str
    field: str
    bound: float
    least: bool = False  # at least `bound`; else at most

    def __str__(self) -> str:
        return f"{self.field} {'≥' if self.least else '≤'} {self.bound:,g}"

    def met(self, row: Row) -> bool:
        """Whether the row keeps it."""
        value = row.ratio if self.field == "ratio" else row.ours
        return value is not None and (value >= self.bound if self.least else value <= self.bound)


GOALS = (
    Goal("drain_1k_vs_sdk", "ratio", 10, least=True),
    Goal("receive_1k_vs_go", "ratio", 1.5),
    Goal("receive_1k_websocket_vs_plain", "ratio", 1.3),
    Goal("memory_backlog_1mib_32", "ours", 512),
    Goal("memory_growth_10m", "ours", 1.1),
    Goal("storage_calls_idle_32_on_8", "ours", 4200),
    Goal("storage_calls_idle_32_on_8_table", "ours", 4200),
    Goal("balance_1_to_2_settled_32", "ours", 5),
    Goal("balance_8_to_2_unread_32", "ours", 1),
    Goal("balance_dead_unread_32", "ours", 3),
    Goal("balance_8_to_2_settled_2048", "ours", 15),
    Goal("balance_8_to_2_unread_2048", "ours", 2),
    Goal("drain_columns_1k_8_cost_vs_bytes", "ratio", 1.4),
    Goal("drain_columns_1k_40_cost_vs_bytes", "ours", 10.5),
    Goal("drain_columns_200b_8_cost_vs_bytes", "ours", 3.5),
    Goal("drain_columns_1k_8_size_vs_bytes", "ratio", 1.15),
    Goal("drain_columns_1k_40_size_vs_bytes", "ratio", 1.5),
    Goal("drain_columns_1k_8_1_percent_bad_vs_good", "ratio", 1.3),
    Goal("drain_columns_1k_8_all_bad_vs_good", "ratio", 1.3),
)


def write(rows: Sequence[Row], folder: Path = FOLDER) -> list[Row]:
    """Put rows in place of those with the same names, in latest.json and in the page; all rows that are there now."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = [Row(row.name, row.unit, _rounded(row.ours), row.peer and _rounded(row.peer)) for row in rows]
    kept = {row.name: row for row in (*read(folder), *fresh)}
    entries = [asdict(row) | {"ratio": row.ratio and _rounded(row.ratio)} for row in kept.values()]
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
    (folder / "latest.json").write_text(f"[\n{lines}\n]\n")
    page = folder / "README.md"
    before, _, rest = page.read_text().partition(_BEGIN) if page.exists() else ("", "", "")
    page.write_text(before + _BEGIN + table(list(kept.values())) + _END + rest.partition(_END)[2])
    return list(kept.values())


def read(folder: Path = FOLDER) -> list[Row]:
    """The rows of latest.json; none where it is not there."""
    file = folder / "latest.json"
    entries = json.loads(file.read_text()) if file.exists() else []
    return [Row(entry["name"], entry["unit"], entry["ours"], entry["peer"]) for entry in entries]


def table(rows: Sequence[Row]) -> str:
    """A Markdown table of rows and goals."""
    goals = {goal.row: goal for goal in GOALS}
    lines = ["| row | unit | ours | peer | ours / peer | goal | |", "|---|---|---:|---:|---:|---|---|"]
    for row in rows:
        goal = goals.get(row.name)
        verdict = ("met" if goal.met(row) else "**missed**") if goal else ""
        cells = (f"`{row.name}`", row.unit, *map(_shown, (row.ours, row.peer, row.ratio)), str(goal or ""), verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
