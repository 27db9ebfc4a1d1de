"""Figures of the README, from docs/benchmarks/latest.json: `python -m docs.generate.figures` updates it."""

from docs.generate.pages import ROOT
from tests.bench.results import GOALS, Row, read

README = ROOT / "README.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
SHOWN = (
    ("drain_1k_vs_sdk", "draining to Parquet, events of 1 KB", "the SDK's processor"),
    ("receive_1k_vs_go", "receiving, events of 1 KB", "a client in Go"),
    ("drain_1k_peak_memory", "peak memory while draining", "the SDK's processor"),
    ("latency_p50", "latency from enqueued to in a file, median, files of 1 s", "the SDK's processor"),
    ("storage_calls_idle_32_on_8", "storage requests of 8 idle hosts, 32 partitions", "the SDK's processor"),
    ("balance_1_to_2_settled_32", "32 partitions, scale from one host to two: time until balanced", ""),
    ("balance_dead_unread_32", "a host dies: time without a reader of its partitions", ""),
)
"""Rows of the benchmarks, their texts, and the peer."""


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _row(row: Row, text: str, peer: str) -> str:
    beside = f"{_shown(row.peer)} ({peer})" if row.peer is not None and peer else ""
    goal = next((goal for goal in GOALS if goal.row == row.name), None)
    verdict = "" if goal is None else "met" if goal.met(row) else "**missed**"
    return f"| {text} | {_shown(row.ours)} {row.unit} | {beside} | {verdict} |"


def table() -> str:
    """A Markdown table."""
    rows = {row.name: row for row in read()}
    lines = [_row(rows[name], text, peer) for name, text, peer in SHOWN if name in rows]
    return "\n".join(["| figure | EventConsumer | peer | goal |", "|---|---|---|---|", *lines]) + "\n"


def filled(text: str) -> str:
    """A page with the table between its marks.

    Raises:
        ValueError: The page has no marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN.strip()} … {END.strip()}")
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    README.write_text(filled(README.read_text()))
