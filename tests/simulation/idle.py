"""What a consumer at rest costs in storage requests: all hosts, both containers, an hour of virtual time."""

import asyncio
from collections import Counter

from tests.simulation.test_fleet_partitions import as_planned, pod
from tests.unit.host.fleets import Fleet, fleet_test, until

HOUR = 3600.0
HOSTS = 8
SECONDS = 60  # duration of a lease, the default
RESTING_SECONDS = 15.0  # between two looks of the operator at a resource at rest


def idle_hour(layout: str, *, told: bool, hosts: int = HOSTS, partitions: int = 32) -> Counter[str]:
    """Requests by operation in an hour without events."""
    found: Counter[str] = Counter()

    async def test(fleet: Fleet) -> None:
        fleet.leading, fleet.lease_seconds = True, SECONDS
        if told:
            fleet.keep_telling(hosts)
        for ordinal in range(hosts):
            fleet.start(pod(ordinal))
        await until(lambda: as_planned(fleet, hosts) if told else fleet.balanced(), 600)
        if told:
            fleet.keep_telling(hosts, RESTING_SECONDS)
        await asyncio.sleep(300)
        for blobs in (fleet.leases, fleet.sink):
            blobs.calls.clear()
        await asyncio.sleep(HOUR / 3)  # a part stands for the whole
        assert fleet.balanced()
        for where, blobs in (("leases", fleet.leases), ("sink", fleet.sink)):
            found.update([f"{where} {operation}" for operation, _ in blobs.calls] * 3)

    fleet_test(test, partitions, layout)
    return found
