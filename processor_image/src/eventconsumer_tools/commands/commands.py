"""Makes the program's commands from their declarations. Each imports its code when it runs."""

from collections.abc import Callable, Coroutine, Iterable
from pkgutil import resolve_name
from typing import Any

import typer

from eventconsumer_api.commands import COMMANDS, GROUPS, OUTPUT, Area, Command, Option, Stream, function
from eventconsumer_tools.options import CONFIG
from eventconsumer_tools.output import run

CODE = {
    "leases": "leases:leases",
    "files": "files:files",
    "lag": "lag:lag",
    "columns infer": "columns:infer_all",
    "errors": "errors:errors",
    "retention": "retention:retention",
    "check": "check:check",
    "migrate": "migrate:migrate",
    "adopt": "adopt:adopt",
    "checkpoint show": "checkpoint:show_all",
    "checkpoint set": "checkpoint:set_one",
    "checkpoint export": "checkpoint:export_to",
    "checkpoint import": "checkpoint:import_from",
    "hub accept": "hub:accept",
    "hub reposition": "hub:reposition",
    "deadletters list": "deadletters:list_all",
    "deadletters show": "deadletters:show_one",
    "deadletters redrive": "deadletters:redrive_some",
    "deadletters drop": "deadletters:drop_some",
}
"""Module and function of the commands that this package carries out."""


def code_of(command: Command) -> Callable[..., Coroutine[Any, Any, int]]:
    """The function that carries a command out: it takes the values of the options by name."""
    found: Callable[..., Coroutine[Any, Any, int]] = resolve_name(f"{__package__}.{CODE[command.path]}")
    return found


def add_to(app: typer.Typer) -> None:
    """Add the commands that this package carries out to the program."""
    groups = {name: typer.Typer(no_args_is_help=True, help=text) for name, text in GROUPS.items()}
    for command in COMMANDS:
        if command.path in CODE:
            add(groups.get(command.group, app), command, _tool(command), options_of(command))
    for name, group in groups.items():
        app.add_typer(group, name=name, rich_help_panel=Area.STEER)


def options_of(command: Command) -> tuple[Option, ...]:
    """The options that a command has in this program alone."""
    return (CONFIG,) if command.file(Stream.STDOUT) else (CONFIG, OUTPUT)


def add(app: typer.Typer, command: Command, call: Callable[..., object], more: Iterable[Option]) -> None:
    """Add a command.

    Args:
        app: The program, or the command's group.
        command: The declaration.
        call: Carries it out; it takes the values of the options by name.
        more: Options that it has in this program alone.
    """

    def checked(**values: object) -> None:
        if mistake := command.mistake(values):
            raise typer.BadParameter(mistake)
        call(**values)

    parameters = [
        each.parameter(typer.Option(*each.flags, help=each.help, min=each.least, envvar=each.environment))
        for each in (*command.options, *more)
    ]
    made = function(checked, parameters, command.help)
    app.command(command.name, rich_help_panel=command.area)(made)


def _tool(command: Command) -> Callable[..., object]:
    return lambda **values: run(code_of(command)(**values))
