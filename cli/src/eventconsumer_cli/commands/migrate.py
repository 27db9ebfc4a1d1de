"""`migrate`: continue at the position of another program."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from eventconsumer_cli.errors import RefusedError
from eventconsumer_cli.hosttool import NewPod, change, end, read_input, toolbox
from eventconsumer_cli.kube.kinds import name_of
from eventconsumer_cli.options import ConsumerName, Yes
from eventconsumer_cli.session import Session

_STDIN = "/dev/stdin"


class Source(StrEnum):
    """Source of the positions."""

    EVENT_PROCESSOR_HOST = "event-processor-host"
    AZURE_SDK = "azure-sdk"


def migrate(
    session: Session,
    name: ConsumerName = None,
    *,
    source: Annotated[
        Source, typer.Option("--from", help="Layout of the old checkpoints.")
    ] = Source.EVENT_PROCESSOR_HOST,
    container: Annotated[str, typer.Option("--container", help="Container of the old leases or checkpoints.")],
    prefix: Annotated[str | None, typer.Option("--prefix", help="Their folder in the container.")] = None,
    consumer_group: Annotated[
        str | None,
        typer.Option("--consumer-group", help="Consumer group of the old program. Default: the consumer's own."),
    ] = None,
    hub_name: Annotated[
        str | None, typer.Option("--hub-name", help="Event Hub name in the paths of an Azure SDK's checkpoints.")
    ] = None,
    connection_string_file: Annotated[
        Path | None,
        typer.Option(
            "--connection-string-file",
            help="Local file with the old storage account's connection string. Default: the account of the leases.",
        ),
    ] = None,
    yes: Yes = False,
    new_pod: NewPod = False,
) -> None:
    """Take over the checkpoints of an EventProcessorHost or of an Azure SDK's event processor.

    Shows the new position of each partition, asks for confirmation and writes the checkpoints. Stop the old program and
    suspend the consumer first: `kubectl eventconsumer suspend`.
    """
    consumer = session.consumer(name)
    if yes is False and str(connection_string_file) == "-":
        raise RefusedError(
            "cannot ask for confirmation while the connection string is on stdin", "add --yes, or name a file"
        )
    arguments = ["migrate", "--from", source.value, "--container", container]
    for option, value in (("--prefix", prefix), ("--consumer-group", consumer_group), ("--hub-name", hub_name)):
        arguments += [option, value] if value is not None else []
    secret = read_input(str(connection_string_file)) if connection_string_file else None
    if secret is not None:
        # On stdin: arguments are visible in the list of processes.
        arguments += ["--connection-string-file", _STDIN]
    with toolbox(session).at(consumer, new_pod=new_pod) as tool:
        question = f"Write these checkpoints for {name_of(consumer)}?"
        ended = change(session, tool, arguments, question=question, yes=yes, stdin=secret)
    end(ended)
