"""Balancing: simulated scans end balanced, and then nothing moves."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.lease.balancer import decide
from eventconsumer_host.lease.model import Lease


def leases_of(*owners: str) -> list[Lease]:
    """One lease for each owner; an empty owner means free."""
    return [
        Lease(str(number), owner=owner, token="t" if owner else "", leased=bool(owner))
        for number, owner in enumerate(owners)
    ]


@pytest.mark.parametrize(
    ("leases", "taken"),
    [
        (leases_of("", "", ""), 3),  # a single host takes everything at once
        (leases_of("b", "b", "", "", ""), 3),  # 5 partitions on 2 hosts: b has the floor, a may have the one more
        (leases_of("b", "b", "b", "", ""), 2),
        (leases_of("a", "b", "b"), 0),  # a difference of one moves nothing
        ([Lease(str(number), owner="b", leased=True) for number in range(4)], 0),  # a lease without a token is not ours
        ([Lease("0", leased=True), *leases_of("", "", "")[1:]], 2),  # an infinite lease without an owner is no host
    ],
)
def test_free_partitions_are_taken_up_to_the_fair_share(leases: list[Lease], taken: int) -> None:
    decision = decide("a", leases, Random(1))
    assert (len(decision.acquire), decision.steal) == (taken, None)


def test_one_partition_is_stolen_from_the_host_with_most() -> None:
    decision = decide("a", leases_of("b", "b", "b", "c"), Random(1))
    assert decision.acquire == ()
    assert decision.steal in {"0", "1", "2"}


@given(partitions=st.integers(1, 40), hosts=st.integers(1, 12), seed=st.integers(0, 10_000), data=st.data())
def test_scans_in_any_order_end_balanced_and_then_stay(
    partitions: int, hosts: int, seed: int, data: st.DataObject
) -> None:
    rng = Random(seed)
    names = [f"host-{number}" for number in range(hosts)]
    owners = data.draw(st.lists(st.sampled_from(["", *names]), min_size=partitions, max_size=partitions))
    leases = leases_of(*owners)

    def scan(name: str, seen: list[Lease]) -> bool:
        """One scan on what was seen; whether anything moved. The fastest host wins a free lease."""
        decision = decide(name, seen, rng)
        wanted = [*decision.acquire, *([decision.steal] if decision.steal else [])]
        moved = False
        for partition in wanted:
            now = leases[int(partition)]
            if now == seen[int(partition)]:
                leases[int(partition)] = replace(now, owner=name, token="t", leased=True)
                moved = True
        return moved

    for _ in range(3 * partitions + 5):  # each host sees the same state, as simultaneous scans do
        seen = list(leases)
        for name in rng.sample(names, len(names)):
            scan(name, seen)
    counts = [sum(lease.owner == name for lease in leases) for name in names]
    assert sum(counts) == partitions  # L1
    assert max(counts) - min(counts) <= 1  # L2
    assert not any(scan(name, list(leases)) for _ in range(5) for name in names)
