"""`audit`: whether every event stands in exactly one file."""

from typing import Annotated

import typer

from eventconsumer_cli.hosttool import NewPod, answer
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.session import Session

_SECONDS = 24 * 3600


def audit(
    session: Session,
    name: ConsumerName = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file: hashes and rows.")] = False,
    hub: Annotated[bool, typer.Option("--hub", help="Ask the hub too, for the lag.")] = False,
    new_pod: NewPod = False,
) -> None:
    """Check that every event stands in exactly one file; reads only.

    Ends with 0 clean, 1 explained gaps, 2 a violation, 3 not readable. With many files --new-pod leaves hosts their
    memory and processor time.
    """
    chosen = [option for option, wanted in (("--deep", deep), ("--hub", hub)) if wanted]
    answer(session, name, ["audit", *chosen], new_pod=new_pod, seconds=_SECONDS)
