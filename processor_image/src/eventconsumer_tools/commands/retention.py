"""The command `retention --once`: removes the files that are due by `spec.sink.retention`, as the leading host does.

It may run at any time, also beside hosts: see `leader.retention`.
"""

from pathlib import Path

from eventconsumer_api.shared.console import Console
from eventconsumer_api.wire.host_report import RetentionReport
from eventconsumer_host.errors import CommandError
from eventconsumer_host.identity.records import is_displaced, read_chain
from eventconsumer_host.leader.retention import FileRetention
from eventconsumer_host.leader.stage import stage_of
from eventconsumer_tools.inspect.consumer import opened
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, NOTHING, say, show


async def retention(config: Path, output: PrintFormat, *, once: bool) -> int:
    """Remove what is due, and print the totals; the exit code.

    Raises:
        CommandError: It is not asked for, or not configured.
        EventConsumerError: Files cannot be removed, or a request failed; run it again.
    """
    if not once:
        raise CommandError("nothing was removed: run it with --once to remove the files that are due now")
    async with opened(config, hub=True) as consumer:
        found = consumer.config
        if found.retention is None:
            raise CommandError("spec.sink.retention is not set, so all files are kept: set days or bytes")
        chain = await read_chain(consumer.sink, found.sink.prefix)
        if chain is None or not consumer.segments:
            say("no host has drained into this folder yet")
            return NOTHING
        if await is_displaced(consumer.sink, found.sink.prefix, found.resource):
            raise CommandError(f"the files belong to {chain.record.resource.path}: run it with its configuration")
        hub, info = await consumer.describe()
        stage = stage_of(found, hub, info, consumer.segments, consumer.sink, chain=chain.record.chain)
        leases = {name: view.lease for name, view in (await consumer.read_leases()).items()}
        state = await stage.batches.restore()
        work = FileRetention(
            stage.blobs,
            found,
            found.retention,
            stage.chain,
            stage.tail,
            batches=stage.batches,
            metrics=stage.metrics,
            now=stage.now,
            confined=stage.confined,
        )
        await work.step(info.partition_ids, leases, state)
        while work.more:
            await work.step(info.partition_ids, leases, state)
        if work.report is not None:
            show(work.report, output, _print)
    return DONE


def _print(report: RetentionReport, console: Console) -> None:
    console.print(f"Removed in total: {report.files:,} files, {report.events:,} events, {report.bytes / 1e6:,.1f} MB.")
    if report.held:
        console.print(f"Files that are due are kept: {report.held}.")
    if report.excess_bytes:
        console.print(f"The kept files are {report.excess_bytes / 1e6:,.1f} MB above the limit.")
