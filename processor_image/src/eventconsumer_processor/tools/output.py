"""Prints what a command found: a table for people, or one document for programs."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eventconsumer_api.model import Report
from eventconsumer_processor.tools.options import Output

_WIDTH = 150  # where the output is no terminal


def show(document: Report, output: Output, table: Callable[[Console], None]) -> None:
    """Print a document to stdout.

    Args:
        document: What was found.
        output: In which form.
        table: Prints the form for people.
    """
    if output is Output.JSON:
        print(document.model_dump_json(by_alias=True, indent=2))  # noqa: T201 - the command's output
    elif output is Output.YAML:
        data = document.model_dump(mode="json", by_alias=True)
        print(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), end="")  # noqa: T201
    else:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = _WIDTH
        table(console)


def table_of(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> Table:
    """A table; None is shown as `-`, numbers with separators, times to the second.

    Args:
        headers: Of the columns.
        rows: Their values.
        right: Columns that stand on the right.
    """
    table = Table(title_justify="left")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(text, row))
    return table


def text(value: object) -> str:
    """A value as people read it."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds").replace("+00:00", "Z")
    return escape(str(value))
