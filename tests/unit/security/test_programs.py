"""Every program that people run guards its output."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EMULATOR = "eventhubs_emulator"  # for tests on a laptop, and independent of all else


def programs() -> dict[str, Path]:
    """The main function of each program, such as eventconsumer_cli.main:main, and its module's file."""
    names = set()
    for file in [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("local/*/pyproject.toml")]:
        names.update(tomllib.loads(file.read_text()).get("project", {}).get("scripts", {}).values())
    folders = [file.parent for file in [*ROOT.glob("*/src/*/__init__.py"), *ROOT.glob("local/*/src/*/__init__.py")]]
    for folder in folders:
        main = folder / "__main__.py"
        if main.exists() and "import main\n" not in main.read_text():
            names.add(f"{folder.name}.__main__:main")
    files = {folder.name: folder for folder in folders}
    found = {}
    for name in sorted(names):
        module, _, _ = name.partition(":")
        package, _, path = module.partition(".")
        if package != EMULATOR:
            found[name] = files[package] / f"{path.replace('.', '/')}.py"
    return found


PROGRAMS = programs()


def test_all_programs_are_found() -> None:
    packages = {name.partition(".")[0].removeprefix("eventconsumer_") for name in PROGRAMS}
    assert packages == {"cli", "tools", "operator", "local_cluster", "demo", "release"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_its_main_function_is_guarded(name: str) -> None:
    tree = ast.parse(PROGRAMS[name].read_text())
    (main,) = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name.partition(":")[2])
    assert "guarded()" in map(ast.unparse, main.decorator_list)
