"""The program `kubectl-eventconsumer`: its commands and exit codes."""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.shared.terminal import guarded
from eventconsumer_cli.commands import (
    adopt,
    audit,
    batches,
    certify,
    checkpoint,
    deadletters,
    doctor,
    files,
    gap,
    hosts,
    hub,
    init,
    lag,
    leases,
    logs,
    migrate,
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

LOOK, STEER, CHECK, START = "Look", "Steer", "Check", "Start"

app = typer.Typer(
    name=PROGRAM,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Inspect, control and check EventConsumers, which drain Azure Event Hubs into files.",
    epilog=EXIT_CODES,
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


add(app, "status", status.status, panel=LOOK)
add(app, "top", top.top, panel=LOOK)
add(app, "partitions", partitions.partitions, panel=LOOK)
add(app, "hosts", hosts.hosts, panel=LOOK)
add(app, "batches", batches.batches, panel=LOOK)
add(app, "table", table.table, panel=LOOK)
add(app, "logs", logs.logs, panel=LOOK)
add(app, "suspend", suspend.suspend, panel=STEER)
add(app, "resume", suspend.resume, panel=STEER)
add(app, "leases", leases.leases, panel=LOOK)
add(app, "files", files.files, panel=LOOK)
add(app, "lag", lag.lag, panel=LOOK)
add(app, "audit", audit.audit, panel=CHECK)
add(app, "certify", certify.certify, panel=CHECK)
add(app, "doctor", doctor.doctor, panel=CHECK)
add(app, "replay", replay.replay, panel=STEER)
add(app, "plan", plan.plan, panel=START)
add(app, "init", init.init, panel=START)
add(app, "migrate", migrate.migrate, panel=START)
add(app, "adopt", adopt.adopt, panel=START)
app.add_typer(checkpoint.group, name="checkpoint", rich_help_panel=STEER)
app.add_typer(gap.group, name="gap", rich_help_panel=STEER)
app.add_typer(hub.group, name="hub", rich_help_panel=STEER)
app.add_typer(deadletters.group, name="deadletters", rich_help_panel=STEER)


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
