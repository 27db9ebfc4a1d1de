"""The tools' commands and their options. Each command imports its module when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from eventconsumer_tools import options
from eventconsumer_tools.options import DEFAULT_CONFIG, Output
from eventconsumer_tools.output import run

checkpoint = typer.Typer(
    no_args_is_help=True,
    help="Show, export and import checkpoints, and set them while no host owns the partitions.",
)
hub = typer.Typer(no_args_is_help=True, help="Continue after the Event Hub lost events that are in files.")
deadletters = typer.Typer(
    no_args_is_help=True, help="Events that the handler could not process: see, redrive and drop."
)

AllowBehind = Annotated[
    bool,
    typer.Option("--allow-behind", help="Allow a position before the end of committed files or of handled events."),
]
AllowSkip = Annotated[
    bool,
    typer.Option(
        "--allow-skip", help="Allow a position beyond the processed events: only with a handler or shared leases."
    ),
]

Partitions = Annotated[list[str] | None, typer.Option("--partition", help="Only this partition; may be repeated.")]
Numbers = Annotated[
    list[int] | None,
    typer.Option("--sequence-number", min=0, help="Only this event of one partition; may be repeated."),
]
Every = Annotated[bool, typer.Option("--all", help="All dead letters.")]


def add_to(app: typer.Typer) -> None:
    """Add all commands to the program."""
    for command in (leases, files, lag, migrate, adopt, check):
        app.command()(command)
    app.add_typer(checkpoint, name="checkpoint")
    app.add_typer(hub, name="hub")
    app.add_typer(deadletters, name="deadletters")


def leases(config: options.Config = DEFAULT_CONFIG, output: options.OutputOption = Output.TABLE) -> None:
    """Show owner and checkpoint of each partition, as recorded in storage. Read-only.

    Exit code: 0 success, 1 none found, 3 not readable.
    """
    from eventconsumer_tools.commands.leases import leases as command

    run(command(config, output))


def files(
    *,
    partition: Partitions = None,
    since: Annotated[str | None, typer.Option("--since", help="ISO time, or an age such as 7d, 12h or 30m.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Number of newest files; 0: all.")] = 100,
    gaps: Annotated[bool, typer.Option("--gaps", help="Only files that record lost events.")] = False,
    config: options.Config = DEFAULT_CONFIG,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """List the files of the slot chains, newest last. Read-only.

    Exit code: 0 success, 1 none found, 3 not readable.
    """
    from eventconsumer_tools.commands.files import files as command

    run(command(config, output, partition or [], since, limit=limit, gaps=gaps))


def lag(config: options.Config = DEFAULT_CONFIG, output: options.OutputOption = Output.TABLE) -> None:
    """Query the hub for the number of events that are not in files yet. Read-only.

    Exit code: 0 success, 3 hub or storage does not answer.
    """
    from eventconsumer_tools.commands.lag import lag as command

    run(command(config, output))


@checkpoint.command("show")
def show(config: options.Config = DEFAULT_CONFIG, output: options.OutputOption = Output.TABLE) -> None:
    """Show all checkpoints and the end of the files. Read-only.

    Exit code: 0 success, 1 none found, 3 not readable.
    """
    from eventconsumer_tools.commands.checkpoint import show_all

    run(show_all(config, output))


@checkpoint.command("export")
def export(
    file: Annotated[str, typer.Argument(help="Output file; - for stdout.")],
    config: options.Config = DEFAULT_CONFIG,
) -> None:
    """Write all checkpoints as one JSON document for `checkpoint import`. Read-only.

    Exit code: 0 success, 1 none found, 3 not readable.
    """
    from eventconsumer_tools.commands.checkpoint import export_to

    run(export_to(config, file))


@checkpoint.command("set")
def set_(  # noqa: PLR0917 - the options of the command
    partition: Annotated[str, typer.Option("--partition", help="Partition id.")],
    sequence_number: Annotated[
        int | None,
        typer.Option("--sequence-number", min=-1, help="Sequence number of the last event that counts as processed."),
    ] = None,
    offset: Annotated[str | None, typer.Option("--offset", help="The same, by the event's offset.")] = None,
    yes: options.Yes = False,
    allow_behind: AllowBehind = False,
    allow_skip: AllowSkip = False,
    config: options.Config = DEFAULT_CONFIG,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """Move one partition's checkpoint. A copy of the old checkpoint is kept.

    Exit code: 0 done (without --yes: possible), 2 refused, 3 failed.
    """
    from eventconsumer_tools.commands.checkpoint import set_one

    run(
        set_one(
            config,
            output,
            partition,
            sequence_number,
            offset,
            yes=yes,
            allow_behind=allow_behind,
            allow_skip=allow_skip,
        )
    )


@checkpoint.command("import")
def import_(  # noqa: PLR0917 - the options of the command
    file: Annotated[str, typer.Argument(help="An export, or a copy of old checkpoints; - for stdin.")],
    yes: options.Yes = False,
    allow_behind: AllowBehind = False,
    allow_skip: AllowSkip = False,
    config: options.Config = DEFAULT_CONFIG,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """Restore checkpoints from a document, all or none. A copy of each old checkpoint is kept.

    Exit code: 0 done (without --yes: possible), 2 refused, 3 failed.
    """
    from eventconsumer_tools.commands.checkpoint import import_from

    run(import_from(config, output, file, yes=yes, allow_behind=allow_behind, allow_skip=allow_skip))


def migrate(  # noqa: PLR0917 - the options of the command
    kind: Annotated[str, typer.Option("--from", help="event-processor-host, or azure-sdk.")],
    container: Annotated[str, typer.Option("--container", help="Container of the old leases or checkpoints.")],
    prefix: Annotated[str, typer.Option("--prefix", help="Prefix of their names.")] = "",
    consumer_group: Annotated[
        str | None,
        typer.Option("--consumer-group", help="Consumer group of the old program. Default: the consumer's own."),
    ] = None,
    connection_string_file: Annotated[
        Path | None,
        typer.Option(
            "--connection-string-file",
            help="File with the old storage account's connection string. Default: the account of spec.checkpointStore.",
        ),
    ] = None,
    yes: options.Yes = False,
    config: options.Config = DEFAULT_CONFIG,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """Take over the checkpoints of an EventProcessorHost or of an Azure SDK's event processor, without loss of events.

    Exit code: 0 done (without --yes: possible), 1 no checkpoints found, 2 refused, 3 failed.
    """
    from eventconsumer_tools.commands.migrate import From
    from eventconsumer_tools.commands.migrate import migrate as command

    if kind not in {*From}:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(From)}", param_hint="--from")
    run(
        command(
            config,
            output,
            From(kind),
            container=container,
            prefix=prefix,
            consumer_group=consumer_group,
            connection_string_file=connection_string_file,
            yes=yes,
        )
    )


def adopt(
    yes: options.Yes = False, config: options.Config = DEFAULT_CONFIG, output: options.OutputOption = Output.TABLE
) -> None:
    """Continue the files of another EventConsumer. spec.sink of this EventConsumer names the files.

    Exit code: 0 done (without --yes: possible), 1 no files found, 2 refused, 3 failed.
    """
    from eventconsumer_tools.commands.adopt import adopt as command

    run(command(config, output, yes=yes))


@hub.command("accept")
def accept(
    yes: options.Yes = False, config: options.Config = DEFAULT_CONFIG, output: options.OutputOption = Output.TABLE
) -> None:
    """Continue with the hub's present events after the hub lost events that are in files.

    Exit code: 0 done (without --yes: possible), 1 nothing to accept, 2 refused, 3 failed.
    """
    from eventconsumer_tools.commands.hub import run as command

    run(command(config, output, yes=yes, reposition=False))


@hub.command("reposition")
def reposition(
    yes: options.Yes = False, config: options.Config = DEFAULT_CONFIG, output: options.OutputOption = Output.TABLE
) -> None:
    """Apply a changed spec.startingPosition to partitions without a file; the others continue where they are.

    Exit code: 0 done (without --yes: possible), 1 nothing to change, 2 refused, 3 failed.
    """
    from eventconsumer_tools.commands.hub import run as command

    run(command(config, output, yes=yes, reposition=True))


@deadletters.command("list")
def list_(
    partition: Partitions = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Number of newest dead letters; 0: all.")] = 100,
    config: options.Config = DEFAULT_CONFIG,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """List dead letters with error and attempts, by partition and sequence number. Read-only.

    Exit code: 0 success, 1 none found, 3 not readable.
    """
    from eventconsumer_tools.commands.deadletters import list_all

    run(list_all(config, output, partition or [], limit))


@deadletters.command("show")
def show_letter(
    partition: Annotated[str, typer.Option("--partition", help="Partition id.")],
    sequence_number: Annotated[int, typer.Option("--sequence-number", min=0, help="Of the event.")],
    config: options.Config = DEFAULT_CONFIG,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """Show one dead letter: the event, the error with its traceback, and the attempts. Read-only.

    Exit code: 0 success, 1 not found, 3 not readable.
    """
    from eventconsumer_tools.commands.deadletters import show_one

    run(show_one(config, output, partition, sequence_number))


@deadletters.command("redrive")
def redrive(  # noqa: PLR0917 - the options of the command
    partition: Partitions = None,
    sequence_number: Numbers = None,
    every: Every = False,
    yes: options.Yes = False,
    config: options.Config = DEFAULT_CONFIG,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """Pass dead letters to the handler again, after you have corrected it. Not with handlerMode Transform.

    Exit code: 0 done (without --yes: possible), 1 none found, 2 refused, 3 failed.
    """
    from eventconsumer_tools.commands.deadletters import redrive_some, selection

    async def command() -> int:
        selected = selection(partition or [], sequence_number or [], every=every)
        return await redrive_some(config, output, selected, yes=yes)

    run(command())


@deadletters.command("drop")
def drop(  # noqa: PLR0917 - the options of the command
    partition: Partitions = None,
    sequence_number: Numbers = None,
    every: Every = False,
    yes: options.Yes = False,
    config: options.Config = DEFAULT_CONFIG,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """Remove dead letters for ever. A record of their sequence numbers is kept.

    Exit code: 0 done (without --yes: possible), 1 none found, 3 failed.
    """
    from eventconsumer_tools.commands.deadletters import drop_some, selection

    async def command() -> int:
        selected = selection(partition or [], sequence_number or [], every=every)
        return await drop_some(config, output, selected, yes=yes)

    run(command())


def check(
    config_json: Annotated[
        str | None, typer.Option("--config-json", help="HostConfig to check instead, as JSON; - reads it from stdin.")
    ] = None,
    config: options.Config = DEFAULT_CONFIG,
    output: options.OutputOption = Output.TABLE,
) -> None:
    """Check whether hosts can reach the hub and the storage account, and may write there.

    Exit code: 0 all checks passed, 2 a check failed, 3 no configuration.
    """
    from eventconsumer_tools.commands.check import check as command

    run(command(config, output, config_json))
