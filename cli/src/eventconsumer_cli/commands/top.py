"""`top`: one consumer, or all of them, live."""

import time
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Protocol

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from eventconsumer_api.resource.remedies import is_good
from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_cli.commands.consumers import Consumers, Order, State
from eventconsumer_cli.commands.partitions import explain_silence, look_at
from eventconsumer_cli.commands.status import state as state_of
from eventconsumer_cli.errors import ClusterError, Failed
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import BAD, DIM, TITLE, WARN, Format, table
from eventconsumer_cli.rates import Rate, Rates, total
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import age, count, duration, part, plural, rate, size
from eventconsumer_cli.view import Look, Partition

_HEADERS = ("partition", "owner", "lag", "late", "in/s", "filed/s", "next", "last event", "files")
_NUMBERS = tuple(header for header in _HEADERS if header != "owner")
_HEAD_LINES = 8  # lines above and below the partitions


class Sort(StrEnum):
    """Sort order of the partitions, or of the consumers."""

    PARTITION = "partition"
    LAG = "lag"
    OWNER = "owner"
    STATE = "state"
    NAME = "name"


def top(
    session: Session,
    name: ConsumerName = None,
    *,
    once: Annotated[bool, typer.Option("--once", help="Take one sample over one interval, print it and exit.")] = False,
    interval: Annotated[
        float | None,
        typer.Option("--interval", help="Seconds between samples. Default: 2, with -A 10.", min=0.2, max=60),
    ] = None,
    sort: Annotated[
        Sort | None,
        typer.Option(
            "--sort",
            help="Sort order: partition (default), lag or owner; with -A lag (default), state or name.",
        ),
    ] = None,
    state: Annotated[
        list[State] | None, typer.Option("--state", help="With -A: only consumers in this state; may be repeated.")
    ] = None,
) -> None:
    """Watch a consumer: partitions, owners, lag, rates, files and batches. With -A, watch all, a line for each.

    IN/S are events that hosts receive, FILED/S events that are committed in files, both over the last minute; LAG is in
    events that are in no file, LATE the age of the oldest of them. With -A all of it is from the resources' statuses.
    Ctrl-C ends it.
    """
    if session.options.all_namespaces and name is None:
        _watch(session, Consumers(session, _order(sort), state or ()), interval or 10.0, once=once)
        return
    if state or sort in {Sort.STATE, Sort.NAME}:
        raise Failed("--state, --sort state and --sort name are about several consumers", "add -A, and name none")
    one = _One(session, name, sort or Sort.PARTITION, strict=once or not _is_live(session))
    _watch(session, one, interval or 2.0, once=once)


def _order(sort: Sort | None) -> Order:
    if sort in {Sort.PARTITION, Sort.OWNER}:
        raise Failed(f"--sort {sort} is about one consumer", "sort by lag, state or name, or name a consumer")
    return Order(sort or Sort.LAG)


def _is_live(session: Session) -> bool:
    return session.out.format is Format.TABLE and session.out.out.is_terminal


class _Sampled(Protocol):
    """What is sampled and drawn."""

    def sample(self) -> None:
        """Take a sample."""

    def document(self) -> dict[str, Any]:
        """The newest sample, for programs."""

    def names(self) -> list[str]:
        """The names in it."""

    def screen(self, height: int | None = None, trouble: str = "") -> RenderableType:
        """The view of it, with at most `height` rows and why there is no newer one."""


def _watch(session: Session, seen: _Sampled, interval: float, *, once: bool) -> None:
    """Sample and draw until Ctrl-C; `once` or without a terminal, print one sample over one interval."""
    seen.sample()
    if once or not _is_live(session):
        time.sleep(interval)
        seen.sample()
        session.out.show(seen.document(), lambda: [seen.screen()], seen.names())
        return
    try:
        with Live(console=session.out.out, screen=True, auto_refresh=False) as live:
            trouble = ""
            while True:
                height = max(4, session.out.out.height - _HEAD_LINES)
                live.update(seen.screen(height, trouble), refresh=True)
                time.sleep(interval)
                try:
                    seen.sample()
                    trouble = ""
                except (ClusterError, Failed) as error:
                    trouble = str(error)  # keep the last sample; the cluster may answer again
    except KeyboardInterrupt:
        return


class _One:
    """Samples of one consumer."""

    def __init__(self, session: Session, name: str | None, sort: Sort, *, strict: bool) -> None:
        """Take no sample yet; `strict`: a sample without partitions is an error with its cause."""
        self._session = session
        self._name = name
        self._sort = sort
        self._strict = strict
        self._rates = Rates()

    def sample(self) -> None:
        look = look_at(self._session, self._name)
        if self._strict:
            explain_silence(look, bool(look.partitions()))
        self._look, self._name = look, look.name
        self._rates.add(look)

    def document(self) -> dict[str, Any]:
        return document(self._look, self._rates)

    def names(self) -> list[str]:
        return [each.id for each in self._look.partitions()]

    def screen(self, height: int | None = None, trouble: str = "") -> RenderableType:
        return screen(self._look, self._rates, self._sort, height, trouble)


def document(look: Look, rates: Rates) -> dict[str, Any]:
    """One sample, for programs; rates are per second."""
    by_partition = rates.by_partition()
    events, seconds = look.lag
    files, drained, size_, last = look.written
    spark = look.status.spark
    ready = look.status.condition(ConditionType.READY)
    return {
        "time": look.now.isoformat(),
        "kind": EVENT_CONSUMER.name,
        "namespace": look.namespace,
        "name": look.name,
        "ready": ready.status == "True" if ready else None,
        "hosts": {"ready": look.status.hosts.ready, "desired": look.status.hosts.desired},
        "lag": {"events": events, "seconds": seconds},
        "rates": _rate_document(total(by_partition)),
        "drained": {
            "files": files, "events": drained, "bytes": size_, "lastFileTime": last.isoformat() if last else None
        },
        "spark": spark.model_dump(mode="json", by_alias=True, exclude_none=True) if spark else None,
        "partitions": [
            each.document() | {"rates": _rate_document(by_partition.get(each.id))} for each in look.partitions()
        ],
    }  # fmt: skip


def _rate_document(found: Rate | None) -> dict[str, float] | None:
    return {"received": found.received, "filed": found.filed, "files": found.files} if found else None


def screen(look: Look, rates: Rates, sort: Sort, height: int | None = None, trouble: str = "") -> RenderableType:
    """The view of a sample.

    Args:
        look: The newest sample.
        rates: Rates over this and earlier samples.
        sort: Sort order of the partitions.
        height: Lines for partitions; None: no limit.
        trouble: Why there is no newer sample; empty: this is the newest.
    """
    by_partition = rates.by_partition()
    parts: list[RenderableType] = [*_head(look, total(by_partition)), Text("")]
    partitions = _sorted(look.partitions(), sort)
    shown = partitions[:height]
    if shown:
        parts.append(
            table(_HEADERS, [_row(each, by_partition, look.now) for each in shown], right=_NUMBERS, fold=("owner",))
        )
    else:
        parts.append(
            Text("no host reports partitions" + (" while it is suspended" if look.suspended else ""), style=WARN)
        )
    if len(partitions) > len(shown):
        hint = "" if sort is Sort.LAG else "; --sort lag puts the latest first"
        parts.append(Text(f"… {plural(len(partitions) - len(shown), 'more partition')}{hint}", style=DIM))
    if trouble or look.hosts.trouble:
        parts.append(Text(trouble or look.hosts.trouble, style=WARN))
    return Group(*parts)


def _head(look: Look, rates: Rate | None) -> list[Text]:
    status = look.status
    events, seconds = look.lag
    files, drained, size_, last = look.written
    owned, known = look.owned
    hub = look.consumer["spec"]["eventHub"].get("name") or ""
    lines = [
        Text.assemble(
            (look.name, TITLE), "  ", state_of(look), f"  hub {hub}" if hub else "",
            f"  hosts {status.hosts.ready}/{status.hosts.desired}  partitions {part(owned, known)}",
            (f"  {look.now.astimezone():%H:%M:%S}", DIM),
        ),
        Text.assemble(
            ("lag ", DIM), f"{count(events)} events, {duration(seconds)} late", ("   in ", DIM),
            f"{rate(rates.received if rates else None)}/s", ("   filed ", DIM),
            f"{rate(rates.filed if rates else None)}/s",
        ),
        Text.assemble(
            ("files ", DIM), f"{count(files)}, {count(drained)} events, {size(size_)}",
            f", newest {age(last, look.now)} ago" if last else "",
            ("   new ", DIM), f"{rate(rates.files * 60 if rates else None)}/min",
        ),
    ]  # fmt: skip
    if status.spark:
        lines.append(_spark(look))
    ready = status.condition(ConditionType.READY)
    if ready and not is_good(ready):
        lines.append(Text(f"{ready.reason}: {ready.message}", style=BAD if ready.reason != "Progressing" else WARN))
    return lines


def _spark(look: Look) -> Text:
    fleet, spark = look.hosts.fleet, look.status.spark
    if spark is None:
        return Text("")
    last = spark.last_commit
    committed = f"batch {last.number} committed {age(last.time, look.now)} ago" if last else "no batch committed yet"
    numbers = [str(batch.number) for batch in fleet.open_batches] if fleet else []
    running = f", {'batches' if numbers[1:] else 'batch'} {', '.join(numbers)} open" if numbers else ""
    pending = fleet.pending_files if fleet else spark.pending_files
    failing = f", {plural(spark.failures, 'failure')} in a row" if spark.failures else ""
    text = f"{committed}{running}{failing}, {plural(pending, 'file')} waiting"
    return Text.assemble(("Spark ", DIM), (text, BAD if spark.failures else ""))


def _sorted(partitions: list[Partition], sort: Sort) -> list[Partition]:
    if sort is Sort.LAG:
        return sorted(partitions, key=lambda each: (-(each.lag_seconds or 0), -(each.lag_events or 0)))
    if sort is Sort.OWNER:
        return sorted(partitions, key=lambda each: each.owner)
    return partitions


def _row(one: Partition, rates: Mapping[str, Rate], now: datetime) -> list[str | Text | None]:
    report, found = one.report, rates.get(one.id)
    late = one.lag_seconds is not None and one.lag_seconds >= 1
    return [
        one.id,
        one.owner or Text("nobody", style=BAD),
        count(one.lag_events),
        Text(duration(one.lag_seconds), style="" if late else DIM),
        rate(found.received if found else None),
        rate(found.filed if found else None),
        None if report is None or report.next_sequence_number is None else str(report.next_sequence_number),
        age(report.enqueued_time, now) if report else None,
        count(report.files) if report else None,
    ]
