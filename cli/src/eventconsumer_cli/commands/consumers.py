"""All consumers of a scope, a line for each, from their statuses alone: the view of `top -A`."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from eventconsumer_api.resource.remedies import Severity, worst
from eventconsumer_api.shared.plurals import plural
from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_cli.commands.status import names, state
from eventconsumer_cli.kube.reports import HostPods
from eventconsumer_cli.output import BAD, DIM, GOOD, TITLE, WARN, table
from eventconsumer_cli.rates import WINDOW_SECONDS
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import count, duration, part, rate
from eventconsumer_cli.view import Look

_HEADERS = ("namespace", "name", "state", "hosts", "partitions", "lag", "late", "filed/s", "files")
_NUMBERS = ("lag", "late", "filed/s", "files")
_STYLES: dict[Severity, str] = {"ok": GOOD, "notice": WARN, "problem": BAD}


class State(StrEnum):
    """States by which consumers are selected."""

    OK = "ok"
    NOTICE = "notice"
    PROBLEM = "problem"


class Order(StrEnum):
    """Sort order of the consumers."""

    LAG = "lag"
    STATE = "state"
    NAME = "name"


@dataclass(frozen=True)
class Line:
    """A consumer at one moment.

    Attributes:
        look: The consumer; no host was asked.
        severity: The worst of its conditions.
        filed: Events committed in files, per second; None: unknown.
    """

    look: Look
    severity: Severity
    filed: float | None = None

    def document(self) -> dict[str, Any]:
        """For programs."""
        status = self.look.status
        ready = status.condition(ConditionType.READY)
        return {
            "namespace": self.look.namespace,
            "name": self.look.name,
            "state": self.severity,
            "ready": ready.status == "True" if ready else None,
            "reason": ready.reason if ready else None,
            "hosts": {"ready": status.hosts.ready, "desired": status.hosts.desired},
            "partitions": {"owned": status.partitions.owned, "total": status.partitions.total},
            "lag": {"events": status.lag.events, "seconds": status.lag.seconds},
            "rates": None if self.filed is None else {"filed": self.filed},
            "drained": {"files": status.drained.files, "events": status.drained.events},
        }


def ordered(lines: Sequence[Line], order: Order, states: Sequence[State] = ()) -> list[Line]:
    """The lines with one of `states` (none: all): the latest, the worst, or by name first."""
    found = [line for line in lines if not states or line.severity in {state.value for state in states}]
    by: Mapping[Order, Callable[[Line], tuple[float, ...]]] = {
        Order.LAG: _late,
        Order.STATE: lambda line: (-list(_STYLES).index(line.severity), *_late(line)),
        Order.NAME: lambda _: (),
    }
    return sorted(found, key=lambda line: (*by[order](line), line.look.namespace, line.look.name))


def _late(line: Line) -> tuple[float, ...]:
    events, seconds = line.look.lag
    return -(seconds or 0), -(events or 0)


class Consumers:
    """Samples of all consumers in the scope of a session."""

    def __init__(self, session: Session, order: Order, states: Sequence[State]) -> None:
        """Take no sample yet."""
        self._session = session
        self._order = order
        self._states = states
        self._now = datetime.now(UTC)
        self._lines: list[Line] = []
        self._events: deque[tuple[float, dict[tuple[str, str], int]]] = deque()

    def sample(self) -> None:
        """List the consumers.

        Raises:
            ClusterError: The cluster does not answer, or refuses.
        """
        found = self._session.consumers()
        self._now = datetime.now(UTC)
        looks = [Look(each, HostPods(), self._now) for each in found]
        now = self._now.timestamp()
        events = {(look.namespace, look.name): look.status.drained.events for look in looks}
        self._events.append((now, events))
        while len(self._events) > 2 and now - self._events[0][0] > WINDOW_SECONDS:
            self._events.popleft()
        then, before = self._events[0]
        self._lines = []
        for look in looks:
            key = look.namespace, look.name
            known = key in before and now > then
            filed = max(0, events[key] - before[key]) / (now - then) if known else None
            self._lines.append(Line(look, worst(look.status.conditions), filed))

    def document(self) -> dict[str, Any]:
        """The newest sample, for programs; rates are per second."""
        return {"time": self._now.isoformat(), "consumers": [line.document() for line in self._shown()]}

    def names(self) -> list[str]:
        """In the form of kubectl."""
        return names([line.look.consumer for line in self._shown()])

    def screen(self, height: int | None = None, trouble: str = "") -> RenderableType:
        """The view of the newest sample.

        Args:
            height: Lines for consumers; None: no limit.
            trouble: Why there is no newer sample; empty: this is the newest.
        """
        lines = self._shown()
        shown = lines[:height]
        parts: list[RenderableType] = [self._head(), Text("")]
        parts.append(table(_HEADERS, map(_row, shown), right=_NUMBERS, fold=("namespace", "name")))
        if len(lines) > len(shown):
            parts.append(Text(f"… {plural(len(lines) - len(shown), 'more consumer')}", style=DIM))
        if trouble:
            parts.append(Text(trouble, style=WARN))
        return Group(*parts)

    def _shown(self) -> list[Line]:
        return ordered(self._lines, self._order, self._states)

    def _head(self) -> Text:
        states = Counter(line.severity for line in self._lines)
        lags = [line.look.lag[0] for line in self._lines]
        known = [each for each in lags if each is not None]
        unknown = f" ({len(lags) - len(known)} unknown)" if len(known) < len(lags) else ""
        filed = [line.filed for line in self._lines if line.filed is not None]
        parts: list[tuple[str, str]] = [(plural(len(self._lines), "consumer"), TITLE), ("  ", "")]
        for each in reversed(_STYLES):
            if states[each]:
                parts += [(f"{states[each]:,} {each}", _STYLES[each]), ("  ", "")]
        text = (
            f"lag {count(sum(known) if known else None)} events{unknown}  filed {rate(sum(filed) if filed else None)}/s"
        )
        return Text.assemble(*parts, text, (f"  {self._now.astimezone():%H:%M:%S}", DIM))


def _row(line: Line) -> list[str | Text | None]:
    look = line.look
    events, seconds = look.lag
    return [
        look.namespace,
        look.name,
        state(look),
        f"{look.status.hosts.ready}/{look.status.hosts.desired}",
        part(look.status.partitions.owned, look.status.partitions.total),
        count(events),
        duration(seconds),
        rate(line.filed),
        count(look.written[0]),
    ]
