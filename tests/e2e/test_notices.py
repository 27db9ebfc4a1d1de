"""Notices on the real cluster: a receiver in a pod gets one for each file, in order, also after a host was killed.

The demo allows insecure endpoints, so its administrator need not name the receiver in `noticeEndpoints`.
"""

import json
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from eventconsumer_demo import run
from tests.e2e.conftest import Demo
from tests.e2e.consumers import consumer, create_hub, create_secrets, emulator_admin, server
from tests.e2e.waiting import until, wait_for
from tests.support.podprocesses import processes

pytestmark = pytest.mark.long

NAME = "notified"
RECEIVER = f"{NAME}-receiver"
PORT = 8080
PARTITIONS = 2  # as `create_hub` makes them
WAVE = 200  # events of each partition
REFUSED_FROM = 300  # sequence number: in the middle of the second wave
PROGRAM = f"""
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(BaseHTTPRequestHandler):
    refused_from = {REFUSED_FROM}

    def do_GET(self):
        Receiver.refused_from = 1 << 63
        self.answer(200)

    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = event["data"]
        status = 204 if data["firstSequenceNumber"] < Receiver.refused_from else 503
        entry = dict(status=status, partition=data["partitionId"], file=event["subject"], type=event["type"])
        print(json.dumps(entry) + "\\n", end="", flush=True)
        self.answer(status)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("", {PORT}), Receiver).serve_forever()
"""
ACCEPT_ALL = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{PORT}/', timeout=10).read()"


def received(demo: Demo, status: int = 204) -> dict[str, list[str]]:
    """Files of the notices that the receiver answered with a status, by partition, in the order of its log."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in demo.cluster.kubectl("logs", RECEIVER).splitlines():
        entry = json.loads(line)
        if entry["status"] == status:
            assert entry["type"] == "io.eventconsumer.file.committed", entry
            found[entry["partition"]].append(entry["file"])
    return dict(found)


def files(demo: Demo) -> dict[str, list[str]]:
    """Names of the files in storage, by partition, in the order of their events."""
    found: dict[str, list[str]] = defaultdict(list)
    with demo.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
        connection = run.storage_connection_string(f"http://127.0.0.1:{port}/{run.ACCOUNT}")
        with ContainerClient.from_connection_string(connection, f"{NAME}-sink") as sink:
            for name in sorted(sink.list_blob_names(name_starts_with=f"{demo.cluster.namespace}/{NAME}/segment=")):
                found[name.partition("/partition=")[2].partition("/")[0]].append(name)
    return dict(found)


def status(demo: Demo) -> dict[str, Any]:
    """The resource's status."""
    found: dict[str, Any] = demo.cluster.get("eventconsumer", NAME).get("status", {})
    return found


def publish(demo: Demo) -> None:
    """Publish a wave of events to each partition."""
    with emulator_admin(demo.cluster) as admin:
        for partition in range(PARTITIONS):
            admin.put_events(NAME, str(partition), [(b"%d" % number, {}) for number in range(WAVE)])


def once(notices: dict[str, list[str]]) -> dict[str, list[str]]:
    """Notices without repeated ones: each file at its first place."""
    return {partition: list(dict.fromkeys(names)) for partition, names in notices.items()}


def wait_noticed(demo: Demo, waves: int) -> None:
    """Wait until all events of so many waves are in files, and the receiver has accepted the notices of all files."""

    def done() -> bool:
        events = status(demo).get("drained", {}).get("events")
        return events == PARTITIONS * WAVE * waves and once(received(demo)) == files(demo)

    until(done, "each file has a notice, in order")


@pytest.fixture(scope="module")
def notified(demo: Demo) -> Iterator[Demo]:
    """A consumer with many small files and a receiver, to which it will send notices."""
    create_hub(demo, NAME)
    create_secrets(demo.cluster, NAME)
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(server(RECEIVER, PROGRAM, PORT)))
    resource = consumer(NAME)
    url = f"http://{RECEIVER}.{demo.cluster.namespace}.svc.cluster.local:{PORT}/files"
    resource["spec"]["sink"] |= {"roll": {"maxEvents": 10, "maxSeconds": 1}, "notices": {"url": url}}
    resource["spec"]["processing"] = {"maxBatchSize": 5, "prefetchCount": 100}
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(resource))
    demo.cluster.kubectl("wait", f"pod/{RECEIVER}", "--for=condition=Ready", "--timeout=100s")
    wait_for(demo, NAME, "Ready", "True")
    until(lambda: status(demo).get("notices"), "notices begin with the next file")
    yield demo
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")
    demo.cluster.kubectl("delete", f"pod/{RECEIVER}", f"service/{RECEIVER}", "--ignore-not-found")


def test_each_file_has_one_notice_in_order_and_none_is_skipped_when_a_host_is_killed(notified: Demo) -> None:
    publish(notified)
    wait_noticed(notified, 1)
    first = files(notified)
    assert len(first) == PARTITIONS and all(len(names) > 4 for names in first.values()), first
    assert received(notified) == first

    publish(notified)
    until(lambda: len(received(notified, 503)) == PARTITIONS, "the receiver refuses notices of both partitions")
    before = received(notified)
    assert all(len(before[partition]) > len(names) for partition, names in first.items()), "some were acknowledged"
    found = processes(f"{NAME}-host-0")
    if not found:
        pytest.skip("the pods' processes are not on this machine")
    os.kill(found[0], signal.SIGKILL)
    notified.cluster.kubectl("exec", RECEIVER, "--", "python3", "-c", ACCEPT_ALL)
    wait_noticed(notified, 2)
    written = files(notified)
    assert all(len(before[partition]) < len(names) for partition, names in written.items()), "some were missing"
    assert once(received(notified)) == written  # those after the last write of the cursor are repeated
    until(lambda: status(notified)["notices"]["pendingEvents"] == 0, "no notice is pending")
    (pod,) = notified.cluster.get("pods", "-l", f"eventconsumer.io/consumer={NAME}")["items"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    wait_for(notified, NAME, "Ready", "True")
