"""The program `eventconsumer`: `host` (also without a command), `probe`, `audit`, and the tools.

Exit codes of `audit` are its verdict: 0 clean, 1 explained gaps, 2 violation, 3 not readable; whatever keeps it from
being carried out, a wrong option too, is 3, so that 2 always means a proven violation. No traceback is ever the answer
to a mistake in the call.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.exceptions import TyperException

from eventconsumer_api.commands import AUDIT, CERTIFY, OUTPUT, Option, PrintFormat
from eventconsumer_api.shared.coredumps import forbid_core_dumps
from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.shared.terminal import guarded
from eventconsumer_tools import options
from eventconsumer_tools.commands import commands
from eventconsumer_tools.output import quiet

UNREADABLE = 3

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Drains an Event Hub into files, each event exactly once; checks what was drained.",
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


def _audit(config: Path, output: PrintFormat, *, deep: bool, hub: bool, as_json: bool, **storage: Any) -> NoReturn:
    from eventconsumer_api.errors import EventConsumerError
    from eventconsumer_audit import show
    from eventconsumer_audit.model import AuditReport, unreadable
    from eventconsumer_audit.read import audit as run
    from eventconsumer_tools.access import Options, opened
    from eventconsumer_tools.output import show as show_document

    how = Options(**storage)

    async def go() -> AuditReport:
        with show.progress() as progress:
            try:
                async with opened(config, how, hub=hub) as found:
                    return await run(found, deep=deep, progress=progress)
            except EventConsumerError as error:
                return unreadable(str(error), how.container or "", how.prefix or "", deep=deep)

    quiet()
    report = asyncio.run(go())
    show_document(report, PrintFormat.JSON if as_json else output, show.show)
    raise typer.Exit(report.exit_code)


def _certify(
    config: Path,
    output: PrintFormat,
    *,
    consumer_group: str,
    send: bool,
    slow: bool,
    hub_connection_string_file: Path | None,
    connection_string_file: Path | None,
    container: str,
) -> NoReturn:
    from eventconsumer_tools.certify import command
    from eventconsumer_tools.certify.model import SEND, SLOW

    given = tuple(name for name, chosen in ((SEND, send), (SLOW, slow)) if chosen)

    def target() -> command.Target:
        if hub_connection_string_file is None and connection_string_file is None:
            return command.from_config(config, consumer_group, given)
        return command.from_files(hub_connection_string_file, connection_string_file, container, consumer_group, given)

    raise typer.Exit(command.run(target, output))


commands.add(
    app,
    AUDIT,
    _audit,
    (
        options.CONFIG,
        *options.STORAGE,
        Option(
            "--files/--no-files",
            "Events go to files; --no-files: a handler replaces the files.",
            bool,
            True,
            variable="writes_files",
        ),
        options.HUB_CONNECTION_STRING,
        OUTPUT,
        Option("--json", "The same as -o json.", bool, False, variable="as_json"),
    ),
)
commands.add(
    app,
    CERTIFY,
    _certify,
    (
        options.CONFIG,
        options.HUB_CONNECTION_STRING,
        options.CONNECTION_STRING,
        Option("--container", "With --connection-string-file: used if no container can be created.", default=""),
        OUTPUT,
    ),
)


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
