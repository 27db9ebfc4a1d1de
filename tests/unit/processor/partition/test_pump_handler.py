"""A pump with user code, in virtual time: before the files and instead of them, stopped, fenced, without storage."""

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any

from eventconsumer_processor.handler.api import Batch, CloseReason, EventProcessor, PartitionContext
from eventconsumer_processor.handler.deadletter import DeadLetters
from eventconsumer_processor.handler.handling import HandlerDependencies, PartitionHandler, PartitionIdentity
from eventconsumer_processor.source.hub import HubInfo
from tests.support.fakes.blobs import Fault
from tests.support.fakes.hub import CREATED
from tests.support.fakes.virtual import virtual
from tests.unit.processor.stage import CONFIG, Stage, eventually

INFO = HubInfo("shop.example", "orders", CREATED, ("0",))


class Notes(EventProcessor):
    """Notes what all instances of a test are given; takes as long as it is told to."""

    def __init__(self, log: list[Any], seconds: Callable[[], float], fail: Callable[[Batch], None]) -> None:
        self.log = log
        self.seconds = seconds
        self.fail = fail

    async def open(self, context: PartitionContext) -> None:
        self.log.append(("open", context.epoch, context.next_sequence_number))

    async def process_events(self, context: PartitionContext, batch: Batch) -> None:
        await asyncio.sleep(self.seconds())
        self.fail(batch)
        self.log.append(batch.sequence_numbers)

    async def close(self, context: PartitionContext, reason: CloseReason) -> None:
        self.log.append(("close", reason))


class Shop(Stage):
    """A stage with user code."""

    def __init__(self, mode: str = "Replace", **checkpoint: Any) -> None:
        processing = CONFIG["processing"] | {"handler": "shop:Shop", "handlerMode": mode, "checkpoint": checkpoint}
        super().__init__(overrides={"processing": processing})
        self.log: list[Any] = []
        self.seconds = 0.0
        self.fail: Callable[[Batch], None] = lambda _: None
        letters = DeadLetters(self.sink, "drained", "p", "era", "shop:Shop")
        means = HandlerDependencies(
            lambda: Notes(self.log, lambda: self.seconds, self.fail),
            letters,
            2,
            self.metrics,
            Random(1),
        )
        self.handler = lambda partition: PartitionHandler(
            PartitionIdentity(INFO.namespace, INFO.name, "$Default", partition, "host"), means
        )

    def handled(self) -> list[int]:
        """Sequence numbers of successful calls, in order."""
        return [number for entry in self.log if entry and isinstance(entry[0], int) for number in entry]

    def checkpoint(self) -> int | None:
        """What the lease blob says."""
        body = json.loads(self.leases.blobs["$Default/0"].data)
        return int(body["sequenceNumber"]) if body.get("offset") else None


def bodies(count: int) -> list[bytes]:
    return [b"x"] * count


@virtual
async def test_precede_events_are_handled_before_they_are_in_a_file() -> None:
    shop = Shop("Precede")
    shop.partition.add(*bodies(25))
    running = await shop.pump()
    await eventually(lambda: len(shop.rows()) == 25)
    assert shop.handled() == shop.rows() == list(range(25))
    await running.stop()
    assert shop.log[0] == ("open", 1, 0)
    assert shop.log[-1] == ("close", CloseReason.SHUTDOWN)


@virtual
async def test_precede_a_stop_in_the_middle_commits_what_is_done_and_the_next_pump_does_the_rest() -> None:
    shop = Shop("Precede")
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
