"""`hosts`: state of the host pods."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.text import Text

from eventconsumer_api.wire.host_report import HostState
from eventconsumer_cli.commands.partitions import explain_silence, look_at
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import BAD, DIM, GOOD, WARN, table
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import age, count
from eventconsumer_cli.view import HostPod

_HEADERS = ("host", "ready", "state", "partitions", "events", "files", "restarts", "age", "node")
_NUMBERS = ("events", "files", "restarts", "age")
_STYLES = {HostState.RUNNING: GOOD, HostState.BLOCKED: BAD}
_SHOWN_IDS = 8


def hosts(session: Session, name: ConsumerName = None) -> None:
    """Show the host pods: their state, their partitions and their problems.

    EVENTS and FILES are those of the partitions that the host reads now, since it took them. * marks the leading host.
    """
    look = look_at(session, name)
    found = look.host_list()
    explain_silence(look, bool(found))
    session.out.show(
        [each.document() for each in found], lambda: view(found, look.now), [f"pod/{each.name}" for each in found]
    )
    if look.hosts.trouble:
        session.out.note(look.hosts.trouble, WARN)


def view(found: Sequence[HostPod], now: datetime) -> Iterator[RenderableType]:
    """The table, with the problems below it."""
    yield table(_HEADERS, [_row(each, now) for each in found], right=_NUMBERS, fold=("host", "node", "partitions"))
    for host in found:
        for problem in host.report.problems if host.report else ():
            yield Text.assemble((f"{host.name}: ", BAD), f"{problem.reason}: {problem.field}: {problem.message}")


def _row(host: HostPod, now: datetime) -> list[str | Text | None]:
    report = host.report
    owned = report.partitions if report else ()
    return [
        host.name + ("*" if host.leads else ""),
        Text("yes", style=GOOD) if host.ready else Text("no", style=BAD),
        Text(report.state.value, style=_STYLES.get(report.state, WARN)) if report else Text(host.phase, style=WARN),
        ids([each.id for each in owned]) if report else Text("-", style=DIM),
        count(sum(each.events for each in owned)) if report else None,
        count(sum(each.files for each in owned)) if report else None,
        str(host.restarts),
        age(host.started, now),
        host.node or None,
    ]


def ids(partitions: Sequence[str]) -> str:
    """Partition ids in order, as ranges: 0-3,7; a text that is too long ends in the number of the remaining ids."""
    numbers = sorted({int(each) for each in partitions if each.isdecimal()})
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    parts = [f"{first}" if first == last else f"{first}-{last}" for first, last in runs]
    parts += sorted(each for each in partitions if not each.isdecimal())
    rest = len(parts) - _SHOWN_IDS
    shown = ",".join(parts[:_SHOWN_IDS])
    return (f"{shown},+{rest}" if rest > 0 else shown) or "none"
