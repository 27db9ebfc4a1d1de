"""`logs`: logs of the owner of a partition, also after it moves; or of all hosts."""

from collections import deque
from collections.abc import Iterable
from typing import Annotated

import typer

from eventconsumer_api.kube import labels
from eventconsumer_cli.commands.partitions import look_at
from eventconsumer_cli.errors import ClusterError, Failed, NotFound
from eventconsumer_cli.follow import LogFollower
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER
from eventconsumer_cli.loglines import LogLine, parse
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import Format
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import PROGRAM
from eventconsumer_cli.view import Look

LOOK_SECONDS = 2.0
_AFTER_MOVE_SECONDS = 30  # lines of a new owner's log: the takeover of the partition


def logs(  # noqa: PLR0917 - the options of the command
    session: Session,
    name: ConsumerName = None,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition", "-p", help="Logs of the partition's owner: entries about the partition or the host."
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Logs of this pod, or of the host with this number.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log; with --partition, continue with the next owner.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", help="Number of recent lines of each host; -1: all.", show_default="100"),
    ] = None,
    since: Annotated[int | None, typer.Option("--since", help="Lines not older than this many seconds.", min=1)] = None,
) -> None:
    """Print the logs of all hosts, of one host, or of the owner of a partition. -o json prints the lines unchanged."""
    if partition is not None and host is not None:
        raise Failed("--partition and --host exclude each other")
    if session.out.format in {Format.YAML, Format.NAME}:
        raise Failed(f"logs have no format {session.out.format.value}: use -o json for unchanged lines, or omit -o")
    look = look_at(session, name, ask=partition is not None)
    wanted = _wanted(look, partition, host)
    newest = (None if since else 100) if tail is None else tail if tail >= 0 else None
    if not follow:
        for pod in wanted:
            for line in _once(session, look, pod, partition, newest, since):
                _show(session, line)
        return
    try:
        _follow(session, look, partition, host, wanted, newest, since)
    except KeyboardInterrupt:
        return


def _follow(  # noqa: PLR0917 - what the command was told
    session: Session,
    look: Look,
    partition: str | None,
    host: str | None,
    wanted: list[str],
    tail: int | None,
    since: int | None,
) -> None:
    follower = LogFollower(session.cluster, look.namespace, labels.COMPONENT_HOST)
    for pod in wanted:
        follower.read(pod, tail=tail, since=since)
    while True:
        for line in follower.lines(LOOK_SECONDS):
            if _is_about(line, partition, current=line.pod in wanted):
                _show(session, line)
        try:
            now = _wanted(look_at(session, look.name, ask=partition is not None), partition, host)
        except (NotFound, Failed):
            session.cluster.get(EVENT_CONSUMER, look.namespace, look.name)  # hosts may start again while it exists
            continue
        if partition is not None and now != wanted:
            session.out.note(f"partition {partition} moved from {', '.join(wanted)} to {', '.join(now)}")
        new = [pod for pod in now if pod not in wanted]
        wanted = now
        for pod in wanted:
            moved = pod in new
            follower.read(pod, tail=None if moved else tail, since=_AFTER_MOVE_SECONDS if moved else since)


def _wanted(look: Look, partition: str | None, host: str | None) -> list[str]:
    """Pods whose logs are requested.

    Raises:
        NotFound: No such partition or host, or no host at all.
        ClusterError: The hosts cannot be listed.
        Failed: No host reads the partition, or its reader is unknown.
    """
    where = f"{look.name} -n {look.namespace}"
    pods = [each.name for each in look.host_list()]
    if not pods and look.hosts.trouble:
        raise ClusterError(look.hosts.trouble)
    if not pods:
        hint = (
            f"`{PROGRAM} resume {where}` starts them"
            if look.suspended
            else f"`{PROGRAM} status {where}` shows the cause"
        )
        raise NotFound(f"no host of {look.name} exists", hint)
    if host is not None:
        found = [pod for pod in pods if host in {pod, pod.rpartition("-")[2]}]
        if not found:
            raise NotFound(f"{look.name} has no host {host}", f"its hosts: {', '.join(pods)}")
        return found
    if partition is None:
        return pods
    known = look.partitions()
    one = next((each for each in known if each.id == partition), None)
    if one is None and known:
        raise NotFound(f"the hub has no partition {partition}", f"it has {known[0].id} to {known[-1].id}")
    if one is None:
        raise Failed(
            f"the owner of partition {partition} is unknown{f': {look.hosts.trouble}' if look.hosts.trouble else ''}",
            f"`{PROGRAM} logs {where}` prints the logs of all hosts",
        )
    if not one.owner:
        raise Failed(f"no host reads partition {partition} now", f"`{PROGRAM} status {where}` shows the cause")
    if one.owner not in pods:
        raise Failed(f"partition {partition} is read by {one.owner}, which is not a host of {look.name}")
    return [one.owner]


def _once(  # noqa: PLR0917 - what the command was told
    session: Session, look: Look, pod: str, partition: str | None, tail: int | None, since: int | None
) -> Iterable[LogLine]:
    # Only fields identify the lines of a partition, so the limit of newest lines is applied here.
    asked = tail if partition is None else None
    lines = session.cluster.logs(look.namespace, pod, labels.COMPONENT_HOST, follow=False, tail=asked, since=since)
    about = (line for line in (parse(pod, raw) for raw in lines) if _is_about(line, partition, current=True))
    return about if partition is None else deque(about, tail)


def _is_about(line: LogLine, partition: str | None, *, current: bool) -> bool:
    """Whether a line is about the partition, or about the whole host if it is the present owner."""
    return partition is None or line.partition == partition or (current and not line.partition)


def _show(session: Session, line: LogLine) -> None:
    if session.out.format is Format.JSON:
        session.out.raw(line.raw + "\n")
    else:
        session.out.out.print(line.text(), soft_wrap=True)
