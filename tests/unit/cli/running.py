"""Runs a command as the shell would."""

import functools
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import typer.main

from eventconsumer_api.resource.crdgen import custom_resource_definition
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.main import main
from tests.support.clocks import ManualClock

# Made once for all tests: they take longer to make than a command takes to run.
command_of = functools.cache(typer.main.get_command)
definition = functools.cache(custom_resource_definition)


@dataclass(frozen=True)
class Ran:
    """How it ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, read."""
        return json.loads(self.out)


class CommandClock(ManualClock):
    """The clock of commands that wait: a sleep takes no time, and runs the next of `steps`."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Callable[[], object]] = []

    monotonic = ManualClock.__call__

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.steps:
            self.steps.pop(0)()


class Shell:
    """A shell with a cluster and no terminal; `columns` as people have them."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._patch = monkeypatch
        self.clock = CommandClock()
        for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("typer.main.get_command", command_of)
        monkeypatch.setattr("eventconsumer_cli.doctor.installation.custom_resource_definition", definition)
        for command in ("suspend", "top"):
            monkeypatch.setattr(f"eventconsumer_cli.commands.{command}.time", self.clock)

    def run(self, cluster: Cluster, *words: str, columns: int | None = None) -> Ran:
        """Run `kubectl eventconsumer` with these words."""
        if columns:
            self._patch.setenv("COLUMNS", str(columns))
        self._patch.setattr("sys.stdin", io.StringIO())
        code = main(words, connect=lambda _: cluster)
        said = self._capsys.readouterr()
        return Ran(code, said.out, said.err)
