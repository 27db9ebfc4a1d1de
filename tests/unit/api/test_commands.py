"""Commands are declared once: the real parsers of both programs have what is declared, and understand each other."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.commands import COMMANDS, OUTPUT, YES, Command, Option, Stream
from eventconsumer_cli import main as plugin
from eventconsumer_cli.options import shared
from eventconsumer_tools import cli as program
from eventconsumer_tools.commands.commands import CODE, code_of, options_of

COMMON = {*inspect.signature(shared).parameters, "name", "new_pod", "help"}
OF_THE_PROGRAM_ALONE = {"host", "probe", "check", "retention"}
DECLARED = {command.path: command for command in COMMANDS}
IN_BOTH = [command for command in COMMANDS if command.in_plugin]


def leaves(tree: Any, group: str = "") -> Iterator[tuple[str, Any]]:
    """The commands of a parser by their paths."""
    for name, command in tree.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{group}{name} ")
        else:
            yield f"{group}{name}", command


PROGRAM, PLUGIN = (dict(leaves(typer.main.get_command(each.app))) for each in (program, plugin))


def flags(parser: Any) -> set[str]:
    """The options of a command's parser."""
    return {name for each in parser.params if each.param_type_name == "option" for name in each.opts} - {"--help", "-h"}


def parsed(parser: Any, words: list[str]) -> Mapping[str, Any]:
    """The values of a command line."""
    found: Mapping[str, Any] = parser.make_context("program", words).params
    return found


def test_the_plugin_has_the_commands_of_the_program() -> None:
    assert set(PROGRAM) - set(PLUGIN) == OF_THE_PROGRAM_ALONE
    assert set(PROGRAM) & set(PLUGIN) == {command.path for command in IN_BOTH}
    assert set(DECLARED) <= set(PROGRAM)


@pytest.mark.parametrize("command", IN_BOTH, ids=lambda each: each.path)
def test_an_option_of_both_programs_is_declared(command: Command) -> None:
    ours, theirs = flags(PLUGIN[command.path]), flags(PROGRAM[command.path])
    declared = {name for option in command.options for name in option.flags}
    assert declared <= ours & theirs
    assert ours & theirs <= declared | set(OUTPUT.flags)
    assert bool({*YES.flags} & ours) is bool({*YES.flags} & theirs) is command.changes
    for parser in (PLUGIN[command.path], PROGRAM[command.path]):
        assert parser.help == command.help
        help_of = {each.opts[0]: each.help for each in parser.params if each.param_type_name == "option"}
        assert all(help_of[option.flag] == option.help for option in command.options)


@pytest.mark.parametrize("path", CODE)
def test_the_code_of_a_command_takes_its_options(path: str) -> None:
    command = DECLARED[path]
    taken = inspect.signature(code_of(command)).parameters
    assert set(taken) == {option.name for option in (*command.options, *options_of(command))}


def words_of(draw: st.DrawFn, option: Option) -> list[str]:
    """An option on the command line of the plugin, with any value."""
    if option.kind is bool:
        values = [""]
    elif option.kind is int:
        values = [str(draw(st.integers(option.least or 0, 2**62)))]
    elif option.kind is str:
        values = [draw(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))]
    else:
        values = [draw(st.sampled_from(list(option.kind)))]  # type: ignore[call-overload]
    repeated = values * draw(st.integers(1, 3)) if option.many else values
    return [f"{option.flag}={value}" if value else option.flag for value in repeated]


@st.composite
def calls(draw: st.DrawFn) -> tuple[Command, list[str]]:
    """A command, and a command line of the plugin for it."""
    command = draw(st.sampled_from(IN_BOTH))
    chosen = [option for option in command.options if option.required or draw(st.booleans())]
    return command, [word for option in draw(st.permutations(chosen)) for word in words_of(draw, option)]


@given(calls())
def test_what_the_plugin_forwards_the_program_understands(call: tuple[Command, list[str]]) -> None:
    command, words = call
    values = {name: value for name, value in parsed(PLUGIN[command.path], words).items() if name not in COMMON}
    arguments = command.arguments(**values)
    path = command.path.split()
    assert arguments[: len(path)] == path
    understood = parsed(PROGRAM[command.path], arguments[len(path) :])
    for option in command.options:
        given_, got = values[option.name], understood[option.name]
        if option.stream is not None and given_ != option.default:
            assert got == (Stream.STDIN if option.stream is Stream.STDIN else option.default)
        else:
            assert got == given_


def test_an_unknown_option_is_not_forwarded() -> None:
    with pytest.raises(KeyError, match="hub_name"):
        DECLARED["migrate"].arguments(hub_name="orders")


@pytest.mark.parametrize(
    ("path", "values", "said"),
    [
        ("deadletters drop", {"partition": [], "sequence_number": [], "every": False}, "--partition, or all of them"),
        ("deadletters drop", {"partition": [], "sequence_number": [5], "every": False}, "--partition, or all of them"),
        ("deadletters drop", {"partition": ["0"], "sequence_number": [], "every": True}, "--partition, or all of them"),
        ("deadletters drop", {"partition": [], "sequence_number": [5], "every": True}, "exactly one --partition"),
        ("deadletters redrive", {"partition": ["0", "1"], "sequence_number": [5], "every": False}, "exactly one --par"),
        ("deadletters redrive", {"partition": ["0"], "sequence_number": [5, 7], "every": False}, ""),
        ("deadletters redrive", {"partition": [], "sequence_number": [], "every": True}, ""),
        ("checkpoint set", {"sequence_number": None, "offset": None}, "exactly one of"),
        ("checkpoint set", {"sequence_number": 0, "offset": "0"}, "exactly one of"),
        ("checkpoint set", {"sequence_number": 0, "offset": None}, ""),
    ],
)
def test_options_that_contradict_each_other_are_told(path: str, values: dict[str, Any], said: str) -> None:
    mistake = DECLARED[path].mistake(values)
    assert said in mistake and bool(said) is bool(mistake)
