"""Observations of a campaign, and when everything is processed."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.chaos.__main__ import pending
from tests.chaos.load import Load, Span, States, Unread
from tests.support.servers import EmulatorProcess

ENDED = datetime(2026, 11, 26, 12, tzinfo=UTC)
AFTER, BEFORE = "2026-11-26T12:00:01Z", "2026-11-26T11:59:59Z"


def test_times_without_a_reader_are_recorded_with_their_beginning() -> None:
    unread = Unread()
    unread.see(0.0, ["a/0", "a/1"], {"a/0", "a/1"})
    assert unread.all_read()
    unread.see(1.0, ["a/0", "a/1"], {"a/0"})
    unread.see(1.5, ["a/0", "a/1"], set())
    assert not unread.all_read()
    unread.see(2.0, ["a/0", "a/1"], {"a/0"})  # a/0: too short to be recorded
    unread.see(6.0, ["a/0", "a/1", "a/2"], {"a/0", "a/1"})
    unread.end(9.0)
    assert unread.spans == [Span("a", "1", 1.0, 5.0), Span("a", "2", 6.0, 3.0)]


def test_seconds_of_each_state_are_added_up() -> None:
    states = States()
    ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]}
    waiting = {"conditions": [{"type": "Ready", "status": "False", "reason": "Progressing"}]}
    for now, status in ((0, ready), (2, ready), (3, waiting), (7, None), (10, ready), (11, ready)):
        states.see(now, "a", status)
    assert states.seconds == {
        ("a", "Ready", "True Available"): 4,
        ("a", "Ready", "False Progressing"): 4,
        ("a", "(status)", "not readable"): 3,
    }


def test_an_event_without_a_response_is_uncertain(emulator_process: EmulatorProcess) -> None:
    admin = emulator_process.admin
    admin.create_hub("load", partitions=2)
    load = Load(admin, "load", lambda: 2, 10.0, first=100)
    load.publish("0", 3)
    load.publish("7", 2)  # refused
    load.publish("1", 1)
    assert (load.sent, load.uncertain) == ({100, 101, 102, 105}, {103, 104})
    assert [each["events"] for each in admin.hub("load")["partitions"]] == [3, 1]


DONE = {"files": AFTER, "commits": AFTER}


def status(**changes: dict[str, Any]) -> dict[str, Any]:
    """A status in which everything is processed."""
    found: dict[str, dict[str, Any]] = {
        "drained": {"events": 10},
        "table": {"events": 10, "pendingFiles": 0},
        "spark": {"pendingFiles": 0},
    }
    return {part: values | changes.get(part, {}) for part, values in found.items()}


def test_everything_is_processed() -> None:
    assert pending(status(), DONE, 10, ENDED) == ""
    assert pending(status(), DONE, 9, ENDED) == ""


@pytest.mark.parametrize(
    ("found", "watermark", "told"),
    [
        ({}, {}, "0 of 10 events are in files"),
        (status(drained={"events": 9}), DONE, "9 of 10 events are in files"),
        (status(), DONE | {"files": BEFORE}, f"up to {BEFORE}"),
        (status(table={"events": 9}), DONE, "9 of 10 events are in the table"),
        (status(table={"pendingFiles": 1}), DONE, "in the table"),
        (status(spark={"pendingFiles": 2}), DONE, "Spark has not processed everything"),
        (status(), DONE | {"commits": BEFORE}, "Spark has not processed everything"),
        (status(), {"files": AFTER}, "Spark has not processed everything"),
    ],
)
def test_pending_events_are_reported(found: dict[str, Any], watermark: dict[str, Any], told: str) -> None:
    assert told in pending(found, watermark, 10, ENDED)
