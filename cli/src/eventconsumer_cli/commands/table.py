"""`table`: state of the Delta table over a consumer's files."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from eventconsumer_api.resource.remedies import command
from eventconsumer_api.shared.terminal import clean_line
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1.status import TableStatus
from eventconsumer_api.wire.host_report import TableReport
from eventconsumer_cli.commands.partitions import look_at
from eventconsumer_cli.errors import Failed
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import BAD, DIM, TITLE
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import PROGRAM, age, count, duration, plural
from eventconsumer_cli.view import Look

_FIELD = "spec.sink.table"


@dataclass(frozen=True)
class Shown:
    """A table at one moment.

    Attributes:
        container: Of the files.
        prefix: Folder of the files in it, the root of the table; empty: the operator has not computed it.
        url: Of the root; empty: only the connection string in the Secret has the account.
        secret: Name of that Secret; empty: none.
        max_seconds: Time between two commits.
        state: Numbers of the leading host, or of the status if no leading host responds; None: unknown.
        last_commit: Time of the last commit; None: unknown.
        problem: Cause and remedy; empty: none.
    """

    container: str
    prefix: str
    url: str
    secret: str
    max_seconds: int | None
    state: TableReport | TableStatus | None
    last_commit: datetime | None
    problem: str

    def lag_seconds(self, now: datetime) -> float | None:
        """Age of the oldest file that is not in the table; 0: there is none; None: unknown."""
        if self.state is None:
            return None
        oldest = self.state.oldest_pending_time
        return max(0.0, (now - oldest).total_seconds()) if oldest else 0.0

    def document(self, now: datetime) -> dict[str, Any]:
        """For programs."""
        state, lag = self.state, self.lag_seconds(now)
        return {
            "location": {"container": self.container, "prefix": self.prefix or None, "url": self.url or None},
            "maxSeconds": self.max_seconds,
            "version": state.version if state else None,
            "files": state.files if state else None,
            "events": state.events if state else None,
            "lag": {
                "files": state.pending_files if state else None,
                "events": state.pending_events if state else None,
                "seconds": None if lag is None else round(lag, 1),
            },
            "lastCommitTime": self.last_commit.isoformat() if self.last_commit else None,
            "logRetentionSeconds": state.log_retention_seconds if state else None,
            "problem": self.problem or None,
        }


def table(session: Session, name: ConsumerName = None) -> None:
    """Show the Delta table over the files: location, version, lag behind the files, and the problem if hosts stopped.

    The lag is the number of events in files that are not in the table yet, and the age of the oldest of these files.
    """
    look = look_at(session, name)
    if "table" not in look.consumer["spec"]["sink"]:
        raise Failed(
            f"{look.name} has no {_FIELD}: hosts register its files in no table",
            f"set {_FIELD} for that; `{PROGRAM} files {look.name} -n {look.namespace}` shows the files",
        )
    found = shown(look)
    session.out.show(found.document(look.now), lambda: view(look, found), [found.url or _path(found)])


def shown(look: Look) -> Shown:
    """The table of a consumer that has one."""
    sink, status, fleet = look.consumer["spec"]["sink"], look.status, look.hosts.fleet
    account = str(sink.get("storageAccountUrl") or "").rstrip("/")
    reference = (sink.get("authentication") or {}).get("connectionStringSecretRef") or {}
    container, prefix = str(sink.get("container") or ""), status.effective.sink_prefix if status.effective else ""
    live = fleet.table if fleet else None
    last = status.table.last_commit_time if status.table else None
    return Shown(
        container=container,
        prefix=prefix,
        url=f"{account}/{container}/{prefix}" if account and prefix else "",
        secret=str(reference.get("name") or ""),
        max_seconds=(sink["table"] or {}).get("maxSeconds"),
        state=live or status.table,
        last_commit=(live.committed_at if live else None) or last,
        problem=_problem(look),
    )


def view(look: Look, found: Shown) -> Iterator[RenderableType]:
    """Properties, then the problem and the next command."""
    state, now = found.state, look.now
    grid = Grid.grid(padding=(0, 2))
    for name, value in (
        ("location", _location(found)),
        ("version", count(state.version) if state else "not known: no host has read the log of the table yet"),
        ("files", f"{count(state.files)} with {count(state.events)} events" if state else ""),
        ("lag", _lag(found, now)),
        ("last commit", f"{age(found.last_commit, now)} ago" if found.last_commit else ""),
        ("commits", f"every {found.max_seconds} s, if there are new files" if found.max_seconds else ""),
        ("log kept", _kept(state.log_retention_seconds) if state else ""),
    ):
        if value:
            grid.add_row(Text(name, style=TITLE), Text(clean_line(value)))
    yield grid
    if found.problem:
        yield Text.assemble(("\n" + Reason.TABLE_INVALID, BAD), f": {found.problem}")
        yield Text(command(Reason.TABLE_INVALID, look.name, look.namespace))
    if look.hosts.trouble:
        yield Text(f"\nfrom the resource's status, a few seconds old: {look.hosts.trouble}", style=DIM)


def _location(found: Shown) -> str:
    if found.url:
        return found.url
    account = f" in the storage account of Secret {found.secret}" if found.secret else ""
    return _path(found) + account


def _path(found: Shown) -> str:
    return f"{found.container}/{found.prefix}" if found.prefix else found.container


def _kept(seconds: float | None) -> str:
    return "" if seconds is None else f"for {duration(seconds)}, at most 100,000 versions: a stream may stop that long"


def _lag(found: Shown, now: datetime) -> str:
    state = found.state
    if state is None:
        return ""
    if not state.pending_files:
        return "none: the table has all files that the leading host knows"
    oldest = f", the oldest file is {age(state.oldest_pending_time, now)} old" if state.oldest_pending_time else ""
    return f"{count(state.pending_events)} events in {plural(state.pending_files, 'file')}{oldest}"


def _problem(look: Look) -> str:
    """The problem of the table: of a host, or of a condition if no host that leads responds."""
    for report in look.hosts.reports.values():
        for problem in report.problems:
            if problem.reason == Reason.TABLE_INVALID:
                return problem.message
    if look.hosts.fleet:
        return ""
    return next((each.message for each in look.status.conditions if each.reason == Reason.TABLE_INVALID), "")
