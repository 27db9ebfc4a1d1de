"""Errors of bodies as the report of a host has them."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.wire.host_report import BODY_ERRORS_MAX
from eventconsumer_host.body.errors import DIFFERENT_MAX, REPORTED, BodyErrors, count
from eventconsumer_host.body.plain import PlainBodyParser
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.columns import to_batch
from tests.unit.host.sink.messages import message

MISFIT = "column cents: BIGINT has no exact value for this string"
SECRET = "4111-1111"


class Clock:
    """A wall clock that tests move."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


def parsed(*bodies: bytes) -> EventBatch:
    """Events with typed columns."""
    batch = to_batch([message(number, data=[body]) for number, body in enumerate(bodies)])
    return batch.with_typed(PlainBodyParser([BodyColumn("cents", "long", ("cents",))]).parse(batch.columns["body"]))


def test_each_error_is_counted_over_all_batches_and_has_no_value() -> None:
    wrong = b'{"cents": "%s"}' % SECRET.encode()
    found = count([parsed(b"{}", wrong), parsed(b'{"cents": 1}'), parsed(wrong, b"\xff", wrong)])
    assert found == (4, {MISFIT: 3, "the body is not UTF-8": 1})
    assert count([parsed(b"{}")]) == count([]) == count([to_batch([message(1)])]) == (0, {})


def test_any_number_of_errors_is_counted_in_bounded_memory() -> None:
    names = [f"c{number}" for number in range(11)]
    parser = PlainBodyParser([BodyColumn(name, "long", (name,)) for name in names])
    bodies = [json.dumps({name: "x" for bit, name in enumerate(names) if number >> bit & 1}) for number in range(2048)]
    batch = to_batch([message(number, data=[body.encode()]) for number, body in enumerate(bodies)])
    typed = batch.with_typed(parser.parse(batch.columns["body"]))
    total, counts = count([typed, typed])
    assert (total, len(counts), set(counts.values())) == (2 * 2047, DIFFERENT_MAX, {2})


def test_an_error_is_reported_for_ten_minutes_after_the_last_file_with_it() -> None:
    clock = Clock()
    errors = BodyErrors(clock)
    errors.note(Counter({"a": 2, "b": 1}), "file-1")
    clock.time += REPORTED / 2
    errors.note(Counter({"b": 4}), "file-2")
    errors.note(Counter(), "file-3")
    assert [(each.error, each.events, each.file) for each in errors.report()] == [
        ("b", 5, "file-2"),
        ("a", 2, "file-1"),
    ]
    clock.time += REPORTED / 2
    assert [each.error for each in errors.report()] == ["b"]
    clock.time += REPORTED / 2
    assert errors.report() == ()
    errors.note(Counter({"b": 1}), "file-4")
    assert [each.events for each in errors.report()] == [1]


def test_any_number_of_errors_leaves_the_newest_and_most_frequent_ones() -> None:
    clock = Clock()
    errors = BodyErrors(clock)
    errors.note(Counter({"old": 1000}), "file-0")
    clock.time += timedelta(seconds=1)
    errors.note(Counter({f"e{number}": number for number in range(1, 1000)}), "file-1")
    found = errors.report()
    assert [each.error for each in found] == [f"e{999 - number}" for number in range(BODY_ERRORS_MAX)]
