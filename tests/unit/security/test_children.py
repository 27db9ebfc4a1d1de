"""A process that one of our programs starts in a pod gets an explicit environment: none of the variables of a user."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = [ROOT / part for part in ("crds/src", "storage/src", "operator/src", "processor_image/src", "spark/src")]
WITH_ENV = {"Popen", "run", "call", "check_call", "check_output", "create_subprocess_exec", "create_subprocess_shell"}
"""Functions of `subprocess` and `asyncio` that take an environment."""
WITHOUT_ENV = {"multiprocessing", "webbrowser", "pty", "ProcessPoolExecutor"}
"""Modules, and a class, whose processes inherit the environment."""
OF_OS = ("exec", "fork", "popen", "posix_spawn", "spawn", "startfile", "system")


def inherited(source: str) -> list[str]:
    """What starts a process that inherits the environment."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            names = {name for each in node.names for name in each.name.split(".")} | set(module.split("."))
            found += sorted(names & WITHOUT_ENV)
        elif isinstance(node, ast.Call):
            function = ast.unparse(node.func)
            place, _, name = function.rpartition(".")
            starts = place in ("subprocess", "asyncio", "asyncio.subprocess") and name in WITH_ENV
            if place == "asyncio" and name == "run":
                starts = False
            if (starts and not any(each.arg == "env" for each in node.keywords)) or (
                place == "os" and name.startswith(OF_OS)
            ):
                found.append(function)
    return found


@pytest.mark.parametrize(
    "source",
    ["subprocess.run(['a'])", "os.system('a')", "import multiprocessing", "from webbrowser import open", "os.fork()"],
)
def test_a_process_that_inherits_the_environment_is_found(source: str) -> None:
    assert inherited(source)


@pytest.mark.slow
def test_no_program_in_a_pod_starts_one() -> None:
    files = [file for package in PACKAGES for file in package.rglob("*.py")]
    assert len(files) > 150
    assert {str(file): found for file in files if (found := inherited(file.read_text()))} == {}
    assert inherited("subprocess.run(['a'], env={})") == []
