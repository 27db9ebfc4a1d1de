"""Prints a report as a table and a verdict. Progress is printed to stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from eventconsumer_api.shared.console import Console
from eventconsumer_audit.codes import Level
from eventconsumer_audit.files import Progress
from eventconsumer_audit.model import AuditReport, PartitionAudit, TableAudit

_COLOURS = {Level.NOTE: "green", Level.EXPLAINED: "yellow", Level.VIOLATION: "red", Level.UNREADABLE: "red"}
_LINE_SECONDS = 10.0
_RIGHT = ("start", "next", "checkpoint", "lag", "files", "events", "gaps", "epoch")


def show(report: AuditReport, console: Console) -> None:
    """Print the table, the findings, and the verdict as the last line."""
    eras = sorted({partition.segment_id for partition in report.partitions})
    for era in eras:
        console.print(_table(report, era, several=len(eras) > 1))
    for each in report.breaks:
        replaced = f"; {each.gone:,} numbers of the previous segment name other events now" if each.gone else ""
        console.print(
            f"segment {each.segment} since {each.since:%Y-%m-%d %H:%M:%S}: partition {each.partition} continues at "
            f"{each.start}{replaced}"
        )
    if report.batches.manifests:
        batches = report.batches
        left = [
            f"{count:,} {noun} excluded"
            for count, noun in ((batches.quarantined_files, "files"), (batches.quarantined_rows, "events of others"))
            if count
        ]
        sizes = f"{batches.committed:,} of {batches.manifests:,} batches committed, {batches.files:,} files in them"
        console.print("; ".join([f"Spark: {sizes}", *left]))
    if report.table:
        console.print(_table_text(report.table))
    for finding in report.findings:
        if finding.level is Level.UNREADABLE:  # it is the verdict
            continue
        place = f" partition {finding.partition}" if finding.partition else ""
        rule = f" ({finding.invariant})" if finding.invariant else ""
        console.print(f"{finding.code}{rule}", style=_COLOURS[finding.level], end="")
        console.print(f"{place}: {finding.message}{f' [{finding.blob}]' if finding.blob else ''}", soft_wrap=True)
    left_out = sum(report.counts.values()) - len(report.findings)
    if left_out > 0:
        console.print(f"… {left_out:,} more findings are not shown", style="dim")
    console.print(report.summary, style=_COLOURS[report.verdict], soft_wrap=True)


def _table_text(table: TableAudit) -> str:
    if table.version is None:
        return "Delta table: the log cannot be read"
    rows = "an unknown number of rows" if table.rows is None else f"{table.rows:,} rows"
    counts = ((table.removed, "files removed from it"), (table.lag_files, "files not in it yet"))
    parts = [f"{table.files:,} files, {rows}", *(f"{count:,} {noun}" for count, noun in counts if count)]
    return f"Delta table: version {table.version:,}, {'; '.join(parts)}"


@contextmanager
def progress() -> Iterator[Progress]:
    """The progress on stderr: one line that changes on a terminal, otherwise a line every ten seconds."""
    console = Console(stderr=True)
    state = {"listed": 0, "files": 0, "bytes": 0}

    def text() -> str:
        read = f", {state['files']:,} files read ({state['bytes'] / 1e6:,.0f} MB)" if state["files"] else ""
        return f"{state['listed']:,} blobs listed{read}"

    with _line(console) if console.is_interactive else _lines(console) as show_text:

        def listed(count: int) -> None:
            state["listed"] = count
            show_text(text())

        def read(size: int) -> None:
            state["files"] += 1
            state["bytes"] += size
            show_text(text())

        yield Progress(listed, read)


@contextmanager
def _line(console: Console) -> Iterator[Callable[[str], object]]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("listing")
        yield lambda text: bar.update(task, description=text)


@contextmanager
def _lines(console: Console) -> Iterator[Callable[[str], object]]:
    shown = time.monotonic()

    def show_text(text: str) -> None:
        nonlocal shown
        if time.monotonic() - shown >= _LINE_SECONDS:
            shown = time.monotonic()
            console.print(text)

    yield show_text


def _table(report: AuditReport, era: str, *, several: bool) -> Table:
    current = "" if era == report.segment_id else ", no longer drained"
    title = f"{report.hub or report.prefix}" + (f", segment {era}{current}" if several else "")
    table = Table("partition", title=title, title_justify="left")
    for name in _RIGHT:
        table.add_column(name, justify="right")
    table.add_column("state")
    for partition in report.partitions:
        if partition.segment_id == era:
            table.add_row(*_row(partition))
    return table


def _row(one: PartitionAudit) -> list[str | Text]:
    numbers = (one.start, one.next, one.checkpoint, one.lag, one.files, one.events, one.gap_events)
    epoch = one.epoch if one.epoch is not None else one.highest_epoch
    state = Text("clean")
    if one.violations:
        state = Text(f"{one.violations:,} violations", style=_COLOURS[Level.VIOLATION])
    elif one.gap_events or one.orphans:
        state = Text("explained", style=_COLOURS[Level.EXPLAINED])
    return [one.partition, *map(_number, numbers), _number(epoch), state]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
