"""`hub`: continue with a hub that lost events which are in files, or from another starting position."""

import typer

from eventconsumer_cli.errors import ExitCode
from eventconsumer_cli.hosttool import NewPod, change, end, toolbox
from eventconsumer_cli.kube.kinds import name_of
from eventconsumer_cli.options import ConsumerName, Yes, add
from eventconsumer_cli.session import Session

group = typer.Typer(
    no_args_is_help=True,
    help="Continue after a forced failover, with an Event Hub that was created again, or at another starting position.",
)


def accept(session: Session, name: ConsumerName = None, *, yes: Yes = False, new_pod: NewPod = False) -> None:
    """Continue with the hub's present events after the condition HubDiverged.

    Shows where files and hub diverge in each partition, asks for confirmation and starts a new segment of the files
    there. Existing files are not changed and their events are not read again. Suspend the consumer first: the
    comparison needs partitions without a reader.
    """
    _run(session, name, "accept", "Continue {} with the present events of its Event Hub?", yes=yes, new_pod=new_pod)


def reposition(session: Session, name: ConsumerName = None, *, yes: Yes = False, new_pod: NewPod = False) -> None:
    """Apply a changed spec.startingPosition to partitions without a file.

    Shows where partitions begin, asks for confirmation and starts a new segment of the files. Partitions with files
    continue where they are. Change the spec and suspend the consumer first: partitions must have no reader.
    """
    _run(session, name, "reposition", "Begin partitions of {} without a file there?", yes=yes, new_pod=new_pod)


def _run(session: Session, name: str | None, command: str, question: str, *, yes: bool, new_pod: bool) -> None:
    consumer = session.consumer(name)
    with toolbox(session).at(consumer, new_pod=new_pod) as tool:
        ended = change(session, tool, ["hub", command], question=question.format(name_of(consumer)), yes=yes)
    if ended.exit_code == ExitCode.REFUSED:
        session.out.note(f"kubectl eventconsumer suspend {name_of(consumer)} --wait stops its hosts")
    end(ended)


add(group, "accept", accept)
add(group, "reposition", reposition)
