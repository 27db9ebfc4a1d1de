"""Turns functions into commands, which accept the common options after their name and before it.

kubectl accepts no option before a plugin's name, so users write `kubectl eventconsumer status -n shop`.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from eventconsumer_api import commands
from eventconsumer_cli.output import Format
from eventconsumer_cli.session import Options, Session

_PANEL = "Options of every command"


def complete_consumer(context: typer.Context, incomplete: str) -> list[str]:
    """Names of consumers, for completion."""
    from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, name_of

    session = session_of(context)
    return _complete(
        lambda: [name_of(each) for each in session.cluster.list(EVENT_CONSUMER, session.namespace)], incomplete
    )


def complete_namespace(context: typer.Context, incomplete: str) -> list[str]:
    """Names of namespaces, for completion."""
    from eventconsumer_cli.kube.kinds import NAMESPACE, name_of

    session = session_of(context)
    return _complete(lambda: [name_of(each) for each in session.cluster.list(NAMESPACE, "")], incomplete)


def _complete(names: Callable[[], list[str]], incomplete: str) -> list[str]:
    try:
        return sorted(name for name in names() if name.startswith(incomplete))
    except Exception:  # completion must not print errors into the command line
        return []


ConsumerName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="The EventConsumer. Default: the only one in the namespace.",
        autocompletion=complete_consumer,
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def shared(  # only the signature is used: commands copy it
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Namespace.", autocompletion=complete_namespace, rich_help_panel=_PANEL),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="All namespaces.", rich_help_panel=_PANEL)
    ] = False,
    context: Annotated[
        str | None, typer.Option("--context", help="Context of the kubeconfig.", rich_help_panel=_PANEL)
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="The kubeconfig file.", rich_help_panel=_PANEL)
    ] = None,
    output: Annotated[
        Format | None, typer.Option("--output", "-o", help="Output format (table).", rich_help_panel=_PANEL)
    ] = None,
) -> Options:
    """The options of every command."""
    return Options(namespace, all_namespaces, context, kubeconfig, output)


def session_of(context: typer.Context) -> Session:
    """The session of a context, with the options given so far: after the command, otherwise before it."""
    root = context.find_root()
    session = root.obj if isinstance(root.obj, Session) else Session()
    return Session(_said(context.params).over(_said(root.params)), session.connect)


def _said(values: Mapping[str, Any]) -> Options:
    # In completion the words are unparsed.
    return Options(
        namespace=values.get("namespace"),
        all_namespaces=bool(values.get("all_namespaces")),
        context=values.get("context"),
        kubeconfig=Path(values["kubeconfig"]) if values.get("kubeconfig") else None,
        output=Format(values["output"]) if values.get("output") in list(Format) else None,
    )


def add(app: typer.Typer, name: str, function: Callable[..., None], *, panel: str = "") -> None:
    """Register a function as a command.

    Args:
        app: The program, or a group of commands in it.
        name: Name of the command.
        function: Takes a `Session` first, then its own arguments and options; its docstring is the help.
        panel: Heading under which the help lists it.
    """
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    add_made(app, name, function, own, text=function.__doc__, panel=panel)


def add_made(
    app: typer.Typer,
    name: str,
    function: Callable[..., None],
    own: Iterable[inspect.Parameter],
    *,
    text: str | None,
    panel: str,
) -> None:
    """Register a command whose arguments and options are `own`, and whose help is `text`."""
    common = inspect.signature(shared, eval_str=True).parameters
    head = inspect.Parameter("typer_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [head, *(each.replace(kind=head.kind) for each in (*own, *common.values()))]

    def run(*, typer_context: typer.Context, **values: Any) -> None:
        function(session_of(typer_context), **{key: value for key, value in values.items() if key not in common})

    app.command(name, rich_help_panel=panel or None)(commands.function(run, parameters, text))
