"""What the tools read and write, in both layouts, on the fake and on Azurite."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
import yaml

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.v1alpha1 import LeaseLayout, SinkBody
from eventconsumer_api.wire.checks import Check
from eventconsumer_api.wire.columns_record import ColumnsRecord
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import lease_record_name
from eventconsumer_host.body import record
from eventconsumer_host.body.plain import PlainBodyParser
from eventconsumer_host.body.typed import TypedBodies
from eventconsumer_host.errors import CommandError
from eventconsumer_host.handler.api import Event, PartitionContext
from eventconsumer_host.handler.deadletter import UNDECODED, DeadLetters, HandlerAttempts, LetterCause, LetterFolder
from eventconsumer_host.identity.records import (
    Leases,
    Times,
    claim_chain,
    claim_leases,
    read_chain,
    read_lease_record,
    take_lead,
)
from eventconsumer_host.identity.segments import current, list_segments
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_host.lease.store import LeaseStore
from eventconsumer_host.sink import parquet
from eventconsumer_host.sink.slots import Draft, segment_id, utc_now
from eventconsumer_host.source.columns import to_batch
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.errors import Unavailable
from eventconsumer_tools.commands import (
    adopt,
    apply,
    check,
    checkpoint,
    columns,
    deadletters,
    errors,
    files,
    lag,
    leases,
    migrate,
)
from eventconsumer_tools.commands import hub as hub_tool
from eventconsumer_tools.commands.apply import backups, carry_out
from eventconsumer_tools.commands.deadletters import Selection
from eventconsumer_tools.commands.model import Action, CheckpointsExport, PlanSource, Step
from eventconsumer_tools.commands.policy import Rules
from eventconsumer_tools.inspect.consumer import OpenConsumer
from eventconsumer_tools.inspect.leases import LeaseState
from eventconsumer_tools.inspect.partitions import chain_of
from eventconsumer_tools.inspect.records import expected_lease_record
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import show
from tests.contract.conftest import ContainerWorld
from tests.support.fakes.blobs import EPOCH, FakeBlobStore
from tests.support.fakes.hub import CREATED, FakeHub
from tests.support.legacyleases import document
from tests.unit.host.sink.messages import message
from tests.unit.host.stage import CONFIG

INFO = HubInfo("shop.example", "orders", CREATED, ("0", "1"))
SECONDS = 15


@dataclass
class Shop:
    """A consumer of a hub with two partitions of 100 events."""

    world: ContainerWorld
    consumer: OpenConsumer
    hub: FakeHub

    @property
    def watch(self) -> bool:
        """As the tool decides; not on Azurite, where it takes real time."""
        sdk = self.consumer.config.leases.layout.value == "AzureSdk"
        return sdk and isinstance(self.world.blobs, FakeBlobStore)

    def store(self) -> LeaseStore:
        """The leases as another host sees them."""
        return lease_store(self.consumer.config, INFO, self.world.other, self.world.clock)

    async def drain(self, partition: str, *ends: int, start: int = 0) -> None:
        """Files up to these sequence numbers, by a host that then gave the partition back."""
        self.consumer = replace(self.consumer, segments=tuple(await current(self.world.blobs, "p", INFO, CREATED)))
        chain = chain_of(self.consumer, INFO, partition)
        position = (await chain.begin(start)).start
        for end in ends:
            await chain.put(draft(position, end), f"{position}".encode())
            position = end + 1
        await self.move(partition, ends[-1])

    async def move(self, partition: str, number: int) -> None:
        """A host writes a checkpoint and gives the partition back."""
        lease = await self.hold(partition)
        store = self.store()
        await store.list([partition])
        await store.release(await store.advance(lease, Checkpoint(str(10 * number), number)))

    async def hold(self, partition: str, owner: str = "orders-host-0.u") -> Lease:
        """A host takes a partition."""
        store = self.store()
        taken = await store.acquire((await store.list([partition])).leases[partition], owner)
        assert taken is not None
        return taken.lease

    async def checkpoints(self) -> dict[str, int | None]:
        """Sequence numbers of the checkpoints by partition."""
        report = await checkpoint.read(self.consumer)
        return {row.partition: row.sequence_number for row in report.checkpoints}

    async def carry_out(self, steps: list[Step]) -> list[Step]:
        """Carry a plan out in the world's time."""
        consumer = self.consumer
        keep = backups(consumer.leases, apply.backup_folder(consumer), datetime.now(UTC), apply.heading(consumer))
        return await carry_out(steps, self.store(), keep, self.world.clock, self.world.sleep, watch=self.watch)

    async def plan(self, partition: str, number: int, **rules: bool) -> list[Step]:
        """The plan to set a checkpoint."""
        return await checkpoint.plan_set(self.consumer, partition, number, None, Rules(**rules))


def draft(start: int, end: int) -> Draft:
    """A file of all events from start to end."""
    return Draft(
        start, start, end, end - start + 1, 1, "host", f"n{start}", str(10 * end), CREATED + timedelta(milliseconds=end)
    )


Make = Callable[..., Shop]


@pytest.fixture(params=["EventProcessorHost", "AzureSdk"])
def make(request: pytest.FixtureRequest, world: ContainerWorld) -> Make:
    """Makes a consumer in each layout in turn; files and leases share a container."""

    def shop(**overrides: Any) -> Shop:
        hub = FakeHub(2)
        for partition in hub.partitions.values():
            partition.add(*[b"x"] * 100)
        config: dict[str, Any] = CONFIG | overrides
        config["leases"] = {**CONFIG["leases"], "layout": request.param, "durationSeconds": SECONDS} | overrides.get(
            "leases", {}
        )

        async def walk(prefix: str) -> AsyncIterator[BlobInfo]:
            for info in await world.blobs.list(prefix, metadata=True):
                yield info

        async def now() -> datetime:
            if isinstance(world.blobs, FakeBlobStore):
                return EPOCH + timedelta(seconds=world.clock())
            return datetime.now(UTC)

        consumer = OpenConsumer(
            HostConfig.model_validate(config),
            "shop.example",
            "orders",
            (),
            world.blobs,
            world.blobs,
            walk,
            now,
            hub,
        )
        return Shop(world, consumer, hub)

    return shop


async def test_leases_show_owner_and_position(make: Make) -> None:
    shop = make()
    await shop.drain("0", 49, 59)
    await shop.hold("1", "orders-host-1.u")
    found = {row.partition: row for row in (await leases.read(shop.consumer)).leases}
    assert (found["0"].state, found["0"].owner, found["0"].epoch) == (LeaseState.FREE, None, 1)
    assert found["0"].checkpoint is not None
    assert (found["0"].checkpoint.sequence_number, found["0"].checkpoint.offset) == (59, "590")
    assert (found["1"].state, found["1"].owner, found["1"].checkpoint) == (LeaseState.HELD, "orders-host-1.u", None)
    assert all(row.modified and row.etag and row.problem is None for row in found.values())


async def test_nothing_is_made_by_looking(make: Make) -> None:
    shop = make()
    await leases.read(shop.consumer)
    await checkpoint.read(shop.consumer)
    await files.read(shop.consumer)
    await columns.read(shop.consumer, events=1)
    await errors.read(shop.consumer, files=1, limit=1)
    await deadletters.read(shop.consumer, ALL)
    await lag.read(shop.consumer)
    plan = await shop.plan("0", -1)
    assert plan[0].action is Action.SET
    report = await apply.settle(shop.consumer, "set", plan, yes=False)
    assert (report.dry_run, report.done, report.refused) == (True, False, False)
    assert await shop.world.blobs.list("") == []


async def test_files_are_listed_newest_last_with_their_dead_letters(make: Make) -> None:
    shop = make()
    await shop.drain("0", 9, 19)
    await shop.drain("1", 4)
    era = segment_id(INFO)
    for number in (12, 15):
        await shop.world.blobs.put(f"p/_deadletters/segment={era}/partition=0/seq={number:020d}.json", b"{}")
    report = await files.read(shop.consumer)
    assert (report.totals.files, report.totals.events, report.totals.dead_letters) == (3, 25, 2)
    by_start = {(row.partition, row.first_sequence_number): row for row in report.files}
    assert {place: row.dead_letters for place, row in by_start.items()} == {("0", 0): 0, ("0", 10): 2, ("1", 0): 0}
    assert [row.modified for row in report.files] == sorted(row.modified for row in report.files)
    assert [row.name for row in report.files if row.partition == "1"] == [
        f"p/segment={era}/partition=1/from={0:020d}.parquet"
    ]
    assert (await files.read(shop.consumer, ["1"])).totals.events == 5
    later = datetime.now(UTC) + timedelta(days=4000)
    assert (await files.read(shop.consumer, since=later)).totals.files == 0


async def test_columns_are_proposed_for_the_newest_file_of_each_partition(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = make()
    await shop.drain("0", 9)  # not read: its content is no file
    await shop.drain("1", 4)
    old, new = [b'{"id": "old"}'] * 2, [b'{"id": 5, "at": "2026-01-02T03:04:05Z"}', b"{", None, b'{"id": 6}']
    assert shop.consumer.segment is not None
    for partition, start, bodies in (("0", 10, old), ("0", 12, new), ("1", 5, [b'{"id": 7.50}'])):
        messages = [message(start + index, data=body and [body]) for index, body in enumerate(bodies)]
        content = b"".join(parquet.encode([to_batch(messages)], partition, {}))
        await chain_of(shop.consumer, INFO, partition).put(draft(start, start + len(bodies) - 1), content)
    report = await columns.read(shop.consumer, events=100)
    assert report.body == {
        "type": "Json",
        "columns": [{"name": "id", "type": "DECIMAL(18, 2)"}, {"name": "at", "type": "TIMESTAMP"}],
    }
    assert (report.partitions, report.events, report.fitting, report.omitted) == (2, 5, 4, [])
    assert [(row.events, row.partition, row.sequence_number) for row in report.unfit] == [(1, "0", 13)]
    assert report.unfit[0].error.startswith("the body is not one JSON document")
    one = await columns.read(shop.consumer, ["0"], events=1)
    assert (one.events, one.partitions, one.fitting) == (1, 1, 1)
    show(one, PrintFormat.TABLE, columns.show_proposal)
    body = yaml.safe_load(capsys.readouterr().out)["spec"]["sink"]["body"]
    assert SinkBody.model_validate(body).body_columns()[0] == BodyColumn("id", "long", ("id",))


async def test_errors_of_bodies_are_listed_exactly_and_without_values(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = make()
    await shop.drain("0", 9)  # not read: it has no columns of bodies
    await shop.drain("1", 4)
    cents = [BodyColumn("cents", "long", ("cents",))]
    entered = record.merged(ColumnsRecord(columns=[]), cents)[1]
    typed = TypedBodies(entered, PlainBodyParser(cents).parse, utc_now)
    good, misfit, cut = b'{"cents": 5}', b'{"cents": "5555-secret"}', b'{"cents'
    files_of = [("0", 10, [good, misfit]), ("1", 5, [good, good]), ("0", 12, [cut, good, misfit, misfit])]
    for partition, start, bodies in files_of:
        batch = typed.typed(to_batch([message(start + index, data=[body]) for index, body in enumerate(bodies)]))
        content = b"".join(parquet.encode([batch], partition, {}, columns=cents))
        facts = replace(draft(start, start + len(bodies) - 1), columns=typed.of_file)
        await chain_of(shop.consumer, INFO, partition).put(facts, content)
    report = await errors.read(shop.consumer, files=10, limit=10)
    assert (report.files, report.events, report.errors, report.unreadable) == (3, 8, 4, [])
    text = "column cents: BIGINT has no exact value for this string"
    assert [(row.partition, row.sequence_number, row.error == text) for row in report.rows] == [
        ("0", 11, True),
        ("0", 12, False),
        ("0", 14, True),
        ("0", 15, True),
    ]
    assert round(report.rows[0].enqueued_time.timestamp() * 1000) == to_batch([message(11)]).enqueued_ms[0]
    assert report.rows[1].file.endswith(f"/partition=0/from={12:020d}.parquet")
    assert [(group.events, group.sequence_number, group.error == text) for group in report.groups] == [
        (3, 15, True),
        (1, 12, False),
    ]
    show(report, PrintFormat.TABLE, errors.show_errors)
    assert "secret" not in report.model_dump_json() + capsys.readouterr().out
    last = await errors.read(shop.consumer, ["0"], files=1, limit=1)
    assert (last.files, last.errors, [row.sequence_number for row in last.rows]) == (1, 3, [15])
    assert (await errors.read(shop.consumer, ["1"], files=10, limit=10)).errors == 0
    await chain_of(shop.consumer, INFO, "1").put(replace(draft(7, 7), columns=typed.of_file), b"no Parquet")
    found = await errors.read(shop.consumer, files=10, limit=10)
    assert (found.errors, len(found.unreadable), found.files) == (4, 1, 3)
    assert "cannot be read" in capsys.readouterr().err


async def test_columns_are_not_proposed_for_avro_files(make: Make) -> None:
    with pytest.raises(CommandError, match=r"spec\.sink\.format: only Parquet files"):
        await columns.read(make(files={"format": "Avro"}).consumer, events=1)


HANDLER = {"processing": CONFIG["processing"] | {"handler": "shop:Shop", "handlerMode": "Replace"}}
ALL = Selection()


async def letters(shop: Shop, *places: tuple[str, int], error: str = "ValueError") -> DeadLetters:
    """A host writes dead letters."""
    found = DeadLetters(shop.world.blobs, "drained", "p", segment_id(INFO), "shop:Shop")
    for partition, number in places:
        event = Event(number, f"{number}", CREATED, None, b"body %d" % number, {"a": "b"}, {}, None, None, None)
        context = PartitionContext(
            "shop.example", "orders", "$Default", partition, "host", 1, number + 1, None, structlog.get_logger("test")
        )
        await found.put(
            context, event, HandlerAttempts(3, CREATED, CREATED), LetterCause(error, f"cannot digest {number}", "trace")
        )
    return found


async def test_dead_letters_are_listed_and_shown(make: Make) -> None:
    shop = make(**HANDLER)
    assert (await deadletters.read(shop.consumer, ALL)).total == 0
    assert await deadletters.read_one(shop.consumer, "0", 5) is None
    await shop.drain("0", 9)
    await letters(shop, ("1", 3), ("0", 7), ("0", 5))
    await shop.world.blobs.put(f"p/_deadletters/segment={segment_id(INFO)}/partition=0/seq={6:020d}.json", b"edited")
    report = await deadletters.read(shop.consumer, ALL)
    assert [(row.partition, row.sequence_number) for row in report.letters] == [("0", 5), ("0", 7), ("1", 3)]
    assert (report.total, report.shown) == (4, 3)
    first = report.letters[0]
    assert (first.error, first.message, first.attempts) == ("ValueError", "cannot digest 5", 3)
    assert (first.enqueued_time, first.last_attempt, first.redrive_requested) == (CREATED, CREATED, False)
    assert (await deadletters.read(shop.consumer, Selection(["1"]))).total == 1
    assert (await deadletters.read(shop.consumer, ALL, limit=2)).shown <= 2
    shown = await deadletters.read_one(shop.consumer, "0", 5)
    assert shown is not None
    assert (shown.name, shown.letter.body_text) == (first.name, "body 5")
    assert (shown.letter.properties, shown.letter.error.traceback) == ({"a": "b"}, "trace")


async def test_the_check_counts_dead_letters_and_not_requests_and_records(make: Make) -> None:
    shop = make(**HANDLER)

    async def found() -> Check:
        checks = check.Checks()
        await check.check_letters(shop.world.blobs, "p", checks)
        (only,) = checks.report().checks
        return only

    assert (await found()).detail == "no host has registered yet"
    await shop.drain("0", 9)
    assert (await found()).detail == "there are none: the handler has processed all events"
    await letters(shop, ("10", 3), ("2", 7), ("2", 5))
    await deadletters.redrive(shop.consumer, Selection(["2"]), yes=True)
    told = await found()
    assert told.ok and told.detail == "3 events could not be processed; partitions: 2, 10"
    assert "deadletters list" in told.remedy and "deadletters redrive" in told.remedy
    await deadletters.drop(shop.consumer, ALL, yes=True)
    assert (await found()).remedy == "", "requests and records of removed letters are left"


async def test_a_redrive_is_requested_for_each_letter_whose_event_can_be_passed(make: Make) -> None:
    shop = make(**HANDLER)
    await shop.drain("0", 9)
    await letters(shop, ("0", 5), ("0", 7), ("1", 3))
    await letters(shop, ("0", 6), error=UNDECODED)
    plan = await deadletters.redrive(shop.consumer, ALL, yes=False)
    assert [(step.partition, step.letters, step.first, step.last) for step in plan.steps] == [
        ("0", 2, 5, 7),
        ("1", 1, 3, 3),
    ]
    assert (plan.dry_run, plan.done, plan.refused, plan.remaining) == (True, False, False, 1)
    assert "1 letters stay: their events cannot be decoded" in plan.why
    folder = LetterFolder("p", segment_id(INFO))
    assert await shop.world.blobs.list(folder.requests) == []
    done = await deadletters.redrive(shop.consumer, Selection(["0"], [5]), yes=True)
    assert (done.done, len(done.steps)) == (True, 1)
    assert [info.name for info in await shop.world.blobs.list(folder.requests)] == [folder.request("0", 5)]
    rows = {(row.partition, row.sequence_number): row for row in (await deadletters.read(shop.consumer, ALL)).letters}
    assert [place for place, row in rows.items() if row.redrive_requested] == [("0", 5)]
    shown = await deadletters.read_one(shop.consumer, "0", 5)
    assert shown is not None and shown.redrive_requested


@pytest.mark.parametrize(
    ("processing", "why"), [({}, "no handler"), ({"handler": "shop:Shop", "handlerMode": "Transform"}, "Transform")]
)
async def test_a_redrive_is_refused_where_no_handler_could_take_it(
    make: Make, processing: dict[str, str], why: str
) -> None:
    shop = make(processing=CONFIG["processing"] | processing)
    await shop.drain("0", 9)
    await letters(shop, ("0", 5))
    plan = await deadletters.redrive(shop.consumer, ALL, yes=True)
    assert (plan.refused, plan.done, plan.steps) == (True, False, [])
    assert why in plan.why and plan.remedy
    assert await shop.world.blobs.list(LetterFolder("p", segment_id(INFO)).requests) == []


async def test_dropped_letters_are_recorded_and_removed_with_their_requests(make: Make) -> None:
    shop = make(**HANDLER)
    await shop.drain("0", 9)
    await letters(shop, ("0", 5), ("0", 7), ("1", 3))
    await deadletters.redrive(shop.consumer, ALL, yes=True)
    before = [info.name for info in await shop.world.blobs.list("p/_deadletters/")]
    plan = await deadletters.drop(shop.consumer, Selection(["0"]), yes=False)
    assert [(step.partition, step.letters) for step in plan.steps] == [("0", 2)]
    assert (plan.dry_run, plan.done, plan.record) == (True, False, None)
    assert [info.name for info in await shop.world.blobs.list("p/_deadletters/")] == before
    done = await deadletters.drop(shop.consumer, Selection(["0"]), yes=True)
    assert (done.done, done.remaining, done.steps) == (True, 0, plan.steps)
    assert done.record is not None
    record = await shop.world.blobs.read(done.record, 10_000)
    assert record is not None
    assert json.loads(record.data)["letters"] == {"0": [5, 7]}
    folder = LetterFolder("p", segment_id(INFO))
    left = {info.name for info in await shop.world.blobs.list("p/_deadletters/")}
    assert left == {folder.letter("1", 3), folder.request("1", 3), done.record}
    assert (await deadletters.drop(shop.consumer, Selection(["0"]), yes=True)).record is None, "there is none"


async def test_a_letter_that_a_host_changes_during_the_command_is_not_dropped(make: Make) -> None:
    shop = make(**HANDLER)
    await shop.drain("0", 9)
    await letters(shop, ("0", 5), ("0", 7))
    walk, folder = shop.consumer.walk, LetterFolder("p", segment_id(INFO))

    async def overtaken(prefix: str) -> AsyncIterator[BlobInfo]:
        found = [info async for info in walk(prefix)]
        changed = await shop.world.blobs.read(folder.letter("0", 5), 100_000)
        assert changed is not None
        await shop.world.blobs.put(changed.info.name, changed.data)  # a failed attempt
        await shop.world.delete_blob(folder.letter("0", 7))  # processed
        for info in found:
            yield info

    plan = await deadletters.drop(replace(shop.consumer, walk=overtaken), ALL, yes=True)
    assert (plan.remaining, [(step.first, step.last) for step in plan.steps]) == (1, [(7, 7)])
    assert "1 letters changed during the command" in plan.why
    assert [row.sequence_number for row in (await deadletters.read(shop.consumer, ALL)).letters] == [5]


async def test_lag_is_what_no_file_holds(make: Make) -> None:
    shop = make()
    await shop.drain("0", 49)
    report = await lag.read(shop.consumer)
    rows = {row.partition: row for row in report.partitions}
    assert (rows["0"].head, rows["0"].files_end, rows["0"].checkpoint, rows["0"].events) == (99, 49, 49, 50)
    assert (rows["1"].head, rows["1"].files_end, rows["1"].events) == (99, None, 100)
    assert report.totals.events == 150
    shop.hub.recreate()  # whether its events are those of the files is for hosts to find out: they read them
    assert (await lag.read(shop.consumer)).totals.partitions_unknown == 1


async def test_a_checkpoint_is_set_kept_and_given_back(make: Make) -> None:
    shop = make()
    await shop.drain("0", 9, 19, 29)
    plan = await shop.plan("0", 19, allow_behind=True)
    assert plan[0].to is not None
    assert plan[0].to.offset == "190"
    (done,) = await shop.carry_out(plan)
    assert (done.done, done.action) == (True, Action.SET)
    assert await shop.checkpoints() == {"0": 19}
    assert done.backup is not None
    kept = await shop.world.blobs.read(done.backup, 10_000)
    assert kept is not None
    copy = CheckpointsExport.model_validate_json(kept.data)
    assert [(one.partition, one.sequence_number, one.offset) for one in copy.checkpoints] == [("0", 29, "290")]
    # The next host takes the partition at once, under a higher epoch, and sees the checkpoint.
    lease = await shop.hold("0")
    assert lease.checkpoint == Checkpoint("190", 19)
    assert lease.epoch == 3
    assert {row.partition for row in (await leases.read(shop.consumer)).leases} <= {"0", "1"}


async def test_one_partition_that_is_owned_keeps_all_from_being_written(make: Make) -> None:
    shop = make()
    await shop.drain("0", 9, 19)
    await shop.drain("1", 9, 19)
    steps = [*await shop.plan("0", 9, allow_behind=True), *await shop.plan("1", 9, allow_behind=True)]
    held = await shop.hold("1", "orders-host-1.u")
    store = shop.store()
    await store.list(["0", "1"])

    async def alive(seconds: float) -> None:
        nonlocal held
        held = await store.renew(held)
        await shop.world.sleep(seconds)

    keep = backups(shop.consumer.leases, "kept/", datetime.now(UTC), apply.heading(shop.consumer))
    done = await carry_out(steps, shop.store(), keep, shop.world.clock, alive, watch=shop.watch)
    assert [step.action for step in done] == [Action.SET, Action.REFUSE]
    assert "orders-host-1.u" in done[1].why
    assert not any(step.done for step in done)
    assert await shop.checkpoints() == {"0": 19, "1": 19}
    assert await shop.world.blobs.list("kept/") == []
    assert (await shop.hold("0")).owner == "orders-host-0.u"  # given back
    refused = (await shop.plan("1", 9, allow_behind=True))[0]
    assert (refused.action, "orders-host-1.u" in refused.why) == (Action.REFUSE, True)


async def test_a_checkpoint_that_was_moved_meanwhile_is_not_overwritten(make: Make) -> None:
    shop = make()
    await shop.drain("0", 9, 19)
    plan = await shop.plan("0", 9, allow_behind=True)
    await shop.move("0", 29)
    (step,) = await shop.carry_out(plan)
    assert (step.action, step.done, "another program moved" in step.why) == (Action.REFUSE, False, True)
    assert await shop.checkpoints() == {"0": 29}
    assert (await shop.hold("0")).checkpoint == Checkpoint("290", 29)


async def test_an_owner_that_died_is_waited_for_and_replaced(make: Make) -> None:
    shop = make()
    if not isinstance(shop.world.blobs, FakeBlobStore):
        pytest.skip("it waits for the end of a lease, which takes real time there")
    await shop.drain("0", 9, 19)
    plan = await shop.plan("0", 9, allow_behind=True)
    await shop.hold("0", "orders-host-9.u")
    await shop.world.sleep(SECONDS + 1)  # unseen by the tool, which looks for the first time now
    assert (await leases.read(shop.consumer)).leases[0].state is LeaseState.EXPIRED
    (step,) = await shop.carry_out(plan)
    assert step.done
    assert await shop.checkpoints() == {"0": 9}


async def test_a_failure_half_way_says_what_was_written_and_gives_all_back(make: Make) -> None:
    shop = make()
    if not isinstance(shop.world.blobs, FakeBlobStore):
        pytest.skip("faults are injected into the fake")
    for partition in ("0", "1"):
        await shop.drain(partition, 9, 19)
    steps = [*await shop.plan("0", 9, allow_behind=True), *await shop.plan("1", 9, allow_behind=True)]
    kept = 0

    async def keep(partition: str, _: object) -> str | None:
        nonlocal kept
        kept += 1
        if kept == 2:
            raise Unavailable("no answer")
        return f"copy-{partition}"

    with pytest.raises(EventConsumerError, match="partitions written: 0; run this again"):
        await carry_out(steps, shop.store(), keep, shop.world.clock, shop.world.sleep, watch=False)
    assert await shop.checkpoints() == {"0": 9, "1": 19}
    assert {row.state for row in (await leases.read(shop.consumer)).leases} == {LeaseState.FREE}


async def test_an_export_comes_back_by_an_import(make: Make) -> None:
    shop = make()
    await shop.drain("0", 9, 19)
    await shop.drain("1", 4)
    document = await checkpoint.exported(shop.consumer)
    (moved,) = await shop.carry_out(await shop.plan("0", 9, allow_behind=True))
    assert moved.done
    steps = await checkpoint.plan_import(shop.consumer, document, Rules())
    assert [(step.partition, step.action) for step in steps] == [("0", Action.SET), ("1", Action.KEEP)]
    assert (await shop.carry_out(steps))[0].done
    assert await shop.checkpoints() == {"0": 19, "1": 4}
    other = document.model_copy(update={"hub": document.hub.model_copy(update={"name": "invoices"})})
    refused = await checkpoint.plan_import(shop.consumer, other, Rules())
    assert {step.action for step in refused} == {Action.REFUSE}


async def test_positions_are_found_by_number_and_by_offset(make: Make) -> None:
    shop = make()
    await shop.drain("0", 9, 19)
    by_offset = await checkpoint.plan_set(shop.consumer, "0", None, "190", Rules())
    assert (by_offset[0].action, by_offset[0].to and by_offset[0].to.sequence_number) == (Action.KEEP, 19)
    in_a_file = await checkpoint.plan_set(shop.consumer, "0", None, "150", Rules(allow_behind=True))
    assert in_a_file[0].to is not None
    assert in_a_file[0].to.sequence_number == 15
    with pytest.raises(EventConsumerError, match="no event of the hub has the offset 155"):
        await checkpoint.plan_set(shop.consumer, "0", None, "155", Rules())
    shop.hub.partitions["0"].retain_from(50)
    with pytest.raises(EventConsumerError, match="no longer has event 15"):
        await shop.plan("0", 15, allow_behind=True)
    with pytest.raises(EventConsumerError, match="no partition 7"):
        await shop.plan("7", 15)


async def test_a_migration_takes_positions_over(make: Make, world: ContainerWorld) -> None:
    shop = make()
    old = make(leases={**CONFIG["leases"], "location": {**CONFIG["leases"]["location"], "prefix": "old/"}})
    layout = old.consumer.config.leases.layout
    await old.move("0", 39)
    held = await old.hold("1", "old-host")
    source = PlanSource(layout=layout, container="c", prefix="old/", consumer_group="$Default")

    async def read() -> migrate.Legacy:
        return await migrate.read(shop.consumer, world.blobs, source, await shop.consumer.now())

    steps = {step.partition: step for step in await migrate.plan(shop.consumer, await read())}
    assert (steps["0"].action, steps["1"].action) == (Action.SET, Action.REFUSE)
    assert "old-host" in steps["1"].why
    store = old.store()
    await store.list(["0", "1"])
    await store.release(held)
    plan = await migrate.plan(shop.consumer, await read())
    assert [(step.partition, step.action, step.to and step.to.sequence_number) for step in plan] == [
        ("0", Action.SET, 39),
        ("1", Action.KEEP, None),
    ]
    assert (await shop.carry_out(plan))[0].done
    lease = await shop.hold("0")
    assert lease.checkpoint == Checkpoint("390", 39)


async def test_a_migration_finds_the_leases_of_python_which_have_no_folder(make: Make, world: ContainerWorld) -> None:
    shop = make()
    await world.blobs.put("0", document("python-1", "0", "390", 39))
    await world.blobs.put("1", document("python-1-default", "1", "270", 27))
    source = PlanSource(layout=LeaseLayout.EVENT_PROCESSOR_HOST, container="c", prefix="", consumer_group="$Default")
    found = await migrate.read(shop.consumer, world.blobs, source, await shop.consumer.now())
    plan = await migrate.plan(shop.consumer, found)
    assert [(step.partition, step.to and step.to.sequence_number) for step in plan] == [("0", 39), ("1", 27)]


# --- whose chain and whose leases ---

BILLING = {"namespace": "shop", "name": "billing", "uid": "b"}


async def claimed(shop: Shop, *, leases_too: bool = True) -> str:
    """Claim chain and leases as a host of this consumer does; the identity of the chain."""
    config, sink, store = shop.consumer.config, shop.world.other, shop.store()
    times = Times(utc_now, shop.world.clock)
    chain = await claim_chain(config, segment_id(INFO), store, sink, times)
    if leases_too:
        found = Leases(store, sink)
        await claim_leases(config, shop.hub, INFO, chain=chain, leases=found, sink=sink, times=times)
    return chain


async def said(shop: Shop) -> dict[str, Check]:
    """What `check` finds about chain and leases."""
    checks, blobs, config = check.Checks(), shop.world.blobs, shop.consumer.config
    found = await check.check_chain(config, blobs, checks)
    wanted = expected_lease_record(config, INFO, found.record.chain if found else "", blobs.account)
    await check.check_leases(config, blobs, wanted, checks, hub=shop.hub, info=INFO)
    return {one.check: one for one in checks.report().checks}


async def test_unowned_leases_and_own_leases_are_free(make: Make) -> None:
    shop = make()
    found = await said(shop)
    assert [one.ok for one in found.values()] == [True, True]
    assert "the first host creates it" in found["chain-identity"].detail
    assert await shop.world.blobs.list("") == []
    await claimed(shop)
    again = make(resource={"namespace": "shop", "name": "orders", "uid": "applied again"})
    assert [one.ok for one in (await said(again)).values()] == [True, True]


async def test_check_names_the_consumer_whose_chain_and_leases_these_are(make: Make) -> None:
    await claimed(make(resource=BILLING))
    found = (await said(make()))["chain-identity"]
    assert (found.ok, "EventConsumer shop/billing (uid b)" in found.detail) == (False, True)
    assert "kubectl eventconsumer adopt orders -n shop" in found.remedy
    elsewhere = make(sink={**CONFIG["sink"], "prefix": "p/inside"})
    found_there = await said(elsewhere)
    assert "is inside p" in found_there["chain-identity"].detail
    assert found_there["checkpoint-identity"].ok is False, "leases of another chain"
    assert "belong to EventConsumer shop/billing" in found_there["checkpoint-identity"].detail


async def test_check_says_whether_leases_of_an_old_program_fit(make: Make) -> None:
    shop = make()
    await shop.move("0", 39)
    found = (await said(shop))["checkpoint-identity"]
    assert (found.ok, "fit the hub" in found.detail) == (True, True)
    if shop.consumer.config.leases.layout is LeaseLayout.EVENT_PROCESSOR_HOST:
        await shop.world.blobs.put("$Default/1", document("net-framework-old", "1", "390", 39))
        found = (await said(shop))["checkpoint-identity"]
        assert (found.ok, "of partitions 1 they find the sequence number by" in found.detail) == (True, True)
        await shop.world.blobs.put("$Default/1", b'{"Epoch":1,"Offset":"9","offset":"10"}')
        found = (await said(shop))["checkpoint-identity"]
        assert (found.ok, "$Default/1 (it has two values of offset)" in found.detail) == (False, True)
        await shop.world.blobs.put("$Default/1", document("java", "1", "390", 39))
    await shop.move("0", 300)
    found = (await said(shop))["checkpoint-identity"]
    assert (found.ok, "the hub's last event is 99" in found.detail + found.remedy) == (False, True)


@pytest.mark.parametrize("make", ["AzureSdk"], indirect=True)
async def test_leases_in_upper_case_are_seen_by_all_tools_and_stay_so(make: Make) -> None:
    other, spelled = make(resource=BILLING, sink={**CONFIG["sink"], "prefix": "before"}), "Shop.example/Orders/$Default"
    reached = {"offset": "390", "sequencenumber": "39"}
    await other.world.blobs.put(f"{spelled}/checkpoint/0", b"", metadata=reached)
    assert f"spelled {spelled}, fit the hub" in (await said(other))["checkpoint-identity"].detail
    assert await other.checkpoints() == {"0": 39}
    source = PlanSource(layout=other.consumer.config.leases.layout, container="c", prefix="", consumer_group="$Default")
    legacy = await migrate.read(other.consumer, other.world.blobs, source, await other.consumer.now())
    assert {partition: view.number for partition, view in legacy.leases.items()} == {"0": 39}
    await other.world.blobs.put("shop.example/orders/$default/checkpoint/0", b"", metadata=reached)
    found = (await said(other))["checkpoint-identity"]
    assert (found.ok, spelled in found.detail + found.remedy) == (False, True)
    lower = await other.world.blobs.head("shop.example/orders/$default/checkpoint/0")
    assert lower is not None
    await other.world.blobs.remove(lower.name, if_match=lower.etag)
    await claimed(other)
    shop = make()
    await claimed(shop, leases_too=False)
    (_, step) = await adopt.carry_out(shop.consumer)
    assert step.done
    assert (await shop.store().spelling(), await shop.checkpoints()) == (spelled, {"0": 39})


async def records(shop: Shop) -> tuple[str, str]:
    """The resource in the record of the chain, and the chain in that of the leases."""
    folder = apply.longest_lease_store(shop.consumer).folder
    found, leases_of = (
        await read_chain(shop.world.blobs, "p"),
        await read_lease_record(shop.world.blobs, folder, "$Default"),
    )
    return found.record.resource.path if found else "", leases_of.record.chain if leases_of else ""


async def test_a_chain_is_adopted_with_its_leases(make: Make) -> None:
    other = make(resource=BILLING)
    assert await adopt.plan(other.consumer) == []
    chain = await claimed(other)
    shop = make()
    steps = {step.record: step for step in await adopt.plan(shop.consumer)}
    assert (steps["chain"].action, steps["leases"].action) == (Action.SET, Action.KEEP)
    assert (steps["chain"].from_, steps["chain"].to) == ("shop/billing (uid b)", "shop/orders (uid u)")
    assert await records(shop) == ("shop/billing", chain)
    done = {step.record: step for step in await adopt.carry_out(shop.consumer)}
    assert (done["chain"].done, done["leases"].done) == (True, False)
    assert await records(shop) == ("shop/orders", chain)
    assert {step.action for step in await adopt.plan(shop.consumer)} == {Action.KEEP}
    assert await claimed(shop) == chain
    info = await shop.world.blobs.head("p/_leader")
    assert info is not None and not info.leased, "the lead is given back"


async def test_leases_of_another_chain_are_adopted_where_nobody_holds_them(make: Make) -> None:
    before = make(resource=BILLING, sink={**CONFIG["sink"], "prefix": "before"})
    first = await claimed(before)
    shop = make()
    chain = await claimed(shop, leases_too=False)
    assert await records(shop) == ("shop/orders", first)
    held = await shop.hold("1", "shop/billing/billing-host-0.b")
    (_, refused) = await adopt.carry_out(shop.consumer)
    assert (refused.action, "billing-host-0.b holds the lease" in refused.why) == (Action.REFUSE, True)
    store = shop.store()
    await store.list(["1"])
    await store.release(held)
    (_, step) = await adopt.carry_out(shop.consumer)
    assert (step.action, step.done) == (Action.SET, True)
    assert await records(shop) == ("shop/orders", chain)
    await claimed(shop)


async def test_nothing_is_adopted_while_a_host_of_the_other_consumer_works(make: Make) -> None:
    other, shop = make(resource=BILLING), make()
    chain = await claimed(other)
    token = "11111111-1111-1111-1111-111111111111"
    await take_lead(shop.world.other, "p", token, SECONDS, shop.world.clock)
    for steps in (await adopt.plan(shop.consumer), await adopt.carry_out(shop.consumer)):
        assert steps[0].action is Action.REFUSE
        assert "EventConsumer shop/billing (uid b) is the leading host" in steps[0].why
        assert steps[0].remedy.startswith("suspend or delete EventConsumer shop/billing")
    await shop.world.other.release_lease("p/_leader", token)
    await shop.hold("0", "shop/billing/billing-host-0.b")  # it does not lead, and still reads
    (refused, _) = await adopt.carry_out(shop.consumer)
    assert (refused.action, "billing-host-0.b holds" in refused.why) == (Action.REFUSE, True)
    assert await records(shop) == ("shop/billing", chain)


async def test_leases_of_another_hub_are_never_adopted(make: Make) -> None:
    shop = make()
    chain = await claimed(shop)
    billing = replace(shop.consumer, hub_name="billing")
    name = lease_record_name(apply.longest_lease_store(billing).folder, "$Default")
    record = expected_lease_record(shop.consumer.config, INFO, chain, "account")
    await shop.world.blobs.put(name, record.model_dump_json(by_alias=True).encode())
    step = {step.record: step for step in await adopt.carry_out(billing)}["leases"]
    assert (step.action, "belong to Event Hub orders in shop.example" in step.why) == (Action.REFUSE, True)


async def test_a_new_segment_begins_once_nobody_reads(make: Make) -> None:
    """Two partitions lose their newest events; what is in files is compared in test_accept.py."""
    shop = make()
    await shop.drain("0", 49, 89, 99)
    assert (await hub_tool.settle(shop.consumer, yes=True)).why.startswith("the hub has the last event of all files")
    for partition in shop.hub.partitions.values():
        partition.forget_last(10)
    held = await shop.hold("1", "shop/orders/orders-host-1.u")
    report = await hub_tool.settle(shop.consumer, yes=True)
    assert report.refused and "shop/orders/orders-host-1.u holds the lease of partition 1" in report.why
    assert "suspend" in report.remedy
    await shop.store().release(held)
    plan = await hub_tool.settle(shop.consumer, yes=False)
    first, second = plan.partitions
    assert (plan.dry_run, plan.done, plan.refused, plan.segment) == (True, False, False, 1)
    assert (first.diverged, first.common, first.start, first.gone, first.ahead) == (True, 89, 90, 10, 0)
    assert (second.diverged, second.files_end, second.start) == (False, None, None)
    assert len(await list_segments(shop.world.blobs, "p")) == 1
    done = await hub_tool.settle(shop.consumer, yes=True)
    assert (done.done, done.segment) == (True, 2)
    segments = await list_segments(shop.world.blobs, "p")
    assert {partition: each.start for partition, each in segments[1].breaks.items()} == {"0": 90, "1": 0}
    assert segments[1].segment_id != segments[0].segment_id


async def test_a_lost_record_of_leases_is_restored_before_the_new_segment(make: Make) -> None:
    """Without it the next host compares checkpoints of the old segment with the hub, and refuses the leases."""
    shop = make()
    chain = await claimed(shop, leases_too=False)  # the record was deleted
    await shop.drain("0", 49, 89, 99)
    shop.hub.partitions["0"].forget_last(10)
    assert (await hub_tool.settle(shop.consumer, yes=True)).done
    assert await records(shop) == (shop.consumer.config.resource.path, chain)
