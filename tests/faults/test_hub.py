"""A hub with rivals, lost links, repeated and missing events, and one that changes (rows 17 to 21 and 23)."""

import threading
import time
from typing import Any
from uuid import UUID

from azure.eventhub import EventHubConsumerClient

from eventhubs_emulator.codec import encode
from eventhubs_emulator.values import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tests.faults.raw import publish_raw
from tests.faults.rows import simulated
from tests.faults.stage import (
    FaultStage,
    behind,
    leases,
    logged,
    publish,
    slots,
    total,
    wait_buffered,
    wait_owned,
)
from tests.integration.processor.drained import read_drained
from tests.integration.processor.hosts import Consumer
from tests.integration.processor.test_tools import document
from tests.support.waiting import wait_until


class Rival:
    """A program on the SDK that reads a partition of the same consumer group under an epoch."""

    def __init__(self, orders: Consumer, partition: str, epoch: int) -> None:
        self._client = EventHubConsumerClient.from_connection_string(
            orders.emulator.connection_string(orders.hub), "$Default", retry_total=0
        )
        self._thread = threading.Thread(target=self._read, args=(partition, epoch))

    def __enter__(self) -> "Rival":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._thread.join(30)

    def _read(self, partition: str, epoch: int) -> None:
        self._client.receive_batch(
            _ignore, partition_id=partition, owner_level=epoch, starting_position="-1", on_error=_ignore
        )


def _ignore(*_: object) -> None:
    """A rival throws away what it reads, and does not mind what it is told."""


def readers(orders: Consumer, partition: str) -> list[dict[str, Any]]:
    """Links that read a partition now."""
    return orders.emulator.admin.links(hub=orders.hub, partition=partition, kind="reader")


@simulated("rival", "rivals leave")
def test_17_rival_reader_with_a_higher_epoch(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=2)
    host = orders.host("only")
    wait_owned(host, 2)
    publish(orders, 100)
    stage.settled(orders, 200)
    with Rival(orders, "0", epoch=1000):
        wait_until(lambda: [link["epoch"] for link in readers(orders, "0")] == [1000], "the rival reads")
        publish(orders, 100, start=200)
        problem = host.problem("Fenced")
        assert "partition 0" in problem.message
        before = len(logged(host, "attached"))
        time.sleep(5)
        assert len(logged(host, "attached")) - before <= 4  # bounded
        assert list(behind(orders)) == ["0"]  # the other partition continues
        assert leases(orders)["0"]["epoch"] < 1000  # no race of epochs
    stage.settled(orders, 400, 90)
    wait_until(lambda: not host.report().problems, "no problem is left")


def test_18_links_are_detached_and_one_is_frozen(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=2)
    host = orders.host("only")
    sent = 0
    for condition in (
        "amqp:link:detach-forced",
        "amqp:internal-error",
        "com.microsoft:server-busy",
        "com.microsoft:timeout",
    ):
        sent = publish(orders, 100, start=sent)
        wait_until(lambda sent=sent: total(host, "received_events") > sent - 200, "events come")  # type: ignore[misc]
        assert stage.emulator.admin.detach(condition, hub=orders.hub, kind="reader") >= 1
        sent = publish(orders, 100, start=sent)
        stage.settled(orders, sent)
    (link,) = readers(orders, "0")
    stage.emulator.admin.freeze(hub=orders.hub, connection=link["connection"])
    sent = publish(orders, 100, start=sent)
    stage.settled(orders, sent)
    (other,) = readers(orders, "0")
    assert other["connection"] != link["connection"]
    assert not host.report().problems


@simulated("redeliver", "skip", "retention")
def test_19_events_come_again_are_missing_or_are_gone(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=2)
    publish(orders, 100)
    first = orders.host("first")
    stage.settled(orders, 200)
    assert stage.emulator.admin.redeliver(50, hub=orders.hub) == 2
    publish(orders, 100, start=200)
    wait_until(lambda: total(first, "duplicate_events") >= 100, "events that came again are dropped and counted")
    stage.settled(orders, 400)
    # Numbers without events, as log compaction leaves them, and as the markers of Kafka's transactions do.
    stage.emulator.admin.skip_numbers(orders.hub, "0", 25)
    publish(orders, 100, start=400)
    drained = stage.settled(orders, 600, gaps=1)
    assert [*drained.gaps.values()] == ["compaction:200-224/25"]
    assert len(drained.bodies) == 600
    assert total(first, "gap_events") == 0
    assert stage.audit(orders)["partitions"][0]["compactedEvents"] == 25
    assert first.terminate() == 0
    publish(orders, 100, start=600)
    assert stage.emulator.admin.move_retention(orders.hub, "1", before=350) == 350
    second = orders.host("second")
    drained = stage.settled(orders, 800, gaps=2)
    assert sorted(drained.gaps.values()) == ["compaction:200-224/25", "retention:300-349"]
    assert drained.rows["0"] == [*range(200), *range(225, 425)]
    assert drained.rows["1"] == [*range(300), *range(350, 400)]
    wait_until(lambda: _gap_events(orders) == 50, "the gap is reported")
    assert total(second, "gap_events") == 50
    (found,) = document(orders, "files", "--gaps")["files"]
    assert (found["partition"], found["lost"], found["gap"]) == ("1", 50, "retention:300-349")


@simulated("recreate hub")
def test_20_hub_deleted_and_created_again(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=2)
    publish(orders, 100)
    host = orders.host("only")
    stage.settled(orders, 200)
    files = slots(orders)
    stage.emulator.admin.recreate_hub(orders.hub)
    publish(orders, 300)
    assert host.problem("HubDiverged").field == "spec.eventHub.name"
    assert host.terminate() == 0
    another = orders.host("another")
    another.problem("HubDiverged")
    assert slots(orders) == files
    stage.audit(orders)


@simulated("add partition")
def test_20_partitions_are_added(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=4)
    hosts = [orders.host("first"), orders.host("second")]
    publish(orders, 50)
    stage.settled(orders, 200)
    wait_until(lambda: [len(host.owned()) for host in hosts] == [2, 2], "each has two")
    stage.emulator.admin.add_partitions(orders.hub, 8)
    publish(orders, 50, start=200)
    wait_until(lambda: [len(host.owned()) for host in hosts] == [4, 4], "each has four")
    stage.settled(orders, 600)


def test_20_starting_position_beyond_the_end(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=2, startingPosition={"type": "SequenceNumber", "sequenceNumber": 150})
    publish(orders, 100)
    host = orders.host("only")
    assert host.problem("PositionInvalid").field.startswith("spec.startingPosition")
    assert not slots(orders)
    publish(orders, 100, start=200)
    wait_until(lambda: behind(orders) == {}, "it starts when the hub is there")
    with orders.container(orders.drained) as container:
        assert read_drained(container, "shop/orders").rows == {"0": [*range(150, 200)], "1": [*range(150, 200)]}
    stage.audit(orders)
    wait_until(lambda: not host.report().problems, "no problem is left")


def test_21_connections_are_cut_tokens_expire_and_signing_in_fails(stage: FaultStage) -> None:
    stage.own_emulator()
    orders = stage.consumer(partitions=2, roll={"maxBytes": 10**8, "maxSeconds": 2, "maxEvents": 10**6})
    host = orders.host("only")
    wait_owned(host, 2)
    sent = 0
    for _ in range(3):
        sent = publish(orders, 300, start=sent)
        wait_buffered(host, sent - 500)
        assert stage.emulator.admin.drop_connections() >= 1
    stage.settled(orders, sent)
    assert not logged(host, "pump closed")  # what was received stays in memory
    assert stage.emulator.admin.expire_tokens() >= 1
    sent = publish(orders, 100, start=sent)
    stage.settled(orders, sent)
    stage.emulator.admin.fail_cbs(401, "Unauthorized access.")
    stage.emulator.admin.expire_tokens()
    stage.emulator.admin.drop_connections()
    host.problem("EventHubUnauthorized")
    stage.emulator.admin.clear_faults()
    sent = publish(orders, 100, start=sent)
    stage.settled(orders, sent)
    wait_until(lambda: not host.report().problems, "no problem is left")
    stage.emulator.admin.fail_cbs()  # no answer at all
    stage.emulator.admin.drop_connections()
    host.problem("EventHubUnreachable")
    assert len(host.owned()) == 2  # the leases are kept: another host would have the same trouble
    stage.emulator.admin.clear_faults()
    sent = publish(orders, 100, start=sent)
    stage.settled(orders, sent)
    wait_until(lambda: not host.report().problems, "no problem is left")


PROPERTIES: dict[str, tuple[Any, str]] = {
    "null": (None, "null"),
    "true": (True, "true"),
    "ubyte": (UByte(255), "255"),
    "ushort": (UShort(65535), "65535"),
    "uint": (UInt(2**32 - 1), "4294967295"),
    "ulong": (ULong(2**64 - 1), "18446744073709551615"),
    "byte": (Byte(-128), "-128"),
    "short": (Short(-32768), "-32768"),
    "int": (Int(-(2**31)), "-2147483648"),
    "long": (-(2**63), "-9223372036854775808"),
    "float": (Float(1.5), "1.5"),
    "double": (0.1, "0.1"),
    "decimal32": (Decimal32(b"\xff" * 4), '{"$binary":"/////w=="}'),
    "decimal64": (Decimal64(b"\xff" * 8), '{"$binary":"//////////8="}'),
    "decimal128": (Decimal128(b"\xff" * 16), '{"$binary":"/////////////////////w=="}'),
    "char": (Char("€"), "€"),
    "timestamp": (Timestamp(1_700_000_000_000), "1700000000000"),
    "uuid": (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    "binary": (b"\xff\x00", '{"$binary":"/wA="}'),
    "string": ("ä€😀", "ä€😀"),
    "symbol": (Symbol("sym"), "sym"),
    "list": ([1, "a", None], '[1,"a",null]'),
    "map": ({"k": [b"\xff"]}, '{"k":[{"$binary":"/w=="}]}'),
}


def test_23_large_and_empty_events_and_every_property_type(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=1)
    largest = bytes(range(256)) * 4095  # with its section, just under the service's limit of 1 MiB
    bodies = [largest, b"", b"\x00\xff", *[bytes([number]) * 1_000_000 for number in range(20)], b"last"]
    properties = {name: value for name, (value, _) in PROPERTIES.items()}
    typed = encode(Described(ULong(0x74), properties)) + encode(Described(ULong(0x75), b"typed"))
    publish_raw(stage.emulator, orders.hub, "0", *[encode(Described(ULong(0x75), body)) for body in bodies], typed)
    host = orders.host("only")
    wait_until(lambda: behind(orders) == {}, "all is drained")
    with orders.container(orders.drained) as container:
        table = read_drained(container, "shop/orders").table
    assert table["body"].to_pylist() == [*bodies, b"typed"]
    assert dict(table["properties"].to_pylist()[-1]) == {name: text for name, (_, text) in PROPERTIES.items()}
    stage.audit(orders)
    assert "Traceback" not in host.log


def _gap_events(orders: Consumer) -> int:
    """Events in gaps, as the leading host counts them."""
    reports = [host.report().fleet for host in orders.hosts if host.process.poll() is None]
    return max((fleet.gap_events for fleet in reports if fleet), default=0)
