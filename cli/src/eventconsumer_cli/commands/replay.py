"""`replay`: read retained events again, into separate files."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import RenderableType
from rich.text import Text

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.shared.durations import moment
from eventconsumer_api.v1alpha1 import Replay
from eventconsumer_cli.errors import Failed, RefusedError
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, name_of, namespace_of
from eventconsumer_cli.options import ConsumerName, Yes
from eventconsumer_cli.session import Session

_ENDED = frozenset({"Succeeded", "Failed"})


def replay(
    session: Session,
    name: ConsumerName = None,
    *,
    consumer_group: Annotated[
        str, typer.Option("--consumer-group", help="Consumer group for the replay; not the consumer's own.")
    ],
    since: Annotated[
        str | None, typer.Option("--from", help="Events enqueued since: ISO time, or an age such as 12h. Default: all.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", help="Events enqueued before: ISO time, or an age. Default: all present events."),
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", "-p", help="Partition to read; may be repeated. Default: all.")
    ] = None,
    replay_name: Annotated[
        str | None,
        typer.Option("--name", help="Name of the replay; each name runs once. Default: derived from the time."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Read retained events again, into separate files, while the hosts keep running.

    Shows the plan, asks for confirmation and writes spec.replay. The operator starts the replay.
    """
    consumer = session.consumer(name)
    now = datetime.now(UTC).replace(microsecond=0)
    wanted = make_replay(
        consumer,
        {
            "name": replay_name or now.strftime("%y%m%d-%H%M%S"),
            "consumerGroup": consumer_group,
            "from": _moment(since, now),
            "to": _moment(until, now),
            "partitions": partition or [],
        },
    )
    document = wanted.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    if not yes:
        for line in plan(consumer, wanted):
            session.out.err.print(line)
        if not session.out.confirm(f"Start this replay of {name_of(consumer)}?"):
            raise RefusedError("nothing was changed", "repeat the command with --yes to start it")
    # None for fields of an earlier replay that this one lacks: a merge patch keeps omitted fields.
    change = {key: document.get(key) for key in ("name", "consumerGroup", "from", "to", "partitions")}
    session.cluster.merge(EVENT_CONSUMER, namespace_of(consumer), name_of(consumer), {"spec": {"replay": change}})
    place = files(consumer, wanted)
    name_, namespace = name_of(consumer), namespace_of(consumer)
    session.out.show(
        {"consumer": name_, "namespace": namespace, "replay": document, "files": place},
        lambda: [
            Text(f"replay {wanted.name} is requested; its files: {place}"),
            Text(f"show its progress: kubectl eventconsumer status {name_} -n {namespace}"),
        ],
        [f"eventconsumer.eventconsumer.io/{name_}"],
    )


def make_replay(consumer: Manifest, fields: dict[str, Any]) -> Replay:
    """The replay, validated by the resource's model.

    Raises:
        Failed: A field is invalid; the message names it.
        RefusedError: It would not run, or would disturb a running replay.
    """
    try:
        wanted = Replay.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise Failed(f"--{'-'.join(str(part) for part in first['loc'])}: {first['msg']}") from error
    own = consumer["spec"]["eventHub"].get("consumerGroup", "$Default")
    if wanted.consumer_group.lower() == own.lower():  # Event Hubs does not distinguish case
        raise RefusedError(
            f"consumer group {own} is the consumer's own: the replay would disconnect its hosts",
            "create another consumer group for replays, and name it with --consumer-group",
        )
    if wanted.from_ and wanted.to and wanted.from_ >= wanted.to:
        raise Failed("--from must be before --to")
    before = consumer["spec"].get("replay") or {}
    status = consumer.get("status", {}).get("replay") or {}
    if before.get("name") == wanted.name:
        raise RefusedError(f"replay {wanted.name} was already requested, and each name runs once", "use another --name")
    if before and not (status.get("name") == before["name"] and status.get("state") in _ENDED):
        raise RefusedError(
            f"replay {before['name']} is not complete ({status.get('state', 'Pending')}); another one would end it",
            "wait for it, or remove spec.replay first",
        )
    return wanted


def files(consumer: Manifest, wanted: Replay) -> str:
    """Container and folder of its files."""
    sink = consumer["spec"]["sink"]
    prefix = str(sink.get("prefix", "")).rstrip("/") or f"{namespace_of(consumer)}/{name_of(consumer)}"
    return f"{sink['container']}/{prefix}/_replays/{wanted.name}"


def plan(consumer: Manifest, wanted: Replay) -> list[RenderableType]:
    """The plan, as text."""
    hub = consumer["spec"]["eventHub"]
    start = f"enqueued since {wanted.from_:%Y-%m-%d %H:%M:%S %Z}" if wanted.from_ else "from the oldest retained one"
    stop = f"before {wanted.to:%Y-%m-%d %H:%M:%S %Z}" if wanted.to else "up to the newest at its start"
    parts = ", ".join(wanted.partitions) or "all"
    waits = (
        ["waits       the consumer is suspended: it starts when that ends"] if consumer["spec"].get("suspend") else []
    )
    lines = [
        f"replay      {wanted.name}",
        f"reads       {hub.get('name') or 'the hub of the connection string'}, consumer group {wanted.consumer_group}",
        f"events      {start}, {stop}",
        f"partitions  {parts}",
        f"writes      {files(consumer, wanted)}",
        *waits,
    ]
    return [Text(line) for line in lines]


def _moment(text: str | None, now: datetime) -> datetime | None:
    try:
        return moment(text, now) if text else None
    except ValueError as error:
        raise Failed(str(error)) from None
