"""The reference of the audit names every code and every option, and the image's program is a program."""

import ast
import pkgutil
import re
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import typer

from eventconsumer_audit.codes import MEANINGS, Code, Level
from eventconsumer_tools.cli import app

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference/audit.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", list(Code))
def test_every_code_is_described_under_its_invariant(code: Code) -> None:
    assert f"`{code}`" in REFERENCE
    meaning = MEANINGS[code]
    if meaning.level is Level.VIOLATION:
        row = next(line for line in REFERENCE.splitlines() if f"`{code}`" in line)
        assert row.startswith(f"| {meaning.invariant} ")


@pytest.mark.parametrize("command", ["audit"])
def test_every_option_is_described(command: str) -> None:
    group = typer.main.get_group(app)
    options = [name for parameter in group.commands[command].params for name in parameter.opts]
    for name in options:
        if name not in {"--files", "--help", "-y"}:  # its opposite, or its long name, is described
            assert f"`{name}" in REFERENCE or f" {name}" in REFERENCE, name


def test_the_images_program_runs_the_package(tmp_path: Path) -> None:
    dockerfile = (ROOT / "processor_image/Dockerfile").read_text(encoding="utf-8")
    found = re.search(r"RUN (printf .*) >/usr/local/bin/eventconsumer", dockerfile)
    assert found
    script = subprocess.run(["sh", "-c", found[1]], capture_output=True, text=True, check=True).stdout
    package = tmp_path / "python3"
    package.write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    package.chmod(0o755)
    program = tmp_path / "eventconsumer"
    program.write_text(script.replace("/opt/venv/bin/python3", str(package)))
    program.chmod(0o755)
    called = subprocess.run([program, "audit", "--prefix", "a b"], capture_output=True, text=True, check=True)
    assert called.stdout == "[-m][eventconsumer_tools][audit][--prefix][a b]"


def imported() -> Iterator[str]:
    """The modules of this project that the auditor imports, and what opens the consumer for it, except its own."""
    sources = ROOT / "processor_image/src"
    for file in (*(sources / "eventconsumer_audit").glob("*.py"), sources / "eventconsumer_tools/access.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("eventconsumer_"):
                modules = {
                    each.name for each in pkgutil.iter_modules(getattr(import_module(node.module), "__path__", []))
                }
                yield from (
                    f"{node.module}.{each.name}" if each.name in modules else node.module for each in node.names
                )


def test_what_the_audit_shares_is_listed_and_nothing_else() -> None:
    section = REFERENCE.partition("## What it shares with the hosts")[2].partition("\n## ")[0]
    shared = {name for name in imported() if not name.startswith("eventconsumer_audit")}
    assert set(re.findall(r"`(eventconsumer_[a-z_.0-9]+)`", section)) == shared
