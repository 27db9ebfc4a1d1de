"""Common code of commands that run a program of the host image in the cluster and pass its output on.

The program prints the requested format (`-o`); its exit code is the command's. A program that changes data prints its
plan and changes nothing until it is run again with --yes; so the user is asked in between.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from eventconsumer_cli.errors import ExitCode, Failed, RefusedError
from eventconsumer_cli.kube import toolpod
from eventconsumer_cli.kube.exec import shell_of
from eventconsumer_cli.kube.tool import Answer, Tool
from eventconsumer_cli.kube.toolbox import LIFETIME_SECONDS, Toolbox
from eventconsumer_cli.output import Format
from eventconsumer_cli.session import Session

NewPod = Annotated[bool, typer.Option("--new-pod", help="Run in a temporary pod, even if a host runs.")]


def toolbox(session: Session) -> Toolbox:
    """Location of the programs of this session."""
    return Toolbox(session.cluster, shell_of(session.cluster), say=session.out.note)


def format_options(session: Session) -> list[str]:
    """The tool's `-o`.

    Raises:
        Failed: The programs do not support the format.
    """
    chosen = session.options.output or Format.TABLE
    if chosen is Format.NAME:
        raise Failed("-o name: the output of this command has no names", "use table, json or yaml")
    return ["-o", chosen.value]


def environment() -> dict[str, str]:
    """Variables by which the program prints for this terminal; none where the answer goes to no terminal.

    It runs without a terminal of its own, for one would mix its answer with its remarks. Rich, with which it prints,
    takes TTY_COMPATIBLE for one: so colours come through. Sequences that move the cursor do not: the pod may be under
    the control of an attacker.
    """
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        return {"COLUMNS": "150"}
    columns = shutil.get_terminal_size().columns
    found = {"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0", "TERM": "xterm-256color", "COLUMNS": str(columns)}
    return found | ({"NO_COLOR": "1"} if os.environ.get("NO_COLOR") else {})


def answer(
    session: Session,
    name: str | None,
    arguments: Sequence[str],
    *,
    new_pod: bool = False,
    seconds: int = LIFETIME_SECONDS,
    memory: toolpod.Memory | None = None,
) -> None:
    """Run a read-only program, pass its output on, and end with its exit code.

    Args:
        session: The run.
        name: The consumer.
        arguments: Arguments of the program, without `-o`.
        new_pod: Use a temporary pod.
        seconds: Lifetime of a temporary pod.
        memory: Of a temporary pod, which is then always used; None: that of a host.
    """
    options = format_options(session)
    with toolbox(session).at(session.consumer(name), new_pod=new_pod, seconds=seconds, memory=memory) as tool:
        ended = tool.run([*arguments, *options], environment=environment(), show=True)
    end(ended)


def change(
    session: Session, tool: Tool, arguments: Sequence[str], *, question: str, yes: bool, stdin: bytes | None = None
) -> Answer:
    """Show the plan of a program, ask for confirmation, and carry it out.

    Args:
        session: The run.
        tool: Runs the program.
        arguments: Arguments of the program; it prints its plan unless --yes is among them.
        question: Asked after the plan.
        yes: Do not ask for confirmation.
        stdin: Input of the program, for each run.

    Raises:
        RefusedError: The user did not confirm; nothing was changed.
    """
    options = format_options(session)
    if not yes:
        plan = tool.run([*arguments, *options], stdin=stdin, environment=environment(), show=True)
        if plan.exit_code != ExitCode.OK:
            return plan
        if not session.out.confirm(question):
            raise RefusedError("nothing was changed", "repeat the command with --yes to carry out the plan")
    return tool.run([*arguments, "--yes", *options], stdin=stdin, environment=environment(), show=True)


def end(ended: Answer) -> None:
    """End the command with the program's exit code; the program has printed the cause."""
    if ended.exit_code:
        raise typer.Exit(ended.exit_code)


def read_input(file: str) -> bytes:
    """A file's content, or stdin for `-`.

    Raises:
        Failed: The file cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Failed(f"cannot read {file}: {error.strerror}") from error
