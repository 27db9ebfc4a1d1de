"""How soon partitions move, and how long each stays unread meanwhile: in virtual time, against goals.

Storage answers after 25 ms and the hub after 100 ms. A partition is read while a link is attached that was neither
closed nor stolen. The figures are printed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_host.amqp.link import REQUEST_SECONDS
from eventconsumer_host.errors import HubUnreachable
from eventconsumer_host.lease.planned_balancer import GRACE_SECONDS
from eventconsumer_storage.errors import Unavailable
from tests.simulation.idle import RESTING_SECONDS
from tests.simulation.test_fleet_partitions import EITHER, as_planned, pod
from tests.support.fakes.hub import FakeHub
from tests.support.fakes.virtual import virtual
from tests.unit.host.fleets import LAYOUTS, Fleet, until, virtual_clock

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


class Cut:
    """A hub, or a container, as one host reaches it: while it is cut off, no request is answered."""

    def __init__(self, near: Any, error: Callable[[str], EventConsumerError] = HubUnreachable) -> None:
        self.off = False
        self._near = near
        self._error = error

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        """Any operation."""

        async def call(*args: Any, **options: Any) -> Any:
            if self.off:
                await asyncio.sleep(REQUEST_SECONDS)
                raise self._error("no response")
            return await getattr(self._near, operation)(*args, **options)

        return call

    def cut(self, partitions: Collection[str]) -> None:
        """Cut the host off, with its links to partitions."""
        self.off = True
        for partition in partitions:
            reader = self._near.partitions[partition].reader
            assert reader is not None
            reader.frozen = True


@asynccontextmanager
async def three_hosts() -> AsyncIterator[tuple[Fleet, list[Cut]]]:
    """Hosts at rest on an idle hub, each of which can be cut off."""
    fleet = Fleet(FakeHub(12), storage_seconds=0.025)
    cuts = [Cut(fleet.hub) for _ in range(3)]
    fleet.keep_telling(3)
    for ordinal, cut in enumerate(cuts):
        fleet.start(pod(ordinal), hub=cut)
    await until(lambda: as_planned(fleet, 3), 60)
    await asyncio.sleep(40)
    try:
        yield fleet, cuts
    finally:
        await fleet.close()


@virtual
async def test_a_host_that_alone_does_not_hear_the_hub_gives_its_partitions_up() -> None:
    async with three_hosts() as (fleet, cuts):
        deaf, began = fleet.hosts[pod(1)], virtual_clock()
        cuts[1].cut(deaf.owned())
        await until(lambda: not any(report.read for report in deaf.manager.reports()), 60)
        print(f"goal deaf, not read any more: {virtual_clock() - began:.1f} s")
        assert deaf.problems(Reason.EVENT_HUB_UNREACHABLE)
        others = [host for host in fleet.hosts.values() if host is not deaf]
        await until(lambda: sum(len(host.owned()) for host in others) == 12, 60)
        print(f"goal deaf, read by others: {virtual_clock() - began:.1f} s")
        assert virtual_clock() - began <= 35
        await asyncio.sleep(100)
        assert not deaf.owned()
        cuts[1].off = False
        await until(lambda: as_planned(fleet, 3), 30)
        assert not deaf.problems(Reason.EVENT_HUB_UNREACHABLE)


@virtual
async def test_nobody_gives_up_a_partition_while_no_host_hears_the_hub() -> None:
    async with three_hosts() as (fleet, cuts):
        before = [host.owned() for host in fleet.hosts.values()]
        for cut, owned in zip(cuts, before, strict=True):
            cut.cut(owned)
        for _ in range(120):
            await asyncio.sleep(1)
            assert [host.owned() for host in fleet.hosts.values()] == before
        assert all(host.problems(Reason.EVENT_HUB_UNREACHABLE) for host in fleet.hosts.values())


@EITHER
@virtual
async def test_others_read_the_partitions_of_a_host_without_storage_when_its_leases_expire(layout: str) -> None:
    fleet = Fleet(FakeHub(12), layout)
    cuts = [Cut(fleet.leases, Unavailable) for _ in range(3)]
    fleet.keep_telling(3)
    hosts = [fleet.start(pod(ordinal), leases=cut) for ordinal, cut in enumerate(cuts)]
    await until(lambda: as_planned(fleet, 3), 60)
    fleet.keep_telling(3, RESTING_SECONDS)
    await asyncio.sleep(40)
    unread, began = Unread(fleet), virtual_clock()
    looking = asyncio.create_task(unread.look())
    cuts[1].off = True
    await until(lambda: sum(len(host.owned()) for host in (hosts[0], hosts[2])) == 12 and unread.all_read(), 90)
    print(f"goal cut off from storage, {layout}: {virtual_clock() - began:.1f} s, unread {unread.longest:.1f} s")
    # It reports the first renewal without a response. Without storage leases, others then wait for a claim.
    expiries = 1 if layout == LAYOUTS[0] else 2
    assert virtual_clock() - began <= expiries * fleet.lease_seconds
    looking.cancel()
    await fleet.close()


@EITHER
@virtual
async def test_a_second_host_reads_while_the_first_one_never_answers(layout: str) -> None:
    """The operator starts it when the first one is deleted before it has reported the number of partitions."""
    fleet = Fleet(FakeHub(32), layout, storage_seconds=0.025, hub_seconds=0.1)
    fleet.keep_telling(2)
    fleet.start(pod(1))
    took = await until(Unread(fleet).all_read, 60)
    print(f"goal second host, {layout}: {took:.1f} s")
    assert took <= GRACE_SECONDS + 5
    await fleet.close()


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
