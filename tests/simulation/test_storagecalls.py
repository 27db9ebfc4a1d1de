"""The rate of a host's storage requests, and what rest costs: against a fleet in virtual time."""

import asyncio

import pytest

from eventconsumer_host.host.storagecalls import SOON_SECONDS, WINDOW_SECONDS, StorageCalls, idle_per_hour
from eventconsumer_host.identity.records import MOVED_SECONDS
from eventconsumer_host.partition.manager import rarity
from tests.simulation.idle import HOSTS, SECONDS, idle_hour
from tests.simulation.test_fleet_partitions import EITHER
from tests.support.fakes.virtual import virtual
from tests.unit.host.fleets import virtual_clock


@virtual
async def test_the_rate_is_of_the_last_quarter_of_an_hour() -> None:
    told: list[tuple[str, str]] = []
    calls = StorageCalls(lambda operation, outcome: told.append((operation, outcome)), virtual_clock)
    for _ in range(2 * int(WINDOW_SECONDS)):
        calls.observe("list", "ok")
        if virtual_clock() < 1000 + SOON_SECONDS - 1:
            assert calls.per_hour() is None
        await asyncio.sleep(1)
    assert len(told) == 2 * WINDOW_SECONDS
    assert told[0] == ("list", "ok")
    assert calls.per_hour() == pytest.approx(3600, rel=0.1)
    await asyncio.sleep(WINDOW_SECONDS / 2)
    assert calls.per_hour() == pytest.approx(1800, rel=0.15)
    await asyncio.sleep(WINDOW_SECONDS)
    assert calls.per_hour() == 0


@EITHER
@pytest.mark.parametrize(
    ("told", "hosts"),
    [
        pytest.param(False, HOSTS, id="silent", marks=pytest.mark.long),
        pytest.param(True, HOSTS, id="told"),
        pytest.param(True, 2 * HOSTS, id="many"),
    ],
)
def test_what_hosts_expect_of_rest_is_what_rest_costs(layout: str, told: bool, hosts: int) -> None:
    leases = 32 // hosts
    rare = [rarity(hosts) if told and number else 1.0 for number in range(hosts)]  # the first host leads
    expected = sum(
        idle_per_hour(leases, SECONDS, leads=number == 0, rests=told, rarity=each) for number, each in enumerate(rare)
    )
    # These hosts do not check the records of the chain.
    expected -= sum(3 * 3600 / MOVED_SECONDS / each for each in rare)
    calls = idle_hour(layout, told=told, hosts=hosts)
    print(f"calls in an idle hour, 32 partitions, {hosts} hosts, {layout}, told {told}: {calls.total()} {dict(calls)}")
    assert calls.total() == pytest.approx(expected, rel=0.05)
    if told:
        assert calls.total() < 4200
