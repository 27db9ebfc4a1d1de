"""Dead letters: everything that is known, written once, no secret of the host in them."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.handler.api import Batch, Event, PartitionContext
from eventconsumer_host.handler.deadletter import DeadLetters, HandlerAttempts, LetterFolder, letter_cause
from eventconsumer_storage.errors import Damaged
from tests.support.fakes.blobs import FakeBlobStore

AT = datetime(2026, 1, 2, tzinfo=UTC)
ATTEMPTS = HandlerAttempts(7, AT, datetime(2026, 1, 3, tzinfo=UTC))
PATH = "p/_deadletters/segment=era/partition=3/seq=00000000000000000042.json"


def context() -> PartitionContext:
    return PartitionContext(
        "shop.example", "orders", "$Default", "3", "host-a", 8, 42, None, structlog.get_logger("test")
    )


def event(body: bytes | None = b"{}", key: str | None = "k", **properties: str) -> Event:
    return Event(42, "4200", AT, key, body, properties, {"subject": "s"}, "text/plain", "m", "c")


def letters(blobs: FakeBlobStore) -> DeadLetters:
    return DeadLetters(blobs, "drained", "p", "era", "shop:Shop")


def failure(message: str = "no stock") -> Exception:
    try:
        raise LookupError(message)
    except LookupError as error:
        return error


async def written(of: Event, error: Exception) -> dict[str, Any]:
    blobs = FakeBlobStore(lambda: 0.0)
    await letters(blobs).put(context(), of, ATTEMPTS, letter_cause(error))
    document: dict[str, Any] = json.loads(blobs.blobs[PATH].data)
    return document


async def test_a_letter_has_the_whole_envelope_the_attempts_and_the_error() -> None:
    document = await written(event(b"\xc3\xa4", number="5"), failure())
    trace = document["error"].pop("traceback")
    assert "LookupError: no stock" in trace and "test_deadletter.py" in trace
    assert document == {
        "namespace": "shop.example",
        "eventHub": "orders",
        "consumerGroup": "$Default",
        "segmentId": "era",
        "partitionId": "3",
        "sequenceNumber": 42,
        "offset": "4200",
        "enqueuedTime": "2026-01-02T00:00:00Z",
        "partitionKey": "k",
        "contentType": "text/plain",
        "messageId": "m",
        "correlationId": "c",
        "properties": {"number": "5"},
        "systemProperties": {"subject": "s"},
        "body": "w6Q=",
        "bodyText": "ä",
        "handler": "shop:Shop",
        "host": "host-a",
        "epoch": 8,
        "attempts": 7,
        "firstAttempt": "2026-01-02T00:00:00Z",
        "lastAttempt": "2026-01-03T00:00:00Z",
        "error": {"type": "LookupError", "message": "no stock"},
    }


@given(st.binary(max_size=200), st.text(max_size=50), st.text(st.characters(), max_size=50))
async def test_any_body_and_any_message_can_be_read_back(body: bytes, key: str, message: str) -> None:
    document = await written(event(body, key), failure(message + "\udc80"))
    assert base64.b64decode(document["body"]) == body
    assert document["bodyText"] is None or document["bodyText"].encode() == body
    assert document["partitionKey"] == key


@given(
    st.none() | st.binary(max_size=50),
    st.none() | st.text(max_size=9),
    st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
    st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1)),  # noqa: DTZ001 - made UTC below
)
async def test_the_event_of_a_letter_is_the_one_that_was_passed(
    body: bytes | None, key: str | None, properties: dict[str, str], at: datetime
) -> None:
    at = at.replace(tzinfo=UTC, microsecond=at.microsecond // 1000 * 1000)
    of = Event(42, "4200", at, key, body, properties, {"subject": "s"}, None, "m", None)
    blobs = FakeBlobStore(lambda: 0.0)
    await letters(blobs).put(context(), of, ATTEMPTS, letter_cause(failure()))
    found = await LetterFolder("p", "era").read(blobs, "3", 42)
    assert found is not None
    assert [*Batch(found.letter.batch().rows())] == [of]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"body": 1}'])
async def test_a_blob_that_is_no_letter_is_named(content: bytes) -> None:
    blobs = FakeBlobStore(lambda: 0.0)
    assert await LetterFolder("p", "era").read(blobs, "3", 42) is None
    await blobs.put(PATH, content)
    with pytest.raises(Damaged, match=r"seq=00000000000000000042\.json is not a dead letter"):
        await LetterFolder("p", "era").read(blobs, "3", 42)
    document = await written(event(), failure())
    for wrong in ({"body": "no base64!"}, {"enqueuedTime": "2026-01-01T00:00:00"}, {"sequenceNumber": 1 << 63}):
        await blobs.put(PATH, json.dumps(document | wrong).encode())
        with pytest.raises(Damaged, match="is not a dead letter"):
            await LetterFolder("p", "era").read(blobs, "3", 42)


async def test_no_body_is_null() -> None:
    document = await written(event(None), failure())
    assert (document["body"], document["bodyText"]) == (None, None)


async def test_an_error_that_has_no_message_can_be_written() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not now")

    document = await written(event(), Mute())
    assert document["error"]["message"] == "<no message: RuntimeError>"


async def test_no_secret_of_the_error_gets_into_a_letter() -> None:
    text = json.dumps(await written(event(), failure("login with AccountKey=c2VjcmV0 failed")))
    assert "AccountKey=***" in text
    assert "c2VjcmV0" not in text.replace("def ", "")


async def test_long_errors_are_cut() -> None:
    document = await written(event(), failure("x" * 1_000_000))
    assert len(document["error"]["message"]) == 4096
    assert len(document["error"]["traceback"]) == 32768


async def test_the_first_letter_of_an_event_stays() -> None:
    blobs = FakeBlobStore(lambda: 0.0)
    await letters(blobs).put(context(), event(b"1"), ATTEMPTS, letter_cause(failure("first")))
    second = letters(blobs)
    await second.put(context(), event(b"1"), ATTEMPTS, letter_cause(failure("second")))
    assert json.loads(blobs.blobs[PATH].data)["error"]["message"] == "first"
    assert second.problem() is not None


async def test_the_problem_says_how_many_and_where() -> None:
    blobs = FakeBlobStore(lambda: 0.0)
    some = letters(blobs)
    assert some.problem() is None
    await some.put(context(), event(), ATTEMPTS, letter_cause(failure()))
    problem = some.problem()
    assert problem is not None
    assert (problem.field, problem.reason) == ("spec.processing.handler", "DeadLetters")
    assert "1 events since this host started (1 of partition 3)" in problem.message
    assert "container drained under p/_deadletters/segment=era/" in problem.message
