"""Messages are cut at section borders and stored as they came."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhubs_emulator.codec import decode, encode
from eventhubs_emulator.errors import DecodeError
from eventhubs_emulator.messages import (
    APPLICATION_PROPERTIES,
    BATCH_FORMAT,
    DATA,
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    encode_event,
    encode_response,
    parse_event,
    parse_publication,
    parse_request,
    runtime_metrics,
    sections,
)
from eventhubs_emulator.values import Described, Symbol, Timestamp, ULong
from tests.unit.emulator.test_codec import values


def section(code: int, value: Any) -> bytes:
    return encode(Described(ULong(code), value))


def read(data: bytes) -> list[tuple[int, Any]]:
    return [(code, decode(data, start, stop)[0]) for code, start, stop in sections(data)]


def stored(data: bytes) -> list[tuple[int, Any]]:
    payload, _ = parse_event(data).annotated(7, "700", 1234)
    return read(payload)


SYSTEM = {"x-opt-sequence-number": 7, "x-opt-offset": "700", "x-opt-enqueued-time": Timestamp(1234)}


def test_sections_are_put_in_the_order_that_clients_expect() -> None:
    data = (
        section(HEADER, [True])
        + section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-partition-key"): "k", Symbol("mine"): 5})
        + section(PROPERTIES, ["id"])
        + section(APPLICATION_PROPERTIES, {"a": 1})
        + section(DATA, b"body")
        + section(DELIVERY_ANNOTATIONS, {Symbol("hop"): 1})
    )
    assert stored(data) == [
        (HEADER, [True]),
        (MESSAGE_ANNOTATIONS, {**SYSTEM, "x-opt-partition-key": "k", "mine": 5}),
        (PROPERTIES, ["id"]),
        (APPLICATION_PROPERTIES, {"a": 1}),
        (DATA, b"body"),
    ]


def test_a_sender_cannot_set_the_annotations_of_the_service() -> None:
    data = section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-sequence-number"): 99}) + section(DATA, b"")
    assert stored(data)[0] == (MESSAGE_ANNOTATIONS, SYSTEM)


def test_runtime_metrics_go_between_header_and_annotations() -> None:
    payload, insert = parse_event(section(HEADER, [True]) + section(DATA, b"x")).annotated(0, "0", 0)
    with_metrics = payload[:insert] + runtime_metrics(5, "50", 500, 600) + payload[insert:]
    assert [code for code, _ in read(with_metrics)] == [HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, DATA]
    assert read(with_metrics)[1][1] == {
        "last_enqueued_sequence_number": 5,
        "last_enqueued_offset": "50",
        "last_enqueued_time_utc": Timestamp(500),
        "runtime_info_retrieval_time_utc": Timestamp(600),
    }


@given(st.dictionaries(st.text(), values, max_size=4), st.binary(max_size=2000))
def test_properties_and_body_are_stored_byte_for_byte(properties: dict[str, Any], body: bytes) -> None:
    rest = section(APPLICATION_PROPERTIES, properties) + section(DATA, body)
    payload, insert = parse_event(rest).annotated(0, "0", 0)
    assert payload.endswith(rest)
    assert insert == 0


@given(st.text(min_size=1, max_size=300), st.dictionaries(st.text(st.characters(max_codepoint=127)), st.text()))
def test_any_key_and_any_annotations_survive(key: str, annotations: dict[str, str]) -> None:
    mine = {Symbol(name): value for name, value in annotations.items() if not name.startswith("x-opt-")}
    data = section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-partition-key"): key, **mine}) + section(DATA, b"")
    assert dict(stored(data))[MESSAGE_ANNOTATIONS] == {**SYSTEM, "x-opt-partition-key": key, **mine}


def test_a_batch_gives_its_key_to_every_event() -> None:
    inner = [section(DATA, str(number).encode()) for number in range(3)]
    data = section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-partition-key"): "k"}) + b"".join(
        section(DATA, message) for message in inner
    )
    events = parse_publication(data, BATCH_FORMAT)
    assert [(event.key, event.rest) for event in events] == [("k", message) for message in inner]
    assert len(parse_publication(data, 0)) == 1


@given(st.binary(max_size=200))
def test_random_bytes_are_a_message_or_an_error(data: bytes) -> None:
    for parse in (lambda: parse_publication(data, 0), lambda: parse_publication(data, BATCH_FORMAT)):
        with suppress(DecodeError):
            for event in parse():
                event.annotated(0, "0", 0)
    with suppress(DecodeError):
        parse_request(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x40", "must start with a descriptor"),
        (section(0x24, []), "not a message section"),
        (encode(Described(Symbol("amqp:data:binary"), b"")), "not by a number"),
        (section(DATA, b"abc")[:-1], "beyond the end"),
        (section(MESSAGE_ANNOTATIONS, [1]), "must be a map"),
    ],
)
def test_the_error_of_an_invalid_message_names_the_cause(data: bytes, says: str) -> None:
    with pytest.raises(DecodeError, match=says):
        parse_event(data)


@pytest.mark.parametrize("message_id", ["text", ULong(7), b"raw"])
def test_a_reply_carries_the_id_in_the_type_it_had(message_id: Any) -> None:
    request = parse_request(section(PROPERTIES, [message_id, None, None, None, "to-me"]) + section(0x77, "token"))
    assert (request.message_id, request.reply_to, request.body) == (message_id, "to-me", "token")
    fields = read(encode_response(request.message_id, {"status-code": 200}, None))
    assert fields[0][1][5] == message_id
    assert type(fields[0][1][5]) is type(message_id)


def test_an_event_made_here_reads_like_a_published_one_and_has_a_body() -> None:
    assert stored(section(APPLICATION_PROPERTIES, {"a": 1}))[-1] == (DATA, b"")
    payload, _ = encode_event(b"x", {"a": 1}, "k").annotated(0, "0", 0)
    assert [code for code, _ in read(payload)] == [MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES, DATA]
