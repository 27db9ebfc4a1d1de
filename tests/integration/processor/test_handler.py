"""User code on a real host: before the files or instead of them, poison events, checkpoints, a kill, bad names."""

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.waiting import wait_until

EXAMPLE = Path(__file__).parents[3] / "processor_image/examples/handler"
USER_CODE = Path(__file__).parent / "user_code"
BASE = {"maxBatchSize": 20, "prefetch": 300, "maxWaitSeconds": 5, "handlerAttempts": 2}


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the recording handlers of this test's hosts write."""
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(USER_CODE))
    monkeypatch.setenv("RECORD_DIRECTORY", str(folder))
    return folder


def lines(notes: Path, partition: str = "0") -> list[dict[str, Any]]:
    """What was noted for a partition, in order; a line that is just being written is left out."""
    file = notes / f"{partition}.jsonl"
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def processed(notes: Path, partition: str = "0") -> list[int]:
    """Sequence numbers of successful calls, in order."""
    return [number for line in lines(notes, partition) for number in line.get("numbers", [])]


def recording(policy: dict[str, Any] | None = None, mode: str = "Replace") -> dict[str, Any]:
    found = BASE | {"handler": "recording:Recording", "handlerMode": mode}
    return found | ({"checkpoint": policy} if policy else {})


def checkpoint(orders: Consumer, partition: str = "0") -> int | None:
    """The sequence number in the lease blob; None without a checkpoint."""
    with orders.container(orders.leases) as container:
        try:
            body = json.loads(container.download_blob(f"$Default/{partition}").readall())
        except ResourceNotFoundError:  # no host has been there yet
            return None
    return int(body["SequenceNumber"]) if body["Offset"] else None


def dead_letters(orders: Consumer) -> dict[str, dict[str, Any]]:
    with orders.container(orders.drained) as container:
        names = [blob.name for blob in container.list_blobs("shop/orders/_deadletters/")]
        return {name.split("partition=")[1]: json.loads(container.download_blob(name).readall()) for name in names}


def wait_logged(host: HostProcess, met: Callable[[], bool], what: str) -> None:
    try:
        wait_until(met, what)
    except AssertionError as error:
        raise AssertionError(f"{error}; log: {host.log[-4000:]}") from None


# --- the example ---


def test_the_example_books_every_order_once_before_it_is_in_a_file(
    consumer: MakeConsumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "shop.sqlite"
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLE))
    monkeypatch.setenv("SHOP_DATABASE", str(database))
    orders = consumer(partitions=2, processing=BASE | {"handler": "shop:Shop"})
    sent = 0
    for number in range(60):
        partition = str(number % 2)
        order = {"order": f"A-{number}", "cents": 100 + number} if number % 20 != 7 else {"cents": "many"}
        orders.emulator.admin.put_event("orders", partition, f"{json.dumps(order)}".encode())
        sent += 1
    host = orders.host()
    wait_logged(host, lambda: sum(p.events for p in host.report().partitions) == sent, "all in files")
    with closing(sqlite3.connect(database)) as connection:
        booked = connection.execute("SELECT reference, cents FROM bookings ORDER BY cents").fetchall()
    assert booked == [(f"A-{number}", 100 + number) for number in range(60) if number % 20 != 7]
    letters = dead_letters(orders)
    assert {letter["bodyText"] for letter in letters.values()} == {'{"cents": "many"}'}
    assert [letter["attempts"] for letter in letters.values()] == [1, 1, 1]
    assert {letter["error"]["message"] for letter in letters.values()} == {
        "not an order: it needs the fields order and cents"
    }
    with orders.container(orders.drained) as container:
        assert read_drained(container, "shop/orders").rows == {"0": list(range(30)), "1": list(range(30))}
    report = host.report()
    assert [problem.reason for problem in report.problems] == ["DeadLetters"]
    assert "3 events" in report.problems[0].message
    assert report.state == "Running"
    assert host.terminate() == 0
    assert "shop closed" in host.log
    assert "Traceback" not in host.log


# --- precede and replace ---


def test_precede_a_poison_event_is_a_dead_letter_and_in_the_files_with_the_order_kept(
    consumer: MakeConsumer, notes: Path
) -> None:
    orders = consumer(partitions=1, processing=recording(mode="Precede"))
    for number in range(30):
        orders.emulator.admin.put_event("orders", "0", b"poison" if number in {4, 17} else b"%d|" % number)
    host = orders.host()
    wait_logged(host, lambda: sum(p.events for p in host.report().partitions) == 30, "all in files")
    assert processed(notes) == [number for number in range(30) if number not in {4, 17}]
    letters = dead_letters(orders)
    assert sorted(letters) == [f"0/seq={number:020d}.json" for number in (4, 17)]
    letter = letters[f"0/seq={4:020d}.json"]
    assert letter["error"]["type"] == "ValueError"
    assert letter["error"]["message"] == "cannot digest 4"
    assert "in process_events" in letter["error"]["traceback"]
    assert letter["attempts"] >= 2
    with orders.container(orders.drained) as container:
        assert read_drained(container, "shop/orders").rows == {"0": list(range(30))}
    assert b'eventconsumer_dead_letters_total{partition="0"} 2.0' in host.get("/metrics")


def test_replace_writes_no_files_and_closes_in_order(consumer: MakeConsumer, notes: Path) -> None:
    orders = consumer(partitions=2, processing=recording())
    for number in range(50):
        orders.emulator.admin.put_event("orders", str(number % 2), b"poison" if number == 20 else b"%d|" % number)
    host = orders.host()
    wait_logged(host, lambda: {p: checkpoint(orders, p) for p in "01"} == {"0": 24, "1": 24}, "checkpoints")
    assert processed(notes, "0") == [number for number in range(25) if number != 10]
    assert processed(notes, "1") == list(range(25))
    assert sorted(dead_letters(orders)) == [f"0/seq={10:020d}.json"]
    with orders.container(orders.drained) as container:
        assert [blob.name for blob in container.list_blobs("shop/orders/inc=")] == []
    assert sum(p.events for p in host.report().partitions) == 50
    wait_logged(host, lambda: bool((fleet := host.report().fleet) and fleet.lag_events == 0), "no lag")
    assert host.terminate() == 0
    for partition in "01":
        assert lines(notes, partition)[0]["open"] == 0
        assert lines(notes, partition)[-1]["close"] == "Shutdown"


# --- checkpoint policies, seen in the lease blob ---


def test_batch_each_batch_is_in_the_checkpoint(consumer: MakeConsumer, notes: Path) -> None:
    orders = consumer(partitions=1, processing=recording({"policy": "Batch"}))
    host = orders.host()
    for upto in (1, 2, 3):
        orders.emulator.admin.put_event("orders", "0", b"1|")
        wait_logged(host, lambda upto=upto: checkpoint(orders) == upto - 1, "the batch is in the checkpoint")  # type: ignore[misc]


def test_events_the_checkpoint_comes_after_so_many(consumer: MakeConsumer, notes: Path) -> None:
    orders = consumer(partitions=1, processing=recording({"policy": "Events", "events": 50}))
    orders.publish(40, "0")
    host = orders.host()
    wait_logged(host, lambda: len(processed(notes)) == 40, "processed")
    time.sleep(2)
    assert checkpoint(orders) is None
    orders.publish(40, "0", start=40)
    wait_logged(host, lambda: len(processed(notes)) == 80, "processed")
    wait_logged(host, lambda: (checkpoint(orders) or 0) >= 49, "checkpoint")
    assert checkpoint(orders) != 79 or len(processed(notes)) == 80
    assert host.terminate() == 0
    assert checkpoint(orders) == 79


def test_interval_the_checkpoint_comes_after_so_long(consumer: MakeConsumer, notes: Path) -> None:
    orders = consumer(partitions=1, processing=recording({"policy": "Interval", "seconds": 8}))
    orders.publish(10, "0")
    host = orders.host()
    wait_logged(host, lambda: len(processed(notes)) == 10, "processed")
    done = time.monotonic()
    time.sleep(3)
    assert checkpoint(orders) is None
    wait_logged(host, lambda: checkpoint(orders) == 9, "checkpoint")
    assert time.monotonic() - done > 4


def test_events_with_files_the_checkpoint_comes_with_a_file(consumer: MakeConsumer, notes: Path) -> None:
    orders = consumer(
        partitions=1,
        processing=recording({"policy": "Events", "events": 50}, mode="Precede"),
        roll={"maxBytes": 1_000_000, "maxSeconds": 600, "maxEvents": 1},  # each batch received is a file
    )
    host = orders.host()
    orders.publish(40, "0")
    wait_logged(host, lambda: sum(p.events for p in host.report().partitions) == 40, "in files")
    assert checkpoint(orders) is None
    orders.publish(40, "0", start=40)
    wait_logged(host, lambda: sum(p.events for p in host.report().partitions) == 80, "in files")
    wait_logged(host, lambda: (checkpoint(orders) or 0) >= 49, "checkpoint")
    with orders.container(orders.drained) as container:
        blobs = list(container.list_blobs("shop/orders/inc=", include=["metadata"]))
    lasts = [int(blob.metadata["last"]) for blob in blobs]
    assert checkpoint(orders) == min(last for last in lasts if last >= 49)


# --- what a crash, an outage and a bad name do ---


def test_replace_after_a_kill_events_behind_the_checkpoint_come_again(consumer: MakeConsumer, notes: Path) -> None:
    orders = consumer(partitions=1, processing=recording({"policy": "Events", "events": 100}))
    orders.publish(150, "0")
    first = orders.host("orders-host-0")
    wait_logged(first, lambda: len(processed(notes)) == 150, "processed")
    reached = checkpoint(orders)
    assert reached is not None and 99 <= reached < 149
    first.kill()
    orders.publish(50, "0", start=150)
    second = orders.host("orders-host-1")
    wait_logged(second, lambda: processed(notes)[-1:] == [199], "taken over")
    assert processed(notes) == [*range(150), *range(reached + 1, 200)]
    opened = [line for line in lines(notes) if "open" in line]
    assert [line["open"] for line in opened] == [0, reached + 1]
    assert opened[1]["epoch"] > opened[0]["epoch"]


def test_an_outage_of_what_the_handler_needs_holds_everything_and_heals(consumer: MakeConsumer, notes: Path) -> None:
    (notes / "down").touch()
    orders = consumer(partitions=1, processing=recording(mode="Precede"))
    orders.publish(30, "0")
    host = orders.host()
    problem = host.problem("HandlerFailing")
    assert problem.field == "spec.processing.handler"
    assert "the database is down" in problem.message
    assert host.report().state == "Blocked"
    (notes / "down").unlink()
    wait_logged(host, lambda: sum(p.events for p in host.report().partitions) == 30, "drained")
    assert host.report().problems == ()
    assert dead_letters(orders) == {}
    with orders.container(orders.drained) as container:
        assert_exactly_once(read_drained(container, "shop/orders"), orders.heads(), 30)


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        ("recording:Missing", "module recording has no class Missing"),
        ("recording:NO_CLASS", "recording:NO_CLASS is a value of type int, not a class"),
        ("elsewhere:Orders", "there is no module elsewhere in the image"),
    ],
)
def test_a_handler_that_cannot_be_used_is_named(consumer: MakeConsumer, notes: Path, handler: str, said: str) -> None:
    orders = consumer(partitions=1, processing=BASE | {"handler": handler})
    host = orders.host()
    problem = host.problem("HandlerInvalid")
    assert problem.field == "spec.processing.handler"
    assert said in problem.message
    assert host.report().state == "Blocked"
    assert host.owned() == set()
    assert host.get("/healthz") == b"ok\n"
