"""Fixtures that every suite may use: real servers, started here and stopped by pid."""

from collections.abc import Iterator

import pytest

from tests.azurite import AzuriteProcess


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteProcess]:
    """One Azurite for the session; take a fresh `azurite.container()` in each test."""
    server = AzuriteProcess(tmp_path_factory.mktemp("azurite") / "azurite.log")
    server.start()
    yield server
    server.close()
