"""`partitions`: owner, position and lag of each partition."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from eventconsumer_cli.errors import ClusterError, Failed
from eventconsumer_cli.kube.reports import read
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import BAD, DIM, table
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import PROGRAM, age, count, duration
from eventconsumer_cli.view import Look, Partition

_HEADERS = ("partition", "owner", "epoch", "lag", "late", "next", "last event", "events", "files")
_NUMBERS = ("partition", "epoch", "lag", "late", "next", "last event", "events", "files")


def partitions(session: Session, name: ConsumerName = None) -> None:
    """Show the owner, the committed files and the lag of each partition.

    LAG is in events that are in no file, LATE is the age of the oldest of them; EVENTS and FILES are those of the
    present owner since it took over.
    """
    look = look_at(session, name)
    found = look.partitions()
    explain_silence(look, bool(found))
    session.out.show([each.document() for each in found], lambda: view(found, look.now), [each.id for each in found])


def look_at(session: Session, name: str | None, *, ask: bool = True) -> Look:
    """A consumer and the present reports of its hosts; without `ask` only the list of hosts."""
    consumer = session.consumer(name)
    return Look(consumer, read(session.cluster, consumer, ask=ask), datetime.now(UTC))


def explain_silence(look: Look, found: bool) -> None:
    """Verify that there is data to show.

    Raises:
        ClusterError: No host could be queried.
        Failed: No host runs, or none has answered yet.
    """
    if found:
        return
    where = f"{look.name} -n {look.namespace}"
    if look.suspended:
        raise Failed(
            f"{look.name} is suspended; the state is unknown while no host runs",
            f"`{PROGRAM} resume {where}` starts hosts, `{PROGRAM} leases {where}` reads the storage",
        )
    if look.hosts.trouble:
        raise ClusterError(look.hosts.trouble, f"`{PROGRAM} status {where}` shows the operator's status")
    if not look.hosts.pods:
        raise Failed(f"no host of {look.name} runs", f"`{PROGRAM} status {where}` shows the cause")
    raise Failed(
        f"no host of {look.name} has answered yet; its pods: {', '.join(sorted(look.hosts.pods))}",
        f"`{PROGRAM} hosts {where}` shows their state",
    )


def view(found: Sequence[Partition], now: datetime) -> Iterator[RenderableType]:
    """The table."""
    yield table(_HEADERS, [_row(each, now) for each in found], right=_NUMBERS, fold=("owner",))
    nobody = [each.id for each in found if not each.owner]
    if nobody:
        yield Text(f"no host reads {'partition' if len(nobody) == 1 else 'partitions'} {', '.join(nobody)}", style=BAD)


def _row(one: Partition, now: datetime) -> list[str | Text | None]:
    report = one.report
    return [
        one.id,
        one.owner or Text("nobody", style=BAD),
        count(report.epoch) if report else None,
        count(one.lag_events),
        duration(one.lag_seconds),
        # Sequence numbers are also names: without commas they can be compared with file names.
        None if report is None or report.next_sequence_number is None else str(report.next_sequence_number),
        age(report.enqueued_time, now) if report else None,
        Text(count(report.events)) if report else Text("-", style=DIM),
        count(report.files) if report else None,
    ]
