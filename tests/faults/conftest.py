"""Fixtures of the fault rows, and the hooks that let them run side by side."""

from collections.abc import Iterator

import pytest

from tests.faults.rows import Rows
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

_ROWS = pytest.StashKey[Rows]()


@pytest.fixture(scope="session")
def rows(
    request: pytest.FixtureRequest, azurite: AzuriteProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rows]:
    """All rows of this session, running; they share Azurite and one namespace."""
    directory = tmp_path_factory.mktemp("faults")
    emulator = EmulatorProcess(directory / "emulator")
    emulator.start()
    items = [
        item for item in request.session.items if isinstance(item, pytest.Function) and "stage" in item.fixturenames
    ]
    running = Rows(items, azurite, emulator, directory)
    request.config.stash[_ROWS] = running
    yield running
    running.close()
    emulator.close()


@pytest.fixture
def stage(rows: Rows) -> Rows:
    """Makes sure that the rows run; a row itself gets its own `Stage` (see `pytest_pyfunc_call`)."""
    return rows


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A row has been running for a while: wait for it instead of calling it."""
    running = pyfuncitem.funcargs.get("stage")
    if not isinstance(running, Rows):
        return None
    running.result(pyfuncitem)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How long each row took by itself."""
    running = config.stash.get(_ROWS, None)
    if running is not None:
        terminalreporter.section("fault rows, seconds each")
        for name, seconds in sorted(running.seconds.items(), key=lambda entry: -entry[1]):
            terminalreporter.write_line(f"{seconds:6.1f}  {name}")
