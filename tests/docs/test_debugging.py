"""What a debugger needs exists: programs of its configurations, and the lines of breakpoints."""

import ast
import json
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from docs.generate.pages import DOCS, ROOT

LAUNCH = ROOT / ".vscode/launch.json"
CONFIGURATIONS = json.loads(LAUNCH.read_text())["configurations"]
PAGE = (DOCS / "contributing/debugging.md").read_text()


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda each: each["name"])
def test_the_program_of_a_configuration_exists(configuration: dict[str, Any]) -> None:
    module = configuration["module"]
    found = find_spec(module)
    if found is not None and found.submodule_search_locations is not None:
        found = find_spec(f"{module}.__main__")
    assert found is not None, f"{LAUNCH}: `python -m {module}` does not exist: correct the configuration"
    assert os.access(configuration["python"].replace("${workspaceFolder}", str(ROOT)), os.X_OK), "run `make env`"
    assert configuration["name"] in PAGE, "name the configuration in docs/contributing/debugging.md"


def test_the_configuration_of_a_host_is_its_command_on_the_page() -> None:
    (host,) = (each for each in CONFIGURATIONS if each["name"] == "one host")
    words = [*(f"{name}={value}" for name, value in host["env"].items()), ".venv/bin/python", "-m", host["module"]]
    assert f"\n    {' '.join(words)}\n" in PAGE, f"change {LAUNCH} and docs/contributing/debugging.md together"


@pytest.mark.parametrize(("path", "line"), re.findall(r"([\w./]+\.py):(\d+)", PAGE))
def test_a_breakpoint_is_at_a_statement(path: str, line: str) -> None:
    tree = ast.parse(Path(ROOT / path).read_text())
    lines = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    text = (ROOT / path).read_text().splitlines()[int(line) - 1]
    assert int(line) in lines, f"{path}:{line} begins no statement, so a debugger does not stop: {text.strip()}"
    assert "file committed" in "".join((ROOT / path).read_text().splitlines()[int(line) - 1 : int(line) + 1]), (
        f"{path}:{line} is not where a file is committed: correct the line in docs/contributing/debugging.md"
    )
