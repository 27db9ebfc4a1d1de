"""The capacity model: it agrees with the host's own figures, grows with the load, and follows the spec."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.resource.capacity import (
    HOST_CORES,
    Load,
    Prices,
    host_cpu_seconds,
    host_mib,
    plan,
    requests_per_second,
)
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_host.batch.leader import MEASURE_SECONDS
from eventconsumer_host.host.storagecalls import idle_per_hour
from eventconsumer_host.partition.manager import rarity
from tests.unit.operator.worlds import SPARK, SPEC


def spec(**fields: Any) -> EventConsumerSpec:
    """A spec with these fields; no Spark without them."""
    return EventConsumerSpec.model_validate({**SPEC, "spark": None} | fields)


IDLE = Load(rate=0, event_bytes=1000, partitions=32, hosts=8)
LOADS = st.builds(
    Load,
    rate=st.floats(0, 1e7),
    event_bytes=st.floats(1, 1e6),
    partitions=st.integers(1, 2048),
    hosts=st.integers(1, 128),
    table_seconds=st.none() | st.integers(1, 3600),
)


@pytest.mark.parametrize("operator", [True, False], ids=["told", "silent"])
@pytest.mark.parametrize("lease_seconds", [15, 60])
@pytest.mark.parametrize("hosts", [1, 8, 32, 128])
def test_requests_at_idle_are_those_that_hosts_expect(hosts: int, lease_seconds: int, operator: bool) -> None:
    load = replace(IDLE, partitions=4 * hosts, hosts=hosts, lease_seconds=lease_seconds, operator=operator)
    expected = sum(
        idle_per_hour(
            4, lease_seconds, leads=number == 0, rests=operator, rarity=rarity(hosts) if operator and number else 1.0
        )
        for number in range(hosts)
    )
    assert requests_per_second(load).total * 3600 == pytest.approx(expected, rel=0.01)


def test_each_file_costs_two_writes_and_two_reads() -> None:
    busy = replace(IDLE, rate=3200)  # 100 events per second and partition: a file each minute
    assert busy.files == pytest.approx(32 / 60, rel=0.01)
    more = requests_per_second(busy)
    idle = requests_per_second(IDLE)
    assert more.writes - idle.writes == pytest.approx(2 * busy.files)
    assert more.reads - idle.reads == pytest.approx(2 * busy.files)
    every_second = requests_per_second(replace(busy, roll_seconds=1))
    # The leading host looks at each partition once in `MEASURE_SECONDS`, however many files there are.
    assert every_second.reads - idle.reads == pytest.approx(2 * 32 / MEASURE_SECONDS)


def test_a_table_costs_a_read_for_each_look() -> None:
    with_table = requests_per_second(replace(IDLE, table_seconds=10))
    assert with_table.reads - requests_per_second(IDLE).reads == pytest.approx(3.2)
    assert with_table.writes == requests_per_second(IDLE).writes


@given(LOADS, st.floats(1, 10))
def test_a_higher_rate_never_costs_less(load: Load, factor: float) -> None:
    more = replace(load, rate=load.rate * factor)
    assert host_cpu_seconds(more) >= host_cpu_seconds(load) - 1e-9
    assert requests_per_second(more).total >= requests_per_second(load).total - 1e-9
    assert more.files >= load.files
    assert host_mib(more) < 200 + load.buffer_bytes / 2**20 + 1


@pytest.mark.parametrize(
    ("overrides", "seconds"),
    [
        ({}, 60.01),
        ({"roll_events": 1000}, 10),
        ({"roll_bytes": 300_000}, 3),
        ({"buffer_bytes": 8_000_000}, 17.5),  # seven eighths of it, for the four partitions of a host
    ],
)
def test_the_first_limit_reached_completes_a_file(overrides: dict[str, float], seconds: float) -> None:
    load = replace(IDLE, rate=3200, **overrides)  # type: ignore[arg-type]
    assert load.partitions / load.files == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("scaling", "hosts"),
    [
        ({}, 32),
        ({"partitionsPerHost": 8}, 4),
        ({"mode": "Fixed", "replicas": 3}, 3),
        ({"mode": "Lag"}, 3),
        ({"mode": "Lag", "maxReplicas": 2}, 2),
    ],
)
def test_hosts_follow_the_scaling_of_the_spec(scaling: dict[str, object], hosts: int) -> None:
    made = plan(spec(scaling=scaling), 200_000, 1000, 32)
    assert made.needed_hosts == 3
    assert made.load.hosts == hosts
    assert plan(spec(scaling=scaling), 200_000, 1000, 32, hosts=5).load.hosts == 5


def test_the_needed_hosts_have_room_to_catch_up() -> None:
    made = plan(spec(scaling={"mode": "Lag", "maxReplicas": 1024}), 1_000_000, 1000, 512)
    assert made.cores / made.load.hosts <= HOST_CORES
    fewer = replace(made.load, hosts=made.load.hosts - 1)
    assert host_cpu_seconds(fewer) / fewer.hosts > HOST_CORES


def test_the_most_used_limit_is_first() -> None:
    made = plan(spec(), 100_000, 1000, 32)
    assert (made.limits[0].name, made.limits[0].share) == ("throughput units of a Standard namespace", 2.5)
    assert made.units == 100


def test_resident_drivers_cost_less_and_no_spark_costs_nothing() -> None:
    spark = SPARK["spark"] | {"trigger": {"files": 32}}
    each = plan(spec(spark=spark), 3200, 1000, 32)
    assert each.batches_per_day == pytest.approx(1440, rel=0.01)
    stays = plan(spec(spark=spark | {"idleTimeoutSeconds": 600}), 3200, 1000, 32)
    assert 0 < stays.spark_cores < each.spark_cores
    none = plan(spec(), 3200, 1000, 32)
    assert none.batches_per_day == none.spark_cores == 0


def test_costs_are_proportional_to_prices() -> None:
    made = plan(spec(), 1000, 1000, 8)
    free = Prices(0, 0, 0, 0, 0, 0, 0)
    assert set(made.costs(free, 30).values()) == {0}
    kept = [made.costs(Prices(), days)["storage, files"] for days in (1, 30)]
    assert kept[1] == pytest.approx(30 * kept[0])
    assert kept[0] == pytest.approx(1000 * 1000 * 0.5 * 86_400 / 1e9 * 0.018)
