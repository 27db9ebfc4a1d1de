"""`gap`: the events that expired in the Event Hub before they were read, and their acknowledgement."""

from collections.abc import Iterator
from datetime import UTC, datetime

import typer
from rich.console import RenderableType
from rich.text import Text

from eventconsumer_cli.commands.status import names
from eventconsumer_cli.commands.suspend import note_manager
from eventconsumer_cli.errors import Failed, RefusedError
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER
from eventconsumer_cli.kube.reports import read
from eventconsumer_cli.options import ConsumerName, Yes, add
from eventconsumer_cli.output import GOOD, WARN, table
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import PROGRAM, count
from eventconsumer_cli.view import Look

_FIELD = "spec.acknowledgedGapEvents"

group = typer.Typer(
    no_args_is_help=True,
    help="Show and acknowledge lost events: events that expired in the Event Hub before they were read.",
)


def show(session: Session, name: ConsumerName = None) -> None:
    """Show how many events were lost, how many of them are acknowledged, and the newest of each partition."""
    look = _look(session, name)
    newest = look.hosts.fleet.gaps if look.hosts.fleet else {}
    document = {
        "gapEvents": look.gap_events,
        "acknowledgedGapEvents": look.acknowledged_gap_events,
        "newest": dict(newest),
    }
    session.out.show(document, lambda: _view(look), names([look.consumer]))
    if look.gap_events:
        session.out.note(f"`{PROGRAM} files {look.name} -n {look.namespace} --gaps` lists all of them")


def ack(session: Session, name: ConsumerName = None, yes: Yes = False) -> None:
    """Acknowledge all events that were lost until now: the condition DataGap becomes false until more are lost.

    Shows the lost events, asks for confirmation and sets spec.acknowledgedGapEvents to their number. With GitOps, set
    the field in the manifest instead.
    """
    look = _look(session, name)
    events = look.gap_events
    if not events:
        raise Failed(
            f"{look.name} has no lost events to acknowledge: its files record none",
            f"`{PROGRAM} status {look.name} -n {look.namespace}` shows the condition DataGap",
        )
    consumer = look.consumer
    if acknowledged := events == look.acknowledged_gap_events:
        text = f"the {count(events)} lost events of {look.name} are already acknowledged"
    else:
        if not yes:
            for part in _view(look):
                session.out.err.print(part)
            if not session.out.confirm(f"Acknowledge {count(events)} lost events of {look.name}?"):
                raise RefusedError("nothing was changed", f"repeat the command with --yes, or set {_FIELD}: {events}")
        change = {"spec": {"acknowledgedGapEvents": events}}
        consumer = session.cluster.merge(EVENT_CONSUMER, look.namespace, look.name, change)
        text = f"{count(events)} lost events of {look.name} acknowledged: {_FIELD} is {events}"
    session.out.show(consumer, lambda: [text], names([consumer]))
    if not acknowledged:
        note_manager(session, consumer, _FIELD)


def _look(session: Session, name: str | None) -> Look:
    consumer = session.consumer(name)
    return Look(consumer, read(session.cluster, consumer), datetime.now(UTC))


def _view(look: Look) -> Iterator[RenderableType]:
    events, acknowledged = look.gap_events, look.acknowledged_gap_events
    if not events:
        yield Text(f"{look.name}: no event expired before it was read", style=GOOD)
        return
    all_ = acknowledged == events
    which = "all are acknowledged" if all_ else f"{_FIELD} is {acknowledged}"
    yield Text(f"{look.name}: {count(events)} events were lost, {which}", style=GOOD if all_ else WARN)
    newest = look.hosts.fleet.gaps if look.hosts.fleet else {}
    if newest:
        yield table(["partition", "newest lost events"], sorted(newest.items()), fold=["newest lost events"])


add(group, "show", show)
add(group, "ack", ack)
