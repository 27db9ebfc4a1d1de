"""The commands `hub accept` and `hub reposition`, which begin the next segment of the chain: see `accept`."""

from collections.abc import Mapping
from pathlib import Path

from eventconsumer_api.shared.console import Console
from eventconsumer_host.identity.segments import name_of
from eventconsumer_host.problems import shown
from eventconsumer_host.sink.slots import utc_now
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.errors import Conflict
from eventconsumer_tools.commands.accept import Accepting, Ends
from eventconsumer_tools.commands.leases import natural
from eventconsumer_tools.commands.model import HubAcceptReport, HubEnds, ReportedHub
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.inspect.leases import LeaseState, LeaseView
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, NOTHING, REFUSED, say, show, table_of


async def settle(consumer: OpenConsumer, *, yes: bool, reposition: bool = False) -> HubAcceptReport:
    """Compare the partitions with the hub, and begin the next segment if requested, possible and necessary.

    Args:
        consumer: The consumer.
        yes: Whether to write.
        reposition: Apply `spec.startingPosition` to partitions without a file; otherwise accept the hub's events.

    Raises:
        EventConsumerError: A request failed; run the command again to complete it.
    """
    hub, info = await consumer.describe()
    report = _heading(consumer, info, yes=yes)
    if reposition:
        report = report.model_copy(update={"kind": "HubRepositionPlan"})
    leases = await consumer.read_leases()
    if consumer.segment is None:
        return report.model_copy(update={"why": "no host has drained into this folder yet: no action required"})
    if refusal := await _held(consumer, leases):
        return report.model_copy(update=refusal)
    known = {partition: view.lease for partition, view in leases.items()}
    accepting = Accepting(
        consumer.config, hub, info, consumer.sink, consumer.leases, consumer.segments, known, reposition=reposition
    )
    ends = await accepting.examine()
    report = report.model_copy(update={"partitions": [_row(end) for end in ends]})
    if foreign := [end.partition for end in ends if end.foreign]:
        return report.model_copy(update=_foreign(foreign))
    if reposition and (diverged := [end.partition for end in ends if end.diverged]):
        return report.model_copy(update=_diverged(consumer, diverged))
    if not any(end.diverged or end.sealed or end.repositioned for end in ends):
        nothing = "all partitions have files or begin at spec.startingPosition already: no action required"
        same = "the hub has the last event of all files: hosts continue automatically"
        return report.model_copy(update={"why": nothing if reposition else same})
    if not yes:
        return report
    try:
        segment, ends = await accepting.accept(utc_now())
    except Conflict:
        remedy = "run the command again: it shows the remaining steps"
        return report.model_copy(
            update={"refused": True, "why": "another run of this command began the segment", "remedy": remedy}
        )
    return report.model_copy(
        update={"done": True, "segment": segment.number, "partitions": [_row(end) for end in ends]}
    )


async def accept(config: Path, output: PrintFormat, *, yes: bool) -> int:
    """`hub accept`."""
    return await run(config, output, yes=yes, reposition=False)


async def reposition(config: Path, output: PrintFormat, *, yes: bool) -> int:
    """`hub reposition`."""
    return await run(config, output, yes=yes, reposition=True)


async def run(config: Path, output: PrintFormat, *, yes: bool, reposition: bool) -> int:
    """Print the plan, and begin a new segment with `--yes`; the exit code."""
    async with opened(config, hub=True) as consumer:
        report = await settle(consumer, yes=yes, reposition=reposition)
    show(report, output, _table)
    if report.refused:
        say(f"refused, nothing was written: {report.why}: {report.remedy}")
        return REFUSED
    if report.why:
        say(report.why)
        return NOTHING
    if report.dry_run:
        say("nothing was written: run again with --yes to begin a new segment")
    else:
        say(f"segment {report.segment} begins: hosts continue at its starts")
    return DONE


def _heading(consumer: OpenConsumer, info: HubInfo, *, yes: bool) -> HubAcceptReport:
    segment = consumer.segment
    return HubAcceptReport(
        dry_run=not yes,
        refused=False,
        done=False,
        sink=f"{consumer.config.sink.container}/{consumer.config.sink.prefix}",
        hub=ReportedHub(namespace=info.namespace, name=info.name),
        created_at=name_of(info).created_at,
        segment=segment.number if segment else 0,
        segment_created_at=segment.hub.created_at if segment else None,
    )


async def _held(consumer: OpenConsumer, leases: Mapping[str, LeaseView]) -> dict[str, object]:
    now = await consumer.now()
    held = [view.lease for view in leases.values() if view.state(now) is LeaseState.HELD]
    if not held:
        return {}
    owner = held[0].owner or "a program without a name"
    own = f"{consumer.config.resource.name} -n {consumer.config.resource.namespace}"
    remedy = (
        f"run kubectl eventconsumer suspend {own} --wait, stop other programs on these leases, run this again, then "
        f"kubectl eventconsumer resume {own}"
    )
    return {
        "refused": True,
        "why": f"{owner} holds the lease of partition {held[0].partition}: events are compared only without readers",
        "remedy": remedy,
    }


def _foreign(partitions: list[str]) -> dict[str, object]:
    return {
        "refused": True,
        "why": "another program that shares the leases has processed events after the end of the files in partitions "
        f"{', '.join(partitions)}: these events are unknown",
        "remedy": "create another EventConsumer with another spec.sink.prefix and spec.checkpointStore.prefix",
    }


def _diverged(consumer: OpenConsumer, partitions: list[str]) -> dict[str, object]:
    own = consumer.config.resource
    return {
        "refused": True,
        "why": f"files and hub diverge in partitions {', '.join(partitions)}",
        "remedy": f"run kubectl eventconsumer hub accept {own.name} -n {own.namespace} first",
    }


def _row(end: Ends) -> HubEnds:
    return HubEnds(
        partition=end.partition,
        diverged=end.diverged,
        files_end=end.files_end if end.begun else None,
        hub_end=end.hub_end,
        earliest=end.earliest,
        common=end.common if end.common >= 0 else None,
        start=end.start if end.begun else None,
        gone=end.gone,
        ahead=end.ahead if end.begun else None,
        repositioned=end.repositioned,
    )


def _table(report: HubAcceptReport, console: Console) -> None:
    rows = [
        (
            row.partition,
            "diverged" if row.diverged else "repositioned" if row.repositioned else "same",
            shown(row.files_end) if row.files_end else "not begun",
            shown(row.hub_end),
            "-" if row.common is None else str(row.common),
            "-" if row.start is None else str(row.start),
            str(row.gone),
            "-" if row.ahead is None else str(row.ahead),
        )
        for row in sorted(report.partitions, key=lambda row: natural(row.partition))
    ]
    names = ("PARTITION", "STATE", "FILES END", "HUB ENDS", "COMMON", "START", "GONE", "TO READ")
    console.print(table_of(names, rows))
