"""Notices of real hosts: each file once or more, in order, through refusals, a failure of the leader and a stop."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer
from tests.support.azurite import free_port
from tests.support.receiver import Answer, NoticeServer, Posted
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[3] / "docs/how-to/notices.md"
CURSOR = "shop/orders/_notices.json"


@pytest.fixture
def server() -> Iterator[NoticeServer]:
    with NoticeServer() as made:
        yield made


def files(orders: Consumer) -> dict[str, list[str]]:
    """Names of the files in storage, by partition, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    with orders.container(orders.drained) as container:
        for name in sorted(container.list_blob_names(name_starts_with="shop/orders/segment=")):
            found[name.split("partition=")[1].split("/")[0]].append(name)
    return found


def noticed(server: NoticeServer) -> dict[str, list[str]]:
    """Subjects of the notices, by partition, each at its first place."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for posted in server.acknowledged:
        event = posted.event
        found[event["data"]["partitionId"]][event["subject"]] = None
    return {partition: list(names) for partition, names in found.items()}


def publish(orders: Consumer, start: int) -> None:
    """Send events to both partitions."""
    for number, partition in enumerate(("0", "1")):
        orders.publish(250, partition, start=start + 250 * number)


def begun(orders: Consumer) -> bool:
    with orders.container(orders.drained) as container:
        return container.get_blob_client(CURSOR).exists()


def complete(orders: Consumer, server: NoticeServer) -> bool:
    written = files(orders)
    return bool(written) and noticed(server) == written


def cursor(orders: Consumer) -> dict[str, Any]:
    with orders.container(orders.drained) as container:
        found: dict[str, Any] = json.loads(container.download_blob(CURSOR).readall())
        return found


def test_every_file_has_a_notice_through_refusals_a_kill_and_a_stop(
    consumer: MakeConsumer, server: NoticeServer
) -> None:
    orders = consumer(2, notices={"url": server.url})
    first = orders.host()
    wait_until(lambda: begun(orders), "the cursor begins")
    publish(orders, 0)
    wait_until(lambda: complete(orders, server), "all files have notices")
    event = server.requests[0].event
    assert (event["specversion"], event["type"]) == ("1.0", "io.eventconsumer.file.committed")
    with orders.container(orders.drained) as container:
        blob = container.get_blob_client(event["subject"])
        assert event["data"]["fileUrl"] == blob.url.replace("%3D", "=")
        assert event["data"]["sizeInBytes"] == blob.get_blob_properties().size

    def refuse(posted: Posted) -> Answer:
        return Answer(400 if posted.event["data"]["partitionId"] == "0" else 503)

    server.answer = refuse
    publish(orders, 500)
    problem = first.problem("NoticesFailing")
    assert problem.field in {"spec.sink.notices.format", "spec.sink.notices.url"}
    assert "skips no notice" in problem.message
    first.kill()

    server.answer = lambda _: Answer()
    second = orders.host("orders-host-1")
    wait_until(lambda: complete(orders, server), "the next leader sends what is missing")
    wait_until(lambda: not second.report().problems, "no problem is left")
    publish(orders, 1000)
    wait_until(lambda: {each.sequence_number for each in second.report().partitions} == {749}, "it has read all events")
    assert second.terminate() == 0
    assert complete(orders, server), "the files of the stop have notices"
    ends = {partition: names[-1] for partition, names in files(orders).items()}
    last = {event["data"]["partitionId"]: event for event in (posted.event for posted in server.acknowledged)}
    assert {partition: event["subject"] for partition, event in last.items()} == ends
    assert cursor(orders)["next"] == {
        partition: event["data"]["lastSequenceNumber"] + 1 for partition, event in last.items()
    }


def test_the_receiver_of_the_page_gets_each_file_with_the_credential(consumer: MakeConsumer, tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    port, secret, output = free_port(), tmp_path / "header", tmp_path / "output"
    secret.write_text("Bearer wrong")
    given = {
        "RECEIVER_HOST": "127.0.0.1",
        "RECEIVER_PORT": str(port),
        "RECEIVER_TOKEN": "Bearer right",
        "RECEIVER_FILE": str(tmp_path / "notices.db"),
    }
    with output.open("wb") as file:
        receiver = subprocess.Popen([sys.executable, "-c", program], stdout=file, stderr=file, env=os.environ | given)
    try:
        field = "spec.sink.notices.authentication.headerSecretRef"
        credential = {"field": field, "secret": "hooks", "key": "token", "connectionStringFile": str(secret)}
        orders = consumer(1, notices={"url": f"http://127.0.0.1:{port}/files", "credential": credential})
        host = orders.host()
        wait_until(lambda: begun(orders), "the cursor begins")
        orders.publish(200, "0")
        problem = host.problem("NoticesFailing")
        assert problem.field == field and "correct key token of Secret hooks" in problem.message
        secret.write_text("Bearer right")

        def received() -> list[str]:
            lines = (line.split() for line in output.read_text().splitlines() if line.startswith("http"))
            return [url.partition(f"{orders.drained}/")[2] for url, _ in lines]

        wait_until(lambda: files(orders) and received() == files(orders)["0"], "each file once")
        assert "Bearer" not in host.log
    finally:
        receiver.kill()
        receiver.wait()
