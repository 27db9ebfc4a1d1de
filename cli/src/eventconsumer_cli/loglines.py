"""Lines of a host's log: their partition, and their form on a terminal. Pure."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.text import Text

from eventconsumer_api.shared.terminal import clean_line
from eventconsumer_cli.output import BAD, DIM, WARN

_STYLES = {"warning": WARN, "error": BAD, "critical": BAD}
# Fields with their own column, and fields that repeat the name of the pod.
_OWN = ("timestamp", "level", "logger", "message", "namespace", "name", "host", "partition")


@dataclass(frozen=True)
class LogLine:
    """One line.

    Attributes:
        pod: Its pod.
        raw: The unchanged text, without the line end.
        fields: Fields of a structured line; empty: the line is not structured.
    """

    pod: str
    raw: str
    fields: dict[str, Any]

    @property
    def partition(self) -> str:
        """Its partition; empty: the whole host."""
        found = self.fields.get("partition")
        return "" if found is None else str(found)

    def text(self) -> Text:
        """For terminals: time, level, pod, partition, message, and the other fields."""
        if not self.fields:
            return _one_line((f"{self.pod} ", DIM), (self.raw, ""))
        level = str(self.fields.get("level", "info"))
        rest = " ".join(f"{name}={_value(value)}" for name, value in self.fields.items() if name not in _OWN)
        return _one_line(
            (_time(self.fields.get("timestamp")), DIM),
            (f" {level:<7} ", _STYLES.get(level, DIM)),
            (f"{self.pod} ", DIM),
            (f"[{self.partition}] " if self.partition else "", ""),
            (str(self.fields.get("message", "")), ""),
            (f"  {rest}" if rest else "", DIM),
        )


def parse(pod: str, line: bytes) -> LogLine:
    """Parse a line."""
    raw = line.decode(errors="replace").rstrip("\r\n")
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        fields = {}
    return LogLine(pod, raw, fields if isinstance(fields, dict) else {})


def _one_line(*parts: tuple[str, str]) -> Text:
    """Texts with their styles. A newline in one of them would show a line that no program logged."""
    return Text.assemble(*((clean_line(text), style) for text, style in parts))


def _time(value: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(value)).astimezone():%H:%M:%S}"
    except (ValueError, OverflowError):  # no time, or one outside of the calendar in this time zone
        return str(value or "")


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return json.dumps(text) if " " in text or not text else text
