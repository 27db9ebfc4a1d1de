"""A consumer on the real emulator and Azurite for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processor.hosts import Consumer
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

MakeConsumer = Callable[..., Consumer]


@pytest.fixture
def consumer(emulator: EmulatorProcess, azurite: AzuriteProcess, tmp_path: Path) -> Iterator[MakeConsumer]:
    """Makes a consumer of a new hub: `consumer(partitions=4, **config)`."""
    made: list[Consumer] = []

    def make(partitions: int = 4, hub: str = "orders", **overrides: Any) -> Consumer:
        emulator.admin.create_hub(hub, partitions=partitions)
        directory = tmp_path / str(len(made)) if made else tmp_path
        directory.mkdir(exist_ok=True)
        made.append(Consumer(directory, emulator, azurite, hub, **overrides))
        return made[-1]

    yield make
    for one in made:
        one.close()
