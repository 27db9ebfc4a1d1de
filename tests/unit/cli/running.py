"""Runs a command as the shell would."""

import io
import json
from dataclasses import dataclass
from typing import Any

import pytest

from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.main import main


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


class Shell:
    """A shell with a cluster and no terminal; `columns` as people have them."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._patch = monkeypatch
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(self, cluster: Cluster, *words: str, columns: int | None = None) -> Ran:
        """Run `kubectl eventconsumer` with these words."""
        if columns:
            self._patch.setenv("COLUMNS", str(columns))
        self._patch.setattr("sys.stdin", io.StringIO())
        code = main(words, connect=lambda _: cluster)
        said = self._capsys.readouterr()
        return Ran(code, said.out, said.err)
