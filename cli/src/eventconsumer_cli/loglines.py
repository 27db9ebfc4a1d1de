"""Lines of a host's log: which partition each is about, and how people read it. Pure."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.text import Text

from eventconsumer_cli.output import BAD, DIM, WARN

_STYLES = {"warning": WARN, "error": BAD, "critical": BAD}
# What is shown by itself, and what the name of the pod says already.
_OWN = ("timestamp", "level", "logger", "message", "namespace", "name", "host", "partition")


@dataclass(frozen=True)
class LogLine:
    """One line.

    Attributes:
        pod: Whose it is.
        raw: As it came, without its end.
        fields: Of a structured line; empty: it is none.
    """

    pod: str
    raw: str
    fields: dict[str, Any]

    @property
    def partition(self) -> str:
        """Which it is about; empty: the whole host."""
        found = self.fields.get("partition")
        return "" if found is None else str(found)

    def text(self) -> Text:
        """For people: time, level, pod, partition, what happened, and the rest."""
        if not self.fields:
            return Text.assemble((f"{self.pod} ", DIM), self.raw)
        level = str(self.fields.get("level", "info"))
        rest = " ".join(f"{name}={_value(value)}" for name, value in self.fields.items() if name not in _OWN)
        return Text.assemble(
            (_time(self.fields.get("timestamp")), DIM),
            (f" {level:<7} ", _STYLES.get(level, DIM)),
            (f"{self.pod} ", DIM),
            f"[{self.partition}] " if self.partition else "",
            str(self.fields.get("message", "")),
            (f"  {rest}" if rest else "", DIM),
        )


def parse(pod: str, line: bytes) -> LogLine:
    """Read a line as it came."""
    raw = line.decode(errors="replace").rstrip("\r\n")
    try:
        fields = json.loads(raw)
    except ValueError:
        fields = {}
    return LogLine(pod, raw, fields if isinstance(fields, dict) else {})


def _time(value: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(value)).astimezone():%H:%M:%S}"
    except ValueError:
        return str(value or "")


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return json.dumps(text) if " " in text or not text else text
