"""Partitions that a host takes and gives up while it knows the fleet: pure decisions on the test's clock."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given

from eventconsumer_host.lease.assignment import assignment
from eventconsumer_host.lease.balancer import Decision
from eventconsumer_host.lease.model import Lease
from eventconsumer_host.lease.planned_balancer import (
    GRACE_SECONDS,
    KEEP_SECONDS,
    WAIT_SECONDS,
    Balancer,
    Fleet,
    ScanInput,
)


def pods(*ordinals: int) -> frozenset[str]:
    return frozenset(f"orders-host-{ordinal}" for ordinal in ordinals)


def owner(ordinal: int, uid: str = "u1") -> str:
    return f"shop/orders/orders-host-{ordinal}.{uid}"


@dataclass
class Group:
    """The leases of a group, as all hosts see them."""

    count: int = 8
    now: float = 1000.0
    owners: dict[str, str] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        return [str(number) for number in range(self.count)]

    def plan(self, hosts: int, ordinal: int) -> set[str]:
        """What the plan gives a host."""
        return {partition for partition, at in assignment(self.ids, hosts).items() if at == ordinal}

    def own(self, name: str, partitions: set[str]) -> None:
        self.owners |= dict.fromkeys(partitions, name)

    def view(self, name: str) -> ScanInput:
        leases = {
            partition: Lease(partition, found, token="t" if found else "", leased=bool(found))
            for partition in self.ids
            for found in [self.owners.get(partition, "")]
        }
        return ScanInput(self.now, self.ids, leases, {at for at, found in self.owners.items() if found == name})

    def decide(self, balancer: Balancer, name: str, fleet: Fleet | None) -> Decision:
        return balancer.decide(self.view(name), fleet)


def balancer(name: str, *, shared: bool = False) -> Balancer:
    return Balancer(name, Random(1), shared=shared)


def test_a_host_takes_at_once_what_the_plan_gives_it_and_nothing_else() -> None:
    group, me = Group(), owner(1)
    decision = group.decide(balancer(me), me, Fleet(2, ready=pods(0)))
    assert set(decision.acquire) == group.plan(2, 1)
    assert decision.steal is None and not decision.release


def test_a_deaf_host_gives_all_up_and_others_take_them_at_once() -> None:
    group, deaf, other = Group(), owner(1), owner(0)
    group.own(deaf, group.plan(2, 1))
    group.own(other, group.plan(2, 0))
    told = Fleet(2, ready=pods(0), deaf=pods(1))
    here, there = balancer(deaf), balancer(other)
    assert set(group.decide(here, deaf, told).release) == group.plan(2, 1)
    group.own("", group.plan(2, 1))
    assert group.decide(here, deaf, told).acquire == ()
    assert set(group.decide(there, other, told).acquire) == group.plan(2, 1)
    group.own(other, group.plan(2, 1))
    hears = Fleet(2, ready=pods(0, 1))
    assert group.decide(there, other, hears).release  # it hears the hub again


def test_a_host_takes_its_partitions_from_an_owner_that_is_gone_but_not_from_one_that_lives() -> None:
    group, me, former = Group(), owner(1, "u2"), owner(1, "u1")
    group.own(former, group.plan(2, 1))
    group.own(owner(0), group.plan(2, 0))
    here = balancer(me)
    waiting = group.decide(here, me, Fleet(2, ready=pods(0, 1)))
    assert (waiting.acquire, waiting.steal, waiting.hurry) == ((), None, True)
    assert set(group.decide(here, me, Fleet(2, pods(0, 1), frozenset([former]))).acquire) == group.plan(2, 1)


def test_a_host_gives_up_only_partitions_that_another_host_is_ready_for() -> None:
    group, me = Group(), owner(0)
    group.own(me, set(group.ids))
    here = balancer(me)
    assert group.decide(here, me, Fleet(3, ready=pods(0))).release == ()
    assert set(group.decide(here, me, Fleet(3, ready=pods(0, 2))).release) == group.plan(3, 2)


@pytest.mark.parametrize(("count", "moving"), [(8, 2), (64, 16), (1024, 64)])
def test_some_partitions_move_at_a_time(count: int, moving: int) -> None:
    group = Group(count)
    group.own(owner(0), set(group.ids))
    assert len(group.decide(Balancer(owner(0), Random(1)), owner(0), Fleet(2, pods(0, 1))).release) == moving


@pytest.mark.parametrize("ready", [False, True])
def test_an_expired_lease_is_acquired_at_once_if_the_host_of_the_plan_is_not_ready(ready: bool) -> None:
    group = Group()
    for ordinal in range(2):
        group.own(owner(ordinal), group.plan(2, ordinal))
    view, expired = group.view(owner(0)), group.plan(2, 1)
    leases = {name: replace(lease, leased=name not in expired) for name, lease in view.leases.items()}
    fleet = Fleet(2, pods(0, 1) if ready else pods(0))
    found = Balancer(owner(0), Random(1)).decide(replace(view, leases=leases), fleet).acquire
    assert set(found) == (set() if ready else expired)


def test_a_host_that_leaves_gives_up_as_the_others_become_ready() -> None:
    group, me = Group(), owner(2)
    group.own(me, group.plan(3, 2))
    here = balancer(me)
    assert group.decide(here, me, Fleet(2, ready=pods())).release == ()
    first = set(group.decide(here, me, Fleet(2, ready=pods(0))).release)
    assert first == group.plan(3, 2) & group.plan(2, 0)
    assert set(group.decide(here, me, Fleet(2, ready=pods(0, 1))).release) == group.plan(3, 2)


def test_with_no_hosts_wanted_a_host_keeps_its_partitions_until_it_stops() -> None:
    group, me = Group(), owner(0)
    group.own(me, {"1", "2"})
    here = balancer(me)
    for _ in range(200):
        assert group.decide(here, me, Fleet(0, ready=pods())) == Decision()
        group.now += 5


def test_a_partition_of_another_host_is_taken_after_the_grace_period_by_the_host_with_fewest() -> None:
    group = Group(count=9)
    names = [owner(number) for number in range(3)]
    here = {name: balancer(name) for name in names}
    fleet = Fleet(3, ready=pods(0, 1))  # host 2 is away
    for number in (0, 1):
        group.own(names[number], group.plan(3, number))

    def taken() -> dict[str, tuple[str, ...]]:
        return {name: group.decide(here[name], name, fleet).acquire for name in names[:2]}

    assert taken() == {names[0]: (), names[1]: ()}
    group.now += GRACE_SECONDS - 1
    assert taken() == {names[0]: (), names[1]: ()}
    group.now += 1
    decided = taken()
    assert sorted([*decided[names[0]], *decided[names[1]]]) == sorted(group.plan(3, 2))
    assert {len(found) for found in decided.values()} == {1, 2}
    for name, partitions in decided.items():
        group.own(name, set(partitions))
    back = Fleet(3, ready=pods(0, 1, 2))
    assert {len(group.decide(here[name], name, back).release) for name in names[:2]} == {1, 2}


@pytest.mark.parametrize("attempts", [1, 20])  # scans until the lease is acquired
def test_a_partition_that_its_host_did_not_take_is_offered_at_growing_intervals(attempts: int) -> None:
    group, me = Group(count=2), owner(0)
    group.own(me, group.plan(2, 0))
    (other,) = group.plan(2, 1)
    here, fleet = balancer(me), Fleet(2, ready=pods(0, 1))  # host 1 says it is ready, and takes nothing
    kept = []
    for _ in range(3):
        began = group.now
        while not group.decide(here, me, fleet).acquire:
            group.now += 1
        assert GRACE_SECONDS <= group.now - began <= GRACE_SECONDS + 2
        for _ in range(attempts - 1):
            group.now += 1
            assert group.decide(here, me, fleet).acquire == (other,)
        group.own(me, {other})
        began = group.now
        while not group.decide(here, me, fleet).release:
            group.now += 1
        kept.append(group.now - began)
        del group.owners[other]
    assert kept == [KEEP_SECONDS, 2 * KEEP_SECONDS, 4 * KEEP_SECONDS]


def test_an_owner_that_does_not_give_up_loses_by_the_lease_rule_after_a_while() -> None:
    group, me, deaf = Group(), owner(1), owner(0)
    group.own(deaf, set(group.ids))
    here, fleet = balancer(me), Fleet(2, ready=pods(0, 1))
    began = group.now
    while (decision := group.decide(here, me, fleet)).steal is None:
        assert decision.acquire == ()
        assert decision.hurry == (group.now - began < WAIT_SECONDS)
        group.now += 1
    assert group.now - began == WAIT_SECONDS
    while decision.steal is not None:
        assert decision.steal in group.plan(2, 1)
        group.own(me, {decision.steal})
        decision = group.decide(here, me, fleet)
    assert Counter(group.owners.values()) == {me: 4, deaf: 4}


def test_a_host_that_is_not_ready_yet_waits_without_hurry() -> None:
    group, me = Group(), owner(1)
    group.own(owner(0), set(group.ids))
    here = balancer(me)
    for _ in range(20):
        assert group.decide(here, me, Fleet(2, ready=pods(0))) == Decision()
        group.now += 10
    assert group.decide(here, me, Fleet(2, ready=pods(0, 1))).hurry


def test_nothing_is_given_up_while_hosts_may_know_different_partitions() -> None:
    group, me = Group(), owner(0)
    group.own(me, set(group.ids))
    here = balancer(me)
    assert group.decide(here, me, Fleet(2, pods(0, 1), partitions=9)).release == ()
    assert group.decide(here, me, Fleet(2, pods(0, 1), partitions=8)).release


def test_without_a_message_the_lease_rule_decides() -> None:
    group, me = Group(), owner(1)
    group.own(owner(0), set(group.ids))
    decision = group.decide(balancer(me), me, None)
    assert decision.steal in group.ids and not decision.hurry


def test_where_other_programs_share_the_leases_only_the_gone_count() -> None:
    group, me, dead = Group(), owner(1), owner(0)
    group.own(dead, set(group.ids))
    here = balancer(me, shared=True)
    assert group.decide(here, me, Fleet(2, ready=pods(0, 1))).steal in group.ids
    decision = group.decide(here, me, Fleet(2, pods(1), frozenset([dead])))
    assert set(decision.acquire) == set(group.ids)
    group.own(me, set(group.ids))
    assert group.decide(here, me, Fleet(2, pods(0, 1))).release == ()


def test_a_host_without_an_ordinal_follows_no_plan() -> None:
    group, me = Group(), "laptop.u1"
    group.own(owner(0), set(group.ids))
    assert group.decide(balancer(me), me, Fleet(2, pods(0, 1))).steal in group.ids


def test_a_host_keeps_its_partitions_when_a_message_reports_it_gone() -> None:
    group, me = Group(), owner(0)
    group.own(me, group.plan(1, 0))
    assert group.decide(balancer(me), me, Fleet(1, pods(0), frozenset([me]))) == Decision(rest=True)


@pytest.mark.parametrize("other", ["shop/billing/billing-host-0.u1", "market/orders/orders-host-0.u1", "an-sdk"])
def test_a_host_of_another_consumer_is_no_member_of_the_fleet(other: str) -> None:
    group, me = Group(), owner(1)
    group.own(other, group.plan(2, 0))
    group.own(me, group.plan(2, 1))
    decided = group.decide(balancer(me), me, Fleet(2, pods(0, 1)))
    assert not decided.rest and not decided.acquire and not decided.release
    group.own(owner(0), group.plan(2, 0))
    assert group.decide(balancer(me), me, Fleet(2, pods(0, 1))).rest


@given(
    partitions=st.integers(1, 16),
    changes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_fleets_that_change_come_to_the_plan_and_then_stay(
    partitions: int, changes: list[int], seed: int, data: st.DataObject
) -> None:
    """Whoever owned what before, once all wanted hosts are ready each has what the plan gives it (L1, L2)."""
    names = [owner(number) for number in range(6)]
    group = Group(count=partitions)
    before = data.draw(st.lists(st.sampled_from(["", *names]), min_size=partitions, max_size=partitions))
    group.owners = {str(number): found for number, found in enumerate(before) if found}
    here = {name: balancer(name) for name in names}
    rng = Random(seed)

    def scan(name: str, fleet: Fleet) -> bool:
        decision = group.decide(here[name], name, fleet)
        assert decision.steal is None  # nobody is deaf, so nobody needs to be stolen from
        for partition in decision.release:
            assert group.owners.pop(partition) == name
        for partition in decision.acquire:
            assert partition not in group.owners
            group.owners[partition] = name
        return bool(decision.release or decision.acquire)

    for hosts in changes:
        fleet = Fleet(hosts, ready=pods(*range(hosts)))
        for _ in range(14):  # partitions move a few at a time
            for name in rng.sample(names, len(names)):
                scan(name, fleet)
            group.now += 1
        plan = assignment(group.ids, hosts)
        assert group.owners == {partition: names[plan[partition]] for partition in group.ids}
        for _ in range(2):
            group.now += 5
            for name in names:
                assert not scan(name, fleet)
