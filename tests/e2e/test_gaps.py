"""Lost events on the real cluster: they expire in the hub before a host reads them, and a user acknowledges that."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Demo
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.test_plugin import Plugin
from tests.e2e.waiting import until, wait_for

pytestmark = pytest.mark.long

NAME = "lossy"
READ = 20  # events of each partition that are in files before the pause
UNREAD = 20  # events of partition 0 that arrive during the pause
LOST = 15  # of them


def drained(demo: Demo, field: str) -> int:
    """A total of its files, by its status."""
    status = demo.cluster.get("eventconsumer", NAME).get("status", {})
    return int(status.get("drained", {}).get(field) or 0)


@pytest.fixture(scope="module")
def plugin(demo: Demo) -> Iterator[Plugin]:
    """A consumer that lost events of partition 0 while it was suspended; removed at the end."""
    create_secrets(demo.cluster, NAME)
    with emulator_admin(demo.cluster) as admin:
        admin.create_hub(NAME, partitions=2)
        for number in range(2 * READ):
            admin.put_event(NAME, str(number % 2), b"%d" % number)
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(consumer(NAME)))
    until(lambda: drained(demo, "events") == 2 * READ, "all events are in files")
    assert wait_for(demo, NAME, "DataGap", "False")["reason"] == "Available"
    found = Plugin(demo)
    suspended = found.run("suspend", NAME, "--wait")
    assert suspended.returncode == 0, suspended
    with emulator_admin(demo.cluster) as admin:
        for number in range(UNREAD):
            admin.put_event(NAME, "0", b"%d" % number)
        assert admin.move_retention(NAME, "0", before=READ + LOST) == READ + LOST
    resumed = found.run("resume", NAME, "--wait")
    assert resumed.returncode == 0, resumed
    yield found
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


def test_lost_events_are_reported_until_a_user_acknowledges_them(demo: Demo, plugin: Plugin) -> None:
    gap = wait_for(demo, NAME, "DataGap", "True")
    assert gap["reason"] == "DataGap" and f"{LOST} events were lost" in gap["message"], gap
    until(lambda: drained(demo, "events") == 2 * READ + UNREAD - LOST, "the events that are left are in files")
    assert drained(demo, "gapEvents") == LOST
    assert wait_for(demo, NAME, "Ready", "True"), "lost events require no action to go on"

    lost = f"{READ}-{READ + LOST - 1}"
    shown = plugin.json("gap", "show", NAME)
    assert shown == {"gapEvents": LOST, "acknowledgedGapEvents": 0, "newest": {"0": lost}}
    (file,) = plugin.json("files", NAME, "--gaps")["files"]
    assert (file["partition"], file["lost"], file["gap"]) == ("0", LOST, f"retention:{lost}"), file

    planned = plugin.run("gap", "ack", NAME)
    assert planned.returncode == 2 and "nothing was changed" in planned.stderr, planned  # nobody could be asked
    assert wait_for(demo, NAME, "DataGap", "True")
    assert plugin.json("gap", "ack", NAME, "--yes")["spec"]["acknowledgedGapEvents"] == LOST
    acknowledged = wait_for(demo, NAME, "DataGap", "False")
    assert acknowledged["reason"] == "GapAcknowledged", acknowledged
    assert f"{LOST} events were lost, all acknowledged" in acknowledged["message"], acknowledged

    # The record in the files stays: the audit explains the missing events, and finds nothing else.
    audited = plugin.run("audit", NAME, "--deep", "-o", "json")
    report = json.loads(audited.stdout)
    assert (audited.returncode, report["exitCode"], report["verdict"]) == (1, 1, "Explained"), report
    assert sum(each["gapEvents"] for each in report["partitions"]) == LOST, report
