"""The program `eventconsumer`: `host` (also without a command), `probe`, `audit` and `prune`.

Exit codes of `audit` are its verdict: 0 clean, 1 explained gaps, 2 violation, 3 not readable; whatever keeps it from
being carried out, a wrong option too, is 3, so that 2 always means a proven violation. No traceback is ever the answer
to a mistake in the call.
"""

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from eventconsumer_api.labels import CONFIG_FILE
from eventconsumer_api.redaction import redact
from eventconsumer_api.v1alpha1 import LeaseLayout

UNREADABLE = 3

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Drains an Event Hub into files, each event exactly once; checks and cleans up what was drained.",
)

_Config = Annotated[
    Path,
    typer.Option("--config", envvar="EVENTCONSUMER_CONFIG", help="A host's configuration; in a host pod it is there."),
]
_ConnectionString = Annotated[
    Path | None, typer.Option("--connection-string-file", help="File with the storage account's connection string.")
]
_AccountUrl = Annotated[
    str | None,
    typer.Option("--account-url", help="Blob endpoint; signs in as Azure CLI, environment or managed identity do."),
]
_Container = Annotated[str | None, typer.Option("--container", help="Container of the drained files.")]
_Prefix = Annotated[str | None, typer.Option("--prefix", help="Their folder, spec.sink.prefix.")]
_LeaseContainer = Annotated[str | None, typer.Option("--lease-container", help="Container of the leases.")]
_LeasePrefix = Annotated[str, typer.Option("--lease-prefix", help="spec.leaseStore.prefix.")]
_LeaseLayout = Annotated[LeaseLayout, typer.Option("--lease-layout", help="spec.leaseStore.layout.")]
_Group = Annotated[str, typer.Option("--consumer-group", help="spec.eventHub.consumerGroup.")]
_Shared = Annotated[
    bool, typer.Option("--shared-leases", help="spec.leaseStore.shared: other programs move checkpoints too.")
]


@app.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    """Without a command: run a host."""
    if context.invoked_subcommand is None:
        _host()


@app.command()
def host() -> None:
    """Run a host until SIGTERM; this is what a host pod does."""
    _host()


@app.command()
def probe() -> None:
    """Look for events, and for files that wait for Spark, while no host runs, until SIGTERM: what a probe pod does."""
    from eventconsumer_processor.process import probe as run

    raise typer.Exit(run())


def _host() -> NoReturn:
    from eventconsumer_processor.process import main as run  # a command loads what it needs

    raise typer.Exit(run())


@app.command()
def audit(  # noqa: PLR0917 - the options of the command
    config: _Config = Path(CONFIG_FILE),
    connection_string_file: _ConnectionString = None,
    account_url: _AccountUrl = None,
    container: _Container = None,
    prefix: _Prefix = None,
    lease_container: _LeaseContainer = None,
    lease_prefix: _LeasePrefix = "",
    lease_layout: _LeaseLayout = LeaseLayout.EVENT_PROCESSOR_HOST,
    consumer_group: _Group = "$Default",
    files: Annotated[
        bool, typer.Option(help="Whether events go to files; --no-files: a handler replaces them.")
    ] = True,
    shared: _Shared = False,
    hub: Annotated[bool, typer.Option("--hub", help="Ask the hub too, for the lag.")] = False,
    hub_connection_string_file: Annotated[
        Path | None, typer.Option("--hub-connection-string-file", help="With --hub and without --config.")
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file: hashes and rows.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check that every event stands in exactly one file. Only reads.

    Exit code: 0 clean, 1 explained gaps, 2 a violation, 3 not readable.
    """
    from eventconsumer_processor.audit import show
    from eventconsumer_processor.audit.access import Options, opened
    from eventconsumer_processor.audit.model import AuditReport, unreadable
    from eventconsumer_processor.audit.read import audit as run
    from eventconsumer_processor.errors import HostError

    options = Options(
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
    )

    async def go() -> AuditReport:
        with show.progress(visible=True) as progress:
            try:
                async with opened(config, options, hub=hub) as found:
                    return await run(found.subject, deep=deep, progress=progress)
            except HostError as error:
                return unreadable(str(error), container or "", prefix or "", deep=deep)

    _quiet()
    report = asyncio.run(go())
    (show.show_json if as_json else show.show)(report)
    raise typer.Exit(report.exit_code)


@app.command()
def prune(  # noqa: PLR0917 - the options of the command
    before: Annotated[str, typer.Option("--before", help="ISO time, or an age such as 7d, 12h or 30m.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would be done.")] = False,
    config: _Config = Path(CONFIG_FILE),
    connection_string_file: _ConnectionString = None,
    account_url: _AccountUrl = None,
    container: _Container = None,
    prefix: _Prefix = None,
    lease_container: _LeaseContainer = None,
    lease_prefix: _LeasePrefix = "",
    lease_layout: _LeaseLayout = LeaseLayout.EVENT_PROCESSOR_HOST,
    consumer_group: _Group = "$Default",
    shared: _Shared = False,
) -> None:
    """Replace old files by tombstones: the chain stays whole, the events' bytes become free.

    Only files behind the checkpoint, in a committed batch where Spark is on, and never the last one of a partition.

    Exit code: 0 done or nothing to do, 2 refused because of a violation or a file that changed meanwhile, 3 failed.
    """
    from eventconsumer_processor.audit.access import Options
    from eventconsumer_processor.audit.pruning import run

    options = Options(
        connection_string_file,
        account_url,
        container,
        prefix,
        lease_container,
        lease_prefix,
        lease_layout,
        consumer_group,
        shared,
    )
    _quiet()
    raise typer.Exit(run(config, options, before, yes=yes))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: Those of the command line where None.

    Returns:
        The exit code.
    """
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


def _quiet() -> None:
    """The libraries' own logs are no part of the answer."""
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("azure").setLevel(logging.CRITICAL)
