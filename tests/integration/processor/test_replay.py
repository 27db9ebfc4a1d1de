"""Replays beside a host that goes on draining: complete, bounded, exactly once whatever happens to them."""

import json
import time
from datetime import UTC, datetime
from typing import Any

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.audited import Leases, run_audit
from tests.support.azurite import AzuriteProcess
from tests.support.waiting import wait_until

GROUP = "again"
FOLDER = "shop/orders/_replays/first"


def replay(orders: Consumer, name: str, **changes: Any) -> HostProcess:
    """A replay's process: a host with places of its own."""
    config = orders.config
    leases, sink = config["leases"], config["sink"]
    return orders.host(
        name,
        eventHub=config["eventHub"] | {"consumerGroup": GROUP},
        leases=leases | {"location": leases["location"] | {"prefix": "_replays/first/"}},
        sink=sink | {"prefix": FOLDER},
        **({"replay": {"name": "first"}} | changes),
    )


def publish(orders: Consumer, each: int, start: int) -> int:
    """Events in every partition; the number behind the last one."""
    for partition in orders.heads():
        orders.publish(each, partition, start)
        start += each
    return start


def folder(orders: Consumer, prefix: str) -> Any:
    """What was drained into a folder."""
    with orders.container(orders.drained) as container:
        return read_drained(container, prefix)


def with_group(consumer: MakeConsumer, **overrides: Any) -> Consumer:
    """A consumer on a hub with a second consumer group."""
    orders = consumer(partitions=4, **overrides)
    orders.emulator.admin.delete_hub(orders.hub)
    orders.emulator.admin.create_hub(orders.hub, partitions=4, groups=["$Default", GROUP])
    return orders


def test_a_replay_is_complete_though_it_is_killed_and_leaves_the_consumer_alone(
    consumer: MakeConsumer, azurite: AzuriteProcess
) -> None:
    orders = with_group(consumer)
    host = orders.host()
    sent = publish(orders, 500, 0)
    wait_until(lambda: len(host.owned()) == 4, "the host drains")
    heads = orders.heads()
    small = {"maxBytes": 1_000_000, "maxSeconds": 1, "maxEvents": 100}
    first = replay(orders, "replay-0", roll=small)
    wait_until(lambda: "file committed" in first.log, f"the replay has begun: {first.log}")
    first.process.kill()
    first.process.wait()
    after = publish(orders, 100, sent)  # behind the end that the first attempt recorded
    second = replay(orders, "replay-1", roll=small)
    assert second.process.wait(90) == 0, second.log[-3000:]
    assert_exactly_once(folder(orders, FOLDER), heads, sent)
    report = run_audit(
        azurite, orders.drained, FOLDER, Leases(orders.leases, prefix="_replays/first/", consumer_group=GROUP)
    )
    assert report["exitCode"] == 0, report["findings"]
    third = replay(orders, "replay-2")  # the same name: nothing is left to do
    assert third.process.wait(60) == 0
    assert json.loads(third.log.splitlines()[-2])["events"] == sent
    assert_exactly_once(folder(orders, FOLDER), heads, sent)
    wait_until(lambda: sum(part.events for part in host.report().partitions) == after, "the host went on")
    assert "LinkStolen" not in host.log
    assert len([line for line in host.log.splitlines() if '"attached"' in line]) == 4
    host.terminate()
    assert_exactly_once(folder(orders, "shop/orders"), orders.heads(), after)
    report = run_audit(azurite, orders.drained, "shop/orders", Leases(orders.leases))
    assert report["exitCode"] == 0, report["findings"]


def test_a_replay_from_a_time_to_a_time_of_some_partitions(consumer: MakeConsumer) -> None:
    orders = with_group(consumer)
    times, sent = [], 0
    for _ in range(3):
        times.append(datetime.now(UTC).isoformat())
        time.sleep(0.2)
        sent = publish(orders, 50, sent)
        time.sleep(0.2)
    done = replay(
        orders,
        "replay-0",
        replay={"name": "first", "to": times[2], "partitions": ["1", "3"]},
        startingPosition={"type": "EnqueuedTime", "enqueuedTime": times[1]},
    )
    assert done.process.wait(60) == 0, done.log[-3000:]
    assert folder(orders, FOLDER).rows == {"1": list(range(50, 100)), "3": list(range(50, 100))}
