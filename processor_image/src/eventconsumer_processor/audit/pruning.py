"""The command `prune`: says what it would do, and does it when told to."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from eventconsumer_api.durations import moment
from eventconsumer_api.errors import EventConsumerError
from eventconsumer_processor.audit import prune, show
from eventconsumer_processor.audit.access import Options, opened
from eventconsumer_processor.audit.prune import PrunePlan
from eventconsumer_processor.errors import CommandError

FAILED = 3
REFUSED = 2


def run(config: Path, options: Options, before: str, *, yes: bool) -> int:
    """Prune, and say so.

    Args:
        config: A HostConfig; used where the options do not name the storage.
        options: How the command was called.
        before: An ISO time or an age.
        yes: Do it.

    Returns:
        The exit code: 0 done, 2 refused or incomplete, 3 failed.
    """
    try:
        return asyncio.run(_run(config, options, before, yes))
    except EventConsumerError as error:
        print(f"prune failed: {error}", file=sys.stderr)  # noqa: T201 - the command's answer
        return FAILED


async def _run(config: Path, options: Options, before: str, yes: bool) -> int:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    now = datetime.now(UTC)
    try:
        limit = moment(before, now)
    except ValueError as error:
        raise CommandError(f"--before: {error}") from None
    with show.progress(visible=True) as progress:
        async with opened(config, options, hub=False) as found:
            if found.subject.leases is None:
                raise CommandError("--lease-container is needed: only files behind the checkpoints may be replaced")
            plan = await prune.plan(found.subject, limit, batches=found.batches, progress=progress)
            if plan.refused:
                console.print(f"Nothing is touched, because the audit found: {plan.audit.summary}")
                return min(plan.audit.exit_code, FAILED)
            if not yes:
                _say(console, plan, limit)
                return 0
            done = await prune.carry_out(plan, found.store, now, progress)
    console.print(f"{done.files:,} files are tombstones now, {done.bytes / 1e6:,.1f} MB are free.")
    for name in done.changed[:20]:
        console.print(f"not replaced, it was changed meanwhile: {name}")
    return REFUSED if done.changed else 0


def _say(console: Console, plan: PrunePlan, limit: datetime) -> None:
    left = f" and remove {len(plan.left):,} data files that an interrupted run left" if plan.left else ""
    console.print(
        f"Would replace {len(plan.files):,} files written before {limit.isoformat(timespec='seconds')} by tombstones"
        f"{left}: {plan.bytes / 1e6:,.1f} MB. Their events are then gone from storage."
    )
    for reason, count in plan.kept.items():
        console.print(f"Would keep {count:,} files of that age: {reason}.")
    console.print("Run again with --yes to do it." if plan.files or plan.left else "Nothing to do.")
