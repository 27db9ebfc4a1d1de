"""Fleets that are told what they are, beside fleets that are not: seconds until every partition is read as it should.

All in virtual time and in either layout; the figures are printed.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from eventconsumer_api.wire.fleet import FLEET_SILENCE_SECONDS
from eventconsumer_api.wire.identity import pod_of
from eventconsumer_host.lease.assignment import assignment
from eventconsumer_host.lease.keeper import RENEW
from eventconsumer_host.lease.planned_balancer import GRACE_SECONDS
from tests.unit.host.fleets import LAYOUTS, SCAN, Fleet, fleet_test, until

LEASE = 30.0
TOLD = pytest.mark.parametrize("told", [False, True], ids=["silent", "told"])
# The balance is decided from what either layout says of its leases; the second one is left to `make test-long`.
EITHER = pytest.mark.parametrize("layout", [LAYOUTS[0], pytest.param(LAYOUTS[1], marks=pytest.mark.long)])


def pod(ordinal: int, uid: str = "u1") -> str:
    """An owner id."""
    return f"shop/orders/orders-host-{ordinal}.{uid}"


def as_planned(fleet: Fleet, hosts: int) -> bool:
    """Every partition is owned by the host that the plan says."""
    plan = assignment(fleet.hub.partitions, hosts)
    return all(
        host.owned() == {partition for partition, ordinal in plan.items() if pod_of(name) == f"orders-host-{ordinal}"}
        for name, host in fleet.hosts.items()
    )


def started(count: int, hosts: int, told: bool) -> Callable[[Fleet], Awaitable[None]]:
    """A fleet at rest."""

    async def begin(fleet: Fleet) -> None:
        if told:
            fleet.keep_telling(hosts)
        for ordinal in range(hosts):
            fleet.start(pod(ordinal))
        if told:
            await until(lambda: as_planned(fleet, hosts), 30)
        await until(fleet.balanced, 300)
        await asyncio.sleep(40)
        assert sum(fleet.counts()) == count

    return begin


@EITHER
@TOLD
def test_a_second_host(layout: str, told: bool) -> None:
    async def test(fleet: Fleet) -> None:
        await started(32, 1, told)(fleet)
        if told:
            fleet.keep_telling(2)
            await asyncio.sleep(0.1)
        fleet.start(pod(1))
        seconds = await until(fleet.balanced, 16 * SCAN + 20)
        print(f"1 -> 2 hosts, 32 partitions, {layout}, {'told' if told else 'silent'}: {seconds:.1f} s")
        if told:
            assert seconds < 3 + 2  # it is told after three, and the other one gives up at once
            assert as_planned(fleet, 2)
        before = [host.owned() for host in fleet.hosts.values()]
        for _ in range(50):
            await asyncio.sleep(SCAN / 10)
            assert [host.owned() for host in fleet.hosts.values()] == before

    fleet_test(test, 32, layout)


@EITHER
@TOLD
def test_six_of_eight_hosts_leave_after_they_handed_over(layout: str, told: bool) -> None:
    async def test(fleet: Fleet) -> None:
        await started(32, 8, told)(fleet)
        leaving = [pod(ordinal) for ordinal in range(2, 8)]
        began = asyncio.get_running_loop().time()
        if told:
            fleet.keep_telling(2)
            await until(lambda: not any(fleet.hosts[name].owned() for name in leaving), 5)
        await asyncio.gather(*(fleet.hosts.pop(name).stop() for name in leaving))
        await until(fleet.balanced, 60)
        seconds = asyncio.get_running_loop().time() - began
        print(f"8 -> 2 hosts, 32 partitions, {layout}, {'told' if told else 'silent'}: {seconds:.1f} s")
        if told:
            assert seconds < 3

    fleet_test(test, 32, layout)


@EITHER
def test_what_was_handed_over_is_not_taken_back(layout: str) -> None:
    """A listing that was under way while a lease was released still names the host that gave it up."""

    async def test(fleet: Fleet) -> None:
        fleet.storage_seconds = 0.3
        await started(32, 8, told=True)(fleet)
        before = {name: host.owned() for name, host in fleet.hosts.items()}
        epochs = await _epochs(fleet)
        fleet.keep_telling(2)
        await until(lambda: as_planned(fleet, 2), 60)
        stayed = before[pod(0)] | before[pod(1)]
        assert await _epochs(fleet) == {
            partition: epoch + (partition not in stayed) for partition, epoch in epochs.items()
        }

    fleet_test(test, 32, layout)


async def _epochs(fleet: Fleet) -> dict[str, int]:
    listing = await fleet.hosts[pod(0)].manager._leases.list(fleet.hub.partitions)
    return {partition: lease.epoch for partition, lease in listing.leases.items()}


@EITHER
@TOLD
def test_a_killed_host_that_comes_back_under_its_name(layout: str, told: bool) -> None:
    async def test(fleet: Fleet) -> None:
        await started(32, 2, told)(fleet)
        mine, others = (fleet.hosts[pod(ordinal)].owned() for ordinal in range(2))
        await fleet.hosts.pop(pod(0)).kill()
        await asyncio.sleep(2)
        back = fleet.start(pod(0, "u2"))
        seconds = 2 + await until(lambda: as_planned(fleet, 2) if told else fleet.balanced(), LEASE + 2 * SCAN)
        print(f"killed and back after 2 s, 32 partitions, {layout}, {'told' if told else 'silent'}: {seconds:.1f} s")
        if told:
            assert seconds < 2 + 3 + 4  # it is back, the operator says so, it is given what others took meanwhile
            assert back.owned() == mine
            assert fleet.hosts[pod(1)].owned() == others

    fleet_test(test, 32, layout)


@EITHER
def test_a_killed_host_that_does_not_come_back_is_replaced_until_it_does(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        await started(32, 3, told=True)(fleet)
        await fleet.hosts.pop(pod(2)).kill()
        assert await until(fleet.balanced, 10) < 3 + 1  # it is told, and taken
        fleet.start(pod(2, "u2"))
        assert await until(lambda: as_planned(fleet, 3), 10) < 5

    fleet_test(test, 32, layout)


@EITHER
def test_a_host_that_stopped_in_order_and_does_not_come_back_is_replaced_after_the_grace(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        await started(32, 3, told=True)(fleet)
        await fleet.hosts.pop(pod(2)).stop()
        seconds = await until(fleet.balanced, GRACE_SECONDS + 2 * SCAN + 3)
        assert seconds > GRACE_SECONDS - 1
        fleet.start(pod(2, "u2"))
        assert await until(lambda: as_planned(fleet, 3), 10) < 5

    fleet_test(test, 32, layout)


@EITHER
def test_a_rolling_update_moves_nothing_between_hosts(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        await started(8, 2, told=True)(fleet)
        for ordinal in (1, 0):
            mine = fleet.hosts[pod(ordinal)].owned()
            await fleet.hosts.pop(pod(ordinal)).stop()
            other = fleet.hosts[next(iter(fleet.hosts))]
            held = other.owned()
            await asyncio.sleep(10)
            assert other.owned() == held
            back = fleet.start(pod(ordinal, "u2"))
            assert await until(lambda back=back, mine=mine: back.owned() == mine, 10) < 4  # type: ignore[misc]

    fleet_test(test, 8, layout)


async def resting(fleet: Fleet) -> None:
    """Two hosts, told, whose scans rest."""
    await started(8, 2, told=True)(fleet)
    lists = len([name for name, _ in fleet.leases.calls if name == "list"])
    await asyncio.sleep(60)
    assert len([name for name, _ in fleet.leases.calls if name == "list"]) - lists <= 2
    assert [host.manager.renewals() for host in fleet.hosts.values()] == [4, 4]


def test_a_host_at_rest_takes_back_a_lease_that_was_broken() -> None:
    async def test(fleet: Fleet) -> None:
        await resting(fleet)
        blob = fleet.blob("0")
        fleet.leases.break_lease(blob, 0)
        await until(lambda: sum(fleet.counts()) == 7, RENEW * LEASE + 1)  # the next renewal is refused
        await until(lambda: as_planned(fleet, 2), SCAN + 1)
        info = await fleet.leases.head(blob)
        assert info is not None and info.leased

    fleet_test(test, 8, "EventProcessorHost")


@EITHER
def test_a_host_that_hangs_loses_its_partitions_when_its_leases_expire_though_the_operator_is_there(
    layout: str,
) -> None:
    async def test(fleet: Fleet) -> None:
        await started(8, 2, told=True)(fleet)
        fleet.seen.clear()
        await fleet.hosts.pop(pod(1)).kill()
        # Its pod is there, so nobody can say that it ended; it is not ready.
        for task in fleet.telling:
            task.cancel()
        ready = ("orders-host-0",)

        async def tell() -> None:
            while True:
                fleet.tell(2, ready=ready)
                await asyncio.sleep(15)

        fleet.telling = [asyncio.create_task(tell())]
        seconds = await until(lambda: fleet.counts() == [8], 2 * LEASE + GRACE_SECONDS + 2 * SCAN)
        print(f"hangs, the operator cannot tell, {layout}: {seconds:.1f} s")
        assert seconds <= LEASE + GRACE_SECONDS + 2 * SCAN

    fleet_test(test, 8, layout)


@EITHER
def test_when_the_operator_falls_silent_the_leases_go_on_alone(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        await started(8, 2, told=True)(fleet)
        for task in fleet.telling:
            task.cancel()
        before = [host.owned() for host in fleet.hosts.values()]
        await asyncio.sleep(FLEET_SILENCE_SECONDS + 5 * SCAN)
        assert [host.owned() for host in fleet.hosts.values()] == before  # the plan was balanced: nothing moves
        await fleet.hosts.pop(pod(1)).kill()
        await until(fleet.balanced, LEASE + 2 * SCAN)

    fleet_test(test, 8, layout)


@EITHER
def test_events_are_read_once_through_every_change(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        async def publish() -> None:
            while True:
                for part in fleet.hub.partitions.values():
                    part.add(b"event")
                await asyncio.sleep(1)

        await started(8, 1, told=True)(fleet)
        publishing = asyncio.create_task(publish())
        fleet.start(pod(1))
        fleet.keep_telling(2)
        await asyncio.sleep(20)
        await fleet.hosts.pop(pod(0)).kill()
        await asyncio.sleep(4)
        fleet.start(pod(0, "u2"))
        await asyncio.sleep(20)
        fleet.tell(
            2, ready=("orders-host-0", "orders-host-1"), gone=(pod(1),)
        )  # it lives: safety does not depend on it
        await asyncio.sleep(20)
        fleet.keep_telling(1)
        await asyncio.sleep(10)
        await fleet.hosts.pop(pod(1)).stop()
        publishing.cancel()
        await until(fleet.drained, 60)
        assert as_planned(fleet, 1)
        fleet.files()  # every chain is whole and its epochs rise

    fleet_test(test, 8, layout)
