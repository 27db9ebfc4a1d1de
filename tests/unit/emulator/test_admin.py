"""The admin interface and the command line: their effects and their error messages."""

import asyncio
from typing import Any

import pytest

from eventhubs_emulator.admin import Admin
from eventhubs_emulator.admin_client import AdminClient, AdminError
from eventhubs_emulator.broker import Broker
from eventhubs_emulator.cli import main
from eventhubs_emulator.errors import BadRequest, NotFound
from eventhubs_emulator.http import Call, JsonServer
from tests.unit.emulator.peer import Clock, Peer, fill

READER = "orders/ConsumerGroups/$Default/Partitions/0"


@pytest.fixture
def broker() -> Broker:
    made = Broker(clock=Clock())
    made.create_hub("orders", 2)
    return made


def call(broker: Broker, method: str, path: str, **body: Any) -> dict[str, Any]:
    return Admin(broker)(Call(method, tuple(path.strip("/").split("/")), body))


def test_hubs_are_made_grown_recreated_and_deleted(broker: Broker) -> None:
    made = call(broker, "PUT", "/hubs/new", partitions=1, groups=["b"])
    assert made["groups"] == ["$Default", "b"]
    assert len(call(broker, "POST", "/hubs/NEW/partitions", total=3)["partitions"]) == 3
    fill(broker, "new", 0, 2)
    again = call(broker, "POST", "/hubs/new/recreate")
    assert (len(again["partitions"]), again["partitions"][0]["events"]) == (3, 0)
    assert again["created_at_ms"] > made["created_at_ms"]
    call(broker, "DELETE", "/hubs/new")
    assert [hub["name"] for hub in call(broker, "GET", "/hubs")["hubs"]] == ["orders"]


def test_events_are_put_dropped_and_skipped(broker: Broker) -> None:
    path = "/hubs/orders/partitions/1"
    assert call(broker, "POST", f"{path}/events", body="x", properties={"a": 1}, key="k")["sequence_number"] == 0
    assert call(broker, "POST", f"{path}/events", base64="AAE=")["sequence_number"] == 1
    assert call(broker, "POST", f"{path}/skip", count=3) == {"next_sequence_number": 5}
    assert call(broker, "POST", f"{path}/retention", before=1) == {"dropped": 1}
    assert call(broker, "GET", "/hubs/orders")["partitions"][1]["begin_sequence_number"] == 1


def test_a_failover_loses_the_newest_events_and_uses_their_numbers_again(broker: Broker) -> None:
    path = "/hubs/orders/partitions/0/events"
    call(broker, "POST", path, events=[{"body": f"old {number}"} for number in range(10)])
    Peer(broker).open().attach_reader(READER)
    kept = broker.hub("orders").partition("0").read(0, 10)[6]
    created = call(broker, "GET", "/hubs/orders")["created_at_ms"]
    assert call(broker, "POST", "/hubs/orders/failover", lost={"0": 3}) == {"lost": 3}
    (state, other) = call(broker, "GET", "/hubs/orders")["partitions"]
    assert (state["last_enqueued_sequence_number"], state["last_enqueued_offset"]) == (6, str(kept.offset))
    assert other["last_enqueued_sequence_number"] == -1
    assert not broker.links  # detached
    assert call(broker, "POST", path, body="new")["sequence_number"] == 7
    assert broker.hub("orders").partition("0").read(7, 10)[0].payload.endswith(b"new")
    assert call(broker, "GET", "/hubs/orders")["created_at_ms"] == created
    assert call(broker, "POST", "/hubs/orders/failover", recreated=True) == {"lost": 0}  # all events are kept
    assert call(broker, "GET", "/hubs/orders")["created_at_ms"] > created
    assert call(broker, "POST", "/hubs/orders/failover", lost={"0": 100}) == {"lost": 8}
    assert call(broker, "GET", "/hubs/orders")["partitions"][0]["last_enqueued_sequence_number"] == -1


def test_links_of_services_are_selected_only_by_their_kind(broker: Broker) -> None:
    peer = Peer(broker).open()
    peer.attach_reader("$cbs", handle=1)
    peer.attach_reader("$management", handle=2)
    peer.attach_reader(READER, handle=3)
    assert call(broker, "POST", "/faults/detach", kind="cbs") == {"detached": 1}
    assert call(broker, "POST", "/faults/detach") == {"detached": 1}
    assert [link.endpoint.kind for link in broker.service_links] == ["management"]
    call(broker, "POST", "/faults/refuse", kind="cbs")
    peer.attach_reader("$cbs", handle=4)
    peer.attach_reader(READER, handle=5)
    assert (len(broker.links), len(broker.service_links)) == (1, 1)


def test_compaction_removes_events_in_the_middle(broker: Broker) -> None:
    path = "/hubs/orders/partitions/0"
    call(broker, "POST", f"{path}/events", events=[{"body": f"{number}"} for number in range(10)])
    assert call(broker, "POST", f"{path}/compact", numbers=[0, 2, 3, 8, 99]) == {"removed": 4}
    stored = broker.hub("orders").partition("0").read(0, 10)
    assert [event.sequence_number for event in stored] == [1, 4, 5, 6, 7, 9]
    assert [event.sequence_number for event in broker.hub("orders").partition("0").read(2, 2)] == [4, 5]


def test_many_events_are_put_in_one_call(broker: Broker) -> None:
    path = "/hubs/orders/partitions/0/events"
    put = call(broker, "POST", path, events=[{"body": "x", "properties": {"a": 1}}, {"base64": "AAE="}], times=3)
    assert put["sequence_number"] == 5
    stored = [event.payload for event in broker.hub("orders").partition("0").read(0, 10)]
    assert [payload[-1:] for payload in stored] == [b"x", b"\x01"] * 3


def test_links_name_their_readers_and_producers(broker: Broker) -> None:
    peer = Peer(broker).open()
    peer.attach_reader(READER, epoch=3, credit=7)
    peer.attach_producer("orders", handle=1)
    reader, producer = call(broker, "GET", "/links")["links"]
    assert (reader["kind"], reader["epoch"], reader["credit"], reader["partition"]) == ("reader", 3, 7, "0")
    assert (producer["kind"], producer["partition"]) == ("producer", None)


def test_faults_are_set_and_cleared(broker: Broker) -> None:
    call(broker, "POST", "/faults/freeze", partition="0")
    call(broker, "POST", "/faults/freeze", partition="1")
    call(broker, "POST", "/faults/unfreeze", partition="0")
    assert [selection.partition for selection in broker.faults.frozen] == ["1"]
    call(broker, "POST", "/faults/unfreeze")
    assert broker.faults.frozen == []
    call(broker, "POST", "/faults/delay", seconds=1)
    call(broker, "POST", "/faults/busy")
    call(broker, "POST", "/faults/cbs", status=401)
    call(broker, "POST", "/faults/refuse", times=2)
    assert (broker.faults.delay, len(broker.faults.busy), len(broker.faults.refusals)) == (1.0, 1, 1)
    call(broker, "DELETE", "/faults")
    assert (broker.faults.delay, broker.faults.busy, broker.faults.cbs) == (0.0, [], None)


def test_connections_are_dropped_by_number(broker: Broker) -> None:
    first, second = Peer(broker, 1).open(), Peer(broker, 2).open()
    assert call(broker, "POST", "/faults/drop-connections", connection=2) == {"dropped": 1}
    assert (first.dropped, second.dropped) == (False, True)


def test_policies_are_replaced_and_keys_stay_inside(broker: Broker) -> None:
    reply = call(broker, "PUT", "/policies", policies=[{"name": "a", "key": "topsecret", "rights": ["Listen"]}])
    assert reply == {"policies": [{"name": "a", "rights": ["Listen"]}]}
    assert broker.policies["a"].key == "topsecret"


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("GET", "/hubs/nothing", {}, "there is no hub 'nothing'; there are: orders"),
        ("PUT", "/hubs/orders", {}, "exists"),
        ("PUT", "/hubs/a", {"partitions": "4"}, "'partitions' is str, expected int"),
        ("PUT", "/hubs/a", {"partitions": True}, "'partitions' is bool"),
        ("PUT", "/hubs/$x", {}, "cannot name a hub"),
        ("POST", "/hubs/orders/partitions", {}, "'total' is missing"),
        ("POST", "/hubs/orders/partitions/9/events", {"body": ""}, "no partition '9'"),
        ("POST", "/hubs/orders/partitions/0/events", {"base64": "?"}, "not base64"),
        ("POST", "/hubs/orders/partitions/0/events", {"events": [1]}, "must be an object"),
        ("POST", "/hubs/orders/partitions/0/events", {"events": []}, "0 events 1 times are no events"),
        ("POST", "/hubs/orders/partitions/0/skip", {"count": 0}, "use 1 or more"),
        ("POST", "/faults/explode", {}, "no fault 'explode'"),
        ("PUT", "/policies", {"policies": [{"name": "a"}]}, "needs name, key"),
        ("PUT", "/policies", {"policies": [{"name": "a", "key": "k", "rights": ["x"]}]}, "unknown right"),
        ("GET", "/nowhere", {}, "there is no GET /nowhere"),
    ],
)
def test_a_wrong_call_is_explained(broker: Broker, method: str, path: str, body: dict, says: str) -> None:
    with pytest.raises((BadRequest, NotFound), match=says.replace("(", r"\(").replace("$", r"\$")):
        call(broker, method, path, **body)


async def test_the_client_and_http_agree(broker: Broker) -> None:
    server = JsonServer(Admin(broker))
    port = await server.start("127.0.0.1", 0)
    client = AdminClient(f"http://127.0.0.1:{port}")
    try:
        assert await asyncio.to_thread(client.put_event, "orders", "0", b"\x00\xff", {"a": 1}) == 0
        large = [(b"x" * 1_000_000, {}), (b"y", {"a": 1})] * 5
        await asyncio.to_thread(client.put_events, "orders", "0", large)
        assert (await asyncio.to_thread(client.hub, "orders"))["partitions"][0]["events"] == 11
        assert await asyncio.to_thread(client.links, kind="reader") == []
        with pytest.raises(AdminError, match="no hub 'none'"):
            await asyncio.to_thread(client.hub, "none")
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", b"200"),
        (b"POST /faults/freeze HTTP/1.1\r\nContent-Length: 3\r\n\r\n{x}", b"400"),
        (b"POST /faults/freeze HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", b"400"),
        (b"POST /faults/freeze HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"400"),
        (b"POST /faults/freeze HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"\x00\r\n\r\n", b"404"),
        (b"A" * 100_000, None),
    ],
)
async def test_http_answers_or_hangs_up(broker: Broker, request_bytes: bytes, status: bytes | None) -> None:
    server = JsonServer(Admin(broker))
    port = await server.start("127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes)
        try:
            answer = await asyncio.wait_for(reader.read(), 5)
        except ConnectionError:
            answer = b""
        writer.close()
        assert answer.split(b" ")[1:2] == ([] if status is None else [status])
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--hub", "orders"], "not of the form name=partitions"),
        (["--hub", "orders=many"], "'many' is not a number of partitions"),
        (["--hub", "orders=0"], "cannot have 0 partitions"),
        (["--hub", "a=1", "--hub", "A=1"], "exists"),
        (["--consumer-group", "a=b"], "no --hub creates"),
        (["--policy", "a=b"], "the rights are missing"),
        (["--policy", "a=b:"], "needs a name, a key and at least one right"),
        (["--policy", "a=b:fly"], "unknown right 'fly'"),
        (["--tls-cert", "x"], "must be used together"),
        (["--tls-cert", "x", "--tls-key", "y"], "use a PEM certificate"),
    ],
)
def test_a_wrong_option_is_explained_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("eventhubs-emulator: ")
    assert says in said
