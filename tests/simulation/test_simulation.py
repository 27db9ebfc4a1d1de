"""The seeded driver, bounded; the same seed is the same run; and the checker finds what it must."""

import hashlib
import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from tests.simulation.checker import Checker
from tests.simulation.driver import episode, run
from tests.simulation.history import History
from tests.simulation.mutants import ALONE, REBUILT, ZOMBIES
from tests.simulation.rules import RULES, Step
from tests.simulation.world import KINDS
from tests.support.fakes.blobs import Version

RUNS = 60  # `make test-long` plays thousands


def test_random_runs_violate_nothing() -> None:
    checks: Counter[str] = Counter()
    steps, kinds = 0, set()
    for number in range(RUNS):
        outcome = run(f"suite/{number}", episode(f"suite/{number}"))
        assert not outcome.violation, (
            f"{outcome.violation}\npython -m tests.simulation --replay suite/{number}\n"
            + "\n".join(outcome.trace[-150:])
        )
        checks += outcome.checks
        steps += outcome.steps
        kinds.add(outcome.kind)
    print(f"{steps} steps, {checks.total()} checks: {dict(sorted(checks.items()))}")
    every = {
        "S1",
        "S2",
        "S3",
        "S4",
        "S5",
        "S6",
        "S7",
        "S8",
        "H1",
        "F1",
        "F2",
        "T1",
        "T2",
        "T3",
        "W1",
        "W2",
        "R1",
        "R2",
        "R3",
        "I1",
        "I2",
        "I3",
        "I4",
        "L1",
        "L2",
        "L3",
    }
    assert every <= set(checks)
    assert kinds == set(KINDS)


def test_a_stolen_link_is_not_opened_again_before_the_epoch_is_raised() -> None:
    """Storage refuses the first write that would raise it."""
    script: list[Step] = [("start", (1, 0)), ("wait", (3,)), ("rival", (5, 3)), ("upset", (0, 2)), ("wait", (6,))]
    outcome = run("cols/11", script, "alone")
    assert any("failed to raise the epoch" in line for line in outcome.trace)
    assert not outcome.violation


def test_a_partition_is_given_up_although_its_epoch_is_being_raised() -> None:
    """The plan takes it away between two pumps."""
    emphasis = ZOMBIES | ALONE | REBUILT | {"produce": 2}
    outcome = run("mutants/1027", episode("mutants/1027", 100, emphasis), "alone")
    assert not outcome.violation


def test_the_next_resource_knows_the_leases_whose_record_was_deleted_before_the_hub_lost_events() -> None:
    """A checkpoint beyond the end of the hub is then no sign of another program. No seed here has retention."""
    script: list[Step] = [
        ("start", (0, 0)),
        ("start", (4, 0)),
        ("start", (1, 0)),
        ("produce", (6, 5)),
        ("wait", (6,)),
        ("commit batch", (1, 0)),
        ("start", (5, 0)),
        ("mend", (0,)),
        ("operator", (0, 0)),
        ("rivals leave", (0,)),
        ("produce", (11, 0)),
        ("produce", (1, 6)),
        ("wait", (2,)),
        ("crash", (5, 1)),
        ("operator", (0, 1)),
        ("wait", (3,)),
        ("wait", (7,)),
        ("hold a file", ()),
        ("delete leases", ()),
        ("drop link", (2,)),
        ("fail over", (7, 2)),
        ("wait", (7,)),
    ]
    for seed in ("1/8", "1/29", "1/30", "1/38", "1/57"):
        outcome = run(seed, script)
        assert any("took over the chain" in line for line in outcome.trace), seed
        assert not outcome.violation, seed


def test_the_same_seed_is_the_same_run_in_any_process() -> None:
    def replay(hash_seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--replay", "same/6"],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    here, other = (run(seed, episode(seed)).trace for seed in ("same/6", "same/1"))
    assert here != other and len(here) > 100
    assert any("'dropped'" in line for line in here)  # with a handler
    assert here == replay("1").splitlines()[: len(here)] == replay("2").splitlines()[: len(here)]


def test_a_run_does_not_depend_on_the_logs_of_its_process() -> None:
    before = structlog.get_config()
    plain = run("same/6", episode("same/6")).trace
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        assert run("same/6", episode("same/6")).trace == plain
    finally:
        structlog.configure(**before)


def test_every_rule_is_played() -> None:
    assert {name for number in range(120) for name, _ in episode(f"all/{number}")} == set(RULES)


NAME = "p/segment=aa/partition=0/from={:020d}.parquet"


def judging(history: History) -> Checker:
    """A checker of a chain whose segments are called aa and bb."""
    checker = Checker(history)
    for segment_id in ("aa", "bb"):
        checker.notices.segment(segment_id)
    return checker


def file(start: int, rows: list[int], after: int | None = None, **changes: str) -> Version:
    """A slot as a host would write it; of the events that came when those above `after` had vanished."""
    life, more = (0, 0) if after is None else (1, 9 - after)
    data = json.dumps([[number, f"orders/{life}/0/{number + more}"] for number in rows]).encode()
    facts = {"first": str(rows[0]), "last": str(rows[-1]), "count": str(len(rows)), "epoch": "1", "last_offset": "0"}
    return Version(
        NAME.format(start), data, facts | {"sha256": hashlib.sha256(data).hexdigest()} | changes, f'"{start}"'
    )


def genesis(start: int = 0) -> Version:
    """The record of a chain's start."""
    return Version("p/_genesis/aa/0.json", json.dumps({"start": start}).encode(), {}, '"0"')


def hub() -> History:
    """A partition with ten events, of which retention has removed the event 3."""
    history = History("orders")
    for number in range(10):
        history.produce("0", number)
    history.numbered("0", 3)[0].expired = True
    return history


def failed_over(last: int) -> History:
    """The same, whose events above `last` vanished, and whose numbers were used again."""
    history = hub()
    history.truncate("0", last)
    for number in range(last + 1, 10):
        history.produce("0", number)
    return history


GOOD = file(0, [0, 1, 2])
BAD = {
    "S1": [GOOD, file(0, [0, 1])],
    "S2": [GOOD, file(4, [4])],
    "S3": [GOOD, file(3, [3, 4], count="3")],
    "S3 hash": [GOOD, file(3, [3, 4], sha256="0")],
    "S3 order": [GOOD, file(3, [4, 3])],
    "S4": [GOOD, file(3, [4, 5])],
    "S4 retained": [GOOD, file(3, [5, 6], gap="retention:3-4")],
    "S4 twice": [GOOD, replace(GOOD, name=NAME.format(0).replace("aa", "bb"))],
    "I4": [replace(GOOD, name="p/_ends.json")],
    "S6": [file(0, [0], epoch="2"), file(1, [1])],
    "F2": [replace(GOOD, data=(GOOD.data or b"").replace(b"orders", b"others"))],
}


@pytest.mark.parametrize("name", BAD)
def test_the_checker_finds_a_bad_chain(name: str) -> None:
    checker = judging(hub())
    for each in (genesis(), replace(genesis(), name="p/_genesis/bb/0.json")):
        checker.sink_changed(each, "host")
    for version in BAD[name][:-1]:
        checker.sink_changed(version, "host")
    assert not checker.violations
    checker.sink_changed(BAD[name][-1], "host")
    assert any(found.startswith(name.split(maxsplit=1)[0]) for found in checker.violations)


def handled(rows: list[int], changes: dict[str, str]) -> tuple[Checker, Version]:
    """The first file of a host whose handler kept 0 and 4 and left out 1 and 2, and somebody's left out 3 and 4."""
    history = hub()
    history.numbered("0", 3)[0].expired = False
    bodies = {number: history.keep("0", f"orders/0/0/{number}", "host") for number in (0, 4)}
    for number, host in ((1, "host"), (2, "host"), (3, "other"), (4, "other")):
        history.leave_out("0", f"orders/0/0/{number}", host)
    last = int(changes.get("last", 4))
    checker = judging(history)
    checker.transforms = True
    checker.sink_changed(genesis(), "host")
    data = json.dumps([[number, bodies.get(number, f"orders/0/0/{number}")] for number in rows]).encode()
    facts = {"first": "0", "last": str(last), "count": str(len(rows)), "last_offset": str(last * 10), "epoch": "1"}
    facts |= {"dropped": str(last + 1 - len(rows)), "sha256": hashlib.sha256(data).hexdigest()}
    return checker, Version(NAME.format(0), data, facts | changes, '"0"')


@pytest.mark.parametrize(
    ("rows", "changes", "violated"),
    [
        ([0], {"last": "2", "last_offset": "20"}, None),
        ([0, 3, 4], {}, "H1: .*no handler of this host returned orders/0/0/3"),
        ([0, 4], {}, "H1: .*3 dropped of .1, 2, 3., the handler left out .1, 2."),
        ([0], {"last": "2", "last_offset": "21"}, "S3"),
        ([0, 4], {"last": "3", "last_offset": "30", "dropped": "2"}, "S3"),
        ([], {"last": "2", "last_offset": "20", "dropped": "3"}, "H1: .*3 dropped of .0, 1, 2., the handler left out"),
        ([0], {"last": "2", "last_offset": "20", "dropped": "1", "gap": "compaction:1-2/1"}, None),
    ],
)
def test_the_checker_finds_rows_that_no_handler_returned_and_events_that_it_did_not_drop(
    rows: list[int], changes: dict[str, str], violated: str | None
) -> None:
    checker, version = handled(rows, changes)
    if "gap" in changes:
        checker._history.compact("0", 1)
    checker.sink_changed(version, "host")
    if violated is None:
        assert not checker.violations
    else:
        assert any(re.match(violated, found) for found in checker.violations), checker.violations


@pytest.mark.parametrize(
    ("accepted", "begun", "violated"),
    [
        (3, 3, None),
        (4, 4, "S4: segment 2, partition 0: .*orders/1/0/10.*starts at 4"),
        (3, 4, "S9: .*its segment at 3"),
    ],
)
def test_the_record_of_a_segment_decides_the_start_and_leaves_no_event_out(
    accepted: int, begun: int, violated: str | None
) -> None:
    """A later failover brings other events under numbers below the start: the next segment has them."""
    history = failed_over(2)
    checker = Checker(history)

    def write(name: str, record: dict[str, object]) -> None:
        checker.sink_changed(Version(f"p/{name}", json.dumps(record).encode(), {}, '"0"'), "host")

    write("_segments/0000000001.json", {"number": 1, "segmentId": "aa", "breaks": {}})
    checker.sink_changed(genesis(), "host")
    checker.sink_changed(GOOD, "host")
    seal = Version(NAME.format(3), b"", {"sealed": "2026-01-01T00:00:00Z"}, '"3"')
    checker.sink_changed(seal, "")
    parted = {"start": accepted, "filesEnd": {"sequenceNumber": 2}}
    write("_segments/0000000002.json", {"number": 2, "segmentId": "bb", "breaks": {"0": parted}})
    history.truncate("0", 1)
    history.produce("0", 2)
    write("_genesis/bb/0.json", {"start": begun})
    if violated is None:
        assert not checker.violations
    else:
        assert any(re.match(violated, found) for found in checker.violations), checker.violations


def tombstone(version: Version) -> Version:
    """What retention puts in place of a file."""
    facts = {"tombstone": "2026-01-01T00:00:00Z", "size": str(len(version.data or b""))}
    return Version(version.name, b"", {**version.metadata, **facts}, '"9"')


def test_the_checker_accepts_a_good_chain_and_tombstones() -> None:
    checker = judging(hub())
    checker.sink_changed(genesis(), "host")
    for version in (GOOD, file(3, [4, 5, 6, 7, 8, 9], gap="retention:3-3", epoch="2")):
        checker.sink_changed(version, "host")
    checker.sink_changed(tombstone(GOOD), "")  # by a command, not by a host
    checker.account()
    assert not checker.violations
    assert (checker.chains["aa", "0"].rows, checker.chains["aa", "0"].gaps) == (9, 1)


def cursor(after: int, files: int) -> Version:
    """The cursor of retention."""
    kept = {"next": after, "done": 0}
    record = {"chain": "", "segmentId": "aa", "partitions": {"0": kept}, "removed": {"files": files}}
    return Version("p/_retention.json", json.dumps(record).encode(), {}, '"8"')


NEXT = file(3, [4, 5, 6, 7, 8, 9], gap="retention:3-3", epoch="2")
REMOVALS: dict[str, list[Version]] = {
    "R2: .*the cursor is -1": [tombstone(GOOD)],
    "R2: .*the cursor is 0": [cursor(0, 1), tombstone(GOOD)],
    "R2: .*1 files were removed, and 0 are counted": [cursor(3, 0), tombstone(GOOD)],
    "R2: .*moves from 3": [cursor(3, 1), cursor(2, 1)],
    "R2: .*counts less than 1": [cursor(3, 1), cursor(3, 0)],
    "R1: .*batch 0 of 0": [cursor(3, 1), tombstone(GOOD)],
    "R3: .*the last file of its chain": [cursor(10, 1), tombstone(NEXT)],
}


@pytest.mark.parametrize("violated", REMOVALS)
def test_the_checker_finds_a_file_that_a_host_must_not_remove(violated: str) -> None:
    checker = judging(hub())
    for version in (genesis(), GOOD, NEXT):
        checker.sink_changed(version, "host")
    assert not checker.violations
    for version in REMOVALS[violated]:
        checker.sink_changed(version, "host")
    assert any(re.match(violated, found) for found in checker.violations), checker.violations


def test_the_checker_finds_a_start_that_leaves_events_out() -> None:
    """As where the checkpoints of another hub are taken for one's own."""
    checker = judging(hub())
    checker.sink_changed(genesis(2), "host")
    assert [found[:2] for found in checker.violations] == ["S4"]


def test_the_checker_finds_events_that_are_in_no_file() -> None:
    checker = judging(hub())
    checker.sink_changed(genesis(), "host")
    checker.sink_changed(GOOD, "host")
    checker.account()
    assert len(checker.violations) == 6  # 4 to 9: nobody expects the event 3, which retention removed


def test_the_checker_finds_that_a_chain_is_read_across_a_failover() -> None:
    """Its numbers are all there, and each once."""
    checker = judging(failed_over(1))
    for version in (genesis(), GOOD, file(3, [4, 5], after=1, gap="retention:3-3")):
        checker.sink_changed(version, "host")
    assert any(found.startswith("F2") and "vanished" in found for found in checker.violations)


def test_the_checker_accepts_what_a_failover_did_not_touch() -> None:
    checker = judging(failed_over(5))
    for version in (genesis(), GOOD, file(3, [4, 5], gap="retention:3-3"), file(6, [6, 7, 8, 9], after=5)):
        checker.sink_changed(version, "host")
    checker.account()
    assert not checker.violations
