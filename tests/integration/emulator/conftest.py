"""One emulator for the suite, a hub of its own for each test.

The SDK leaves sockets open when a connection is cut under it. That is not what these tests are about, so the warning is
ignored here, and what it left is collected at the end of each test rather than in a test of somebody else.
"""

import gc
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.emulator.sdk import Hub
from tests.support.servers import EmulatorProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    """An emulator that also takes bearer tokens and knows policies with less than all rights."""
    process = EmulatorProcess(
        tmp_path_factory.mktemp("emulator"),
        "--allow-jwt",
        "--policy=RootManageSharedAccessKey=SAS_KEY_VALUE:Manage",
        "--policy=reader=read+key/=:Listen",
        "--policy=writer=write:key=:Send",
    )
    process.start()
    yield process
    process.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder only."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collects what the SDK left."""
    yield
    gc.collect()


@pytest.fixture
def hub(server: EmulatorProcess) -> Iterator[Hub]:
    """A hub with two partitions and groups enough for many readers; faults end with the test."""
    name = f"hub-{uuid.uuid4().hex[:8]}"
    server.admin.create_hub(name, 2, groups=["second", *(f"g{number}" for number in range(9))])
    yield Hub(server, name)
    server.admin.clear_faults()
    server.admin.delete_hub(name)
