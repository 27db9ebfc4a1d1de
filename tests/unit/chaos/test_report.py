"""The report of a campaign tells seed, actions and findings, and whether the campaign is clean."""

from dataclasses import replace

from tests.chaos.campaign import Outcome, Result
from tests.chaos.load import Span
from tests.chaos.logs import HOST, Entry
from tests.chaos.report import Report, active
from tests.chaos.schedule import Action, Fault
from tests.chaos.verifier import Verdict


def outcome(
    name: str, began: float, ended: float | None, result: Result = Result.DONE, part: str = "hosts of {consumer}"
) -> Outcome:
    """An action on consumer a that is over."""
    seconds = (ended or began) - began
    action = Action(1, began, Fault(name, part, lambda stage, action: None), "a", seconds, 0)
    return Outcome(action, result, "the cause", began, ended)


OUTCOMES = [
    outcome("host-killed", 10, 10),
    outcome("hub-busy", 30, 45, part="hub"),
    outcome("scaled", 40, 40, Result.FAILED),
    outcome("driver-killed", 41, 41, Result.SKIPPED),
]
CLEAN = Report(
    seed=7,
    command="python -m tests.chaos --seed 7",
    outcomes=OUTCOMES,
    sent=12_345,
    uncertain=0,
    verdicts=[Verdict("files", 12_345, 0, 0, 0)],
    slowest_file=(12.0, "a/from=1.parquet"),
    unread=[Span("a", "3", 33.0, 4.0), Span("a", "4", 33.2, 3.0), Span("b", "0", 70.0, 2.0)],
    settled={"a": 9.0},
    states={("a", "Ready", "True Available"): 55.0},
    warnings={(HOST, "failed to list leases; retrying"): 3},
)


def test_a_clean_campaign() -> None:
    text = str(CLEAN)
    assert CLEAN.is_clean and text.endswith("\nclean")
    for part in (
        "seed 7: 12,345 events sent",
        "2 done, 1 skipped, 1 failed",
        "40 s  scaled (a) failed: the cause",
        "10 s  host-killed (a)\n",
        "30 s  hub-busy (a) until 45 s",
        "skipped: the cause",
        "longest time from arrival to file: 12 s (a/from=1",
        "a: settled 9 s",
        "of a partition: 4.0 s\n     4.0 s  a/3 from 33 s on (hub-busy)\n",
        "     2.0 s  b/0 from 70 s on (no fault active)\n",
        "True Available",
        "3  host: failed to list leases",
        "files: 12345 rows, 0 missing",
    ):
        assert part in text


def test_each_finding_makes_it_fail_and_names_the_command() -> None:
    entry = Entry(HOST, "a-host-0", "2026-11-26T10:00:00Z", "error", "strange", "strange")
    missing = Verdict("files", 1, missing=1, twice=0, unknown=0, examples="missing: 5")
    for found, told in (
        (replace(CLEAN, verdicts=[missing]), "1 missing, 0 twice, 0 never sent (missing: 5)"),
        (replace(CLEAN, problems=["a has not settled"]), "PROBLEM: a has not settled"),
        (replace(CLEAN, unexplained=[entry]), "10:00:00 a-host-0: strange"),
    ):
        assert not found.is_clean
        assert told in str(found)
        assert str(found).endswith("The same campaign again: python -m tests.chaos --seed 7")


def test_the_faults_during_a_time_are_named() -> None:
    assert active(OUTCOMES, Span("a", "0", 12.0, 5.0)) == ["host-killed"]
    assert active(OUTCOMES, Span("a", "0", 50.0, 5.0)) == ["hub-busy", "scaled"]
    assert active(OUTCOMES, Span("b", "0", 50.0, 5.0)) == ["hub-busy"]
    assert active(OUTCOMES, Span("b", "0", 12.0, 5.0)) == []
    assert active(OUTCOMES, Span("a", "0", 60.0, 5.0)) == []
    assert active([outcome("stuck", 0, None)], Span("a", "0", 60.0, 5.0)) == ["stuck"]


def test_times_of_a_consumer_that_was_stopped_on_purpose_are_apart() -> None:
    text = str(replace(CLEAN, outcomes=[outcome("suspended", 32, 36)]))
    assert "of a partition: 2.0 s\n     2.0 s  b/0" in text
    assert "stopped on purpose: 4.0 s\n     4.0 s  a/3 from 33 s on (suspended)\n" in text
