"""Hostile clients: whatever bytes come, the answer is a clear error and a closed connection; memory stays bounded."""

import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventhubs_emulator.broker import Broker
from eventhubs_emulator.codec import encode
from eventhubs_emulator.connection import MAX_HELD
from eventhubs_emulator.framing import AMQP_HEADER, SASL_HEADER, frame
from eventhubs_emulator.performatives import AMQP, Attach, Begin, Close, Detach, Flow, Transfer
from eventhubs_emulator.services import MAX_WAITING_REPLIES
from eventhubs_emulator.values import Described, ULong
from tests.unit.emulator.peer import Clock, Peer, fill
from tests.unit.emulator.test_codec import keys, scalars

READER = "orders/ConsumerGroups/$Default/Partitions/0"


def namespace() -> Broker:
    broker = Broker(clock=Clock())
    broker.create_hub("orders", 1)
    fill(broker, "orders", 0, 3)
    return broker


def check_end(peer: Peer) -> None:
    """After anything at all: either it continues, or it has said why it ended and let go of everything."""
    said = peer.read()
    if peer.connection.closed:
        assert isinstance(said[-1][0], Close)
        assert peer.connection.sessions == {}
    assert sum(len(part) for part in peer.connection.output) == 0


@given(st.binary(max_size=300))
def test_random_bytes_at_the_start(data: bytes) -> None:
    peer = Peer(namespace())
    peer.connection.receive(data)
    peer.connection.take_output(1000)
    assert len(data) < 8 or peer.connection.closed or data[:8] in (SASL_HEADER, AMQP_HEADER)


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=60)), max_size=10))
def test_random_bytes_and_random_bodies_in_proper_frames_after_the_handshake(
    data: bytes, frames: list[tuple[int, bytes]]
) -> None:
    for stream in (data, b"".join(frame(channel, body) for channel, body in frames)):
        peer = Peer(namespace()).open()
        peer.connection.receive(stream)
        check_end(peer)


fields = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 3).map(ULong),
    st.sampled_from(["orders", READER, "$cbs", "$management", ""]),
    st.sampled_from([0x28, 0x29]).flatmap(
        lambda code: st.builds(
            Described, st.just(ULong(code)), st.lists(st.sampled_from(["orders", READER, "$cbs", None]))
        )
    ),
    scalars,
    st.lists(scalars, max_size=3),
    st.dictionaries(keys, scalars, max_size=3),
)
performatives = st.builds(
    lambda code, body: encode(Described(ULong(code), body)),
    st.sampled_from(sorted(AMQP)),
    st.lists(fields, max_size=15),
)


@given(st.lists(st.tuples(performatives, st.binary(max_size=20)), max_size=12))
def test_performatives_with_any_fields_in_any_order(frames: list[tuple[bytes, bytes]]) -> None:
    peer = Peer(namespace()).open()
    for body, payload in frames:
        peer.connection.receive(frame(0, body + payload))
    check_end(peer)


sensible = st.one_of(
    st.builds(
        lambda handle, role, address: Attach(
            f"l{handle}",
            handle,
            role,
            source=Described(ULong(0x28), [address]),
            target=Described(ULong(0x29), [address]),
        ),
        st.integers(0, 3),
        st.booleans(),
        st.sampled_from(["orders", READER, "$cbs", "$management", "orders/Partitions/0", "x"]),
    ),
    st.builds(
        lambda handle, credit, drain: Flow(1, 10, 0, 10, handle, 0, credit, drain=drain, echo=True),
        st.integers(0, 3),
        st.integers(0, 5),
        st.booleans(),
    ),
    st.builds(
        lambda handle, more, settled: Transfer(handle, 0, b"t", 0, settled, more),
        st.integers(0, 3),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(Detach, st.integers(0, 3), st.booleans()),
)


@given(st.lists(st.tuples(sensible, st.sampled_from([b"", b"\x00\x53\x75\xa0\x01x", b"rubbish"])), max_size=40))
def test_sensible_frames_in_a_senseless_order(frames: list[tuple[Any, bytes]]) -> None:
    broker = namespace()
    peer = Peer(broker).open()
    for performative, payload in frames:
        peer.send(performative, payload)
        if peer.connection.closed:
            break
    check_end(peer)
    attached = [link for session in peer.connection.sessions.values() for link in session.links.values()]
    assert all(link in attached for link in broker.links)
    peer.connection.end()
    assert broker.links == []
    assert not broker.hub("orders").partitions[0].listeners


def test_unfinished_messages_are_bounded_over_all_links() -> None:
    """Many links, each with a message that never ends: the connection is closed before it holds too much."""
    peer = Peer(namespace()).open()
    part = bytes(60_000)
    tracemalloc.start()
    try:
        for handle in range(200):
            peer.attach_producer("orders", handle)
            for _ in range(10):
                peer.send(Transfer(handle, 0, b"t", 0, False, True), part)
            peer.read()
            if peer.connection.closed:
                break
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peer.connection.closed
    assert peak < MAX_HELD * 1.5


def test_replies_do_not_pile_up_for_a_client_that_gives_no_credit() -> None:
    peer = Peer(namespace()).open()
    peer.attach_reader("$cbs", handle=0)
    peer.attach_producer("$cbs", handle=1)
    peer.read()
    for number in range(MAX_WAITING_REPLIES + 1):
        peer.send(Transfer(1, number, b"t", 0, True, False), encode(Described(ULong(0x77), "x")))
    assert "wait for credit" in str(peer.expect(Detach).error)


def test_many_sessions_are_bounded_by_the_channels() -> None:
    peer = Peer(namespace()).open()
    for channel in (1, 4999, 5000):
        peer.send(Begin(None, 0, 1, 1), channel=channel)
    assert peer.connection.closed
