"""Output of commands: tables for users, documents for programs; colours on a terminal only.

Every command builds one document (plain data with the names of the API) and one view of it. `-o` selects: `table` is
the view, `json` and `yaml` the document, `name` one `kind/name` per line, as kubectl accepts them. If the output is not
a terminal, lines have unlimited length, so that no text is cut.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TextIO

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.terminal import clean_line

PIPE_COLUMNS = 400  # wide enough that no cell is folded in a pipe
GOOD, WARN, BAD, DIM, TITLE = "green", "yellow", "red", "dim", "bold"


class Format(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def console(stream: TextIO | None = None, *, stderr: bool = False) -> Console:
    """A console that honours NO_COLOR and COLUMNS, and does not fold lines without a terminal."""
    made = Console(file=stream, stderr=stderr)
    if not made.is_terminal and not os.environ.get("COLUMNS"):
        made.width = PIPE_COLUMNS
    return made


@dataclass
class Output:
    """Destination and format of a command's output.

    Attributes:
        format: The requested format.
        out: For results.
        err: For notices, questions and progress, which are never part of a result.
    """

    format: Format = Format.TABLE
    out: Console = field(default_factory=console)
    err: Console = field(default_factory=lambda: console(stderr=True))

    def show(
        self,
        document: object,
        view: Callable[[], Iterable[RenderableType]],
        names: Iterable[str] = (),
    ) -> None:
        """Print a result in the requested format.

        Args:
            document: Plain data; JSON and YAML of it.
            view: Builds the view; only called for `table`.
            names: `kind/name` of each object in it.
        """
        match self.format:
            case Format.JSON:
                self.raw(json.dumps(document, indent=2, default=str) + "\n")
            case Format.YAML:
                self.raw(as_yaml(document))
            case Format.NAME:
                self.raw("".join(f"{clean_line(name)}\n" for name in names))
            case Format.TABLE:
                for part in view():
                    self.out.print(part)

    def raw(self, text: str) -> None:
        """Print text without layout."""
        self.out.file.write(text)
        self.out.file.flush()

    def note(self, text: str, style: str = DIM) -> None:
        """Print a notice beside the result."""
        self.err.print(Text(text, style=style))

    def confirm(self, question: str) -> bool:
        """Ask yes or no on the terminal; no without a terminal."""
        if not sys.stdin.isatty():
            self.note("not a terminal: pass --yes to confirm", WARN)
            return False
        self.err.print(Text(f"{question} [y/N] "), end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def as_yaml(document: object) -> str:
    """YAML in block style."""
    import yaml

    return yaml.safe_dump(json.loads(json.dumps(document, default=str)), sort_keys=False, width=120)


def table(
    headers: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = (), fold: Iterable[str] = ()
) -> Table:
    """A table in the style of kubectl: no lines, headers in capitals.

    Args:
        headers: Names of the columns.
        rows: Cells; styled text, or values that are converted to text. None is a dash.
        right: Right-aligned columns.
        fold: Columns whose long text is folded; others are never folded.
    """
    made = Table(box=None, pad_edge=False, show_edge=False, header_style=TITLE)
    numbers, folded = set(right), set(fold)
    for header in headers:
        made.add_column(
            header.upper(),
            justify="right" if header in numbers else "left",
            no_wrap=header not in folded,
            overflow="fold" if header in folded else "ellipsis",
        )
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def _cell(value: Any) -> Text:
    """One line: a newline in a text would show a row that is none."""
    if isinstance(value, Text):
        return value if clean_line(value.plain) == value.plain else Text(clean_line(value.plain), style=value.style)
    return Text("-" if value is None else clean_line(str(value)))
