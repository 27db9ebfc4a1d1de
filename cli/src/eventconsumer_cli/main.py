"""The program `kubectl-eventconsumer`: its commands and exit codes."""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from eventconsumer_api.commands import Area
from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.shared.terminal import guarded
from eventconsumer_cli.commands import (
    batches,
    doctor,
    forwarded,
    gap,
    hosts,
    init,
    logs,
    partitions,
    plan,
    replay,
    status,
    suspend,
    table,
    top,
)
from eventconsumer_cli.errors import EXIT_CODES, CliError, ExitCode
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.options import add, complete_namespace
from eventconsumer_cli.output import BAD, Format, console
from eventconsumer_cli.session import Options, Session, kubernetes
from eventconsumer_cli.text import PROGRAM

app = typer.Typer(
    name=PROGRAM,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Inspect, control and check EventConsumers, which drain Azure Event Hubs into files.",
    epilog=f"Exit codes: {'; '.join(f'{code} {text}' for code, text in EXIT_CODES.items())}.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{PROGRAM} {version('eventconsumer-cli')}")  # noqa: T201 - the answer
        raise typer.Exit


@app.callback()
def _root(  # noqa: PLR0917 - the options of every command
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace.", autocompletion=complete_namespace)
    ] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")] = False,
    context: Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")] = None,
    kubeconfig: Annotated[Path | None, typer.Option("--kubeconfig", help="The kubeconfig file.")] = None,
    output: Annotated[Format | None, typer.Option("--output", "-o", help="Output format (table).")] = None,
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass  # commands read these from the context


add(app, "status", status.status, panel=Area.LOOK)
add(app, "top", top.top, panel=Area.LOOK)
add(app, "partitions", partitions.partitions, panel=Area.LOOK)
add(app, "hosts", hosts.hosts, panel=Area.LOOK)
add(app, "batches", batches.batches, panel=Area.LOOK)
add(app, "table", table.table, panel=Area.LOOK)
add(app, "logs", logs.logs, panel=Area.LOOK)
add(app, "suspend", suspend.suspend, panel=Area.STEER)
add(app, "resume", suspend.resume, panel=Area.STEER)
add(app, "doctor", doctor.doctor, panel=Area.CHECK)
add(app, "replay", replay.replay, panel=Area.STEER)
add(app, "plan", plan.plan, panel=Area.START)
add(app, "init", init.init, panel=Area.START)
forwarded.add_to(app)
app.add_typer(gap.group, name="gap", rich_help_panel=Area.STEER)


@guarded()
def main(arguments: Sequence[str] | None = None, *, connect: Callable[[Options], Cluster] = kubernetes) -> int:
    """Run a command.

    Args:
        arguments: Arguments; None: those of the command line.
        connect: Returns the cluster.

    Returns:
        The exit code.
    """
    command = typer.main.get_command(app)
    arguments = (sys.argv[1:] if arguments is None else list(arguments)) or ["--help"]
    try:
        answer = command.main(
            arguments,
            prog_name=PROGRAM,
            standalone_mode=False,
            obj=Session(connect=connect),
        )
    except CliError as error:
        _complain(str(error), error.remedy)
        return error.exit_code
    except TyperException as error:
        _complain(error.format_message(), f"see {PROGRAM} --help")
        return ExitCode.FAILED
    except (typer.Abort, KeyboardInterrupt):
        _complain("stopped")
        return ExitCode.FAILED
    except BrokenPipeError:
        sys.stdout = None  # the reader closed the pipe
        return ExitCode.OK
    return answer if isinstance(answer, int) else ExitCode.OK


def _complain(message: str, remedy: str = "") -> None:
    err = console(stderr=True)
    err.print(f"error: {redact(message)}", style=BAD)
    if remedy:
        err.print(f"  {redact(remedy)}")


if __name__ == "__main__":
    sys.exit(main())
