"""The command `prune`: prints a plan, or applies it with `--yes`."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.durations import moment
from eventconsumer_audit import show
from eventconsumer_host.errors import CommandError
from eventconsumer_tools import prune
from eventconsumer_tools.access import Options, opened
from eventconsumer_tools.prune import PrunePlan

FAILED = 3
REFUSED = 2


def run(config: Path, options: Options, before: str, *, yes: bool) -> int:
    """Prune, and print the result.

    Args:
        config: A HostConfig; used if the options do not name the storage.
        options: Options of the command.
        before: An ISO time or an age.
        yes: Apply the plan.

    Returns:
        The exit code: 0 done, 2 refused or incomplete, 3 failed.
    """
    try:
        return asyncio.run(_run(config, options, before, yes))
    except EventConsumerError as error:
        print(f"prune failed: {error}", file=sys.stderr)  # noqa: T201 - the command's output
        return FAILED


async def _run(config: Path, options: Options, before: str, yes: bool) -> int:
    console = Console(soft_wrap=True)
    now = datetime.now(UTC)
    try:
        limit = moment(before, now)
    except ValueError as error:
        raise CommandError(f"--before: {error}") from None
    with show.progress() as progress:
        async with opened(config, options, hub=False) as found:
            if found.subject.leases is None:
                raise CommandError(
                    "--checkpoint-container is required: only files before the checkpoints may be replaced"
                )
            plan = await prune.plan(found.subject, limit, batches=found.batches, progress=progress)
            if plan.refused:
                console.print(f"Nothing was changed, because of the audit's result: {plan.audit.summary}")
                return min(plan.audit.exit_code, FAILED)
            if plan.refusal:
                console.print(f"Nothing was changed: {plan.refusal}.")
                return REFUSED
            if not yes:
                _say(console, plan, limit)
                return 0
            done = await prune.carry_out(plan, found.store, now, progress)
    console.print(f"{done.files:,} files were replaced by tombstones, {done.bytes / 1e6:,.1f} MB were freed.")
    for name in done.changed[:20]:
        console.print(f"not replaced, because it changed during the run: {name}")
    return REFUSED if done.changed else 0


def _say(console: Console, plan: PrunePlan, limit: datetime) -> None:
    left = f" and remove {len(plan.left):,} data files that an interrupted run left" if plan.left else ""
    console.print(
        f"Would replace {len(plan.files):,} files written before {limit.isoformat(timespec='seconds')} by tombstones"
        f"{left}: {plan.bytes / 1e6:,.1f} MB. Their events are then deleted from storage."
    )
    if plan.log:
        console.print(
            f"Would first remove {plan.in_table:,} of these files from the Delta table; its earlier versions can then "
            "not be read. Rows that OPTIMIZE, UPDATE or MERGE wrote to other files of the table stay: delete them with "
            "DELETE in Spark."
        )
    for reason, count in plan.kept.items():
        console.print(f"Would keep {count:,} files of that age: {reason}.")
    console.print("Run again with --yes to apply." if plan.files or plan.left else "Nothing to do.")
