"""`certify`: check whether Azure behaves as hosts assume."""

from typing import Annotated

import typer

from eventconsumer_cli.hosttool import NewPod, answer
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.session import Session


def certify(
    session: Session,
    name: ConsumerName = None,
    *,
    consumer_group: Annotated[
        str,
        typer.Option("--consumer-group", help="A consumer group for the checks alone; refused if it has readers."),
    ],
    send: Annotated[
        bool, typer.Option("--send", help="Also checks that publish a few events, which the consumer reads.")
    ] = False,
    slow: Annotated[bool, typer.Option("--slow", help="Also checks that wait for minutes.")] = False,
    new_pod: NewPod = False,
) -> None:
    """Check whether the Event Hub and the storage accounts of a consumer behave as hosts assume.

    Does not disturb the consumer, and removes all that it creates. Exit code: 0 all assumptions hold that were checked,
    1 one does not hold, 2 not carried out or not decided.
    """
    chosen = [option for option, wanted in (("--send", send), ("--slow", slow)) if wanted]
    answer(session, name, ["certify", "--consumer-group", consumer_group, *chosen], new_pod=new_pod)
