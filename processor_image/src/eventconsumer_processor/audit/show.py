"""Prints a report as a table and a verdict. Progress is printed to stderr."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from eventconsumer_processor.audit.codes import Level
from eventconsumer_processor.audit.files import Progress
from eventconsumer_processor.audit.model import AuditReport, PartitionAudit

_COLOURS = {Level.NOTE: "green", Level.EXPLAINED: "yellow", Level.VIOLATION: "red", Level.UNREADABLE: "red"}
_RIGHT = ("start", "next", "checkpoint", "lag", "files", "events", "gaps", "epoch")


def show(report: AuditReport, console: Console) -> None:
    """Print the table, the findings, and the verdict as the last line."""
    eras = sorted({partition.incarnation for partition in report.partitions})
    for era in eras:
        console.print(_table(report, era, several=len(eras) > 1))
    for each in report.breaks:
        replaced = f"; {each.gone:,} numbers of the previous segment name other events now" if each.gone else ""
        console.print(
            f"segment {each.segment} since {each.since:%Y-%m-%d %H:%M:%S}: partition {each.partition} continues at "
            f"{each.start}{replaced}",
            markup=False,
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
    for finding in report.findings:
        if finding.level is Level.UNREADABLE:  # it is the verdict
            continue
        place = f" partition {finding.partition}" if finding.partition else ""
        rule = f" ({finding.invariant})" if finding.invariant else ""
        console.print(f"[{_COLOURS[finding.level]}]{finding.code}{rule}[/]{place}: ", end="")
        console.print(f"{finding.message}{f' [{finding.blob}]' if finding.blob else ''}", markup=False, soft_wrap=True)
    left_out = sum(report.counts.values()) - len(report.findings)
    if left_out > 0:
        console.print(f"… {left_out:,} more findings are not shown", style="dim")
    console.print(report.summary, style=_COLOURS[report.verdict], markup=False, soft_wrap=True)


@contextmanager
def progress(*, visible: bool) -> Iterator[Progress]:
    """A progress line on stderr, if that is a terminal."""
    console = Console(stderr=True)
    if not visible or not console.is_terminal:
        yield Progress()
        return
    state = {"listed": 0, "files": 0, "bytes": 0}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("listing")

        def update() -> None:
            read = f", {state['files']:,} files read ({state['bytes'] / 1e6:,.0f} MB)" if state["files"] else ""
            bar.update(task, description=f"{state['listed']:,} blobs listed{read}")

        def listed(count: int) -> None:
            state["listed"] = count
            update()

        def read(size: int) -> None:
            state["files"] += 1
            state["bytes"] += size
            update()

        yield Progress(listed, read)


def _table(report: AuditReport, era: str, *, several: bool) -> Table:
    current = "" if era == report.incarnation else ", no longer drained"
    title = f"{report.hub or report.prefix}" + (f", incarnation {era}{current}" if several else "")
    table = Table("partition", title=title, title_justify="left")
    for name in _RIGHT:
        table.add_column(name, justify="right")
    table.add_column("state")
    for partition in report.partitions:
        if partition.incarnation == era:
            table.add_row(*_row(partition))
    return table


def _row(one: PartitionAudit) -> list[str]:
    numbers = (one.start, one.next, one.checkpoint, one.lag, one.files, one.events, one.gap_events)
    epoch = one.epoch if one.epoch is not None else one.highest_epoch
    state = "clean"
    if one.violations:
        state = f"[red]{one.violations:,} violations[/]"
    elif one.gap_events or one.orphans:
        state = "[yellow]explained[/]"
    return [one.partition, *map(_number, numbers), _number(epoch), state]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
