"""docs/reference/cli.md, from the programs: `python -m docs.generate.cli > docs/reference/cli.md`."""

import importlib
import importlib.util
import re
from collections.abc import Collection, Iterator
from typing import Any

import typer

from eventconsumer_tools.cli import app as host_image

HEAD = """\
# Commands

Generated from the programs by `python -m docs.generate.cli`. Every one has `--help`.
"""
PLUGIN = """
## `kubectl eventconsumer`

The plugin of kubectl. `pip install ./crds ./cli` installs `kubectl-eventconsumer` on the PATH, where kubectl finds it.
Examples: [Inspect and control consumers](../how-to/plugin.md).
"""
HOST = """
## `eventconsumer`

The program of the processor image. A host pod has the configuration and the credentials: `kubectl exec orders-host-0 --
eventconsumer audit`. [Audit](audit.md) describes the output of `audit` and `prune`.
"""


def programs() -> dict[str, tuple[str, Any]]:
    """Name -> introduction and command tree."""
    found: dict[str, tuple[str, Any]] = {}
    if importlib.util.find_spec("eventconsumer_cli") is not None:
        found["kubectl eventconsumer"] = (
            PLUGIN,
            typer.main.get_command(importlib.import_module("eventconsumer_cli.main").app),
        )
    found["eventconsumer"] = (HOST, typer.main.get_command(host_image))
    return found


def commands(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every leaf command of a program, by its full name."""
    for name, command in tree.commands.items():
        if getattr(command, "hidden", False):
            continue
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _text(text: str | None) -> str:
    """As one line of a table or a paragraph."""
    return re.sub(r"\s+", " ", (text or "").replace("\b", "").replace("\f", "")).strip().replace("|", "\\|")


def _help(command: Any) -> str:
    paragraphs = re.split(r"\n\s*\n", (command.help or "").replace("\b", "").partition("\f")[0].strip())
    return "\n\n".join(re.sub(r"\s+", " ", each).replace("<", "&lt;") for each in paragraphs)


def _usage(name: str, command: Any) -> str:
    arguments = [_argument(each) for each in command.params if each.param_type_name == "argument"]
    return " ".join([name, *arguments])


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name or "").strip("[]").upper()
    dots = "..." if argument.nargs < 0 else ""
    return f"{name}{dots}" if argument.required else f"[{name}{dots}]"


def _options(command: Any, known: Collection[str] = ()) -> list[str]:
    rows = []
    for option in command.params:
        if option.param_type_name == "argument" or getattr(option, "hidden", False) or "--help" in option.opts:
            continue
        if option.opts[0] in known:
            continue
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        default = getattr(option, "default", None)
        shown = "required" if option.required else ""
        if not option.required and not callable(default) and default not in (None, False, "", (), []):
            shown = f"`{getattr(default, 'value', default)}`"
        rows.append(f"| {names} | {shown} | {_text(option.help)} |")
    return ["| option | default | meaning |", "|---|---|---|", *rows] if rows else []


def page() -> str:
    """The page."""
    lines = [HEAD]
    for program, (introduction, tree) in programs().items():
        lines.append(introduction)
        if options := _options(tree):
            lines += ["Options of every command, before or after its name:", "", *options, ""]
        known = {option.opts[0] for option in tree.params}
        for name, command in commands(tree, program):
            lines += [f"### `{_usage(name, command)}`", "", _help(command), ""]
            if options := _options(command, known):
                lines += [*options, ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
