"""Hubs for benchmarks: filled at once through the emulator's admin side, and held back until the clock runs."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.servers import EmulatorProcess

ATTACH_SECONDS = 180.0


def body(size: int, number: int) -> bytes:
    """A JSON body of `size` bytes that compresses 2:1, as readings of a device do."""
    noise = os.urandom(size // 4).hex()
    text = f'{{"device": "device-{number % 500}", "number": {number}, "unit": "kPa", "trace": "{noise}"}}'
    return text.ljust(size).encode()[:size]


def events(size: int, count: int) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Bodies and application properties of `count` events, all different."""
    for number in range(count):
        yield body(size, number), {"region": "eu-west", "device": f"device-{number % 500}", "number": number}


def fill(emulator: EmulatorProcess, hub: str, size: int, count: int, partitions: int = 1) -> int:
    """Make a hub that holds `count` events, as many in each partition; how many these are."""
    emulator.admin.create_hub(hub, partitions=partitions)
    return add(emulator, hub, size, count, partitions)


def add(emulator: EmulatorProcess, hub: str, size: int, count: int, partitions: int = 1, times: int = 1) -> int:
    """Add events to a hub, as many to each partition, all of them `times` times; how many these are."""
    each = max(count // partitions // times, 1)
    for partition in range(partitions):
        emulator.admin.put_events(hub, str(partition), events(size, each), times)
    return each * partitions * times


@contextmanager
def held(emulator: EmulatorProcess, hub: str) -> Iterator[None]:
    """The hub's readers get nothing until the end of the block, however much credit they give."""
    emulator.admin.freeze(kind="reader", hub=hub)
    try:
        yield
    finally:
        emulator.admin.unfreeze(kind="reader", hub=hub)


def await_readers(emulator: EmulatorProcess, hub: str, partitions: int) -> None:
    """Wait until each partition has a reader that gave credit.

    Raises:
        TimeoutError: Not in three minutes.
    """
    deadline = time.monotonic() + ATTACH_SECONDS
    while True:
        links = emulator.admin.links(kind="reader", hub=hub)
        ready = {link["partition"] for link in links if link["credit"]}
        if len(ready) == partitions:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(ready)} of {partitions} partitions of {hub} are read")
        time.sleep(0.1)
