"""docs/reference/cli.md, from the programs: `python -m docs.generate.cli > docs/reference/cli.md`."""

import re
from collections.abc import Collection, Iterator
from typing import Any

import typer

from eventconsumer_cli.errors import EXIT_CODES
from eventconsumer_cli.main import app as plugin
from eventconsumer_tools.cli import app as program

HEAD = """\
# Commands

Generated from the programs by `python -m docs.generate.cli`. Every command has `--help`.

`kubectl eventconsumer` is a plugin of kubectl: `pip install ./crds ./cli` installs `kubectl-eventconsumer` on the PATH,
where kubectl finds it. Examples: [Inspect and control consumers](../how-to/plugin.md).

`eventconsumer` is the program of the processor image. A host pod has the configuration and the credentials:
`kubectl exec orders-host-0 -- eventconsumer audit`. [Audit](audit.md) describes the output of `audit`.

## Exit codes
| code | meaning |
|---|---|
{codes}

A wrong option is 3, so that 2 of `audit` is always a violation.

## Commands of both programs
`kubectl eventconsumer` runs these commands of `eventconsumer` in a host pod, or in a temporary pod if no host runs,
prints their output and ends with their exit code: `kubectl eventconsumer lag orders` and, in a host pod,
`eventconsumer lag`. It adds its [own options](#kubectl-eventconsumer), and:

| option | default | meaning |
|---|---|---|
{new_pod}

`eventconsumer` adds:

| option | default | meaning |
|---|---|---|
{of_program}
"""
PLUGIN = "\n## `kubectl eventconsumer`\nOptions of every command, before or after its name:\n"
PROGRAM = "\n## `eventconsumer`\n"


def commands(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf command of a program, by its name."""
    for name, command in tree.commands.items():
        if getattr(command, "hidden", False):
            continue
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


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


def _rows(command: Any, known: Collection[str] = ()) -> dict[str, str]:
    """A row of the table for each option that is not known, by its name."""
    rows = {}
    for option in command.params:
        if option.param_type_name == "argument" or getattr(option, "hidden", False) or "--help" in option.opts:
            continue
        name = next(each for each in option.opts if each.startswith("--"))
        if name in known:
            continue
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        default = getattr(option, "default", None)
        shown = "required" if option.required else ""
        if not option.required and not callable(default) and default not in (None, False, "", (), []):
            shown = f"`{getattr(default, 'value', default)}`"
        rows[name] = f"| {names} | {shown} | {_text(option.help)} |"
    return rows


def _table(rows: Collection[str]) -> list[str]:
    return ["", "| option | default | meaning |", "|---|---|---|", *rows, ""] if rows else []


def page() -> str:
    """The page."""
    trees = [typer.main.get_command(each) for each in (plugin, program)]
    (ours, theirs), common = (dict(commands(each)) for each in trees), _rows(trees[0])
    shared = [name for name in theirs if name in ours]
    new_pod, of_program = _rows(ours["lag"], common)["--new-pod"], _rows(theirs["lag"])
    codes = "\n".join(f"| {code} | {text} |" for code, text in EXIT_CODES.items())
    lines = [HEAD.format(codes=codes, new_pod=new_pod, of_program="\n".join(of_program.values()))]
    for name in shared:
        in_plugin = _rows(ours[name], {*common, "--new-pod"})
        in_program = _rows(theirs[name], {*in_plugin, *of_program})
        lines += [f"### `{name}`", "", _help(theirs[name]), *_table(in_plugin.values())]
        if in_program:
            lines += ["", "`eventconsumer` alone:", *_table(in_program.values())]
        lines.append("")
    lines += [PLUGIN, *_table(common.values())]
    for title, heading, tree in (("kubectl eventconsumer", "", ours), ("eventconsumer", PROGRAM, theirs)):
        lines.append(heading)
        for name, command in tree.items():
            if name not in shared:
                rows = _rows(command, common if tree is ours else ())
                lines += [f"### `{_usage(f'{title} {name}', command)}`", "", _help(command), *_table(rows.values()), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
