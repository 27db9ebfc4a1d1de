"""`status`: state of consumers, and the required action."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.resource.remedies import command, is_good
from eventconsumer_api.shared.plurals import plural
from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_api.v1alpha1.status import Condition, RetentionStatus
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, name_of
from eventconsumer_cli.kube.reports import HostPods, read
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import BAD, DIM, GOOD, TITLE, WARN, table
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import PROGRAM, age, count, duration, part, size
from eventconsumer_cli.view import Look

_NUMBERS = ("lag", "late", "files")


def status(session: Session, name: ConsumerName = None) -> None:
    """Show a consumer's state and the required action. Without a name, show one line for each consumer."""
    now = datetime.now(UTC)
    if name is not None:
        consumer = session.consumer(name)
        look = Look(consumer, read(session.cluster, consumer), now)
        session.out.show(consumer, lambda: details(look), names([consumer]))
        return
    found = session.consumers()
    looks = [Look(consumer, HostPods(), now) for consumer in found]
    session.out.show(
        {"apiVersion": "v1", "kind": "List", "items": found},
        lambda: overview(looks, with_namespace=session.options.all_namespaces),
        names(found),
    )
    if not found:
        where = "in any namespace" if session.options.all_namespaces else f"in namespace {session.namespace}"
        other = "" if session.options.all_namespaces else f", `{PROGRAM} status -A` lists all namespaces"
        session.out.note(f"there is no EventConsumer {where}: `{PROGRAM} init` creates one{other}")


def names(consumers: Sequence[Manifest]) -> list[str]:
    """In the form of kubectl."""
    return [f"{EVENT_CONSUMER.name.lower()}.{EVENT_CONSUMER.group}/{name_of(each)}" for each in consumers]


def overview(looks: Sequence[Look], *, with_namespace: bool) -> Iterator[RenderableType]:
    """A line for each consumer, with the causes of those that are not ready below."""
    if not looks:
        return
    first = ["namespace"] if with_namespace else []
    headers = [*first, "name", "ready", "hub", "hosts", "partitions", "lag", "late", "files", "spark"]
    rows = [[*([look.namespace] if with_namespace else []), *_line(look)] for look in looks]
    yield table(headers, rows, right=_NUMBERS, fold=("hub",))
    for look in looks:
        ready = look.status.condition(ConditionType.READY)
        if ready is None or not is_good(ready):
            message = f"{ready.reason}: {ready.message}" if ready else _silent(look)
            yield Text.assemble((f"{look.name}: ", TITLE), (message, WARN))


def _line(look: Look) -> list[str | Text]:
    status_ = look.status
    events, seconds = look.lag
    spark = status_.condition(ConditionType.SPARK_HEALTHY)
    return [
        look.name,
        state(look),
        str(look.consumer["spec"]["eventHub"].get("name") or "-"),
        f"{status_.hosts.ready}/{status_.hosts.desired}",
        part(status_.partitions.owned, status_.partitions.total),
        count(events),
        duration(seconds),
        count(look.written[0]),
        "-" if status_.spark is None or spark is None else Text(spark.reason, style=GOOD if is_good(spark) else BAD),
    ]


def state(look: Look) -> Text:
    """State in one word."""
    if look.suspended:
        return Text("Suspended", style=DIM)
    ready = look.status.condition(ConditionType.READY)
    if ready is None:
        return Text("Unknown", style=WARN)
    if is_good(ready):
        return Text("Ready", style=GOOD)
    stalled = look.status.condition(ConditionType.STALLED)
    return Text(ready.reason, style=BAD if stalled and stalled.status == "True" else WARN)


def _silent(look: Look) -> str:
    return (
        "the operator has not written a status yet: if this persists, "
        f"run `{PROGRAM} doctor {look.name} -n {look.namespace}`"
    )


def details(look: Look) -> Iterator[RenderableType]:
    """The state of one consumer in detail."""
    spec = look.consumer["spec"]
    hub = spec["eventHub"]
    yield Text.assemble((look.name, TITLE), f" in namespace {look.namespace}: ", state(look))
    group = hub.get("consumerGroup", "$Default")
    yield Text(f"Event Hub {hub.get('name') or '(named by its connection string)'}, consumer group {group}", style=DIM)
    yield Text("")
    yield _facts(look)
    yield Text("")
    yield from _conditions(look)
    yield from _next_steps(look)
    if look.hosts.trouble:
        yield Text("")
        yield Text(f"from the resource's status, a few seconds old: {look.hosts.trouble}", style=DIM)


def _facts(look: Look) -> Table:
    status_ = look.status
    events, seconds = look.lag
    files, drained, size_, last = look.written
    owned, total = look.owned
    late = "" if events is None else ", nothing waits" if not events else f", the oldest is {duration(seconds)} old"
    since = f", the newest {age(last, look.now)} ago" if last else ""
    facts = [
        ("hosts", f"{status_.hosts.ready} of {status_.hosts.desired} ready" + _why(look)),
        ("partitions", f"{count(owned)} of {total or '?'} are read"),
        ("lag", f"{count(events)} events in no file{late}" if events is not None else "not known"),
        ("files", f"{count(files)} with {count(drained)} events, {size(size_)}{since}"),
    ]
    if complete := look.complete:
        facts.append(("complete", f"all events before {complete:%Y-%m-%d %H:%M} UTC are in files"))
    if found := status_.table:
        behind = f", {count(found.pending_files)} files wait" if found.pending_files else ""
        text = f"version {found.version}, {count(found.files)} files with {count(found.events)} events{behind}"
        facts.append(("table", text))
    if notices := status_.notices:
        waiting = f"{count(notices.pending_events)} events are in files without an acknowledged notice"
        sent = f", the last one {age(notices.last_time, look.now)} ago" if notices.last_time else ""
        facts.append(("notices", f"{waiting if notices.pending_events else 'all are acknowledged'}{sent}"))
    if kept := status_.retention:
        facts.append(("retention", _kept(kept, look.now)))
    if status_.storage.requests_per_month is not None:
        facts.append(("storage", f"about {count(status_.storage.requests_per_month)} requests a month"))
    facts += _spark(look)
    if status_.replay:
        replay = status_.replay
        text = f"{replay.name}: {replay.state}, {count(replay.files)} files, {count(replay.events)} events"
        facts.append(("replay", f"{text}; {replay.message}" if replay.message else text))
    grid = Table.grid(padding=(0, 2))
    for name, value in facts:
        grid.add_row(Text(name, style=TITLE), Text(value))
    return grid


def _kept(kept: RetentionStatus, now: datetime) -> str:
    oldest = f", the oldest kept file is {age(kept.oldest_file_time, now)} old" if kept.oldest_file_time else ""
    excess = f", {size(kept.excess_bytes)} above the limit" if kept.excess_bytes else ""
    held = f"; a file is due but {kept.held}" if kept.held else ""
    return f"{count(kept.files)} files with {size(kept.bytes)} were removed{oldest}{excess}{held}"


def _why(look: Look) -> str:
    scaling = look.status.scaling
    return f" ({scaling.reason})" if scaling and scaling.reason else ""


def _spark(look: Look) -> Iterator[tuple[str, str]]:
    spark = look.status.spark
    if spark is None:
        return
    pending = look.hosts.fleet or spark
    parts = [f"{plural(pending.pending_files, 'file')} ({size(pending.pending_bytes)}) in no committed batch"]
    if spark.last_commit:
        parts.insert(0, f"batch {spark.last_commit.number} committed {age(spark.last_commit.time, look.now)} ago")
    if spark.quarantine:
        parts.append(f"{spark.quarantine.files} files and {spark.quarantine.rows} events excluded")
    yield "Spark", "; ".join(parts)
    if found := look.committed:
        yield "processed", f"all events before {found.time:%Y-%m-%d %H:%M} UTC are in batches up to {found.batch}"


def _conditions(look: Look) -> Iterator[RenderableType]:
    conditions = look.status.conditions
    if not conditions:
        yield Text(_silent(look), style=WARN)
        return
    rows = [
        [each.type.value, _verdict(each), age(each.last_transition_time, look.now), f"{each.reason}: {each.message}"]
        for each in conditions
    ]
    yield table(["condition", "status", "for", "reason"], rows, fold=["reason"])
    if look.unanswered:
        yield Text("the operator has not seen the newest change of the spec yet", style=WARN)


def _verdict(condition: Condition) -> Text:
    if condition.status == "Unknown":
        return Text(condition.status, style=WARN)
    return Text(condition.status, style=GOOD if is_good(condition) else BAD)


def _next_steps(look: Look) -> Iterator[RenderableType]:
    reasons = dict.fromkeys(each.reason for each in look.status.conditions if not is_good(each))
    advisory = [each.reason for each in look.status.conditions if is_good(each) and each.reason.startswith("Spark")]
    steps = dict.fromkeys(command(reason, look.name, look.namespace) for reason in (*reasons, *advisory))
    found = [step for step in steps if step]
    if found:
        yield Text("")
        yield Text("what to do next:", style=TITLE)
        for step in found:
            yield Padding(Text(step), (0, 0, 0, 2))
