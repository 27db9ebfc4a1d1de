"""Fixtures that every suite may use: real servers, started here and stopped by pid."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

E2E = Path(__file__).parent / "e2e"

# Property tests are judged by what they find, not by how busy the machine is. HYPOTHESIS_PROFILE=long looks longer.
settings.register_profile("default", deadline=None, max_examples=20)
settings.register_profile("long", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of `make test-long`."""
    config.addinivalue_line("markers", "long: a test of `make test-long`; `make test` leaves it out")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests for `--dist loadgroup`: all end-to-end tests share the cluster, the tests of a file its fixtures."""
    for item in items:
        group = "cluster" if E2E in item.path.parents else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteProcess]:
    """One Azurite for the session; take a fresh `azurite.container()` in each test."""
    server = AzuriteProcess(tmp_path_factory.mktemp("azurite") / "azurite.log")
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def emulator_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    """One emulator for the session; take `emulator`."""
    server = EmulatorProcess(tmp_path_factory.mktemp("emulator"))
    server.start()
    yield server
    server.close()


@pytest.fixture
def emulator(emulator_process: EmulatorProcess) -> Iterator[EmulatorProcess]:
    """An empty Event Hubs namespace for each test; make hubs with `emulator.admin`."""
    yield emulator_process
    emulator_process.empty()
