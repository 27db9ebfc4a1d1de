"""User code on a real host: before, in place of and without files, failing events, an outage, kills, a bad name; and
the example with a service of its own.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from azure.core.exceptions import ResourceNotFoundError

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.appfolder import app_folder
from tests.support.fakes.redis import RedisServer
from tests.support.waiting import wait_until

EXAMPLES = Path(__file__).parents[3] / "processor_image/examples/handler"
USER_CODE = Path(__file__).parent / "user_code"
BASE = {"maxBatchSize": 20, "prefetchCount": 300, "maxWaitSeconds": 5, "handlerAttempts": 2}


def with_code(monkeypatch: pytest.MonkeyPatch, app: Path) -> None:
    """Let host processes run from this folder, as from /app of an image."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(app), os.environ.get("PYTHONPATH")))))


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the recording handlers of this test's hosts write."""
    folder = tmp_path / "notes"
    folder.mkdir()
    with_code(monkeypatch, app_folder(tmp_path / "app", USER_CODE, EXAMPLES))
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
    return int(body["sequenceNumber"]) if body.get("offset") else None


def letter_names(orders: Consumer) -> list[str]:
    with orders.container(orders.drained) as container:
        found = [blob.name for blob in container.list_blobs("shop/orders/_deadletters/")]
    return sorted(name for name in found if "/redrive/" not in name and "/dropped/" not in name)


def dead_letters(orders: Consumer) -> dict[str, dict[str, Any]]:
    names = letter_names(orders)
    with orders.container(orders.drained) as container:
        return {name.split("partition=")[1]: json.loads(container.download_blob(name).readall()) for name in names}


def wait_logged(host: HostProcess, met: Callable[[], bool], what: str) -> None:
    try:
        wait_until(met, what)
    except AssertionError as error:
        raise AssertionError(f"{error}; log: {host.log[-4000:]}") from None


def test_pass_through_a_failing_event_is_a_dead_letter_and_in_the_files_with_the_order_kept(
    consumer: MakeConsumer, notes: Path
) -> None:
    """What the handler needs is down at first: everything waits for it, and no event is blamed."""
    (notes / "down").touch()
    orders = consumer(partitions=1, processing=recording(mode="PassThrough"))
    for number in range(30):
        orders.emulator.admin.put_event("orders", "0", b"poison" if number in {4, 17} else b"%d|" % number)
    host = orders.host()
    problem = host.problem("HandlerFailing")
    assert problem.field == "spec.processing.handler"
    assert "the database is down" in problem.message
    assert host.report().state == "Blocked"
    assert dead_letters(orders) == {}
    (notes / "down").unlink()
    wait_logged(host, lambda: sum(p.events for p in host.report().partitions) == 30, "all in files")
    assert [problem.reason for problem in host.report().problems] == ["DeadLetters"]
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


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"format": "Parquet", "layout": "SequenceNumber"}, id="Parquet"),
        # test_formats.py kills a host that writes such files.
        pytest.param({"format": "Avro", "layout": "Capture"}, id="Capture", marks=pytest.mark.long),
    ],
)
def test_transform_the_example_masks_and_drops_events_exactly_once_under_kills(
    consumer: MakeConsumer, notes: Path, files: dict[str, str]
) -> None:
    """Each host is killed in a call, with rows that are in no file yet: the next one transforms these events again."""
    orders = consumer(
        partitions=1,
        processing=BASE | {"handler": "recording:Slow", "handlerMode": "Transform"},
        files=files,
        roll={"maxBytes": 1_000_000, "maxSeconds": 3, "maxEvents": 50},
    )
    beats, broken = {n for n in range(300) if n % 4 == 0 or 100 <= n < 200}, {17, 218}
    events = [
        (
            b"no object" if n in broken else json.dumps({"n": n, "email": f"ann{n}@example.com"}).encode(),
            {"kind": "heartbeat" if n in beats else "order", "version": 3},
        )
        for n in range(300)
    ]
    publish = orders.emulator.admin.put_events
    for number in range(2):
        host = orders.host(f"orders-host-{number}")
        publish("orders", "0", events[100 * number : 100 * number + 80])
        wait_logged(host, lambda: (checkpoint(orders) or -1) >= 100 * number, "files")  # noqa: B023
        (notes / "slow").touch()
        before = len(lines(notes))
        publish("orders", "0", events[100 * number + 80 : 100 * number + 100])
        wait_logged(host, lambda: len(lines(notes)) > before, "a call that is slow")  # noqa: B023
        host.kill()
        (notes / "slow").unlink()
    publish("orders", "0", events[200:])
    host = orders.host("orders-host-2")
    wait_logged(host, lambda: processed(notes)[-1:] == [299], "all handled")
    assert host.terminate() == 0
    report = orders.audit(deep=True, hub=True)
    assert (report.exit_code, report.counts) == (0, {"DeadLetters": 2}), report.findings
    (partition,) = report.partitions
    kept = [n for n in range(300) if n not in beats | broken]
    assert (partition.next, partition.events, partition.dropped_events) == (300, len(kept), 300 - len(kept))
    assert sorted(dead_letters(orders)) == [f"0/seq={number:020d}.json" for number in sorted(broken)]
    rows = list(drained_rows(orders))
    assert [number for number, _, _ in rows] == kept
    assert [json.loads(body) for _, body, _ in rows] == [{"n": n, "email": "a***@example.com"} for n in kept]
    version: object = "3" if files["format"] == "Parquet" else 3
    assert all(dict(properties) == {"kind": "order", "version": version} for *_, properties in rows)
    assert len(processed(notes)) > 300  # some were handled again


def drained_rows(orders: Consumer) -> Iterator[tuple[int, bytes, Any]]:
    """Sequence number, body and properties of each row in files, in order."""
    with orders.container(orders.drained) as container:
        found = container.list_blobs("shop/orders/segment=", include=["metadata"])
        slots = sorted((blob for blob in found), key=lambda blob: str(blob.name))
        for blob in slots:
            data = container.download_blob(blob.metadata.get("path", blob.name)).readall()
            if data.startswith(b"Obj"):
                for row in fastavro.reader(io.BytesIO(data)):
                    yield row["SequenceNumber"], row["Body"], row["Properties"]
            else:
                for row in pq.read_table(pa.BufferReader(data)).to_pylist():
                    yield row["sequence_number"], row["body"], row["properties"]


def test_replace_writes_no_files_and_after_a_kill_events_behind_the_checkpoint_come_again(
    consumer: MakeConsumer, notes: Path
) -> None:
    orders = consumer(partitions=1, processing=recording({"policy": "Events", "events": 100}))
    for number in range(150):
        orders.emulator.admin.put_event("orders", "0", b"poison" if number == 10 else b"%d|" % number)
    first = orders.host("orders-host-0")
    wait_logged(first, lambda: processed(notes)[-1:] == [149], "processed")
    assert processed(notes) == [number for number in range(150) if number != 10]
    assert sorted(dead_letters(orders)) == [f"0/seq={10:020d}.json"]
    reached = wait_until(lambda: checkpoint(orders), "a checkpoint")
    assert 99 <= reached < 149
    first.kill()
    orders.publish(50, "0", start=150)
    second = orders.host("orders-host-1")
    wait_logged(second, lambda: processed(notes)[-1:] == [199], "taken over")
    assert processed(notes)[149:] == [*range(reached + 1, 200)]
    opened = [line for line in lines(notes) if "open" in line]
    assert [line["open"] for line in opened] == [0, reached + 1]
    assert opened[1]["epoch"] > opened[0]["epoch"]
    assert second.terminate() == 0
    assert checkpoint(orders) == 199
    assert lines(notes)[-1]["close"] == "Shutdown"
    with orders.container(orders.drained) as container:
        assert [blob.name for blob in container.list_blobs("shop/orders/segment=")] == []
    # Without its lease there is no checkpoint, and without files nothing says how far it was: everything comes again.
    with orders.container(orders.leases) as container:
        container.delete_blob("$Default/0")
    orders.host("orders-host-2")
    everything = [number for number in range(200) if number != 10]
    wait_until(lambda: processed(notes)[-199:] == everything, "everything comes again")


def test_with_policy_handler_a_killed_host_continues_at_the_checkpoint_of_the_handler(
    consumer: MakeConsumer, notes: Path
) -> None:
    processing = recording({"policy": "Handler"})
    orders = consumer(partitions=1, processing=processing | {"handler": "recording:Collecting"})
    orders.publish(150, "0")
    first = orders.host("orders-host-0")
    wait_logged(first, lambda: processed(notes)[-1:] == [149], "processed")
    assert checkpoint(orders) == 119
    first.kill()
    second = orders.host("orders-host-1")
    wait_logged(second, lambda: len(processed(notes)) == 180, "taken over")
    assert processed(notes)[150:] == [*range(120, 150)]
    assert second.terminate() == 0
    assert checkpoint(orders) == 119
    orders.config["processing"] = processing | {"handler": "recording:CollectingInThread"}
    third = orders.host("orders-host-2")
    wait_logged(third, lambda: len(processed(notes)) == 210, "handled by plain methods")
    orders.publish(20, "0", start=150)
    wait_logged(third, lambda: processed(notes)[-1:] == [169], "all processed")
    assert checkpoint(orders) == 159
    assert third.terminate() == 0
    assert checkpoint(orders) == 169
    with orders.container(orders.drained) as container:
        assert [blob.name for blob in container.list_blobs("shop/orders/segment=")] == []


@pytest.mark.long  # unit/host: handler/test_handling.py and partition/test_pump_handler.py
def test_a_dead_letter_that_is_redriven_reaches_the_corrected_handler_although_hosts_are_killed(
    consumer: MakeConsumer, notes: Path
) -> None:
    """The first host is killed in the call; the second one passes the event again, and removes the letter."""
    orders = consumer(partitions=1, processing=recording(mode="PassThrough"))
    for number in range(30):
        orders.emulator.admin.put_event("orders", "0", b"poison" if number in {4, 17, 20} else b"%d|" % number)
    first = orders.host("orders-host-0")
    wait_logged(first, lambda: sum(p.events for p in first.report().partitions) == 30, "all in files")
    config = first.log_file.with_suffix(".json")
    plan = run_tool(config, "redrive", "--partition", "0", "--sequence-number", "4", "--sequence-number", "17", "--yes")
    assert [(step["letters"], step["first"], step["last"]) for step in plan["steps"]] == [(2, 4, 17)]
    (notes / "corrected").touch()
    (notes / "stuck").touch()
    wait_logged(first, lambda: "stuck" in lines(notes)[-1], "a call with a dead letter")
    first.kill()
    (notes / "stuck").unlink()
    assert sorted(dead_letters(orders)) == [f"0/seq={number:020d}.json" for number in (4, 17, 20)]
    second = orders.host("orders-host-1")
    wait_logged(second, lambda: len(letter_names(orders)) == 1, "two letters are processed")
    assert sorted(dead_letters(orders)) == [f"0/seq={20:020d}.json"]
    again = [line for line in lines(notes) if line.get("redriven")]
    assert [line["numbers"] for line in again] == [[4], [17]]
    assert b'eventconsumer_redriven_events_total{partition="0"} 2.0' in second.get("/metrics")
    listed = run_tool(config, "list")
    assert [(row["sequenceNumber"], row["redriveRequested"]) for row in listed["letters"]] == [(20, False)]
    dropped = run_tool(config, "drop", "--all", "--yes")
    assert (dropped["done"], letter_names(orders)) == (True, [])
    assert second.terminate() == 0
    report = orders.audit(deep=True, hub=True)
    assert (report.exit_code, report.counts) == (0, {}), report.findings
    with orders.container(orders.drained) as container:
        assert read_drained(container, "shop/orders").rows == {"0": list(range(30))}


def run_tool(config: Path, *words: str) -> dict[str, Any]:
    """The document that `eventconsumer deadletters` prints."""
    command = [sys.executable, "-m", "eventconsumer_tools", "deadletters", *words, "--config", str(config)]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_handler_that_cannot_be_used_is_named(consumer: MakeConsumer, notes: Path) -> None:
    orders = consumer(partitions=1, processing=BASE | {"handler": "recording:Missing"})
    host = orders.host()
    problem = host.problem("HandlerInvalid")
    assert problem.field == "spec.processing.handler"
    assert "module recording has no class Missing" in problem.message
    assert host.report().state == "Blocked"
    assert host.owned() == set()
    assert host.get("/healthz") == b"ok\n"


def test_the_example_stores_each_event_once_in_a_service_with_a_password_that_changes(
    consumer: MakeConsumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    password.write_text("sesame-1\n")
    with_code(monkeypatch, app_folder(tmp_path / "app", EXAMPLES))
    monkeypatch.setenv("APP_LEDGER_PASSWORD_FILE", str(password))
    # Without a checkpoint and without files, all events come again after a kill.
    checkpoint = {"policy": "Events", "events": 10_000}
    processing = BASE | {"handler": "ledger:Ledger", "handlerMode": "Replace", "checkpoint": checkpoint}
    orders = consumer(partitions=1, processing=processing)
    orders.publish(30, "0")
    nameless = orders.host("orders-host-0")
    assert "KeyError: 'APP_LEDGER_ADDRESS'" in nameless.problem("HandlerInvalid").message
    nameless.terminate()
    with RedisServer("sesame-1") as ledger:
        monkeypatch.setenv("APP_LEDGER_ADDRESS", ledger.address)
        first = orders.host("orders-host-1")
        wait_logged(first, lambda: len(ledger.stored) == 30, "stored")
        ledger.password = "sesame-2"
        orders.publish(10, "0", start=30)
        problem = first.problem("HandlerFailing")
        assert f"the ledger at {ledger.address}: " in problem.message
        assert "sesame" not in first.log
        password.write_text("sesame-2\n")
        wait_logged(first, lambda: len(ledger.stored) == 40, "stored with the new password")
        first.kill()
        second = orders.host("orders-host-2")
        wait_logged(second, lambda: ledger.repeated >= 40, "all events again")
        assert sorted(ledger.stored) == sorted(f"order:0:{number}" for number in range(40))
