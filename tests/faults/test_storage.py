"""Storage that fails, crawls, breaks off or is gone (rows 9 and 10 of the fault list)."""

import itertools
import re
import time
from datetime import datetime
from pathlib import Path

from tests.faults.rows import simulated
from tests.faults.stage import (
    LEASE_SECONDS,
    FaultStage,
    assert_checkpoints_follow_files,
    commits,
    logged,
    publish,
    total,
    wait_owned,
)
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.faultactions import Down, Fail, Hold, ResetUpload, Slow, Truncate
from tests.support.faultproxy import Fault, Match
from tests.support.waiting import wait_until

MIB = 2**20


def test_09_throttled_hung_slow_and_broken_commits(stage: FaultStage) -> None:
    orders, proxy = stage.consumer(partitions=6), stage.proxy()
    publish(orders, 200)
    throttled = proxy.add(commits("0"), Fail(429, "ServerBusy", retry_after=3), times=2)
    busy = proxy.add(commits("1"), Fail(503), times=6)
    hung = proxy.add(commits("2"), Hold(), times=1)
    slow = proxy.add(commits("3"), Slow(1000), times=1)
    reset = proxy.add(commits("4"), ResetUpload(), times=3)
    truncated = proxy.add(commits("5"), Truncate(20), times=1)
    unknown = proxy.add(Match("HEAD", "/partition=5/from="), Fail(500, "InternalError"), times=2)
    host = stage.host(orders, "only", proxy)
    stage.settled(orders, 1200)
    for fault, count in ((throttled, 2), (busy, 6), (hung, 1), (slow, 1), (reset, 3), (truncated, 1), (unknown, 2)):
        fault.wait(0, count=count)
    pauses = _pauses(busy)
    assert pauses[-1] > pauses[0]
    assert sum(pauses) > 2
    assert min(_pauses(throttled)) >= 3  # as storage asked
    assert_checkpoints_follow_files(proxy.exchanges)
    assert not logged(host, "pump closed")  # the leases were kept all the time
    hung.release()
    wait_until(lambda: bool(proxy.met(commits("2"))[0].replies), "the hung put lands")
    assert proxy.met(commits("2"))[0].replies[0].status == 409
    publish(orders, 100, start=1200)
    stage.settled(orders, 1800)


@simulated("cut", "mend")
def test_09_fences_itself_before_the_lease_expires(stage: FaultStage) -> None:
    orders, proxy = stage.consumer(partitions=2), stage.proxy()
    publish(orders, 100)
    first = stage.host(orders, "first", proxy)
    wait_owned(first, 2)
    stage.settled(orders, 200)
    second = orders.host("second")
    wait_until(lambda: _shared(first, second), "the second has its share")
    (partition,) = first.owned()
    proxy.add(Match(), Hold())
    publish(orders, 100, start=200)
    wait_owned(second, 2)
    closed = [entry for entry in logged(first, "pump closed") if entry["partition"] == partition]
    taken = [
        e for e in logged(second, "lease acquired") + logged(second, "lease stolen") if e["partition"] == partition
    ]
    assert closed, first.log[-2000:]
    assert _when(closed[-1]) < _when(taken[-1])
    stage.settled(orders, 400)
    proxy.clear()
    wait_until(lambda: _shared(first, second), "both have their share again")
    publish(orders, 100, start=400)
    stage.settled(orders, 600)


def test_10_storage_is_down(stage: FaultStage) -> None:
    orders = stage.consumer(
        partitions=4,
        processing={"maxBatchSize": 20, "prefetchCount": 20, "maxWaitSeconds": 5, "bufferBytes": 16 * MIB},
        roll={"maxBytes": 2 * MIB, "maxSeconds": 1, "maxEvents": 1000},
    )
    proxy = stage.proxy()
    publish(orders, 10)
    host = stage.host(orders, "only", proxy)
    stage.settled(orders, 40)
    files = total(host, "committed_files")
    usual = _memory(host)
    down = time.monotonic()
    proxy.add(Match(), Down())
    sent = _publish_large(orders, events=900, start=40)
    while time.monotonic() < down + LEASE_SECONDS - 5:
        time.sleep(0.2)
    credit = _credit(orders)
    time.sleep(2)
    assert _credit(orders) <= credit  # none is given
    assert total(host, "committed_files") == files
    host.problem("StorageUnreachable")
    assert host.get("/healthz") == b"ok\n"
    while time.monotonic() < down + 25:
        time.sleep(0.5)
    assert _memory(host) - usual < 64 * MIB
    proxy.clear()
    stage.settled(orders, sent, 90)
    # Bursts above the buffer of 16 MiB were seen up to 101 MiB; without a bound it would be all that was sent, 171 MiB.
    assert _memory(host, peak=True) - usual < 130 * MIB
    wait_until(lambda: not host.report().problems, "no problem is left")
    assert_checkpoints_follow_files(proxy.exchanges)


@simulated("cut", "stop")
def test_10_storage_is_down_at_the_end(stage: FaultStage) -> None:
    orders, proxy = stage.consumer(partitions=2, drainSeconds=8), stage.proxy()
    publish(orders, 100)
    first = stage.host(orders, "first", proxy, roll={"maxBytes": 10**8, "maxSeconds": 600, "maxEvents": 10**6})
    wait_until(lambda: total(first, "received_events") == 200, "all is received")
    proxy.add(Match(), Down())
    assert first.terminate(15) == 0
    second = orders.host("second")
    wait_owned(second, 2)
    stage.settled(orders, 200)


def _shared(first: HostProcess, second: HostProcess) -> bool:
    """Whether each owns one of two partitions, and both know it."""
    return {frozenset(first.owned()), frozenset(second.owned())} == {frozenset("0"), frozenset("1")}


def _publish_large(orders: Consumer, events: int, start: int) -> int:
    """Events of 200 KB each, over all partitions; the number after the last one."""
    partitions = [*orders.heads()]
    for number in range(start, start + events):
        body = f"{number}|".encode().ljust(200_000, b"x")
        orders.emulator.admin.put_event(orders.hub, partitions[number % len(partitions)], body)
    return start + events


def _credit(orders: Consumer) -> int:
    """Credit that readers have given and that is not used up."""
    return sum(link["credit"] for link in orders.emulator.admin.links(hub=orders.hub, kind="reader"))


def _memory(host: HostProcess, *, peak: bool = False) -> int:
    """Bytes of a process in memory, now or at most."""
    text = Path(f"/proc/{host.process.pid}/status").read_text()
    found = re.search(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", text)
    assert found
    return int(found[1]) * 1024


def _pauses(fault: Fault) -> list[float]:
    times = [request.at for request in fault.requests]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def _when(entry: dict[str, str]) -> datetime:
    return datetime.fromisoformat(entry["timestamp"])
