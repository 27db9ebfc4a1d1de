"""Fixtures that every suite may use: real servers, started here and stopped by pid."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.azurite import AzuriteProcess
from tests.servers import EmulatorProcess

# Property tests are judged by what they find, not by how busy the machine is.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


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
