"""Attacks by a writer of the Delta table: hosts read its log, and must not depend on what is in it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attackers import bombs
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.integration.processor.conftest import MakeConsumer, consumer  # noqa: F401 - a fixture
from tests.integration.processor.drained import assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.integration.processor.test_table import has_table, rows_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long  # test_container_writer.py has the same limit of the same child
EVENTS = 300


def _exhaust_every_leader(orders: Consumer, name: Callable[[int], str], content: bytes, sent: int) -> Outcome:
    """Write a blob into the log that needs gigabytes of memory, and send events: hosts with the default limit drain.

    Args:
        orders: A consumer with a table, whose hosts have stopped.
        name: The name of the blob, by the last version of the table.
        content: Its content.
        sent: Events that were sent before.
    """
    with orders.container(orders.drained) as container:
        versions = [blob.name for blob in container.list_blobs("shop/orders/_delta_log/0")]
        blob = f"shop/orders/_delta_log/{name(len(versions) - 1)}"
        container.upload_blob(blob, content)
        leader = orders.host("orders-host-1")
        with bombs.Container(leader.process.pid) as memory:
            orders.publish(EVENTS, start=sent)
            wait_until(lambda: memory.killed or _refuses_the_table(leader), f"the table is read: {leader.log[-3000:]}")
            if memory.killed:
                return Gained(f"the end of every leader, with {len(content)} bytes")
            problem = leader.problem("TableInvalid")
            assert blob in problem.message and problem.field == "spec.sink.table", problem
            orders.publish(EVENTS, start=sent + EVENTS)
            total = sent + 2 * EVENTS
            wait_until(lambda: _drained(orders) == total, f"{total} events are in files: {leader.log[-3000:]}")
            assert_exactly_once(read_drained(container, "shop/orders"), orders.heads(), total)
            container.delete_blob(blob)
            wait_until(lambda: len(rows_of(orders)) == total, f"{total} events in the table: {leader.log[-3000:]}")
            assert set(rows_of(orders).values()) == {1}
    assert not memory.killed
    return Refused(f"the limit of the child that reads it: {problem.message}")


def _refuses_the_table(leader: HostProcess) -> bool:
    try:
        return any(each.reason == "TableInvalid" for each in leader.report().problems)
    except OSError:  # it was killed
        return False


def _drained(orders: Consumer) -> int:
    with orders.container(orders.drained) as container:
        return len(read_drained(container, "shop/orders").bodies)


@pytest.mark.parametrize(
    ("name", "make", "plain"),
    [
        (lambda last: f"{last:020d}.checkpoint.parquet", bombs.repeated_text, bombs.PLAIN_PARQUET),
        (lambda last: f"{last:020d}.checkpoint.parquet", bombs.nested_list, bombs.PLAIN_PARQUET),
        (lambda last: f"{last + 1:020d}.json", bombs.empty_objects, bombs.PLAIN_JSON),
    ],
    ids=["a text in each row", "a list of millions", "a version in JSON"],
)
def test_a_blob_of_the_log_that_needs_gigabytes_stops_no_host(
    consumer: MakeConsumer,  # noqa: F811
    tmp_path: Path,
    name: Callable[[int], str],
    make: Callable[[], bytes],
    plain: str,
) -> None:
    content = make()
    orders = consumer(partitions=2, table={"maxSeconds": 1})
    orders.publish(EVENTS)
    first = orders.host("orders-host-0")
    wait_until(lambda: has_table(first), f"a table: {first.log[-2000:]}")
    wait_until(lambda: len(rows_of(orders)) == EVENTS, f"a table: {first.log[-2000:]}")
    assert first.terminate() == 0
    outcome = _exhaust_every_leader(orders, name, content, EVENTS)
    assert isinstance(outcome, Refused), outcome
    assert bombs.read_plainly(plain, content, tmp_path), "a program without the limit reads it"
