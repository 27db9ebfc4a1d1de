"""Findings: level, subject and remedy. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rich.text import Text

from eventconsumer_cli.errors import ExitCode
from eventconsumer_cli.output import BAD, DIM, GOOD, WARN


class Level(StrEnum):
    """Severity."""

    OK = "ok"
    UNKNOWN = "unknown"  # it could not be checked, and no other check failed
    WARNING = "warning"  # works, but has a risk
    BROKEN = "broken"  # does not work


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        check: The checked subject, one word.
        level: Severity.
        detail: The observation.
        remedy: The required action; empty if none.
        consumer: `namespace/name` of the consumer it is about; empty: the cluster.
    """

    check: str
    level: Level
    detail: str
    remedy: str = ""
    consumer: str = ""

    def document(self) -> dict[str, str]:
        """Plain data."""
        return {
            "consumer": self.consumer,
            "check": self.check,
            "level": self.level.value,
            "detail": self.detail,
            "remedy": self.remedy,
        }


_STYLES = {Level.OK: GOOD, Level.UNKNOWN: DIM, Level.WARNING: WARN, Level.BROKEN: BAD}


def exit_code(findings: Iterable[Finding]) -> int:
    """0 no problem, 1 warnings, 2 errors."""
    levels = {each.level for each in findings}
    if Level.BROKEN in levels:
        return ExitCode.REFUSED
    return ExitCode.NOT_FOUND if Level.WARNING in levels else ExitCode.OK


def view(findings: Iterable[Finding]) -> list[Text]:
    """Lines of text: each problem has its remedy below."""
    lines, about = [], None
    for each in findings:
        if each.consumer != about:
            about = each.consumer
            lines.append(Text(f"consumer {about}" if about else "cluster", style="bold"))
        line = Text("  ")
        line.append(f"{each.level.value:<8}", style=_STYLES[each.level])
        line.append(f"{each.check}: {each.detail}")
        lines.append(line)
        if each.remedy and each.level is not Level.OK:
            lines.append(Text(f"          -> {each.remedy}"))
    return lines


def summary(findings: Iterable[Finding]) -> str:
    """The last line."""
    counts = dict.fromkeys(Level, 0)
    for each in findings:
        counts[each.level] += 1
    if not counts[Level.BROKEN] and not counts[Level.WARNING]:
        rest = f", {counts[Level.UNKNOWN]} unknown" if counts[Level.UNKNOWN] else ""
        return f"all well: {counts[Level.OK]} checks{rest}"
    return f"{counts[Level.BROKEN]} broken, {counts[Level.WARNING]} warnings, {counts[Level.OK]} ok"
