"""`deadletters`: see events that the handler could not process, pass them again, or drop them."""

from collections.abc import Sequence
from typing import Annotated

import typer

from eventconsumer_cli.errors import Failed
from eventconsumer_cli.hosttool import NewPod, answer, change, end, toolbox
from eventconsumer_cli.kube.kinds import name_of
from eventconsumer_cli.options import ConsumerName, Yes, add
from eventconsumer_cli.session import Session

group = typer.Typer(
    no_args_is_help=True,
    help="Events that the handler could not process: see them, pass them to the handler again, or drop them.",
)

_Partitions = Annotated[
    list[str] | None, typer.Option("--partition", "-p", help="Dead letters of this partition only; may be repeated.")
]
_Numbers = Annotated[
    list[int] | None,
    typer.Option("--sequence-number", min=0, help="Only this event of one partition; may be repeated."),
]
_Every = Annotated[bool, typer.Option("--all", help="All dead letters.")]


def list_(
    session: Session,
    name: ConsumerName = None,
    *,
    partition: _Partitions = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="Number of newest dead letters (100); 0: all.")
    ] = None,
    new_pod: NewPod = False,
) -> None:
    """List dead letters with their errors and attempts, by partition and sequence number."""
    options = ["--limit", str(limit)] if limit is not None else []
    answer(session, name, ["deadletters", "list", *_partitions(partition), *options], new_pod=new_pod)


def show(
    session: Session,
    name: ConsumerName = None,
    *,
    partition: Annotated[str, typer.Option("--partition", "-p", help="Which partition.")],
    sequence_number: Annotated[int, typer.Option("--sequence-number", min=0, help="Of the event.")],
    new_pod: NewPod = False,
) -> None:
    """Show one dead letter: the event with its body, and the error with its traceback."""
    place = ["--partition", partition, "--sequence-number", str(sequence_number)]
    answer(session, name, ["deadletters", "show", *place], new_pod=new_pod)


def redrive(
    session: Session,
    name: ConsumerName = None,
    *,
    partition: _Partitions = None,
    sequence_number: _Numbers = None,
    every: _Every = False,
    yes: Yes = False,
    new_pod: NewPod = False,
) -> None:
    """Pass dead letters to the handler again, after you have corrected it.

    Shows how many letters match, asks for confirmation and writes a request for each. The host that owns the partition
    passes the event to the handler, between batches. If the handler succeeds, the dead letter is removed; if it fails
    again, the letter stays with the new error. Refused with handlerMode Transform.
    """
    selected = _selected(partition, sequence_number, every=every)
    consumer = session.consumer(name)
    with toolbox(session).at(consumer, new_pod=new_pod) as tool:
        question = f"Pass these dead letters of {name_of(consumer)} to its handler again?"
        ended = change(session, tool, ["deadletters", "redrive", *selected], question=question, yes=yes)
    end(ended)


def drop(
    session: Session,
    name: ConsumerName = None,
    *,
    partition: _Partitions = None,
    sequence_number: _Numbers = None,
    every: _Every = False,
    yes: Yes = False,
    new_pod: NewPod = False,
) -> None:
    """Remove dead letters for ever. With handlerMode Replace or Transform, these events are in no file either.

    Shows how many letters match, asks for confirmation and removes them. A record of their sequence numbers stays in
    storage; the command prints its name.
    """
    selected = _selected(partition, sequence_number, every=every)
    consumer = session.consumer(name)
    with toolbox(session).at(consumer, new_pod=new_pod) as tool:
        question = f"Remove these dead letters of {name_of(consumer)} for ever?"
        ended = change(session, tool, ["deadletters", "drop", *selected], question=question, yes=yes)
    end(ended)


def _selected(partitions: Sequence[str] | None, numbers: Sequence[int] | None, *, every: bool) -> list[str]:
    """The options that select letters.

    Raises:
        Failed: They select nothing, or contradict each other.
    """
    if every is bool(partitions):
        raise Failed("select dead letters: with --partition, or all of them with --all")
    if numbers and len(partitions or ()) != 1:
        raise Failed("--sequence-number needs exactly one --partition: each partition has its own numbers")
    chosen = [text for number in numbers or () for text in ("--sequence-number", str(number))]
    return [*_partitions(partitions), *chosen, *(["--all"] if every else [])]


def _partitions(partitions: Sequence[str] | None) -> list[str]:
    return [text for partition in partitions or () for text in ("--partition", partition)]


add(group, "list", list_)
add(group, "show", show)
add(group, "redrive", redrive)
add(group, "drop", drop)
