"""`checkpoint`: show, move, save and restore the checkpoints of partitions."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_cli.errors import ExitCode, Failed, RefusedError
from eventconsumer_cli.hosttool import NewPod, answer, change, end, read_input, toolbox
from eventconsumer_cli.kube.kinds import name_of
from eventconsumer_cli.options import ConsumerName, Yes, add
from eventconsumer_cli.session import Session

group = typer.Typer(
    no_args_is_help=True,
    help="Show, move, save and restore checkpoints. Suspend the consumer before you change them.",
)

_File = Annotated[str, typer.Option("--file", "-f", metavar="FILE", help="Local file; -: stdin or stdout.")]


_AllowBehind = Annotated[
    bool,
    typer.Option(
        "--allow-behind",
        help="Allow a position before the end of committed files: events are handled again, but not written again.",
    ),
]
_AllowSkip = Annotated[
    bool,
    typer.Option(
        "--allow-skip", help="Allow to skip events that are in no file: only with a handler or shared leases."
    ),
]


def show(session: Session, name: ConsumerName = None, new_pod: NewPod = False) -> None:
    """Show the checkpoint of each partition."""
    answer(session, name, ["checkpoint", "show"], new_pod=new_pod)


def set_(
    session: Session,
    name: ConsumerName = None,
    *,
    partition: Annotated[str, typer.Option("--partition", "-p", help="Which partition.")],
    sequence_number: Annotated[
        int | None,
        typer.Option("--sequence-number", min=-1, help="Continue after the event with this sequence number."),
    ] = None,
    offset: Annotated[str | None, typer.Option("--offset", help="Continue after the event with this offset.")] = None,
    allow_behind: _AllowBehind = False,
    allow_skip: _AllowSkip = False,
    yes: Yes = False,
    new_pod: NewPod = False,
) -> None:
    """Move one partition's checkpoint; refused while a host holds the partition.

    Shows the plan and asks for confirmation. A backup of the old checkpoints stays in storage; the command prints its
    name.
    """
    if (sequence_number is None) == (offset is None):
        raise Failed("specify the position: exactly one of --sequence-number and --offset")
    place = ["--offset", offset] if offset is not None else ["--sequence-number", str(sequence_number)]
    consumer = session.consumer(name)
    with toolbox(session).at(consumer, new_pod=new_pod) as tool:
        arguments = ["checkpoint", "set", "--partition", partition, *place, *_allowed(allow_behind, allow_skip)]
        question = f"Move the checkpoint of partition {partition} of {name_of(consumer)}?"
        ended = change(session, tool, arguments, question=question, yes=yes)
    _hint(session, consumer, ended.exit_code)
    end(ended)


def export(session: Session, name: ConsumerName = None, *, file: _File = "-", new_pod: NewPod = False) -> None:
    """Save all checkpoints as a JSON document."""
    with toolbox(session).at(session.consumer(name), new_pod=new_pod) as tool:
        ended = tool.run(["checkpoint", "export", "-"])
    end(ended)
    if file == "-":
        session.out.raw(ended.output.decode())
        return
    _write(Path(file), ended.output)
    session.out.note(f"saved to {file}; restore with: kubectl eventconsumer checkpoint import -f {file}")


def import_(
    session: Session,
    name: ConsumerName = None,
    *,
    file: _File,
    allow_behind: _AllowBehind = False,
    allow_skip: _AllowSkip = False,
    yes: Yes = False,
    new_pod: NewPod = False,
) -> None:
    """Restore saved checkpoints; refused while hosts hold partitions.

    Shows the plan and asks for confirmation. A backup of the old checkpoints stays in storage; the command prints its
    name.
    """
    if file == "-" and not yes:
        raise RefusedError("cannot ask for confirmation while the document is on stdin", "add --yes, or name a file")
    consumer, document = session.consumer(name), read_input(file)
    with toolbox(session).at(consumer, new_pod=new_pod) as tool:
        arguments = ["checkpoint", "import", "-", *_allowed(allow_behind, allow_skip)]
        question = f"Write these checkpoints for {name_of(consumer)}?"
        ended = change(session, tool, arguments, question=question, yes=yes, stdin=document)
    _hint(session, consumer, ended.exit_code)
    end(ended)


def _allowed(behind: bool, skip: bool) -> list[str]:
    return [option for option, wanted in (("--allow-behind", behind), ("--allow-skip", skip)) if wanted]


def _hint(session: Session, consumer: Manifest, code: int) -> None:
    if code == ExitCode.REFUSED and not consumer["spec"].get("suspend"):
        session.out.note(
            f"hosts are running: `kubectl eventconsumer suspend {name_of(consumer)}` releases all partitions"
        )


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


add(group, "show", show)
add(group, "set", set_)
add(group, "export", export)
add(group, "import", import_)
