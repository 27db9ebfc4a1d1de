"""`audit`: verify that every event is in exactly one file."""

from typing import Annotated

import typer

from eventconsumer_cli.hosttool import NewPod, answer
from eventconsumer_cli.kube import toolpod
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.session import Session

_SECONDS = 24 * 3600


def audit(
    session: Session,
    name: ConsumerName = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file: hashes and rows.")] = False,
    hub: Annotated[bool, typer.Option("--hub", help="Also query the hub for the lag.")] = False,
    new_pod: NewPod = False,
) -> None:
    """Check that every event is in exactly one file. Read-only.

    Exit code: 0 clean, 1 explained gaps, 2 violation, 3 not readable. With many files, use --new-pod to keep the load
    off the hosts. --deep always runs in a temporary pod: a host has no memory for the files.
    """
    chosen = [option for option, wanted in (("--deep", deep), ("--hub", hub)) if wanted]
    answer(
        session,
        name,
        ["audit", *chosen],
        new_pod=new_pod,
        seconds=_SECONDS,
        memory=toolpod.DEEP_MEMORY if deep else None,
    )
