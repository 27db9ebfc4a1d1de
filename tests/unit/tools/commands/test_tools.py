"""The tools' decisions: who may move a checkpoint and where to, who owns a lease, what a check says."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.identity import HubName as HubId
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_host.configuration import parse_config
from eventconsumer_host.errors import CommandError
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_host.problems import SINK
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.errors import Unauthorized
from eventconsumer_tools import cli
from eventconsumer_tools.commands.check import Checks, check_writable, judge_account, judge_clock
from eventconsumer_tools.commands.checkpoint import parse
from eventconsumer_tools.commands.deadletters import Selection
from eventconsumer_tools.commands.files import Newest, read
from eventconsumer_tools.commands.lag import totals_of
from eventconsumer_tools.commands.leases import natural
from eventconsumer_tools.commands.migrate import needs_offset, places, step_of
from eventconsumer_tools.commands.model import (
    Action,
    FileRow,
    LagRow,
    PlanReport,
    PlanSource,
    ReportedHub,
)
from eventconsumer_tools.commands.policy import Rules, judge
from eventconsumer_tools.inspect.consumer import OpenConsumer
from eventconsumer_tools.inspect.leases import CheckpointPosition, LeaseState, LeaseView
from eventconsumer_tools.inspect.partitions import PartitionState
from eventconsumer_tools.inspect.storage import AccountFacts
from eventconsumer_tools.output import run
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.unit.host.stage import CONFIG

pytestmark = pytest.mark.usefixtures("logs_as_before")

NOW = datetime(2026, 1, 1, tzinfo=UTC)


LEGACY, SDK = LeaseLayout.EVENT_PROCESSOR_HOST, LeaseLayout.AZURE_SDK


def at(number: int) -> CheckpointPosition:
    """A position."""
    return CheckpointPosition(sequence_number=number, offset=f"o{number}")


FREE = PartitionState("0", LeaseState.FREE, checkpoint=at(99), start=0, end=99, earliest=0, head=199)
numbers = st.none() | st.integers(-1, 60)


@given(
    state=st.sampled_from(LeaseState),
    checkpoint=numbers,
    chain=st.none() | st.tuples(st.integers(0, 30), st.integers(0, 30)),
    head=st.integers(-1, 60),
    wanted=st.integers(-1, 70),
    rules=st.builds(Rules, st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_no_event_is_skipped_or_handled_again_unless_that_is_said(
    state: LeaseState,
    checkpoint: int | None,
    chain: tuple[int, int] | None,
    head: int,
    wanted: int,
    rules: Rules,
) -> None:
    start, end = (chain[0], chain[0] + chain[1] - 1) if chain else (None, None)
    here = PartitionState("0", state, "host", None if checkpoint is None else at(checkpoint), "", start, end, 0, head)
    step = judge(here, at(wanted), rules)
    assert step.why
    if step.action is Action.REFUSE:
        assert step.remedy
        return
    assert state in {LeaseState.FREE, LeaseState.EXPIRED}
    assert wanted <= head
    reached = end
    if rules.replaced:
        reached = checkpoint if checkpoint is not None else None if start is None else start - 1
    if reached is not None and wanted > reached:
        assert rules.allow_skip
        assert rules.shared or rules.replaced
    if reached is not None and wanted < reached:
        assert rules.allow_behind
    assert (step.action is Action.KEEP) == (here.checkpoint == at(wanted))


def test_refusals_name_the_cause_and_the_remedy() -> None:
    owned = judge(replace(FREE, state=LeaseState.HELD, owner="orders-host-1.u"), at(99), Rules())
    assert (owned.action, "orders-host-1.u" in owned.why, "spec.suspend" in owned.remedy) == (Action.REFUSE, True, True)
    damaged = judge(replace(FREE, state=LeaseState.UNKNOWN, damage="it is no JSON object"), at(99), Rules())
    assert "it is no JSON object" in damaged.why
    skipping = judge(FREE, at(120), Rules())
    assert "events 100 to 120 would be in no file" in skipping.why
    assert "--allow-skip" not in skipping.remedy  # it would not help: hosts refuse
    assert "--allow-skip" in judge(FREE, at(120), Rules(shared=True)).remedy
    assert "hub's last event of this partition is 199" in judge(FREE, at(200), Rules(allow_skip=True, shared=True)).why


def test_events_that_left_the_hub_are_reported_before_a_chain_begins() -> None:
    fresh = PartitionState("0", LeaseState.FREE, earliest=50, head=199)
    assert "40 events before 50 expired in the hub" in judge(fresh, at(9), Rules()).why
    assert judge(fresh, at(49), Rules()).why == "hosts begin with event 50"
    assert judge(fresh, at(-1), Rules()).action is Action.SET


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["10", "2", "a", "0"], key=natural) == ["a", "0", "2", "10"]


def row(number: int, *, minute: int, partition: str = "0", **changes: int) -> FileRow:
    """A file of ten events."""
    facts = {"events": 10, "dropped": 2, "bytes": 100, "epoch": 1} | changes
    when = NOW + timedelta(minutes=minute)
    return FileRow(
        partition=partition,
        name=f"{partition}-{number}",
        first_sequence_number=number,
        last_sequence_number=number + 9,
        modified=when,
        **facts,
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("01")), max_size=30), st.integers(0, 10))
def test_the_newest_files_are_kept_and_all_are_counted(made: list[tuple[int, str]], limit: int) -> None:
    newest = Newest(limit)
    rows = [row(10 * index, minute=minute, partition=where) for index, (minute, where) in enumerate(made)]
    for one in rows:
        newest.add(one)
    found = newest.rows()
    ordered = sorted(rows, key=lambda one: (one.modified, one.partition, one.last_sequence_number))
    assert found == (ordered[-limit:] if limit else ordered)
    assert (newest.totals.files, newest.totals.events) == (len(rows), 10 * len(rows))
    assert newest.totals.dropped == 2 * len(rows)


async def test_files_that_record_lost_events_are_found() -> None:
    era, config = "0123456789abcdef", parse_config(json.dumps(CONFIG), "stdin")
    recorded = {0: "", 10: "compaction:10-11/2", 20: "foreign:20-21;retention:22-24,26-26", 30: "retention:30-39/4"}

    async def walk(prefix: str) -> AsyncIterator[BlobInfo]:
        for start, gap in recorded.items():
            facts = {
                "first": str(start + 9),
                "last": str(start + 9),
                "count": "1",
                "epoch": "1",
                "nonce": "n",
                "last_offset": "1",
                "last_enqueued_time": NOW.isoformat(),
                "gap": gap,
            }
            name = f"{config.sink.prefix}/segment={era}/partition=0/from={start:020d}.parquet"
            if name.startswith(prefix):
                yield BlobInfo(name, '"1"', 100, NOW, facts)

    segment = SegmentRecord(
        number=1, segment_id=era, hub=HubId(namespace="shop", name="orders", created_at=NOW), since=NOW
    )
    store = FakeBlobStore(lambda: 0.0)

    async def now() -> datetime:
        return NOW

    consumer = OpenConsumer(config, "shop.servicebus.windows.net", "orders", (segment,), store, store, walk, now)
    every = await read(consumer)
    assert [(row.lost, row.gap) for row in every.files] == list(zip([0, 0, 4, 4], recorded.values(), strict=True))
    lost = await read(consumer, gaps=True)
    assert [row.gap for row in lost.files] == [recorded[20], recorded[30]]
    assert (lost.totals.files, lost.totals.lost, every.totals.lost) == (2, 8, 8)


def test_totals_of_the_lag_are_unknown_where_a_partition_is() -> None:
    known = LagRow(partition="0", events=5, seconds=2.5)
    assert totals_of([known, known]).events == 10
    assert totals_of([known, LagRow(partition="1", events=0, seconds=0.0)]).seconds == 2.5
    unknown = totals_of([known, LagRow(partition="1")])
    assert (unknown.events, unknown.seconds, unknown.partitions_unknown) == (None, None, 1)
    assert totals_of([]).events == 0


def lease(number: int | None, offset: str, damage: str = "") -> LeaseView:
    """A lease with this checkpoint."""
    checkpoint = None if number is None else Checkpoint(offset, number)
    return LeaseView(Lease("0", checkpoint=checkpoint), "old/0", offset=offset, damage=damage)


@pytest.mark.parametrize(
    ("old", "layout", "needed"),
    [
        (lease(7, "70"), LEGACY, False),
        (lease(0, "70"), LEGACY, True),
        (lease(0, "0"), SDK, False),
        (lease(None, "70"), SDK, True),
        (lease(None, ""), LEGACY, False),
        (lease(None, "-1"), LEGACY, False),
        (lease(None, "70", damage="x"), LEGACY, False),
    ],
)
def test_old_leases_without_a_sequence_number_are_found_by_offset(
    old: LeaseView, layout: LeaseLayout, needed: bool
) -> None:
    assert needs_offset(old, layout) is needed


def test_a_migration_says_which_prefix_each_program_needs() -> None:
    def report(layout: LeaseLayout, prefix: str) -> PlanReport:
        source = PlanSource(layout=layout, container="old", prefix=prefix, consumer_group="g")
        return PlanReport(
            command="migrate",
            dry_run=True,
            refused=False,
            done=False,
            layout=LEGACY,
            steps=[],
            source=source,
            hub=ReportedHub(namespace="n", name="h"),
            consumer_group="g",
            lease_prefix="n/h/",
        )

    assert places(report(LEGACY, " x/ ")) == (
        "to use the old leases where they are, set spec.checkpointStore.container: old, "
        'prefix: "x/"; to go back, set storageBlobPrefix "n/h/" in the old program'
    )
    assert 'prefix: ""' in places(report(LEGACY, ""))
    assert places(report(SDK, "")) == ""


def test_a_migration_refuses_what_would_leave_a_gap() -> None:
    fresh = PartitionState("0", LeaseState.FREE, head=199)
    old = lease(99, "o99")
    taken = step_of(fresh, old, at(99), None, Rules())
    assert (taken.action, taken.to) == (Action.SET, at(99))
    held = step_of(fresh, old, at(99), "old-host", Rules())
    assert (held.action, "old-host still holds the partition" in held.why) == (Action.REFUSE, True)
    assert step_of(fresh, None, None, None, Rules()).action is Action.KEEP
    damaged = step_of(fresh, replace(old, damage="it is no JSON object"), None, None, Rules())
    assert (damaged.action, "old/0" in damaged.why) == (Action.REFUSE, True)
    behind = step_of(replace(fresh, start=0, end=149), old, at(99), None, Rules())
    assert (behind.action, "149" in behind.why) == (Action.REFUSE, True)
    beyond = step_of(replace(fresh, start=0, end=49), old, at(99), None, Rules())
    assert (beyond.action, "events 50 to 99 would be in no file" in beyond.why) == (Action.REFUSE, True)


def test_a_wrong_clock_is_reported_with_its_direction() -> None:
    checks = Checks()
    for seconds in (0, -59, 90, -90):
        judge_clock(NOW + timedelta(seconds=seconds), NOW, checks)
    report = checks.report()
    assert [check.ok for check in report.checks] == [True, True, False, False]
    assert "90 s ahead of" in report.checks[2].detail
    assert "90 s behind" in report.checks[3].detail
    assert not report.ok


def test_what_was_not_tried_is_no_failure() -> None:
    checks = Checks()
    checks.passed("a", "fine")
    checks.skipped("b", "a is enough")
    assert checks.report().ok
    assert [check.ok for check in checks.report().checks] == [True, None]


EXPORT = {
    "version": 1,
    "kind": "Checkpoints",
    "layout": "AzureSdk",
    "hub": {"namespace": "shop.example", "name": "orders"},
    "consumerGroup": "$Default",
    "exportedAt": "2026-01-01T00:00:00Z",
    "checkpoints": [{"partition": "0", "sequenceNumber": 9, "offset": "90"}, {"partition": "1"}],
}


def test_an_export_is_read() -> None:
    found = parse(json.dumps(EXPORT), "f")
    assert [(one.partition, one.sequence_number) for one in found.checkpoints] == [("0", 9), ("1", None)]


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"kind": "CheckpointPlan"},
        {"checkpoints": [{"partition": "0", "sequenceNumber": -2}]},
        {"checkpoints": [{"partition": "0"}, {"partition": "0"}]},
        {"hub": None},
    ],
)
def test_what_is_no_export_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(CommandError, match="backup"):
        parse(json.dumps(EXPORT | change), "backup")


def test_a_configuration_from_stdin_is_refused_by_its_fields() -> None:
    assert parse_config(json.dumps(CONFIG), "stdin").sink.container == "drained"
    with pytest.raises(CommandError, match=r"stdin.*eventHub"):
        parse_config(json.dumps({**CONFIG, "eventHub": {}}), "stdin")


def test_an_error_is_one_line_and_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    async def fail() -> int:
        raise EventConsumerError("the thing:\nwhat to do")

    with pytest.raises(typer.Exit) as ended:
        run(fail())
    printed = capsys.readouterr()
    assert (ended.value.exit_code, printed.out) == (3, "")
    assert printed.err == "eventconsumer: the thing: what to do\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["leases"],
        ["files", "--since", "yesterday"],
        ["lag"],
        ["checkpoint", "show"],
        ["checkpoint", "export"],
        ["checkpoint", "set", "--partition", "0"],
        ["checkpoint", "set", "--partition", "0", "--sequence-number", "1", "--offset", "1"],
        ["checkpoint", "import", "--file", "/nowhere/at/all"],
        ["deadletters", "drop", "--all", "--partition", "0"],
        ["deadletters", "redrive"],
        ["migrate", "--from", "kafka", "--container", "c"],
        ["migrate", "--from", "azure-sdk", "--container", "c"],
        ["check"],
        ["leases", "-o", "xml"],
    ],
)
def test_a_mistake_in_the_call_ends_with_3_and_says_what(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTCONSUMER_CONFIG", "/nowhere/config.json")
    assert cli.main(arguments) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.strip()


@pytest.mark.parametrize(
    ("facts", "versioned", "ok", "detail"),
    [
        (AccountFacts(False, False), False, True, "no hierarchical namespace, no blob soft delete, no versioning"),
        (
            AccountFacts(True, None),
            True,
            True,
            "hierarchical namespace, versioning; unknown: blob soft delete",
        ),
        (
            AccountFacts(None, None),
            False,
            True,
            "no versioning; unknown: hierarchical namespace,",
        ),
        (AccountFacts(None, None), None, None, "may not ask for hierarchical namespace, blob soft delete, versioning"),
    ],
)
def test_settings_that_do_not_suit_leases_are_reported(
    facts: AccountFacts, versioned: bool | None, ok: bool | None, detail: str
) -> None:
    checks = Checks()
    judge_account(facts, versioned, checks)
    (found,) = checks.report().checks
    assert (found.check, found.ok, detail in found.detail) == ("checkpoint-account", ok, True)
    assert bool(found.remedy) == bool(facts.hierarchical)


@pytest.mark.parametrize("operation", ["put", "remove"])
async def test_a_container_without_write_access_is_reported_with_the_role(operation: str) -> None:
    store = FakeBlobStore(lambda: 0.0)
    config = parse_config(json.dumps(CONFIG), "stdin")
    checks = Checks()
    await check_writable(store, SINK, config.sink, "sink-writable", checks)
    assert store.blobs == {}
    store.faults.append(Fault(operation, error=lambda: Unauthorized("put: AuthorizationPermissionMismatch", 403)))
    await check_writable(store, SINK, config.sink, "sink-writable", checks)
    good, bad = checks.report().checks
    assert (good.ok, bad.ok) == (True, False)
    assert bad.detail == "storage rejects the credential"
    assert "Storage Blob Data Contributor" in bad.remedy and "container drained" in bad.remedy


def test_an_audit_can_be_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", "-o", "yaml", "--config", "/nowhere/config.json"]) == 3
    assert yaml.safe_load(capsys.readouterr().out)["verdict"] == "Unreadable"


def test_dead_letters_are_selected_by_partition_and_number() -> None:
    places = [("0", 5), ("0", 6), ("1", 5)]

    def selected(by: Selection) -> list[tuple[str, int]]:
        return [place for place in places if by.has(place)]

    assert selected(Selection()) == places
    assert selected(Selection(["0"])) == [("0", 5), ("0", 6)]
    assert selected(Selection(["0"], [5, 7])) == [("0", 5)]
