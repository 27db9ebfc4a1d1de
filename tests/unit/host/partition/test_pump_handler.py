"""A pump with user code, in virtual time: before, in place of and without files, stopped, fenced, without storage."""

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventconsumer_api.spec.body_columns import schema_columns
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_host.handler.api import Batch, CloseReason, EventProcessor, PartitionContext
from eventconsumer_host.handler.deadletter import DeadLetters
from eventconsumer_host.handler.handling import HandlerDependencies, PartitionHandler, PartitionIdentity
from eventconsumer_host.source.hub import HubInfo
from tests.support.fakes.blobs import Fault
from tests.support.fakes.hub import CREATED
from tests.support.fakes.virtual import virtual
from tests.unit.host.stage import CONFIG, PumpWorld, eventually

INFO = HubInfo("shop.example", "orders", CREATED, ("0",))


class Notes(EventProcessor):
    """Notes what all instances of a test are given; takes as long as it is told to."""

    def __init__(
        self,
        log: list[Any],
        seconds: Callable[[], float],
        fail: Callable[[Batch], None],
        edit: Callable[[Batch], pa.Table | None] = lambda _: None,
        checkpoints: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.checkpoints = checkpoints
        self.log = log
        self.seconds = seconds
        self.fail = fail
        self.edit = edit

    async def open(self, context: PartitionContext) -> None:
        self.log.append(("open", context.epoch, context.next_sequence_number))

    async def process_events(self, context: PartitionContext, batch: Batch) -> pa.Table | None:
        await asyncio.sleep(self.seconds())
        self.fail(batch)
        for event in batch:
            if self.checkpoints(event.sequence_number):
                await context.checkpoint(event)
        self.log.append(batch.sequence_numbers)
        return self.edit(batch)

    async def close(self, context: PartitionContext, reason: CloseReason) -> None:
        self.log.append(("close", reason))


class Shop(PumpWorld):
    """A stage with user code."""

    def __init__(self, mode: str = "Replace", roll: dict[str, int] | None = None, **checkpoint: Any) -> None:
        processing = CONFIG["processing"] | {"handler": "shop:Shop", "handlerMode": mode, "checkpoint": checkpoint}
        super().__init__(overrides={"processing": processing} | ({"roll": roll} if roll else {}))
        self.log: list[Any] = []
        self.seconds = 0.0
        self.fail: Callable[[Batch], None] = lambda _: None
        self.checkpoints: Callable[[int], bool] = lambda _: False  # at which events the handler writes one
        self.unwanted: set[int] = set()  # events that are dropped, in mode Transform
        self.mark = b"!"  # appended to the body of the others
        letters = DeadLetters(self.sink, "drained", "p", "era", "shop:Shop")
        means = HandlerDependencies(
            lambda: Notes(
                self.log,
                lambda: self.seconds,
                self.fail,
                self.edited if mode == "Transform" else lambda _: None,
                self.checkpoints,
            ),
            letters,
            2,
            self.metrics,
            Random(1),
            mode=HandlerMode(mode),
        )
        self.handler = lambda partition: PartitionHandler(
            PartitionIdentity(INFO.namespace, INFO.name, "$Default", partition, "host"), means
        )

    def edited(self, batch: Batch) -> pa.Table:
        """What the handler returns in mode Transform."""
        kept = [event for event in batch if event.sequence_number not in self.unwanted]
        numbers = pa.array([event.sequence_number for event in kept], pa.int64())
        return pa.table({"sequence_number": numbers, "body": [(event.body or b"") + self.mark for event in kept]})

    def slots(self) -> list[tuple[int, int, int, int]]:
        """Start, last, count and dropped of each slot, which account for all events."""
        self.files()
        found = []
        for name, blob in sorted(self.sink.blobs.items()):
            if "/from=" in name:
                start = int(name.split("from=")[1].split(".")[0])
                last, count, dropped = (int(blob.metadata.get(key, 0)) for key in ("last", "count", "dropped"))
                assert last + 1 - start == count + dropped
                found.append((start, last, count, dropped))
        return found

    def contents(self) -> list[bytes]:
        """All bodies in files."""
        blobs = [blob for name, blob in sorted(self.sink.blobs.items()) if "/from=" in name]
        return [body for blob in blobs for body in pq.read_table(pa.BufferReader(blob.data))["body"].to_pylist()]

    def handled(self) -> list[int]:
        """Sequence numbers of successful calls, in order."""
        return [number for entry in self.log if entry and isinstance(entry[0], int) for number in entry]

    def checkpoint(self) -> int | None:
        """What the lease blob says."""
        body = json.loads(self.leases.blobs["$Default/0"].data)
        return int(body["sequenceNumber"]) if body.get("offset") else None


LONG = {"maxBytes": 1_000_000, "maxSeconds": 300, "maxEvents": 1000}


def bodies(count: int) -> list[bytes]:
    return [b"x"] * count


@virtual
async def test_precede_events_are_handled_before_they_are_in_a_file() -> None:
    shop = Shop("PassThrough")
    shop.partition.add(*bodies(25))
    running = await shop.pump()
    await eventually(lambda: len(shop.rows()) == 25)
    assert shop.handled() == shop.rows() == list(range(25))
    await running.stop()
    assert shop.log[0] == ("open", 1, 0)
    assert shop.log[-1] == ("close", CloseReason.SHUTDOWN)


@virtual
async def test_precede_a_stop_in_the_middle_commits_what_is_done_and_the_next_pump_does_the_rest() -> None:
    shop = Shop("PassThrough")
    shop.partition.add(*bodies(10))

    def poison(batch: Batch) -> None:
        if 6 in batch.sequence_numbers and not healed:
            raise ValueError("bad")

    healed = False
    shop.fail, shop.seconds = poison, 1.0
    running = await shop.pump()
    await eventually(lambda: bool(shop.handled()))  # the first half is done, the second is being divided
    await running.stop()
    done = shop.handled()
    assert shop.rows() == done == list(range(len(done)))
    assert 0 < len(done) < 10
    healed = True
    again = await shop.pump("host-b")
    await eventually(lambda: len(shop.rows()) == 10)
    await again.stop()
    assert shop.rows() == shop.handled() == list(range(10))


@virtual
async def test_transform_rows_are_in_the_files_and_dropped_events_are_counted() -> None:
    shop = Shop("Transform")
    shop.unwanted = {0, 4, 5, 24, *range(30, 60)}
    shop.partition.add(*bodies(25))
    running = await shop.pump()
    await eventually(lambda: shop.checkpoint() == 24)
    kept = [number for number in range(25) if number not in shop.unwanted]
    assert (shop.rows(), shop.contents()) == (kept, [b"x!"] * 21)
    assert sum(dropped for *_, dropped in shop.slots()) == 4
    shop.partition.add(*bodies(5))
    await eventually(lambda: shop.checkpoint() == 29)
    shop.partition.add(*bodies(30))  # all of them are dropped
    await eventually(lambda: shop.checkpoint() == 59)
    assert shop.rows() == [*kept, *range(25, 30)]
    assert sum(dropped for *_, dropped in shop.slots()) == 34
    assert shop.slots()[-1] == (30, 59, 0, 30)
    assert b'eventconsumer_handler_dropped_events_total{partition="0"} 34.0' in shop.metrics.text()
    assert b'eventconsumer_committed_events_total{partition="0"} 26.0' in shop.metrics.text()
    await running.stop()
    shop.partition.add(*bodies(3))  # a link begins with event 59 again, which no file has
    again = await shop.pump("host-b")
    await eventually(lambda: shop.checkpoint() == 62)
    assert again.pump.problems() == []
    assert shop.handled() == list(range(63))
    await again.stop()


@virtual
async def test_transform_columns_are_of_the_bodies_that_the_handler_returns_also_behind_an_adopted_file() -> None:
    shop = Shop("Transform", LONG)
    shop.columns = schema_columns("n BIGINT")
    shop.unwanted, shop.mark = {2, 7, 9}, b'0, "more": 1}'
    running = await shop.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 0)
    shop.partition.add(*(b'{"n": %d' % number for number in range(1, 13)))  # complete with the mark
    await eventually(lambda: len(shop.handled()) == 12)
    theirs = pa.BufferOutputStream()
    pq.write_table(pa.table({"sequence_number": range(5), "body": [b"theirs"] * 5}), theirs)
    facts = {"first": "0", "last": "4", "count": "5", "epoch": "1", "nonce": "n", "last_offset": "40"}
    facts |= {"last_enqueued_time": "2026-01-01T00:00:00+00:00", "sha256": ""}
    await shop.sink.put(f"p/segment=era/partition=0/from={0:020d}.parquet", theirs.getvalue(), metadata=facts)
    await running.stop()
    blob = shop.sink.blobs[f"p/segment=era/partition=0/from={5:020d}.parquet"]
    rows = pq.read_table(pa.BufferReader(blob.data)).to_pylist()
    kept = [number for number in range(5, 12) if number not in shop.unwanted]
    assert [(row["sequence_number"], row["n"], row["_error"]) for row in rows] == [
        (number, 10 * (number + 1), None) for number in kept
    ]


@virtual
async def test_transform_what_was_handled_but_not_committed_is_handled_again_and_only_the_file_counts() -> None:
    shop = Shop("Transform", LONG)
    shop.unwanted, shop.mark = {1, 2}, b" by the first"
    shop.partition.add(*bodies(6))
    first = await shop.pump()
    await eventually(lambda: shop.handled() == list(range(6)))
    await first.kill()
    assert shop.slots() == []
    shop.unwanted, shop.mark = {5}, b" by the second"
    second = await shop.pump("host-b")
    await eventually(lambda: shop.handled() == [*range(6), *range(6)])
    await second.stop()
    assert shop.slots() == [(0, 5, 5, 1)]
    assert (shop.rows(), shop.contents()) == (list(range(5)), [b"x by the second"] * 5)


@pytest.mark.parametrize("applied", [False, True])
@virtual
async def test_transform_a_commit_without_an_answer_happens_once(applied: bool) -> None:
    shop = Shop("Transform")
    shop.unwanted = set(range(0, 30, 3))
    running = await shop.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 0)
    shop.sink.faults += [Fault("put", applied), Fault("put")]
    shop.partition.add(*bodies(30))
    await eventually(lambda: shop.checkpoint() == 29)
    assert shop.rows() == [number for number in range(30) if number % 3]
    assert sum(dropped for *_, dropped in shop.slots()) == 10
    await running.stop()


@pytest.mark.parametrize("last", [0, 4, 7, 8, 9, 12])
@virtual
async def test_transform_a_file_counts_no_dropped_event_that_an_adopted_file_covers(last: int) -> None:
    shop = Shop("Transform", LONG)
    shop.unwanted = {0, 3, 5, 8, 9}
    running = await shop.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 0)
    shop.partition.add(*bodies(10))
    await eventually(lambda: len(shop.handled()) == 10)
    shop.partition.add(*bodies(3))
    theirs = pa.BufferOutputStream()
    pq.write_table(pa.table({"sequence_number": range(last + 1), "body": [b"theirs"] * (last + 1)}), theirs)
    facts = {"first": "0", "last": str(last), "count": str(last + 1), "epoch": "1", "nonce": "n", "last_offset": "0"}
    facts |= {"last_enqueued_time": "2026-01-01T00:00:00+00:00", "sha256": ""}
    await shop.sink.put(
        "p/segment=era/partition=0/from=00000000000000000000.parquet", theirs.getvalue(), metadata=facts
    )
    await eventually(lambda: len(shop.handled()) == 13)
    await running.stop()
    assert [start for start, *_ in shop.slots()] == [0, *([last + 1] if last < 12 else [])]
    assert shop.rows() == [*range(last + 1), *(number for number in range(last + 1, 13) if number not in shop.unwanted)]


@virtual
async def test_replace_a_missing_stretch_is_shown() -> None:
    shop = Shop()
    shop.partition.add(*bodies(30))
    running = await shop.pump()
    await eventually(lambda: shop.checkpoint() == 29)
    await running.stop()
    shop.partition.add(*bodies(30))
    shop.partition.retain_from(50)
    again = await shop.pump()
    await eventually(lambda: shop.checkpoint() == 59)
    assert shop.handled() == [*range(30), *range(50, 60)]
    (problem,) = again.pump.problems()
    assert problem.reason == "DataGap"
    assert "20 events of partition 0 were removed before they were read, the newest are 30 to 49" in problem.message
    await again.stop()


@virtual
async def test_replace_storage_that_refuses_checkpoints_is_not_hammered() -> None:
    shop = Shop(policy="Batch")
    running = await shop.pump()
    await eventually(lambda: bool(shop.log))
    shop.leases.faults += [Fault("put") for _ in range(10_000)]
    before = len(shop.leases.calls)
    shop.partition.add(*bodies(5))
    await asyncio.sleep(15)
    assert len(shop.leases.calls) - before < 60
    shop.leases.faults.clear()
    await eventually(lambda: shop.checkpoint() == 4)
    assert shop.handled() == list(range(5))
    await running.stop()


@virtual
async def test_replace_a_zombie_writes_no_checkpoint_over_its_successor() -> None:
    shop = Shop(policy="Batch")
    shop.partition.add(*bodies(5))
    first = await shop.pump()
    await eventually(lambda: shop.checkpoint() == 4)
    shop.seconds = 20.0
    shop.partition.add(*bodies(5))  # the first is still at these
    await asyncio.sleep(1)
    shop.seconds = 0.0
    second = await shop.pump("host-b")
    await eventually(lambda: shop.checkpoint() == 9)
    shop.partition.add(*bodies(5))
    await eventually(lambda: shop.checkpoint() == 14)
    await asyncio.wait({first.task, first.keeping}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    await first.kill()
    assert shop.checkpoint() == 14
    assert ("close", CloseReason.LEASE_LOST) in shop.log
    await second.stop()


@virtual
async def test_open_that_fails_is_a_problem_and_tried_again() -> None:
    shop = Shop()
    shop.partition.add(*bodies(5))
    tries = 0

    class Late(Notes):
        async def open(self, context: PartitionContext) -> None:
            nonlocal tries
            tries += 1
            if tries < 4:
                raise OSError("no database")

    means = HandlerDependencies(
        lambda: Late(shop.log, lambda: 0.0, lambda _: None),
        DeadLetters(shop.sink, "drained", "p", "era", "shop:Shop"),
        2,
        shop.metrics,
        Random(1),
    )
    shop.handler = lambda partition: PartitionHandler(PartitionIdentity("n", "h", "g", partition, "host"), means)
    running = await shop.pump()
    await eventually(lambda: tries == 2)
    (problem,) = running.pump.problems()
    assert (problem.field, problem.reason) == ("spec.processing.handler", "HandlerFailing")
    await eventually(lambda: shop.checkpoint() == 4)
    assert running.pump.problems() == []
    await running.stop()


@virtual
@pytest.mark.parametrize("mode", ["PassThrough", "Replace"])
async def test_a_dead_letter_is_passed_again_between_batches_and_files_stay_as_they_are(mode: str) -> None:
    shop = Shop(mode)
    bad = {3}

    def poison(batch: Batch) -> None:
        if bad & set(batch.sequence_numbers):
            raise ValueError("bad")

    shop.fail = poison
    shop.partition.add(*bodies(10))
    running = await shop.pump()
    await eventually(lambda: shop.checkpoint() == 9)
    letter = f"p/_deadletters/segment=era/partition=0/seq={3:020d}.json"
    assert letter in shop.sink.blobs and 3 not in shop.handled()
    files = shop.files()
    bad.clear()
    await shop.sink.put(f"p/_deadletters/segment=era/redrive/partition=0/seq={3:020d}.json", b"")
    await eventually(lambda: letter not in shop.sink.blobs)
    assert shop.handled()[-1] == 3
    shop.partition.add(*bodies(10))
    await eventually(lambda: shop.checkpoint() == 19)
    assert shop.handled() == [0, 1, 2, *range(4, 10), 3, *range(10, 20)]
    assert {start: numbers for start, numbers in shop.files().items() if start in files} == files
    assert shop.rows() == ([*range(20)] if mode == "PassThrough" else [])
    assert await running.stop() == "Shutdown"


@virtual
async def test_policy_handler_only_the_handler_writes_checkpoints() -> None:
    shop = Shop(policy="Handler")
    shop.checkpoints = lambda number: number % 20 == 7
    shop.partition.add(*bodies(35))
    running = await shop.pump()
    await eventually(lambda: shop.handled()[-1:] == [34])
    assert (shop.checkpoint(), running.pump.report().next_sequence_number) == (27, 28)
    await asyncio.sleep(600)
    assert shop.checkpoint() == 27, "no other one, also not after a time"
    assert await running.stop() == "Shutdown"
    assert shop.checkpoint() == 27, "nor at the end"
    again = await shop.pump("host-b")
    await eventually(lambda: shop.handled()[35:] == [*range(28, 35)])
    assert ("open", 2, 28) in shop.log
    await again.stop()


@virtual
async def test_other_policies_count_on_from_the_checkpoint_of_the_handler() -> None:
    shop = Shop(policy="Events", events=25)
    shop.checkpoints = lambda number: number == 9  # the last event of a batch
    shop.partition.add(*bodies(30))
    running = await shop.pump()
    await eventually(lambda: shop.handled()[-1:] == [29])
    await asyncio.sleep(5)
    assert shop.checkpoint() == 9, "20 events since"
    shop.partition.add(*bodies(10))
    await eventually(lambda: shop.checkpoint() == 39)
    shop.partition.add(*bodies(1))
    await eventually(lambda: shop.handled()[-1:] == [40])
    await running.stop()
    assert shop.checkpoint() == 40, "as without one"


@virtual
async def test_a_checkpoint_that_storage_refuses_is_written_with_the_next_attempt_of_the_call() -> None:
    shop = Shop(policy="Handler")
    shop.checkpoints = lambda number: number == 9
    running = await shop.pump()
    await eventually(lambda: bool(shop.log))
    shop.leases.faults += [Fault("put"), Fault("put", applied=True)]
    shop.partition.add(*bodies(10))
    await eventually(lambda: shop.handled() == [*range(10)])
    assert shop.checkpoint() == 9
    assert [name for name in shop.sink.blobs if "_deadletters" in name] == []
    await running.stop()
