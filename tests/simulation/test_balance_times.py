"""How soon partitions move, and how long each stays unread meanwhile: in virtual time, against goals.

Storage answers after 25 ms and the hub after 100 ms. A partition is read while a link is attached that was neither
closed nor stolen. The figures are printed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.simulation.test_fleet_partitions import EITHER, as_planned, pod
from tests.support.fakes.hub import FakeHub
from tests.support.fakes.virtual import virtual
from tests.unit.processor.fleets import Fleet, until, virtual_clock

LOOK_SECONDS = 0.02


class Unread:
    """The longest time that any partition had no reader."""

    def __init__(self, fleet: Fleet) -> None:
        self.longest = 0.0
        self._fleet = fleet

    def all_read(self) -> bool:
        """Whether each has one now."""
        return all(map(self._is_read, self._fleet.hub.partitions))

    async def look(self) -> None:
        """Look until cancelled."""
        seen = dict.fromkeys(self._fleet.hub.partitions, virtual_clock())
        while True:
            for partition in seen:
                if self._is_read(partition):
                    seen[partition] = virtual_clock()
                self.longest = max(self.longest, virtual_clock() - seen[partition])
            await asyncio.sleep(LOOK_SECONDS)

    def _is_read(self, partition: str) -> bool:
        reader = self._fleet.hub.partitions[partition].reader
        return reader is not None and not (reader.closed or reader.stolen or reader.broken)


@asynccontextmanager
async def at_rest(partitions: int, layout: str, hosts: int) -> AsyncIterator[tuple[Fleet, Unread]]:
    """A fleet that is told, with an event on each partition every second; in the end each is in one file."""
    fleet = Fleet(FakeHub(partitions), layout, storage_seconds=0.025, hub_seconds=0.1)

    async def publish() -> None:
        while True:
            for part in fleet.hub.partitions.values():
                part.add(b"event")
            await asyncio.sleep(1)

    fleet.keep_telling(hosts)
    for ordinal in range(hosts):
        fleet.start(pod(ordinal))
    await until(lambda: as_planned(fleet, hosts), 60)
    publishing = asyncio.create_task(publish())
    await asyncio.sleep(40)
    unread = Unread(fleet)
    looking = asyncio.create_task(unread.look())
    try:
        yield fleet, unread
        await asyncio.sleep(1)
        publishing.cancel()
        await until(fleet.drained, 60)
        fleet.files()
    finally:
        for task in (publishing, looking):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await fleet.close()


@EITHER
@pytest.mark.parametrize(("partitions", "seconds"), [(32, 5.0), pytest.param(256, 12.0, marks=pytest.mark.long)])
@virtual
async def test_a_second_host_has_its_half(layout: str, partitions: int, seconds: float) -> None:
    async with at_rest(partitions, layout, 1) as (fleet, unread):
        began = virtual_clock()
        fleet.start(pod(1))
        fleet.keep_telling(2)
        await until(lambda: as_planned(fleet, 2) and unread.all_read(), 60)
        took = virtual_clock() - began
        print(f"goal 1 -> 2, {partitions}, {layout}: {took:.2f} s, unread {unread.longest:.2f} s")
        assert took <= seconds
        assert unread.longest <= (1.0 if partitions == 32 else 3.0)


@EITHER
@virtual
async def test_six_of_eight_hosts_leave(layout: str) -> None:
    async with at_rest(32, layout, 8) as (fleet, unread):
        began = virtual_clock()
        fleet.keep_telling(2)
        leaving = [fleet.hosts[pod(ordinal)] for ordinal in range(2, 8)]
        await until(lambda: not any(host.owned() for host in leaving) and unread.all_read(), 60)
        took = virtual_clock() - began
        print(f"goal 8 -> 2, {layout}: {took:.2f} s, unread {unread.longest:.2f} s")
        assert unread.longest <= 1.0
        assert took <= 5.0


@EITHER
@virtual
async def test_the_partitions_of_a_pod_that_certainly_ended_are_read_again(layout: str) -> None:
    async with at_rest(32, layout, 8) as (fleet, unread):
        lost = fleet.hosts[pod(3)].owned()
        await fleet.hosts.pop(pod(3)).kill()
        for partition in lost:
            reader = fleet.hub.partitions[partition].reader
            assert reader is not None
            reader.closed = True
        began = virtual_clock()
        fleet.keep_telling(8)
        # The plan keeps the place of the host that ended; what it had is read by those that are there.
        await until(unread.all_read, 60)
        took = virtual_clock() - began
        print(f"goal dead pod, {layout}: {took:.2f} s")
        assert took <= 3.0
        again = virtual_clock()
        fleet.start(pod(3, "u2"))
        fleet.keep_telling(8)
        unread.longest = 0.0
        await until(lambda: as_planned(fleet, 8) and unread.all_read(), 60)
        print(f"goal dead pod back, {layout}: {virtual_clock() - again:.2f} s, unread {unread.longest:.2f} s")
        assert virtual_clock() - again <= 5.0
