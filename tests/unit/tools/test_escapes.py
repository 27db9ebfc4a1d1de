"""Names of blobs, owners and messages of services do not control the terminal on which a tool prints them."""

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
import yaml
from pydantic import AwareDatetime, BaseModel, JsonValue

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.model import Report
from eventconsumer_api.shared.terminal import clean, clean_but_styles
from eventconsumer_audit import show as audit
from eventconsumer_audit.model import AuditReport
from eventconsumer_tools import cli
from eventconsumer_tools import output as tools
from eventconsumer_tools.certify import command as certify
from eventconsumer_tools.certify.model import CertifyReport
from eventconsumer_tools.commands import (
    adopt,
    apply,
    check,
    checkpoint,
    columns,
    deadletters,
    errors,
    files,
    hub,
    lag,
    leases,
)
from eventconsumer_tools.commands.model import (
    AdoptReport,
    BodyErrorsReport,
    CheckpointsReport,
    CheckReport,
    ColumnsReport,
    DeadLetterReport,
    DeadLettersPlan,
    DeadLettersReport,
    FilesReport,
    HubAcceptReport,
    LagReport,
    LeasesReport,
    PlanReport,
)
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import show

pytestmark = pytest.mark.usefixtures("logs_as_before")

ATTACK = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\x1b[8m\u202egnp\u2066\u2028\x7f[red]x[/]\nFORGED"
# A letter's body and traceback have many lines, below their names.
MANY_LINES = (DeadLetterReport,)
TABLES: list[tuple[type[Report], Callable[[Any, Console], None]]] = [
    (AdoptReport, adopt._table),
    (AuditReport, audit.show),
    (BodyErrorsReport, errors.show_errors),
    (CertifyReport, certify.table),
    (CheckpointsReport, checkpoint._table),
    (CheckReport, check._table),
    (ColumnsReport, columns.show_proposal),
    (DeadLetterReport, deadletters._details),
    (DeadLettersPlan, deadletters._plan_table),
    (DeadLettersReport, deadletters._table),
    (FilesReport, partial(files._table, gaps=False)),
    (FilesReport, partial(files._table, gaps=True)),
    (HubAcceptReport, hub._table),
    (LagReport, lag._table),
    (LeasesReport, leases._table),
    (PlanReport, apply._table),
]


def attacked(kind: Any) -> Any:
    """A value of a type, in which each text is the attack."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        found = {name: attacked(field.annotation) for name, field in kind.model_fields.items()}
        return kind.model_construct(**found)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: attacked(hints[field.name]) for field in dataclasses.fields(kind)})  # type: ignore[operator]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return list(kind)[-1]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return inner[0]
    if origin in {typing.Union, types.UnionType}:
        return attacked(inner[0])
    if origin in {list, tuple}:
        return [attacked(inner[0])]
    if origin is dict:
        return {attacked(inner[0]): attacked(inner[1])}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    known = {str: ATTACK, JsonValue: ATTACK, int: 3, float: 3.5, bool: True, datetime: at, AwareDatetime: at}
    return known[kind]


@pytest.mark.parametrize(("kind", "table"), TABLES, ids=[kind.__name__ for kind, _ in TABLES])
@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_a_table_shows_text_and_no_sequences(
    kind: type[Report],
    table: Callable[[Any, Console], None],
    terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if terminal:
        monkeypatch.setenv("TTY_COMPATIBLE", "1")  # as kubectl-eventconsumer sets it
    monkeypatch.setenv("COLUMNS", "900")  # so that no cell is folded
    monkeypatch.setattr(tools, "_WIDTH", 900)
    show(attacked(kind), PrintFormat.TABLE, table, lines=kind in MANY_LINES)
    shown = capsys.readouterr().out
    assert (clean_but_styles if terminal else clean)(shown) == shown
    assert kind in MANY_LINES or [line for line in shown.splitlines() if line.lstrip(" │┃").startswith("FORGED")] == []
    assert "owned" in shown or kind is LagReport  # only its partitions are text, in a narrow column
    assert "[red]x[/]" in shown or "owned" not in shown  # text is no markup


@pytest.mark.parametrize(("kind", "table"), TABLES, ids=[kind.__name__ for kind, _ in TABLES])
def test_documents_escape_the_text_and_keep_it(
    kind: type[Report], table: Callable[[Any, Console], None], capsys: pytest.CaptureFixture[str]
) -> None:
    document = attacked(kind)
    wanted = document.model_dump(mode="json", by_alias=True)
    for output, read in ((PrintFormat.JSON, json.loads), (PrintFormat.YAML, yaml.safe_load)):
        show(document, output, lambda *_: None)
        shown = capsys.readouterr().out
        assert clean(shown) == shown and shown.isascii()
        assert read(shown) == wanted


def test_messages_and_progress_are_clean(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def refused(**_: object) -> int:
        raise EventConsumerError(f"the service answered {ATTACK}")

    monkeypatch.setattr(leases, "leases", refused)
    assert cli.main(["leases"]) == 3
    said = capsys.readouterr().err
    assert "the service answered" in said and clean(said) == said
    assert cli.main(["leases", f"--{ATTACK}"]) == cli.UNREADABLE
    said = capsys.readouterr().err
    assert "No such option" in said and clean(said) == said


def test_progress_elsewhere_than_on_a_terminal_is_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("eventconsumer_audit.show.time.monotonic", lambda: now[0])
    for interactive in ("0", None):
        if interactive:
            monkeypatch.setenv("TTY_COMPATIBLE", "1")
            monkeypatch.setenv("TTY_INTERACTIVE", interactive)
        with audit.progress() as progress:
            for count in range(40):
                now[0] += 1
                progress.listed(count)
        assert capsys.readouterr().err.splitlines() == [f"{count} blobs listed" for count in (9, 19, 29, 39)]
        monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
