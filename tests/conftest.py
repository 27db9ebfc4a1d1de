"""Fixtures that every suite may use: real servers, started here and stopped by pid."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.azurite import AzuriteProcess
from tests.support.patience import patiently
from tests.support.servers import EmulatorProcess

# Property tests are judged by what they find, not by how busy the machine is. HYPOTHESIS_PROFILE=long looks longer.
settings.register_profile("default", deadline=None, max_examples=20)
settings.register_profile("long", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


# Tests of one folder or file that share something expensive: with `-n`, one process takes them all.
_TOGETHER = (
    "faults",
    "contract/cli",
    "contract/operator",
    "integration/emulator",
    "integration/monitoring",
    "integration/spark",
)
_BY_FOLDER = ("faults",)  # its rows run side by side within one process


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of tests that are started first."""
    config.addinivalue_line("markers", "long: a test that takes long, so it is started first")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Make time limits patient; for `-n …`: say which tests stay together, and begin with those that take longest."""
    for item in items:
        marked = item.get_closest_marker("timeout")
        seconds = marked.args[0] if marked else float(config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(patiently(seconds)), append=False)
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        where = item.path.relative_to(Path(__file__).parent)
        folder = next((name for name in _TOGETHER if where.is_relative_to(name)), None)
        if folder:
            item.add_marker(pytest.mark.xdist_group(folder if folder in _BY_FOLDER else str(where)))
    if config.getoption("numprocesses", default=None) or hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteProcess]:
    """One Azurite for the session; take a fresh `azurite.container()` in each test."""
    server = AzuriteProcess(tmp_path_factory.mktemp("azurite") / "azurite.log")
    server.start()
    yield server
    server.close()


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[EmulatorProcess]:
    """An empty Event Hubs namespace for each test; make hubs with `emulator.admin`."""
    server = EmulatorProcess(tmp_path / "emulator")
    server.start()
    yield server
    server.close()
