"""Retention of files on the real cluster: the oldest files become tombstones until the others fit into the limit."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from eventconsumer_demo import run
from tests.e2e.conftest import Demo
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.waiting import until, wait_for

pytestmark = pytest.mark.long

NAME = "brief"
PARTITIONS = 2
EVENTS = 200  # of each partition
# Many small files.
ROLL = {"maxEvents": 10, "maxSeconds": 1}
PROCESSING = {"maxBatchSize": 5, "prefetchCount": 100}


@dataclass(frozen=True)
class File:
    """A file in storage."""

    partition: str
    bytes: int
    events: int
    tombstone: bool


def files(demo: Demo) -> dict[str, File]:
    """All files by name, in the order of their partition."""
    found = {}
    with demo.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
        connection = run.storage_connection_string(f"http://127.0.0.1:{port}/{run.ACCOUNT}")
        with ContainerClient.from_connection_string(connection, f"{NAME}-sink") as sink:
            for blob in sink.list_blobs(f"{demo.cluster.namespace}/{NAME}/segment=", include=["metadata"]):
                facts: dict[str, str] = blob.metadata
                partition = blob.name.partition("/partition=")[2].partition("/")[0]
                found[blob.name] = File(partition, blob.size, int(facts["count"]), "tombstone" in facts)
    return dict(sorted(found.items()))


def status(demo: Demo) -> dict[str, Any]:
    """Its status."""
    found: dict[str, Any] = demo.cluster.get("eventconsumer", NAME).get("status", {})
    return found


@pytest.fixture(scope="module")
def kept(demo: Demo) -> Iterator[Demo]:
    """A consumer that has drained everything into many files, all in the table; it has no limit yet."""
    create_secrets(demo.cluster, NAME)
    with emulator_admin(demo.cluster) as admin:
        admin.create_hub(NAME, partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            admin.put_events(NAME, str(partition), [(b"%d" % number, {}) for number in range(EVENTS)])
    resource = consumer(NAME)
    resource["spec"]["sink"]["roll"] = ROLL
    resource["spec"]["processing"] = PROCESSING
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(resource))

    def complete() -> bool:
        found = status(demo)
        events = found.get("drained", {}).get("events"), found.get("table", {}).get("events")
        return events == (PARTITIONS * EVENTS, PARTITIONS * EVENTS)

    # A file that is not registered in the table is kept, and the leading host looks again only after ten minutes.
    until(complete, "all events are in files, and all files in the table")
    yield demo
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


def test_the_oldest_files_become_tombstones_until_the_others_fit(kept: Demo) -> None:
    before = files(kept)
    assert not any(file.tombstone for file in before.values())
    assert len(before) > 4 * PARTITIONS
    limit = sum(file.bytes for file in before.values()) // 2
    change = json.dumps({"spec": {"sink": {"retention": {"bytes": limit}}}})
    kept.cluster.kubectl("patch", "eventconsumer", NAME, "--type=merge", "-p", change)

    def removed() -> dict[str, Any]:
        found: dict[str, Any] = status(kept).get("retention", {})  # counts files before they are removed
        number = found.get("files", 0)
        return found if number and number == sum(file.tombstone for file in files(kept).values()) else {}

    retention = until(removed, "the leading host has removed files")
    after = files(kept)
    gone = [before[name] for name, file in after.items() if file.tombstone]
    left = sum(file.bytes for file in after.values())
    assert after.keys() == before.keys()
    assert left <= limit < left + max(file.bytes for file in gone), "no more than necessary"
    for partition in map(str, range(PARTITIONS)):
        tombstones = [file.tombstone for file in after.values() if file.partition == partition]
        assert tombstones == sorted(tombstones, reverse=True) and not tombstones[-1], "the oldest ones"
    totals = (len(gone), sum(file.events for file in gone), sum(file.bytes for file in gone))
    assert (retention["files"], retention["events"], retention["bytes"]) == totals, retention
    assert (retention["excessBytes"], retention["held"]) == (0, ""), retention

    wait_for(kept, NAME, "Ready", "True")
    drained = status(kept)["drained"]
    assert (drained["files"], drained["events"]) == (len(before), PARTITIONS * EVENTS), "removed files count, too"
    printed = kept.cluster.kubectl("exec", f"{NAME}-host-0", "--", "eventconsumer", "audit", "--deep", "--json")
    report = json.loads(printed)
    assert report["exitCode"] == 0 and sum(each["tombstones"] for each in report["partitions"]) == len(gone), report
