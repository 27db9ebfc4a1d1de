"""Errors in logs are explained by a documented failure mode, or reported."""

import json
from pathlib import Path

import pytest

from tests.chaos.logs import HOST, KNOWN, OPERATOR, SPARK, Logs, parse, unexplained

ROOT = Path(__file__).parents[3]
TIME = "2026-11-26T10:00:00.123456789Z"


def line(level: str, message: str, **fields: str) -> str:
    """A line of a container's log."""
    return f"{TIME} stderr F {json.dumps({'timestamp': TIME, 'level': level, 'message': message, **fields})}\n"


@pytest.mark.parametrize("page", sorted({known.page for known in KNOWN}))
def test_each_explanation_names_a_page_that_exists(page: str) -> None:
    assert (ROOT / page).is_file()


@pytest.mark.parametrize(
    ("pod", "program"),
    [("chaos-1-a-host-0", HOST), ("eventconsumer-operator-5d8f-x2", OPERATOR), ("chaos-1-a-b7-a2-k8s", SPARK)],
)
def test_the_name_of_a_pod_tells_its_program(pod: str, program: str) -> None:
    entry = parse(pod, line("warning", "failed to list leases; retrying", error="down"))
    assert entry is not None and not entry.is_error
    assert (entry.program, entry.message, entry.time) == (program, "failed to list leases; retrying", TIME)


def test_only_errors_without_an_explanation_are_reported() -> None:
    entries = [
        parse("a-host-0", line("error", "another host owns the partition: this host stops writing", error="x")),
        parse("a-host-0", line("error", "the host is blocked: no events are read", reason="StorageUnreachable")),
        parse("a-b1-x", line("error", "ClaimLostError: the lease of batch 3 was broken: nothing was committed")),
        parse("a-host-0", line("warning", "anything")),
        parse("a-host-0", line("error", "internal error: the partition is released; report this log entry as a bug")),
        parse("a-host-0", line("critical", "another host owns the partition in other words")),
        parse("eventconsumer-operator-1", line("error", "another host owns the partition: this host stops writing")),
        parse("a-host-0", f"{TIME} stderr F Traceback (most recent call last):\n"),
    ]
    assert all(entries)
    found = unexplained(entry for entry in entries if entry)
    assert [entry.text for entry in found] == [entry.text for entry in entries[4:] if entry]


@pytest.mark.parametrize("text", ["", "Setting default log level", '{"level": 3}', "[]"])
def test_a_line_that_is_no_entry_is_left_out_unless_it_shows_a_failure(text: str) -> None:
    assert parse("a-host-0", f"{TIME} stdout F {text}\n") is None


def test_logs_are_followed_over_restarts_and_new_pods(tmp_path: Path) -> None:
    first = tmp_path / "demo_a-host-0_uid/host/0.log"
    first.parent.mkdir(parents=True)
    first.write_text(line("error", "one"))
    logs = Logs(tmp_path, "demo", ["a-host"])
    logs.poll()
    with first.open("a") as file:
        file.write(line("error", "two")[:20])
    logs.poll()
    with first.open("a") as file:
        file.write(line("error", "two")[20:])
    (first.parent / "1.log").write_text(line("error", "three") + line("warning", "w"))
    other = tmp_path / "demo_b-host-0_uid/host/0.log"
    other.parent.mkdir(parents=True)
    other.write_text(line("error", "of another pod"))
    logs.end()
    assert [entry.message for entry in logs.errors] == ["one", "two", "three"]
    assert logs.warnings == {(HOST, "w"): 1}
