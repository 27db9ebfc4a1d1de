"""The program `eventconsumer`: `host` (also without a command), `probe`, `audit`, `prune`, and the tools.

Exit codes of `audit` are its verdict: 0 clean, 1 explained gaps, 2 violation, 3 not readable; whatever keeps it from
being carried out, a wrong option too, is 3, so that 2 always means a proven violation. No traceback is ever the answer
to a mistake in the call.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from eventconsumer_api.shared.coredumps import forbid_core_dumps
from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.shared.terminal import guarded
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_tools import options
from eventconsumer_tools.commands import commands
from eventconsumer_tools.options import Output
from eventconsumer_tools.output import quiet

UNREADABLE = 3

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Drains an Event Hub into files, each event exactly once; checks and cleans up what was drained.",
)
commands.add_to(app)


@app.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    """Without a command: run a host."""
    if context.invoked_subcommand is None:
        _host()


@app.command()
def host() -> None:
    """Run a host until SIGTERM: the command of a host pod."""
    _host()


@app.command()
def probe() -> None:
    """Watch for new events and for files that wait for Spark, until SIGTERM: the command of a probe pod."""
    from eventconsumer_host.host.process import probe as run

    raise typer.Exit(run())


def _host() -> NoReturn:
    from eventconsumer_host.host.process import main as run  # a command loads what it needs

    raise typer.Exit(run())


@app.command()
def audit(  # noqa: PLR0917 - the options of the command
    config: options.Config = options.DEFAULT_CONFIG,
    connection_string_file: options.ConnectionString = None,
    account_url: options.AccountUrl = None,
    container: options.Container = None,
    prefix: options.Prefix = None,
    lease_container: options.LeaseContainer = None,
    lease_prefix: options.LeasePrefix = None,
    lease_layout: options.Layout = LeaseLayout.EVENT_PROCESSOR_HOST,
    consumer_group: options.Group = "$Default",
    files: Annotated[bool, typer.Option(help="Events go to files; --no-files: a handler replaces the files.")] = True,
    shared: options.Shared = False,
    hub: Annotated[bool, typer.Option("--hub", help="Also query the hub for the lag.")] = False,
    hub_connection_string_file: Annotated[
        Path | None, typer.Option("--hub-connection-string-file", help="With --hub and without --config.")
    ] = None,
    storage_api_version: options.StorageApiVersion = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file: hashes and rows.")] = False,
    output: options.OutputOption = Output.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as -o json.")] = False,
) -> None:
    """Check that every event is in exactly one file. Read-only.

    Exit code: 0 clean, 1 explained gaps, 2 a violation, 3 not readable.
    """
    from eventconsumer_api.errors import EventConsumerError
    from eventconsumer_audit import show
    from eventconsumer_audit.model import AuditReport, unreadable
    from eventconsumer_audit.read import audit as run
    from eventconsumer_tools.access import Options, opened
    from eventconsumer_tools.output import show as show_document

    how = Options(
        connection_string_file,
        account_url,
        container,
        prefix,
        lease_container,
        lease_prefix,
        lease_layout,
        consumer_group,
        shared,
        files,
        hub_connection_string_file,
        storage_api_version,
    )

    async def go() -> AuditReport:
        with show.progress() as progress:
            try:
                async with opened(config, how, hub=hub) as found:
                    return await run(found.subject, deep=deep, progress=progress)
            except EventConsumerError as error:
                return unreadable(str(error), container or "", prefix or "", deep=deep)

    quiet()
    report = asyncio.run(go())
    show_document(report, Output.JSON if as_json else output, show.show)
    raise typer.Exit(report.exit_code)


@app.command()
def prune(  # noqa: PLR0917 - the options of the command
    before: Annotated[str, typer.Option("--before", help="ISO time, or an age such as 7d, 12h or 30m.")],
    yes: options.Yes = False,
    config: options.Config = options.DEFAULT_CONFIG,
    connection_string_file: options.ConnectionString = None,
    account_url: options.AccountUrl = None,
    container: options.Container = None,
    prefix: options.Prefix = None,
    lease_container: options.LeaseContainer = None,
    lease_prefix: options.LeasePrefix = None,
    lease_layout: options.Layout = LeaseLayout.EVENT_PROCESSOR_HOST,
    consumer_group: options.Group = "$Default",
    shared: options.Shared = False,
    storage_api_version: options.StorageApiVersion = None,
) -> None:
    """Replace old files by tombstones: the chain stays complete, the storage is freed.

    Only files behind the checkpoint, in a committed batch where Spark is on, and never the last one of a partition.

    Exit code: 0 done or nothing to do, 2 refused (a violation, or a file that changed meanwhile), 3 failed.
    """
    from eventconsumer_tools.access import Options
    from eventconsumer_tools.pruning import run

    how = Options(
        connection_string_file,
        account_url,
        container,
        prefix,
        lease_container,
        lease_prefix,
        lease_layout,
        consumer_group,
        shared,
        storage_api_version=storage_api_version,
    )
    quiet()
    raise typer.Exit(run(config, how, before, yes=yes))


@app.command()
def certify(  # noqa: PLR0917 - the options of the command
    consumer_group: Annotated[
        str,
        typer.Option("--consumer-group", help="A consumer group for the checks alone; refused if it has readers."),
    ],
    send: Annotated[
        bool, typer.Option("--send", help="Also checks that publish a few events, which stay until they expire.")
    ] = False,
    slow: Annotated[bool, typer.Option("--slow", help="Also checks that wait for minutes.")] = False,
    config: options.Config = options.DEFAULT_CONFIG,
    hub_connection_string_file: Annotated[
        Path | None,
        typer.Option(
            "--hub-connection-string-file", help="Instead of --config: the hub's connection string, with EntityPath."
        ),
    ] = None,
    connection_string_file: options.ConnectionString = None,
    container: Annotated[
        str | None,
        typer.Option("--container", help="With --connection-string-file: used if no container can be created."),
    ] = None,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """Check whether the real Event Hub and storage accounts behave as hosts assume. Removes all that it creates.

    Exit code: 0 all assumptions hold that were checked, 1 one does not hold, 2 not carried out or not decided.
    """
    from eventconsumer_tools.certify import command
    from eventconsumer_tools.certify.model import SEND, SLOW

    given = tuple(name for name, chosen in ((SEND, send), (SLOW, slow)) if chosen)

    def target() -> command.Target:
        if hub_connection_string_file is None and connection_string_file is None:
            return command.from_config(config, consumer_group, given)
        return command.from_files(
            hub_connection_string_file, connection_string_file, container or "", consumer_group, given
        )

    raise typer.Exit(command.run(target, output))


@guarded()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: Those of the command line where None.

    Returns:
        The exit code.
    """
    forbid_core_dumps()
    command = typer.main.get_command(app)
    try:
        answer = command.main(arguments, prog_name="eventconsumer", standalone_mode=False)
    except TyperException as error:
        print(f"{redact(error.format_message())}\nSee eventconsumer --help.", file=sys.stderr)  # noqa: T201
        return UNREADABLE
    except (typer.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)  # noqa: T201
        return UNREADABLE
    return answer if isinstance(answer, int) else 0
