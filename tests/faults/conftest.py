"""Fixtures of the fault rows, and the hooks that let them run side by side."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.rows import Rows
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def rows(
    request: pytest.FixtureRequest, azurite: AzuriteProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rows]:
    """All rows of this session, ended; they share Azurite and one namespace.

    Their threads copy `os.environ`, where pytest writes between two tests: it begins none until they have ended.
    """
    directory = tmp_path_factory.mktemp("faults")
    emulator = EmulatorProcess(directory / "emulator")
    emulator.start()
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path.parent == HERE]
    running = Rows(items, azurite, emulator, directory)
    try:
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            running.wait()
        yield running
    finally:
        running.close()
        emulator.close()


@pytest.fixture
def stage(rows: Rows) -> Rows:
    """Makes sure that the rows ran; a row itself gets its own `FaultStage` (see `pytest_pyfunc_call`)."""
    return rows


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """The outcome of the row, instead of a call."""
    running = pyfuncitem.funcargs.get("stage")
    if not isinstance(running, Rows):
        return None
    try:
        running.result(pyfuncitem)
    finally:
        print(f"{running.seconds(pyfuncitem):.1f} s beside other rows")
    return True
