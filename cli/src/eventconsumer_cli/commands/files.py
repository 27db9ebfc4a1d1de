"""`files`: the drained files, in the order of their events."""

from typing import Annotated

import typer

from eventconsumer_cli.hosttool import NewPod, answer
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.session import Session


def files(
    session: Session,
    name: ConsumerName = None,
    *,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", "-p", help="Files of this partition only; may be repeated.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Committed since: ISO time, or an age such as 90m, 12h or 7d.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="Number of newest files (100); 0: all.")] = None,
    gaps: Annotated[
        bool, typer.Option("--gaps", help="Only files that record lost events, with their sequence numbers.")
    ] = False,
    new_pod: NewPod = False,
) -> None:
    """List the drained files, newest last, with event counts and sizes."""
    chosen = [*(("--partition", each) for each in partition or ()), ("--since", since), ("--limit", limit)]
    options = [text for option, value in chosen if value is not None for text in (option, str(value))]
    answer(session, name, ["files", *options, *(["--gaps"] if gaps else [])], new_pod=new_pod)
