"""Runs the rows of the fault list side by side: most of a row is waiting for leases to run out.

All rows that pytest selected run on a few threads before the first is due; each test then tells the outcome of its own.
A row is a plain test function with the parameter `stage`; it gets a stage of its own.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from tests.faults.stage import FaultStage
from tests.simulation.rules import RULES
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

AT_ONCE = 3  # other tests run beside, and a host that starves loses its leases


def simulated(*rules: str) -> pytest.MarkDecorator:
    """A row for `make test-long`: `make test` plays the same in virtual time.

    Args:
        rules: What does it in the simulation, which judges every invariant after each of them.
    """
    assert set(rules) <= set(RULES), rules
    return pytest.mark.long


class Rows:
    """All rows of a session."""

    def __init__(
        self, items: list[pytest.Function], azurite: AzuriteProcess, emulator: EmulatorProcess, directory: Path
    ) -> None:
        self._seconds: dict[str, float] = {}
        self._azurite = azurite
        self._emulator = emulator
        self._directory = directory
        self._stages: set[FaultStage] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="row")
        self._futures: dict[str, Future[None]] = {
            item.nodeid: self._pool.submit(self._run, item.name, item.obj, _parameters(item)) for item in items
        }

    def wait(self) -> None:
        """Wait until all rows have ended."""
        wait(self._futures.values())

    def seconds(self, item: pytest.Function) -> float:
        """How long a row took, beside others."""
        return self._seconds.get(item.name, 0.0)

    def result(self, item: pytest.Function) -> None:
        """The outcome of a row; raises what it raised."""
        self._futures[item.nodeid].result()

    def close(self) -> None:
        """End all rows, also those that run."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            stages = [*self._stages]
        for stage in stages:
            stage.close()
        self._pool.shutdown()

    def _run(self, name: str, row: Callable[..., None], parameters: dict[str, Any]) -> None:
        directory = self._directory / "".join(letter if letter.isalnum() else "-" for letter in name)
        directory.mkdir()
        stage = FaultStage(directory, self._azurite, self._emulator)
        with self._lock:
            self._stages.add(stage)
        begun = time.monotonic()
        try:
            row(stage=stage, **parameters)
            stage.finish()
        finally:
            self._seconds[name] = time.monotonic() - begun
            stage.close()
            with self._lock:
                self._stages.discard(stage)


def _parameters(item: pytest.Function) -> dict[str, Any]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}
