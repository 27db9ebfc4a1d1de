"""Hosts that are killed, stopped or many at once (rows 1 to 4, 24 and 25 of the fault list)."""

import threading
import time

import pytest

from tests.faults.rows import simulated
from tests.faults.stage import (
    LEASE_SECONDS,
    NEVER,
    FaultStage,
    checkpoints,
    logged,
    publish,
    slots,
    wait_buffered,
    wait_owned,
)
from tests.support.faultactions import Hold
from tests.support.waiting import wait_until


@simulated("crash")
def test_01_killed_with_a_full_buffer(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=4)
    orders.publish(1000)
    first = orders.host("first", roll=NEVER)
    wait_buffered(first, 1000)
    second = orders.host("second")
    wait_until(lambda: len(second.owned()) == 2, "the second has its share")
    orders.publish(1000, start=1000)
    first.kill()
    wait_owned(second, 4)  # L1
    stage.settled(orders, 2000)


def test_02_killed_between_file_and_checkpoint(stage: FaultStage) -> None:
    orders, proxy = stage.consumer(), stage.proxy()
    publish(orders, 250)
    checkpoint = proxy.add(checkpoints(), Hold())
    first = stage.host(orders, "first", proxy)
    checkpoint.wait(count=2)
    first.kill()
    files = slots(orders)
    assert len(files) >= 2
    second = orders.host("second")
    wait_owned(second, 2)
    publish(orders, 250, start=500)
    stage.settled(orders, 1000)
    checkpoint.release()  # long after: refused, as the lease is another one
    wait_until(lambda: all(e.replies for e in proxy.met(checkpoints())), "the late checkpoints land")
    assert {reply.status for exchange in proxy.met(checkpoints()) for reply in exchange.replies} <= {409, 412}
    drained = stage.settled(orders, 1000)
    assert files.items() <= slots(orders).items()
    assert all(epochs[0] == 1 and epochs[-1] == 2 for epochs in drained.epochs.values())


@simulated("pause", "resume")
def test_04_stopped_for_two_leases_and_resumed(stage: FaultStage) -> None:
    orders = stage.consumer()
    orders.publish(1000)
    zombie = orders.host("zombie", roll=NEVER | {"maxSeconds": 2 * LEASE_SECONDS})
    wait_buffered(zombie, 1000)
    zombie.pause()
    stopped = time.monotonic()
    successor = orders.host("successor")
    wait_owned(successor, 2)
    orders.publish(500, start=1000)
    stage.settled(orders, 1500)
    files = slots(orders)
    time.sleep(max(0.0, stopped + 2 * LEASE_SECONDS - time.monotonic()))
    zombie.go_on()
    wait_until(lambda: len(logged(zombie, "pump closed")) >= 2, "the zombie halts")
    assert not logged(zombie, "file committed")
    orders.publish(500, start=1500)
    stage.settled(orders, 2000)
    assert files.items() <= slots(orders).items()  # S1


@simulated("start")
def test_24_two_hosts_start_at_once_on_latest(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=8, startingPosition={"type": "Latest"})
    publish(orders, 100)
    before = orders.heads()
    hosts = [orders.host("first"), orders.host("second")]
    wait_until(lambda: sum(len(host.owned()) for host in hosts) == 8, "all partitions are owned")
    with orders.container(orders.drained) as container:
        wait_until(lambda: len([*container.list_blobs("shop/orders/_genesis/")]) == 8, "eight genesis records")
    publish(orders, 100, start=800)
    drained = stage.settled(orders, 800)
    assert {partition: rows[0] for partition, rows in drained.rows.items()} == {
        partition: head + 1 for partition, head in before.items()
    }


@pytest.mark.long
def test_25_ten_hosts_join_and_leave(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=32)
    sent = 0
    stop = threading.Event()

    def go_on_publishing() -> None:
        nonlocal sent
        while not stop.is_set():
            orders.publish(320, start=sent)
            sent += 320
            stop.wait(1)

    publisher = threading.Thread(target=go_on_publishing)
    publisher.start()
    try:
        hosts = [orders.host(f"host-{number}") for number in range(4)]
        wait_until(lambda: _balanced([len(host.owned()) for host in hosts], 32), "four hosts are balanced")
        hosts += [orders.host(f"host-{number}") for number in range(4, 10)]
        wait_until(lambda: _balanced([len(host.owned()) for host in hosts], 32), "ten hosts are balanced (L2)")
        leaving, staying = hosts[:6], hosts[6:]
        for host in leaving:
            host.process.terminate()
        assert [host.process.wait(90) for host in leaving] == [0] * 6
        wait_until(lambda: _balanced([len(host.owned()) for host in staying], 32), "the others are balanced")
    finally:
        stop.set()
        publisher.join()
    stage.settled(orders, sent)


def _balanced(loads: list[int], partitions: int) -> bool:
    return sum(loads) == partitions and max(loads) - min(loads) <= 1
