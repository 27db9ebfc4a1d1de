"""Requests to storage that land late, twice or without an answer (rows 5 to 7 of the fault list)."""

from random import Random

from tests.faults.stage import (
    FaultStage,
    assert_checkpoints_follow_files,
    checkpoints,
    commits,
    lease_bodies,
    lease_calls,
    logged,
    owner_writes,
    publish,
    slots,
    total,
    wait_attached,
    wait_owned,
)
from tests.support.faultactions import DropReply, Hold, Replay
from tests.support.faultproxy import Match
from tests.support.waiting import wait_until


def test_05_stopped_during_a_put_that_lands_before_the_successors_file(stage: FaultStage) -> None:
    orders, one, two = stage.consumer(partitions=1), stage.proxy(), stage.proxy()
    publish(orders, 500)
    late = one.add(commits(), Hold())
    zombie = stage.host(orders, "zombie", one)
    late.wait()
    zombie.pause()
    publish(orders, 100, start=500)
    own = two.add(commits(), Hold(), times=1)
    successor = stage.host(orders, "successor", two)
    own.wait()
    late.release()
    wait_until(lambda: all(e.replies for e in one.met(commits())), "the late put lands")
    assert [reply.status for exchange in one.met(commits()) for reply in exchange.replies] == [201]
    files = slots(orders)
    own.release()
    drained = stage.settled(orders, 600)
    assert two.met(commits())[0].replies[0].status == 409
    assert total(successor, "adopted_files") == 1
    assert drained.epochs["0"] == [1, 2]
    zombie.go_on()
    wait_until(lambda: bool(logged(zombie, "pump closed")), "the zombie halts")
    publish(orders, 100, start=600)
    stage.settled(orders, 700)
    assert files.items() <= slots(orders).items()


def test_06_applied_but_the_answer_is_lost(stage: FaultStage) -> None:
    orders, proxy = stage.consumer(partitions=6), stage.proxy()
    publish(orders, 100)
    lost = [
        proxy.add(Match("PUT", r"/_segments/0*1\.json$"), DropReply(), times=1),
        proxy.add(Match("PUT", "/_genesis/.*/0.json$"), DropReply(), times=1),
        proxy.add(commits("1"), DropReply(), times=1),
        proxy.add(checkpoints("2"), DropReply(), times=1),
        proxy.add(lease_calls("acquire", "3"), DropReply(), times=1),
        proxy.add(owner_writes("4"), DropReply(), times=1),
        proxy.add(lease_calls("renew", "5"), DropReply(), times=1),
        proxy.add(Match("PUT", r"/\$Default/5$", headers={"if-none-match": r"\*"}), DropReply(), times=1),
    ]
    host = stage.host(orders, "only", proxy)
    wait_owned(host, 6)
    stage.settled(orders, 600)
    publish(orders, 100, start=600)
    stage.settled(orders, 1200)
    for fault in lost:
        fault.wait()
    assert total(host, "adopted_files") == 0  # the nonce tells that the file is this host's
    asked = {e.request.headers["x-ms-proposed-lease-id"] for e in proxy.met(lease_calls("acquire", "3"))}
    assert len(proxy.met(lease_calls("acquire", "3"))) >= 2
    assert len(asked) == 1  # the same lease was asked for twice
    assert_checkpoints_follow_files(proxy.exchanges)
    lost = [proxy.add(lease_bodies("0"), DropReply(), times=1), proxy.add(lease_calls("release", "1"), DropReply())]
    assert host.terminate() == 0
    for fault in lost:
        fault.wait()
    successor = orders.host("successor")
    publish(orders, 100, start=1200)
    wait_owned(successor, 6)
    stage.settled(orders, 1800)


def test_07_requests_land_twice(stage: FaultStage) -> None:
    orders, proxy = stage.consumer(partitions=6), stage.proxy()
    publish(orders, 100)
    twice = Replay(answer_first=True)
    faults = [
        proxy.add(Match("PUT", r"/_segments/0*1\.json$"), twice, times=1),
        proxy.add(Match("PUT", "/_genesis/.*/0.json$"), twice, times=1),
        proxy.add(commits("1"), twice, times=2),
        proxy.add(checkpoints("2"), twice, times=1),
        proxy.add(lease_calls("acquire", "3"), twice, times=1),
        proxy.add(owner_writes("4"), twice, times=1),
        proxy.add(lease_calls("renew", "5"), twice, times=1),
    ]
    host = stage.host(orders, "only", proxy)
    wait_attached(host, "1")
    stage.settled(orders, 600)
    files = slots(orders)
    publish(orders, 100, start=600)
    stage.settled(orders, 1200)
    for fault in faults:
        fault.wait()
    statuses = [[reply.status for reply in exchange.replies] for exchange in proxy.met(commits("1"))]
    assert statuses == [[201, 409], [201, 409]]
    assert total(host, "adopted_files") == 0
    assert_checkpoints_follow_files(proxy.exchanges)
    proxy.add(lease_bodies("0"), twice)
    proxy.add(lease_calls("release"), twice)
    assert host.terminate() == 0
    successor = orders.host("successor")
    publish(orders, 100, start=1200)
    wait_owned(successor, 6)
    stage.settled(orders, 1800)
    assert files.items() <= slots(orders).items()


def test_08_two_writers_stage_blocks_for_one_slot(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=1, roll={"maxBytes": 10**8, "maxSeconds": 6, "maxEvents": 10**6})
    one, two = stage.proxy(), stage.proxy()
    for number in range(24):
        body = f"{number}|".encode() + Random(number).randbytes(900_000)  # cannot be compressed: a file of 21 MB
        stage.emulator.admin.put_event(orders.hub, "0", body)
    blocks = Match("PUT", "/partition=0/from=", {"comp": "block"})
    lists = Match("PUT", "/partition=0/from=", {"comp": "blocklist"}, {"if-none-match": r"\*"})
    late = one.add(lists, Hold())
    zombie = stage.host(orders, "zombie", one)
    late.wait()
    assert len(one.met(blocks)) >= 2
    zombie.pause()
    own = two.add(lists, Hold(), times=1)
    successor = stage.host(orders, "successor", two)
    own.wait()
    assert len(two.met(blocks)) >= 2  # blocks of both writers are staged now
    for held, proxy in ((own, two), (late, one)):
        held.release()
        wait_until(lambda proxy=proxy: bool(proxy.met(lists)[0].replies), "the list lands")  # type: ignore[misc]
    assert two.met(lists)[0].replies[0].status == 201
    assert one.met(lists)[0].replies[0].status in (400, 409, 412)
    drained = stage.settled(orders, 24)
    assert drained.epochs["0"][0] == 2
    assert total(successor, "adopted_files") == 0
    files = slots(orders)
    zombie.go_on()
    wait_until(lambda: bool(logged(zombie, "pump closed")), "the zombie halts")
    publish(orders, 100, start=24)
    stage.settled(orders, 124)
    assert files.items() <= slots(orders).items()
