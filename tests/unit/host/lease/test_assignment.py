"""The plan: balanced, the same everywhere, and as few moves as it must."""

from collections import Counter
from collections.abc import Mapping

import hypothesis.strategies as st
import pytest
from hypothesis import given

from eventconsumer_host.lease.assignment import assignment

COUNTS = st.integers(1, 80)
HOSTS = st.integers(1, 40)


def ids(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def moved(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Partitions that were on a host and are on another."""
    return [partition for partition in before if after[partition] != before[partition]]


@given(partitions=COUNTS, hosts=HOSTS)
def test_the_plan_is_balanced_and_complete(partitions: int, hosts: int) -> None:
    plan = assignment(ids(partitions), hosts)
    loads = Counter(plan.values())
    assert set(plan) == set(ids(partitions))
    assert set(loads) <= set(range(hosts))
    counts = [loads[ordinal] for ordinal in range(hosts)]
    assert max(counts) - min(counts) <= 1


@given(partitions=COUNTS, hosts=HOSTS)
def test_one_more_host_moves_only_its_share(partitions: int, hosts: int) -> None:
    before, after = assignment(ids(partitions), hosts), assignment(ids(partitions), hosts + 1)
    changed = moved(before, after)
    assert {after[partition] for partition in changed} <= {hosts}  # only the new host takes
    assert len(changed) == partitions // (hosts + 1)  # and no more than makes it even


@given(partitions=COUNTS, hosts=HOSTS, data=st.data())
def test_the_plan_does_not_depend_on_the_order_of_partitions(partitions: int, hosts: int, data: st.DataObject) -> None:
    names = data.draw(st.permutations(ids(partitions)))
    assert assignment(names, hosts) == assignment(ids(partitions), hosts)


def test_the_plan_is_the_same_in_every_process_and_version() -> None:
    plan = assignment(ids(12), 5)
    assert [plan[partition] for partition in ids(12)] == [3, 1, 0, 4, 2, 0, 0, 1, 3, 4, 2, 2]


@pytest.mark.parametrize("hosts", [2, 3, 5, 8])
def test_more_partitions_leave_most_where_they_are(hosts: int) -> None:
    one_more = [
        len(moved(assignment(ids(count), hosts), assignment(ids(count + 1), hosts))) / count for count in range(8, 65)
    ]
    assert sum(one_more) / len(one_more) < 0.25
    doubled = [
        len(moved(assignment(ids(count), hosts), assignment(ids(2 * count), hosts))) / count for count in range(8, 65)
    ]
    assert sum(doubled) / len(doubled) < 0.5  # taking the last ones would move seven of ten


def test_more_hosts_than_partitions_or_none() -> None:
    assert assignment(ids(3), 10**9) == assignment(ids(3), 3)
    assert assignment(ids(4), 0) == assignment([], 3) == {}
