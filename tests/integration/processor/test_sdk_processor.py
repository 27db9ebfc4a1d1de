"""A processor of the unmodified SDK beside our hosts on one container: shares, checkpoints, and files exactly once."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eventconsumer_api.wire.identity import pod_of
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import Drained, assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer
from tests.integration.processor.sdk_processor import SdkProcessor, owners
from tests.support.waiting import wait_until

StartSdk = Callable[..., SdkProcessor]
LEASE_SECONDS = 15
STABLE_SECONDS = 3 * LEASE_SECONDS / 6 * 1.2  # three scans


def sdk_consumer(make: MakeConsumer, partitions: int) -> Consumer:
    """A consumer whose leases are in the SDKs' layout and shared with other programs."""
    orders = make(partitions=partitions)
    orders.config["leases"] |= {"layout": "AzureSdk", "shared": True, "durationSeconds": LEASE_SECONDS}
    with orders.container(orders.leases) as container:
        container.create_container()  # the SDK makes none
    return orders


@pytest.fixture
def sdk(tmp_path: Path) -> Iterator[StartSdk]:
    """Starts processors of the SDK: `sdk(consumer)`."""
    started: list[SdkProcessor] = []

    def start(consumer: Consumer, name: str = "sdk") -> SdkProcessor:
        started.append(SdkProcessor(consumer, tmp_path, name))
        return started[-1]

    yield start
    for one in started:
        one.close()


def publish(consumer: Consumer, each: int, start: int = 0) -> None:
    """Send `each` events to every partition; their numbers begin at `start`."""
    for partition in consumer.heads():
        consumer.publish(each, partition, start)
        start += each


def numbers(processor: SdkProcessor) -> int:
    """How many events a processor was given."""
    return sum(map(len, processor.given.values()))


def files(consumer: Consumer) -> Drained:
    """What our hosts drained, checked."""
    with consumer.container(consumer.drained) as container:
        return read_drained(container, "shop/orders")


def foreign(drained: Drained) -> Counter[tuple[str, int]]:
    """Partition and sequence number of every event that a file records as processed by another program."""
    found: Counter[tuple[str, int]] = Counter()
    for name, reason in drained.gaps.items():
        partition = name.split("partition=")[1].split("/")[0]
        kind, _, ranges = reason.partition(":")
        assert kind == "foreign", (name, reason)
        for span in ranges.split(","):
            first, last = map(int, span.split("-"))
            found.update((partition, number) for number in range(first, last + 1))
    return found


def shares(consumer: Consumer) -> Counter[str]:
    """How many partitions each owner has."""
    return Counter(owner for owner in owners(consumer).values() if owner)


def wait_settled(consumer: Consumer, fair: Callable[[], bool]) -> dict[str, str]:
    """Wait until the shares are fair and no partition changes its owner for three scans; the owners then."""
    since, last = time.monotonic(), owners(consumer)

    def met() -> bool:
        nonlocal since, last
        now, good = owners(consumer), fair()
        if now != last or not good:
            since, last = time.monotonic(), now
        return time.monotonic() - since >= STABLE_SECONDS

    wait_until(met, f"fair and settled: {last}")
    return last


@pytest.mark.long  # contract/host/lease has the SDK's leases, simulation their balance
def test_partitions_are_shared_fairly_and_each_event_of_ours_is_in_one_file(
    consumer: MakeConsumer, sdk: StartSdk
) -> None:
    orders = sdk_consumer(consumer, partitions=8)
    publish(orders, 100)
    host = orders.host()
    wait_until(lambda: len(host.owned()) == 8, f"the host owns all partitions: {host.log}")
    other = sdk(orders)
    sent = 800

    def fair() -> bool:
        nonlocal sent
        publish(orders, 1, sent)
        sent += 8
        return sorted(shares(orders).values()) == [4, 4] and len(host.owned()) == 4

    before = wait_settled(orders, fair)
    assert host.owned() == {partition for partition, owner in before.items() if pod_of(owner) == "orders-host-0"}
    seen = numbers(other)
    publish(orders, 100, sent)
    sent += 800
    wait_until(lambda: numbers(other) > seen + 200, "the SDK's processor reads its partitions")
    other.stop()
    wait_until(lambda: len(host.owned()) == 8, f"what it gave back is taken: {host.log[-3000:]}")
    publish(orders, 10, sent)
    sent += 80

    def drained() -> bool:
        found = {part.id: part.next_sequence_number for part in host.report().partitions}
        return found == {partition: head + 1 for partition, head in orders.heads().items()}

    wait_until(drained, f"drained: {host.log[-3000:]}")
    result = files(orders)
    rows = Counter((partition, number) for partition, found in result.rows.items() for number in found)
    skipped = foreign(result)
    everything = {(partition, number) for partition, head in orders.heads().items() for number in range(head + 1)}
    assert set(rows.values()) == {1}
    assert set(skipped.values()) == {1}
    assert not rows.keys() & skipped.keys()
    assert rows.keys() | skipped.keys() == everything
    given = {(partition, number) for partition, found in other.given.items() for number in found}
    assert skipped.keys() <= given  # what no file has, the other program was given
    assert "Traceback" not in host.log
    assert host.terminate() == 0


def test_ours_continues_at_checkpoints_of_the_sdk_and_the_sdk_at_ours(consumer: MakeConsumer, sdk: StartSdk) -> None:
    orders = sdk_consumer(consumer, partitions=4)
    publish(orders, 100)
    first = sdk(orders)
    wait_until(lambda: sum(first.reached.get(p, -1) + 1 for p in orders.heads()) == 400, "the SDK read everything")
    first.stop()
    host = orders.host()
    publish(orders, 100, 400)
    middle = orders.heads()

    def drained() -> bool:
        found = {part.id: part.next_sequence_number for part in host.report().partitions}
        return found == {partition: head + 1 for partition, head in middle.items()}

    wait_until(drained, f"our host read the rest: {host.log[-3000:]}")
    assert host.terminate() == 0
    result = files(orders)
    assert_exactly_once(result, middle, 400)  # the second half, each once
    assert {partition: rows[0] for partition, rows in result.rows.items()} == {
        partition: reached + 1 for partition, reached in first.reached.items()
    }
    assert set(owners(orders).values()) == {""}
    second = sdk(orders, "again")
    publish(orders, 100, 800)
    heads = orders.heads()
    wait_until(lambda: second.reached == heads, f"the SDK reads the third part: {second.errors}")
    second.stop()
    assert {partition: min(found) for partition, found in second.given.items()} == {
        partition: head + 1 for partition, head in middle.items()
    }
    assert numbers(second) == 400


@pytest.mark.long
def test_two_of_ours_and_one_of_the_sdk_have_a_third_each(consumer: MakeConsumer, sdk: StartSdk) -> None:
    orders = sdk_consumer(consumer, partitions=6)
    hosts = [orders.host(f"orders-host-{number}") for number in range(2)]
    other = sdk(orders)
    wait_settled(
        orders,
        lambda: sorted(shares(orders).values()) == [2, 2, 2] and sum(len(host.owned()) for host in hosts) == 4,
    )
    publish(orders, 100)
    wait_until(lambda: numbers(other) > 0, "the SDK's processor reads")
    other.stop()
    wait_until(lambda: sorted(shares(orders).values()) == [3, 3], f"three each: {shares(orders)}")
