"""Commands in the documentation: their subcommands, options, targets and values exist in the programs themselves."""

import importlib
import importlib.util
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from docs.generate.pages import ROOT, Block, Command, blocks, commands, is_shell, names, pages
from eventconsumer_tools.cli import app as host_image

VALUES = yaml.safe_load((ROOT / "helm/eventconsumer/values.yaml").read_text())
TARGETS = set(re.findall(r"^([a-z][a-z-]*)(?: [a-z-]+)*:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)) | {
    name
    for line in re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), flags=re.M)
    for name in line.split()
}
KUBECTL = {
    "annotate",
    "api-resources",
    "apply",
    "auth",
    "config",
    "create",
    "delete",
    "describe",
    "events",
    "exec",
    "explain",
    "get",
    "label",
    "logs",
    "patch",
    "port-forward",
    "rollout",
    "run",
    "scale",
    "set",
    "top",
    "wait",
}
HELM = {"install", "upgrade", "rollback", "uninstall", "template", "list", "status", "get", "history"}
COMMANDS = [command for page in pages() for command in commands(page)]


def plugin() -> Any:
    """The program behind `kubectl eventconsumer`; None where it is not part of this tree."""
    if importlib.util.find_spec("eventconsumer_cli") is None:
        return None
    return typer.main.get_command(importlib.import_module("eventconsumer_cli.main").app)


def of(program: str) -> list[Command]:
    """Commands of one program, and what is executed through kubectl or docker."""
    return [
        Command(each.where, tuple(words)) for each in COMMANDS for words in _called(each.words) if words[0] == program
    ]


def _called(words: Sequence[str]) -> Iterator[Sequence[str]]:
    yield words
    if words[0] in {"kubectl", "docker"} and "--" in words:
        inner = words[list(words).index("--") + 1 :]
        if inner:
            yield inner


def check(command: Any, words: Sequence[str]) -> None:
    """Follow the words through a program's subcommands: each option must be one, and each argument have a place.

    Raises:
        AssertionError: It is no command of the program.
    """
    if hasattr(command, "commands"):
        options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        flags = {name for each in command.params if getattr(each, "is_flag", False) for name in each.opts}
        rest = list(words)
        while rest and rest[0].startswith("-"):
            name = rest.pop(0)
            assert name.partition("=")[0] in {*options, "--help"}, f"{command.name} has no option {name}"
            if name not in flags and "=" not in name and name != "--help" and rest:
                rest.pop(0)
        if not rest:
            return
        assert rest[0] in command.commands, f"{command.name} has no command {rest[0]}"
        check(command.commands[rest[0]], rest[1:])
        return
    known = {name: each for each in command.params for name in (*each.opts, *each.secondary_opts)}
    room = sum(each.nargs if each.nargs > 0 else 1000 for each in command.params if each.param_type_name == "argument")
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            room -= 1
            assert room >= 0, f"{command.name} takes no {word}"
            continue
        name, given, _ = word.partition("=")
        assert name in {*known, "--help"}, f"{command.name} has no option {name}"
        option = known.get(name)
        if option is not None and not getattr(option, "is_flag", False) and not given:
            assert rest, f"{name} needs a value"
            rest.pop(0)


@pytest.mark.parametrize("command", of("eventconsumer"), ids=str)
def test_programs_of_the_host_image(command: Command) -> None:
    check(typer.main.get_command(host_image), command.words[1:])


@pytest.mark.parametrize("command", of("kubectl"), ids=str)
def test_kubectl(command: Command) -> None:
    check_kubectl(command.words)


def check_kubectl(command: Sequence[str]) -> None:
    """Verify a command of kubectl: its subcommand, and that the files which it names exist.

    Raises:
        AssertionError: It is no such command.
    """
    words = list(command[1:])
    while words and words[0].startswith("-"):
        words = words[1:] if "=" in words[0] else words[2:]
    if words[0] == "eventconsumer":
        program = plugin()
        if program is not None:
            check(program, words[1:])
        return
    assert words[0] in KUBECTL
    for before, word in itertools.pairwise(words):
        if before in {"-f", "-k", "--patch-file", "--filename"} and re.match(
            r"(examples|crds|gitops|kustomize)/", word
        ):
            assert (ROOT / word).exists() or "<" in word, f"{word} does not exist"


@pytest.mark.parametrize("command", of("make"), ids=str)
def test_make(command: Command) -> None:
    for word in command.words[1:]:
        assert "=" in word or word in TARGETS, f"the Makefile has no target {word}"


@pytest.mark.parametrize("command", of("helm"), ids=str)
def test_helm(command: Command) -> None:
    assert command.words[1] in HELM
    for before, word in zip(command.words, command.words[1:], strict=False):
        if before in {"--set", "--set-string", "--set-json"}:
            for part in re.split(r",(?![^{]*\})", word):
                value = part.partition("=")[0]
                assert exists(value), f"the chart has no value {value}"
        if word.rstrip("/").endswith("helm/eventconsumer"):
            assert (ROOT / word).is_dir()


def exists(path: str) -> bool:
    """Whether a dotted path is a value of the chart; below an open map anything is."""
    node = VALUES
    for part in re.split(r"(?<!\\)\.", path):
        if node == {} or isinstance(node, list):
            return True
        name = part.partition("[")[0]
        if not isinstance(node, dict) or name not in node:
            return False
        node = node[name]
    return True


BRACES = re.compile(r"(?<![$\\]){[^{}\s]+}")


def unquoted_braces(text: str) -> list[str]:
    """What a shell may expand: `{a,b}` becomes `a b`, and a later edit makes this of `{a}`."""
    text = re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", "", re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE))
    return BRACES.findall(text)


@pytest.mark.parametrize("block", [each for page in pages() for each in blocks(page) if is_shell(each)], ids=str)
def test_braces_in_commands_are_quoted(block: Block) -> None:
    assert unquoted_braces(block.text) == []


@pytest.mark.parametrize("page", pages(), ids=str)
def test_values_for_set_are_quoted_in_texts(page: Path) -> None:
    """A value with braces is copied behind --set, so it is shown in quotes."""
    assert [name for name in names(page) if re.match(r"^(--set )?[A-Za-z.]+=", name) and unquoted_braces(name)] == []


def test_braces_that_a_shell_expands_are_found() -> None:
    assert unquoted_braces("helm upgrade --set a={x,y} --set 'b={c}' --set \"d={e}\" # {f} in `{g,h}`")[0] == "{x,y}"
    assert unquoted_braces("echo ${NAME}; jq '{a}'") == []


@pytest.mark.parametrize("command", [*of("python"), *of(".venv/bin/python")], ids=str)
def test_python_modules_exist(command: Command) -> None:
    words = command.words
    if "-m" in words:
        assert importlib.util.find_spec(words[words.index("-m") + 1]) is not None
    elif len(words) > 1 and words[1].endswith(".py"):
        assert (ROOT / words[1]).exists()


@pytest.mark.parametrize("command", of(".venv/bin/pytest"), ids=str)
def test_tests_that_are_named_exist(command: Command) -> None:
    for word in command.words[1:]:
        assert word.startswith("-") or (ROOT / word).exists(), f"{word} does not exist"


def test_what_is_no_command_is_refused() -> None:
    program = typer.main.get_command(host_image)
    for words in (["audti"], ["audit", "--depp"], ["audit", "orders"], ["retention", "--onc"]):
        with pytest.raises(AssertionError):
            check(program, words)
    assert exists("fleetKey.create") and not exists("fleetKey.made")
    assert exists(r"hostServiceAccount.annotations.azure\.workload\.identity/client-id")


def test_there_are_commands_of_each_program() -> None:
    for program, least in (("kubectl", 30), ("helm", 5), ("make", 5), ("eventconsumer", 5)):
        assert len(of(program)) >= least, program


def test_every_command_of_the_host_image_is_in_the_documentation() -> None:
    program = typer.main.get_group(host_image)
    text = "\n".join(Path(page).read_text() for page in pages())
    for name in program.commands:
        assert f"eventconsumer {name}" in text, (
            f"no page has `kubectl eventconsumer {name}`: add it to docs/how-to/plugin.md, or to the how-to it is for"
        )
