"""The server's protocol, without sockets."""

import logging

import pytest

from eventhubs_emulator.broker import Broker
from eventhubs_emulator.codec import decode, encode
from eventhubs_emulator.errors import LinkFailed
from eventhubs_emulator.faults import CbsFault, Refusal, Selection
from eventhubs_emulator.framing import AMQP_HEADER, EMPTY_FRAME, SASL_FRAME, SASL_HEADER, FrameReader, frame
from eventhubs_emulator.messages import encode_response, sections
from eventhubs_emulator.performatives import (
    AMQP,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    Transfer,
)
from eventhubs_emulator.session import WINDOW
from eventhubs_emulator.values import Described, ULong
from tests.unit.emulator.peer import Clock, Peer, fill, message

READER = "orders/ConsumerGroups/$Default/Partitions/0"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def broker(clock: Clock) -> Broker:
    made = Broker(clock=clock)
    made.create_hub("orders", 2)
    return made


@pytest.fixture
def peer(broker: Broker) -> Peer:
    return Peer(broker).open()


@pytest.fixture
def producer(peer: Peer) -> Peer:
    """Attached to partition 0; the answer is read."""
    peer.attach_producer("orders/Partitions/0")
    assert peer.expect(Flow).link_credit == 1000
    return peer


def condition(performative: Detach | Close | End) -> str:
    return str(performative.error.value[0])


def sequence_numbers(got: list) -> list[int]:
    numbers = []
    for performative, payload in got:
        if isinstance(performative, Transfer):
            annotations = next(start for code, start, _ in sections(payload) if code == 0x72)
            numbers.append(decode(payload, annotations)[0]["x-opt-sequence-number"])
    return numbers


# Frames


FIELDS = {Open: 10, Begin: 8, Attach: 14, Flow: 11, Transfer: 11, Disposition: 6, Detach: 3, End: 1, Close: 1}


@pytest.mark.parametrize(("kind", "fields"), FIELDS.items())
def test_every_field_is_written_nulls_included(kind: type, fields: int) -> None:
    required = {index: "x" if kind.KINDS[index] is str else kind.KINDS[index](0) for index in kind.REQUIRED}
    performative = kind.of([required.get(index) for index in range(fields)])
    described, _ = decode(performative.encode())
    assert type(described.descriptor) is ULong
    assert len(described.value) == fields
    assert AMQP[described.descriptor] is kind
    assert kind.of(described.value) == performative


def test_a_frame_is_found_however_the_bytes_are_cut() -> None:
    data = frame(3, b"abc") + EMPTY_FRAME + frame(4, b"")
    for cut in range(len(data) + 1):
        reader = FrameReader(1000)
        found = []
        for part in (data[:cut], data[cut:]):
            reader.feed(part)
            while (got := reader.next()) is not None:
                found.append((got.channel, got.body))
        assert found == [(3, b"abc"), (0, b""), (4, b"")]


# Handshake


def greeted(broker: Broker, data: bytes = SASL_HEADER) -> tuple[Peer, bytes]:
    """A client that sent these first bytes, and the answer."""
    peer = Peer(broker)
    peer.connection.receive(data)
    return peer, peer.connection.take_output(0)


def test_sasl_offers_the_mechanisms_that_clients_use(broker: Broker) -> None:
    _, offer = greeted(broker)
    assert offer[:8] == SASL_HEADER
    described, _ = decode(offer[16:])
    assert described.value[0].items == ("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL")


@pytest.mark.parametrize(
    ("mechanism", "response", "code"),
    [
        ("ANONYMOUS", b"", 0),
        ("MSSBCBS", None, 0),
        ("EXTERNAL", b"", 0),
        ("PLAIN", b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE", 0),
        ("PLAIN", b"\0RootManageSharedAccessKey\0wrong", 1),
        ("PLAIN", b"", 1),
        ("SCRAM", b"", 1),
    ],
)
def test_sasl_outcomes(broker: Broker, mechanism: str, response: bytes | None, code: int) -> None:
    peer, _ = greeted(broker)
    peer.connection.receive(frame(0, SaslInit(mechanism, response).encode(), SASL_FRAME))
    described, _ = decode(peer.connection.take_output(0)[8:])
    assert described.value == [code, None]
    assert peer.connection.closed == bool(code)


def test_another_protocol_is_answered_with_the_sasl_header_and_a_close(broker: Broker) -> None:
    peer, answer = greeted(broker, b"GET / HTTP/1.1\r\n")
    assert answer == SASL_HEADER
    assert peer.connection.closed


def test_a_client_that_never_opens_is_closed(broker: Broker, clock: Clock) -> None:
    peer, _ = greeted(broker)
    clock.ms += 61_000
    peer.connection.tick()
    assert peer.connection.closed


def test_heartbeats_go_both_ways(broker: Broker, clock: Clock) -> None:
    peer = Peer(broker, idle_ms=10_000).open(idle_time_out=3000)
    for _ in range(5):
        clock.ms += 1500
        peer.connection.tick()
        peer.read()
    assert peer.heartbeats == 5
    peer.connection.receive(EMPTY_FRAME)
    clock.ms += 9000
    peer.connection.tick()
    assert not peer.connection.closed
    clock.ms += 1500
    peer.connection.tick()
    assert "inactive" in str(peer.expect(Close).error)


def test_close_is_answered(peer: Peer) -> None:
    peer.send(Close())
    assert peer.expect(Close).error is None
    assert peer.connection.closed


# Readers


def test_a_reader_receives_events_in_order_up_to_its_credit(broker: Broker, peer: Peer) -> None:
    fill(broker, "orders", 0, 10)
    peer.attach_reader(READER, credit=4)
    got = peer.read()
    attach = got[0][0]
    assert isinstance(attach, Attach)
    assert (attach.role, attach.initial_delivery_count) == (False, 0)
    assert attach.source is not None
    assert attach.target is not None
    assert sequence_numbers(got) == [0, 1, 2, 3]
    assert [len(one.delivery_tag) for one, _ in got if isinstance(one, Transfer)] == [16] * 4
    peer.give_credit(0, 100, count=4)
    assert sequence_numbers(peer.read()) == [4, 5, 6, 7, 8, 9]
    fill(broker, "orders", 0, 1)
    assert peer.woken > 0
    assert sequence_numbers(peer.read()) == [10]


def test_the_budget_bounds_one_write(broker: Broker, peer: Peer) -> None:
    fill(broker, "orders", 0, 100, size=1000)
    peer.attach_reader(READER, credit=100)
    peer.connection.take_output(0)
    assert len(peer.connection.take_output(5000)) < 7000
    assert len(sequence_numbers(peer.read())) == 95


def test_the_clients_window_is_respected_and_resumed(broker: Broker) -> None:
    peer = Peer(broker).open()
    fill(broker, "orders", 0, 20)
    peer.attach_reader(READER)
    peer.read()
    peer.send(Flow(1, 5, 0, 1000, 0, 0, 100))
    assert sequence_numbers(peer.read()) == [0, 1, 2, 3, 4]
    assert sequence_numbers(peer.read()) == []
    peer.send(Flow(6, 3, 0, 1000))
    assert sequence_numbers(peer.read()) == [5, 6, 7]


def test_a_large_event_is_cut_into_frames_and_waits_for_the_window(broker: Broker) -> None:
    peer = Peer(broker).open(max_frame_size=512)
    fill(broker, "orders", 0, 2, size=1500)
    peer.attach_reader(READER)
    peer.read()
    peer.send(Flow(1, 3, 0, 1000, 0, 0, 10))
    first = [(got.more, got.delivery_id, got.delivery_tag) for got, _ in peer.read() if isinstance(got, Transfer)]
    assert first == [(True, 0, bytes(16))] * 3
    peer.send(Flow(4, 1000, 0, 1000))
    parts = [(got, payload) for got, payload in peer.read() if isinstance(got, Transfer)]
    assert [got.delivery_id for got, _ in parts if not got.more] == [0, 1]
    whole = b"".join(payload for got, payload in parts if got.delivery_id == 1)
    assert [stop for _, _, stop in sections(whole)][-1] == len(whole)
    assert b"x" * 1500 in whole


def test_drain_gives_the_credit_back(broker: Broker, peer: Peer) -> None:
    fill(broker, "orders", 0, 2)
    peer.attach_reader(READER)
    peer.read()
    peer.give_credit(0, 10, drain=True)
    got = peer.read()
    assert sequence_numbers(got) == [0, 1]
    flow = got[-1][0]
    assert isinstance(flow, Flow)
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 10, True)


def test_runtime_metrics_come_with_each_event_when_asked_for(broker: Broker, peer: Peer) -> None:
    fill(broker, "orders", 0, 3)
    attach = Attach("r", 0, True, desired_capabilities=("com.microsoft:enable-receiver-runtime-metric",))
    attach.source = Described(ULong(0x28), [READER])
    peer.send(attach)
    peer.give_credit(0, 1)
    _, payload = peer.read()[-1]
    code, start, _ = sections(payload)[0]
    assert code == 0x71
    assert decode(payload, start)[0]["last_enqueued_sequence_number"] == 2


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("nothing/ConsumerGroups/$Default/Partitions/0", "amqp:not-found"),
        ("orders/ConsumerGroups/other/Partitions/0", "amqp:not-found"),
        ("orders/ConsumerGroups/$Default/Partitions/2", "com.microsoft:argument-out-of-range"),
        ("orders/ConsumerGroups/$Default", "amqp:not-found"),
        ("", "amqp:not-found"),
    ],
)
def test_a_refused_link_is_attached_then_detached(peer: Peer, address: str, expected: str) -> None:
    peer.attach_reader(address)
    attach, detach = (performative for performative, _ in peer.read())
    assert isinstance(attach, Attach)
    assert (attach.role, attach.source, attach.target) == (False, None, None)
    assert isinstance(detach, Detach)
    assert (detach.closed, condition(detach)) == (True, expected)
    assert len(detach.error.value) == 3
    peer.send(Detach(0, True))
    assert peer.read() == []


def test_addresses_are_found_in_any_case_and_with_a_host(broker: Broker, peer: Peer) -> None:
    fill(broker, "orders", 0, 1)
    peer.attach_reader("amqps://ns.example:5671/Orders/consumergroups/$DEFAULT/partitions/0", credit=1)
    assert sequence_numbers(peer.read()) == [0]


def test_a_reader_without_credit_is_detached_after_half_an_hour(broker: Broker, peer: Peer, clock: Clock) -> None:
    peer.attach_reader(READER, handle=1, credit=10)
    peer.attach_reader(READER, handle=2)
    peer.read()
    for _ in range(62):
        clock.ms += 30_000
        peer.connection.receive(EMPTY_FRAME)
        peer.connection.tick()
    detach = peer.expect(Detach)
    assert (detach.handle, condition(detach)) == (2, "amqp:link:detach-forced")


# Epochs


def test_a_higher_epoch_displaces_across_connections(broker: Broker, peer: Peer) -> None:
    peer.attach_reader(READER, epoch=1)
    peer.read()
    other = Peer(broker, 2).open()
    other.attach_reader(READER, epoch=1)
    assert other.expect(Attach)
    assert condition(peer.expect(Detach)) == "amqp:link:stolen"
    third = Peer(broker, 3).open()
    third.attach_reader(READER, epoch=0)
    assert "higher epoch '1' already exists" in str(third.expect(Detach).error)
    assert [link.epoch for link in broker.links] == [1]


def test_a_closed_reader_is_forgotten(broker: Broker, peer: Peer) -> None:
    peer.attach_reader(READER, epoch=5)
    peer.send(Detach(0, True))
    assert broker.links == []
    assert not broker.hub("orders").partitions[0].listeners
    peer.attach_reader(READER, epoch=0)
    assert len(broker.links) == 1


# Producers


def test_an_event_is_stored_and_accepted_unless_it_is_settled(broker: Broker, producer: Peer) -> None:
    producer.publish(b"one", delivery=7)
    disposition = producer.expect(Disposition)
    assert (disposition.role, disposition.first, disposition.settled) == (True, 7, True)
    assert disposition.state.descriptor == 0x24
    producer.publish(b"two", delivery=8, settled=True)
    assert producer.read() == []
    assert broker.hub("orders").partitions[0].last_sequence_number == 1


def test_a_message_in_parts_is_put_together(broker: Broker, producer: Peer) -> None:
    data = message(b"x" * 5000)
    for start in range(0, len(data), 1000):
        more = start + 1000 < len(data)
        producer.send(Transfer(0, 3 if start == 0 else None, b"t", 0, False, more), data[start : start + 1000])
    assert producer.expect(Disposition).first == 3
    assert data in broker.hub("orders").partitions[0].read(0, 1)[0].payload


def test_credit_and_window_are_renewed_before_they_end(broker: Broker, peer: Peer) -> None:
    peer.attach_producer("orders")
    peer.read()
    for number in range(2500):
        peer.publish(b"", delivery=number, settled=True)
    flows = [got for got, _ in peer.read() if isinstance(got, Flow)]
    assert [(flow.delivery_count, flow.link_credit) for flow in flows if flow.handle == 0][-1] == (2500, 1000)
    assert [flow.incoming_window for flow in flows if flow.handle is None] == [WINDOW]
    assert [len(partition) for partition in broker.hub("orders").partitions] == [1250, 1250]


def test_a_message_that_is_too_large_detaches_the_link_and_frees_its_memory(producer: Peer) -> None:
    part = bytes(60_000)
    for number in range(360):
        producer.send(Transfer(0, 0, b"t", 0, False, True), part)
        if number == 349:
            assert condition(producer.expect(Detach)) == "amqp:link:message-size-exceeded"
    assert not producer.connection.closed
    assert producer.connection._held == 0


def test_an_invalid_message_is_rejected_and_the_link_stays(broker: Broker, producer: Peer) -> None:
    producer.send(Transfer(0, 0, b"t", 0, False, False), b"rubbish")
    assert "amqp:decode-error" in str(producer.expect(Disposition).state)
    producer.publish(b"good", delivery=1)
    assert producer.expect(Disposition).state.descriptor == 0x24


def test_an_aborted_message_is_forgotten(broker: Broker, producer: Peer) -> None:
    producer.send(Transfer(0, 0, b"t", 0, False, True), b"half")
    producer.send(Transfer(0, 0, b"t", 0, False, False, aborted=True))
    producer.publish(b"whole", delivery=1)
    assert len(broker.hub("orders").partitions[0]) == 1


# Violations


@pytest.mark.parametrize(
    ("channel", "performative", "kind", "expected"),
    [
        (0, Transfer(9), End, "amqp:session:unattached-handle"),
        (0, Flow(0, 1, 0, 1, handle=9), End, "amqp:session:unattached-handle"),
        (5, Transfer(0), Close, "amqp:not-allowed"),
        (0, Begin(None, 0, 1, 1), Close, "amqp:not-allowed"),
        (6000, Begin(None, 0, 1, 1), Close, "amqp:not-allowed"),
        (0, Attach("a", 256, True), Close, "amqp:connection:framing-error"),
        (0, Open("again"), Close, "amqp:not-allowed"),
    ],
)
def test_a_violation_ends_the_session_or_the_connection(
    peer: Peer, channel: int, performative: Transfer, kind: type, expected: str
) -> None:
    peer.send(performative, channel=channel)
    assert condition(peer.expect(kind)) == expected
    assert peer.connection.closed == (kind is Close)


def test_a_handle_that_is_in_use_ends_the_session_and_its_links(broker: Broker, peer: Peer) -> None:
    peer.attach_reader(READER)
    peer.attach_reader(READER)
    assert condition(peer.expect(End)) == "amqp:session:handle-in-use"
    assert broker.links == []
    peer.send(End())
    peer.send(Begin(None, 0, 10, 10))
    assert peer.expect(Begin).remote_channel == 0


@pytest.mark.parametrize(
    "data",
    [b"\x00\x00\x00\x07\x02\x00\x00\x00", b"\x00\x00\x00\x08\x01\x00\x00\x00", b"\x7f\xff\xff\xff\x02\x00\x00\x00"],
)
def test_a_broken_frame_header_closes_the_connection(peer: Peer, data: bytes) -> None:
    peer.connection.receive(data)
    assert condition(peer.expect(Close)) == "amqp:connection:framing-error"


# Authorization


def test_without_a_token_nothing_is_attached(broker: Broker) -> None:
    peer, _ = greeted(broker, AMQP_HEADER)
    peer.send(Open("test", max_frame_size=65536))
    peer.send(Begin(None, 0, 10, 10))
    peer.attach_reader(READER)
    assert condition(peer.expect(Detach)) == "amqp:unauthorized-access"


def test_expired_tokens_detach_their_links(broker: Broker, peer: Peer) -> None:
    peer.attach_reader(READER)
    peer.attach_producer("orders", handle=1)
    peer.read()
    peer.connection.expire_claims()
    detaches = [got for got, _ in peer.read() if isinstance(got, Detach)]
    assert [condition(got) for got in detaches] == ["amqp:link:detach-forced"] * 2
    assert "'Listen' claim(s) are required" in str(detaches[0].error)
    assert broker.links == []
    peer.attach_reader(READER)
    assert condition(peer.expect(Detach)) == "amqp:unauthorized-access"


# Services


def ask(peer: Peer, service: str, properties: dict, body: object = None, message_id: object = "id-1") -> dict:
    """Attaches the pair of links, asks, and gives the reply's application properties and body."""
    peer.attach_reader(service, handle=10, credit=10)
    peer.attach_producer(service, handle=11)
    peer.read()
    payload = encode_response(None, properties, body).replace(
        encode(Described(ULong(0x73), [None] * 6)), encode(Described(ULong(0x73), [message_id]))
    )
    peer.send(Transfer(11, 0, b"t", 0, False, False), payload)
    replies = [payload for got, payload in peer.read() if isinstance(got, Transfer)]
    peer.send(Detach(10, True))
    peer.send(Detach(11, True))
    peer.read()
    if not replies:
        return {}
    parts = {code: decode(replies[0], start)[0] for code, start, _ in sections(replies[0])}
    assert parts[0x73][5] == message_id
    return {**parts[0x74], "body": parts[0x77]}


HUB = {"operation": "READ", "type": "com.microsoft:eventhub", "name": "ORDERS"}
PARTITION = {"operation": "READ", "type": "com.microsoft:partition", "name": "orders", "partition": "1"}
TOKEN = {"operation": "put-token", "type": "jwt", "name": "sb://h/orders"}


def test_management_describes_hub_and_partition(broker: Broker, peer: Peer) -> None:
    hub = ask(peer, "$management", HUB)
    assert hub["status-code"] == 200
    assert hub["body"]["partition_ids"].items == ("0", "1")
    assert hub["body"]["georeplication_factor"] == 1  # the Go SDK needs it
    fill(broker, "orders", 1, 3)
    found = ask(peer, "$management", PARTITION, message_id=ULong(5))["body"]
    assert (found["begin_sequence_number"], found["last_enqueued_sequence_number"]) == (0, 2)
    assert found["is_partition_empty"] is False


def test_management_limits_the_queries_of_a_hub_per_second(broker: Broker, clock: Clock, peer: Peer) -> None:
    broker.create_hub("other", 1)
    assert [ask(peer, "$management", HUB)["status-code"] for _ in range(51)] == [200] * 50 + [503]
    busy = ask(peer, "$management", PARTITION)
    assert (busy["status-code"], busy["error-condition"]) == (503, "com.microsoft:server-busy")
    assert ask(peer, "$management", HUB | {"name": "other"})["status-code"] == 200
    clock.ms += 100
    assert [ask(peer, "$management", HUB)["status-code"] for _ in range(6)] == [200] * 5 + [503]


def test_an_idle_link_to_cbs_is_detached(clock: Clock, peer: Peer) -> None:
    for handle, service in enumerate(("$cbs", "$management")):
        peer.attach_reader(service, handle=2 * handle, credit=10)
        peer.attach_producer(service, handle=2 * handle + 1)
    peer.read()
    clock.ms += 299_000
    peer.connection.receive(EMPTY_FRAME)  # the connection is not idle
    peer.connection.tick()
    assert not [got for got, _ in peer.read() if isinstance(got, Detach)]
    clock.ms += 2000
    peer.connection.tick()
    detaches = [got for got, _ in peer.read() if isinstance(got, Detach)]
    assert [(got.handle, condition(got)) for got in detaches] == [
        (0, "amqp:connection:forced"),
        (1, "amqp:connection:forced"),
    ]


def test_a_connection_has_one_pair_of_links_to_cbs(broker: Broker, peer: Peer) -> None:
    peer.attach_reader("$cbs", handle=1)
    peer.attach_producer("$cbs", handle=2)
    peer.read()
    peer.attach_reader("$cbs", handle=3)
    assert condition(peer.expect(Detach)) == "amqp:not-allowed"
    peer.send(Detach(1, True))
    peer.attach_reader("$cbs", handle=4)
    assert [got.handle for got, _ in peer.read() if isinstance(got, Detach)] == [1]
    Peer(broker, 2).open().attach_reader("$cbs", handle=1)
    assert len(broker.service_links) == 3


@pytest.mark.parametrize(
    ("service", "request_", "status"),
    [
        ("$management", PARTITION | {"name": "other"}, 404),
        ("$management", PARTITION | {"partition": "7"}, 400),
        ("$management", PARTITION | {"type": "com.microsoft:queue"}, 400),
        ("$management", PARTITION | {"operation": "DELETE"}, 400),
        ("$cbs", TOKEN, 401),
        ("$cbs", TOKEN | {"type": "saml"}, 400),
        ("$cbs", {"operation": "put-token", "type": "jwt"}, 400),
        ("$cbs", TOKEN | {"operation": "delete-token"}, 400),
    ],
)
def test_a_wrong_request_to_a_service_has_its_status(peer: Peer, service: str, request_: dict, status: int) -> None:
    assert ask(peer, service, request_, "a.b.c")["status-code"] == status


def test_cbs_takes_a_bearer_token_where_that_is_allowed(broker: Broker, peer: Peer) -> None:
    broker.allow_jwt = True
    assert ask(peer, "$cbs", TOKEN, "a.b.c")["status-code"] == 202
    assert ask(peer, "$cbs", TOKEN | {"name": "sb://h/nothing"}, "a.b.c")["status-code"] == 404


def test_cbs_fails_as_its_fault_is_set(broker: Broker, peer: Peer) -> None:
    broker.faults.cbs = CbsFault(500, "broken")
    assert ask(peer, "$cbs", TOKEN, "a")["status-description"] == "broken"
    broker.faults.cbs = CbsFault(None, "")
    assert ask(peer, "$cbs", TOKEN, "a") == {}


def test_a_request_without_a_place_for_the_reply_is_rejected(peer: Peer) -> None:
    peer.attach_producer("$cbs", handle=3)
    peer.read()
    peer.send(Transfer(3, 0, b"t", 0, False, False), encode_response(None, {"operation": "x"}, "t"))
    assert "receives from '$cbs' first" in str(peer.expect(Disposition).state)


# Faults


def test_a_frozen_reader_is_silent_until_it_thaws(broker: Broker, peer: Peer) -> None:
    fill(broker, "orders", 0, 2)
    broker.faults.frozen.append(Selection(partition="0"))
    peer.attach_reader(READER, credit=10)
    assert sequence_numbers(peer.read()) == []
    broker.faults.frozen.clear()
    assert sequence_numbers(peer.read()) == [0, 1]


def test_an_attach_is_answered_late_and_before_a_detach_that_followed_it(broker: Broker, peer: Peer) -> None:
    fill(broker, "orders", 0, 2)
    broker.faults.late.append(Selection(partition="0"))
    peer.attach_reader(READER, handle=1, credit=1)
    peer.attach_reader(READER, handle=2, credit=1)  # displaces none: both have no epoch
    peer.send(Detach(1, True))
    assert peer.read() == []
    broker.faults.late.clear()
    got = [performative for performative, _ in peer.read()]
    assert [(type(one), one.handle) for one in got] == [
        (Attach, 1),
        (Detach, 1),
        (Attach, 2),
        (Transfer, 2),
    ]
    peer.attach_reader(READER, handle=1)
    assert peer.expect(Attach).source is not None


def test_a_late_reader_that_is_displaced_is_answered_first(broker: Broker, peer: Peer) -> None:
    broker.faults.late.append(Selection(connection=1))
    peer.attach_reader(READER, epoch=1)
    other = Peer(broker, 2).open()
    other.attach_reader(READER, epoch=2)
    assert other.expect(Attach)
    attach, detach = (performative for performative, _ in peer.read())
    assert isinstance(attach, Attach)
    assert condition(detach) == "amqp:link:stolen"


def test_a_reader_by_number_of_a_partition_that_was_never_used_gets_nothing(broker: Broker, peer: Peer) -> None:
    peer.attach_reader(READER, handle=1, selector="amqp.annotation.x-opt-sequence-number > '-1'", credit=10)
    peer.attach_reader(READER, handle=2, selector="amqp.annotation.x-opt-offset > '-1'", credit=10)
    fill(broker, "orders", 0, 2)
    assert [got.handle for got, _ in peer.read() if isinstance(got, Transfer)] == [2, 2]
    peer.attach_reader(READER, handle=3, selector="amqp.annotation.x-opt-sequence-number > '-1'", credit=10)
    assert [got.handle for got, _ in peer.read() if isinstance(got, Transfer)] == [3, 3]


def test_refusals_are_counted(broker: Broker, peer: Peer) -> None:
    error = LinkFailed("amqp:internal-error", "no")
    broker.faults.refusals.append(Refusal(Selection(kind="reader"), error, remaining=1))
    peer.attach_reader(READER, handle=1)
    assert condition(peer.expect(Detach)) == "amqp:internal-error"
    peer.attach_reader(READER, handle=2)
    assert peer.expect(Attach)


def test_a_busy_hub_rejects_events_and_new_links(broker: Broker, producer: Peer) -> None:
    broker.faults.busy.append(Selection(hub="orders"))
    producer.publish(b"")
    assert "server-busy" in str(producer.expect(Disposition).state)
    producer.attach_reader(READER, handle=1)
    assert condition(producer.expect(Detach)) == "com.microsoft:server-busy"


def test_redelivery_sends_old_events_again(broker: Broker, peer: Peer) -> None:
    fill(broker, "orders", 0, 3)
    peer.attach_reader(READER, credit=10)
    peer.read()
    broker.links[0].seek(1)
    assert sequence_numbers(peer.read()) == [1, 2]


def test_a_recreated_hub_detaches_its_links_and_is_younger(broker: Broker, peer: Peer) -> None:
    fill(broker, "orders", 0, 3)
    peer.attach_reader(READER, credit=10)
    peer.read()
    before = broker.hub("orders").created_ms
    broker.recreate_hub("orders")
    assert condition(peer.expect(Detach)) == "amqp:not-found"
    assert broker.hub("orders").created_ms > before
    peer.attach_reader(READER, handle=1, selector="amqp.annotation.x-opt-sequence-number > '2'")
    assert "last sequence number in the system is '-1'" in str(peer.expect(Detach).error)


def test_each_event_of_a_link_is_one_line_without_keys(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        peer = Peer(broker).open()
        peer.attach_reader(READER)
        peer.attach_reader("nothing", handle=1)
        peer.send(Close())
    said = [record.getMessage() for record in caplog.records]
    assert [line.removeprefix("connection=1 ").split(" link=")[0] for line in said] == [
        "connection opened",
        "link attached",
        "link refused",
        "connection closed by client",
    ]
    assert "amqp:not-found" in said[2]
    assert not any("SAS_KEY_VALUE" in line or "\n" in line for line in said)
