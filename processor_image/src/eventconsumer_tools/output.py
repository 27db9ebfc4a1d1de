"""Runs a command and prints its result.

The result is a table, or one document for programs, on stdout; messages are on stderr. Exit codes: 0 done, 1 nothing
found, 2 refused, 3 failed.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypeVar

import structlog
import typer
from rich.table import Table

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.model import Report, in_lines
from eventconsumer_tools.options import PrintFormat

R = TypeVar("R", bound=Report)

DONE, NOTHING, REFUSED, FAILED = 0, 1, 2, 3
_WIDTH = 150  # if the output is not a terminal


def run(command: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a command that returns its exit code.

    Args:
        command: The command. An EventConsumerError ends it with 3 and one line on stderr.

    Raises:
        Exit: Always, with the code.
    """
    quiet()
    try:
        code = asyncio.run(command)
    except EventConsumerError as error:
        say(f"eventconsumer: {error}")
        code = FAILED
    raise typer.Exit(code)


def say(message: str) -> None:
    """Print a message for the user to stderr, in one line; the result is on stdout."""
    print(" ".join(message.split()), file=sys.stderr)  # noqa: T201


def quiet() -> None:
    """Silence logs of libraries and of host code, which are not part of the result."""
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def show(document: R, output: PrintFormat, table: Callable[[R, Console], None], *, lines: bool = False) -> None:
    """Print a document to stdout.

    Args:
        document: The result.
        output: The output format.
        table: Prints the table of a document. It gets each text as one line: a newline in the name of a blob would show
            a finding or a row that is none.
        lines: Whether the table shows texts of several lines as they are.
    """
    if output is PrintFormat.JSON:
        print(as_json(document))  # noqa: T201 - the command's output
    elif output is PrintFormat.YAML:
        import yaml  # only for this format

        # In ASCII, as JSON.
        print(yaml.safe_dump(document.model_dump(mode="json", by_alias=True), sort_keys=False), end="")  # noqa: T201
    else:
        console = Console()
        if not console.is_terminal:
            console.width = _WIDTH
        table(document if lines else in_lines(document), console)


def as_json(document: Report) -> str:
    """JSON in ASCII: what a terminal would act on is escaped, and nothing is lost."""
    return json.dumps(document.model_dump(mode="json", by_alias=True), indent=2)


def table_of(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> Table:
    """A table; None is printed as `-`, numbers with separators, times to the second.

    Args:
        headers: Of the columns.
        rows: Their values.
        right: Right-aligned columns.
    """
    table = Table(title_justify="left")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(text, row))
    return table


def text(value: object) -> str:
    """A value as text for people."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds").replace("+00:00", "Z")
    return str(value)
