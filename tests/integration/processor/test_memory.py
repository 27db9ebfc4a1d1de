"""A host's memory under the largest events on many partitions: bounded by `bufferBytes`, not by what the hub holds."""

import re
from pathlib import Path

import pytest

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import assert_exactly_once, read_drained
from tests.integration.processor.hosts import HostProcess
from tests.support.waiting import wait_until

MIB = 2**20
BUFFER_BYTES = 64 * MIB
PARTITIONS = 32
EVENTS = 12  # of nearly 1 MiB, in each partition: 6 times the buffer in all
IN_HAND = 3 * MIB  # the SDK's copies of the frame that a link is reading: raw, decoded, and its rest
LARGEST = bytes(range(256)) * 4090


def memory(host: HostProcess, kind: str) -> int:
    """Bytes: `VmRSS` now, `VmHWM` at most."""
    found = re.search(rf"{kind}:\s+(\d+) kB", Path(f"/proc/{host.process.pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


@pytest.mark.long  # faults/test_storage.py has a host's memory, unit/host/partition/test_memory.py what it counts
@pytest.mark.parametrize("arriving", [True, False], ids=["arriving", "waiting"])
def test_largest_events_on_32_partitions(consumer: MakeConsumer, arriving: bool) -> None:
    orders = consumer(
        partitions=PARTITIONS,
        processing={"maxBatchSize": 300, "prefetchCount": 3000, "maxWaitSeconds": 5, "bufferBytes": BUFFER_BYTES},
        roll={"maxBytes": 100 * MIB, "maxSeconds": 600, "maxEvents": 10**6},
    )
    host = orders.host("idle")
    wait_until(lambda: host.log.count('"attached"') == PARTITIONS, "all partitions are read")
    idle = memory(host, "VmRSS")
    if not arriving:
        assert host.terminate() == 0
    admin = orders.emulator.admin
    for number in range(PARTITIONS * EVENTS):
        admin.put_event(orders.hub, str(number % PARTITIONS), b"%d|" % number + LARGEST)
    if not arriving:
        host = orders.host("busy")

    def received() -> int:
        return sum(0 if part.sequence_number is None else part.sequence_number + 1 for part in host.report().partitions)

    wait_until(lambda: received() == PARTITIONS * EVENTS, f"everything is received: {host.log[-3000:]}")
    peak = memory(host, "VmHWM") - idle
    print(f"memory above idle: {peak / MIB:.0f} MiB of a buffer of {BUFFER_BYTES / MIB:.0f} MiB")
    assert host.terminate(60) == 0  # what is left in the buffers becomes files
    with orders.container(orders.drained) as container:
        assert_exactly_once(read_drained(container, "shop/orders"), orders.heads(), PARTITIONS * EVENTS)
    assert peak < 2 * BUFFER_BYTES + PARTITIONS * IN_HAND  # kept, being encoded, being read
