"""Common code of commands that run a program of the host image in the cluster and pass its output on.

The program prints the requested format (`-o`); its exit code is the command's. A program that changes data prints its
plan and changes nothing until it is run again with --yes; so the user is asked in between.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from eventconsumer_api.commands import AUDIT, YES, Command, Stream
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_cli.errors import ExitCode, Failed, RefusedError
from eventconsumer_cli.kube import toolpod
from eventconsumer_cli.kube.exec import shell_of
from eventconsumer_cli.kube.kinds import name_of
from eventconsumer_cli.kube.tool import ProgramResult, Tool
from eventconsumer_cli.kube.toolbox import LIFETIME_SECONDS, Toolbox
from eventconsumer_cli.output import Format
from eventconsumer_cli.session import Session

_AUDIT_SECONDS = 24 * 3600


def toolbox(session: Session) -> Toolbox:
    """Location of the programs of this session."""
    return Toolbox(session.cluster, shell_of(session.cluster), say=session.out.note)


def _output_of(session: Session) -> Format:
    chosen = session.options.output or Format.TABLE
    if chosen is Format.NAME:
        raise Failed("-o name: the output of this command has no names", "use table, json or yaml")
    return chosen


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


def forward(session: Session, command: Command, name: str | None, values: dict[str, Any], *, new_pod: bool) -> None:
    """Run a command in a pod, pass its output on, and end with its exit code.

    Args:
        session: The run.
        command: The command.
        name: The consumer.
        values: Values of its options.
        new_pod: Use a temporary pod.

    Raises:
        Failed: The options contradict each other, or a file cannot be read or written.
        RefusedError: The user did not confirm, or cannot; nothing was changed.
    """
    if mistake := command.mistake(values):
        raise Failed(mistake)
    read, written = command.file(Stream.STDIN), command.file(Stream.STDOUT)
    file, yes = read and values[read.name], values.pop("yes", False)
    if file == "-" and not yes:
        raise RefusedError("cannot ask for confirmation while the input is on stdin", "add --yes, or name a file")
    arguments = command.arguments(**values, **({} if written else {"output": _output_of(session)}))
    consumer, stdin = session.consumer(name), _read(file) if file else None
    seconds = _AUDIT_SECONDS if command is AUDIT else LIFETIME_SECONDS
    memory = toolpod.DEEP_MEMORY if values.get("deep") else None
    with toolbox(session).at(consumer, new_pod=new_pod, seconds=seconds, memory=memory) as tool:
        if command.changes:
            question = command.question.format(consumer=name_of(consumer), **values)
            ended = _change(session, tool, arguments, stdin, question=question, yes=yes)
        else:
            ended = tool.run(arguments, environment=environment(), show=written is None)
    if ended.exit_code:
        if ended.exit_code == ExitCode.REFUSED and command.changes:
            _hint(session, command, consumer)
        raise typer.Exit(ended.exit_code)
    if written and (target := values[written.name]) != "-":
        _write(Path(target), ended.output)
        session.out.note(f"saved to {target}")
    elif written:
        session.out.raw(ended.output.decode())


def _change(
    session: Session, tool: Tool, arguments: Sequence[str], stdin: bytes | None, *, question: str, yes: bool
) -> ProgramResult:
    """Show the plan, ask for confirmation, and carry it out: the program prints its plan unless --yes is given."""
    if not yes:
        plan = tool.run(arguments, stdin=stdin, environment=environment(), show=True)
        if plan.exit_code != ExitCode.OK:
            return plan
        if not session.out.confirm(question):
            raise RefusedError("nothing was changed", "repeat the command with --yes to carry out the plan")
    return tool.run([*arguments, YES.flag], stdin=stdin, environment=environment(), show=True)


def _hint(session: Session, command: Command, consumer: Manifest) -> None:
    if command.path == "adopt":
        session.out.note("`kubectl eventconsumer doctor` names the consumers that share files, leases or an output")
    elif command.group != "deadletters" and not consumer["spec"].get("suspend"):
        session.out.note(f"kubectl eventconsumer suspend {name_of(consumer)} --wait stops its hosts")


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Failed(f"cannot read {file}: {error.strerror}") from error


def _write(path: Path, content: bytes) -> None:
    """Replace the file atomically.

    Raises:
        Failed: The file cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as target:
                target.write(content)
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise Failed(f"cannot write {path}: {error.strerror}") from error
