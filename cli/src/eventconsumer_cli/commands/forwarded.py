"""The commands that the program of the host image carries out in a pod, made from their declarations."""

import inspect
from functools import partial
from typing import Any

import typer

from eventconsumer_api.commands import COMMANDS, GROUPS, Area, Command, flag
from eventconsumer_cli.options import ConsumerName, add_made
from eventconsumer_cli.session import Session

_NAME = inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ConsumerName)
_NEW_POD = flag("--new-pod", "Run in a temporary pod, even if a host runs.")


def add_to(app: typer.Typer) -> None:
    """Add them to the program."""
    groups = {name: typer.Typer(no_args_is_help=True, help=text) for name, text in GROUPS.items()}
    for command in COMMANDS:
        if command.in_plugin:
            own = [
                each.parameter(typer.Option(*each.flags, help=each.help, min=each.least))
                for each in (*command.options, _NEW_POD)
            ]
            run = partial(_run, command)
            where = groups.get(command.group, app)
            add_made(where, command.name, run, [_NAME, *own], text=command.help, panel=command.area)
    for name, group in groups.items():
        app.add_typer(group, name=name, rich_help_panel=Area.STEER)


def _run(command: Command, session: Session, *, name: str | None, new_pod: bool, **values: Any) -> None:
    from eventconsumer_cli.hosttool import forward

    forward(session, command, name, values, new_pod=new_pod)
