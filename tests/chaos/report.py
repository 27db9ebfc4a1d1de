"""The report of a campaign, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.campaign import Outcome, Result
from tests.chaos.load import Span
from tests.chaos.logs import Entry
from tests.chaos.verifier import Verdict

SHOWN = 10
STOPPED = frozenset({"scaled-to-zero", "suspended", "resource-deleted"})  # faults during which no host should read
LINE_CHARACTERS = 400


@dataclass(frozen=True)
class Report:
    """What a campaign found.

    Attributes:
        seed: Of the schedule.
        command: Runs the same campaign again.
        outcomes: All actions.
        sent: Number of events that the hub has acknowledged.
        uncertain: Number of events without a response.
        verdicts: Comparisons of ids; empty: nothing was compared.
        problems: Everything else that makes the campaign fail, such as "not settled after 600 s: …".
        slowest_file: Longest time from the arrival of an event to the creation of its file, seconds, and the file.
        unread: Times during which a partition had no reader.
        settled: Consumer -> seconds from the end of the faults until all its events are processed.
        states: (consumer, condition, state) -> seconds.
        unexplained: Errors in logs that no documented failure mode explains.
        explained: Number of other errors in logs.
        warnings: (program, message) -> times.
        audits: Consumer -> last line of the audit.
    """

    seed: int
    command: str
    outcomes: Sequence[Outcome]
    sent: int
    uncertain: int
    verdicts: Sequence[Verdict] = ()
    problems: Sequence[str] = ()
    slowest_file: tuple[float, str] = (0.0, "")
    unread: Sequence[Span] = ()
    settled: Mapping[str, float] = field(default_factory=dict)
    states: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    unexplained: Sequence[Entry] = ()
    explained: int = 0
    warnings: Mapping[tuple[str, str], int] = field(default_factory=dict)
    audits: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether the campaign succeeded."""
        return not self.problems and not self.unexplained and all(verdict.is_clean for verdict in self.verdicts)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        done = Counter(outcome.result for outcome in self.outcomes)
        yield ""
        yield f"seed {self.seed}: {self.sent:,} events sent, {self.uncertain:,} without a response"
        yield f"actions: {done[Result.DONE]} done, {done[Result.SKIPPED]} skipped, {done[Result.FAILED]} failed"
        yield from map(_action, self.outcomes)
        if self.slowest_file[1]:
            yield f"longest time from arrival to file: {self.slowest_file[0]:.0f} s ({self.slowest_file[1]})"
        yield from self._unread()
        for consumer, seconds in self.settled.items():
            yield f"{consumer}: settled {seconds:.0f} s after the faults ended"
        yield "seconds of each condition in each state:"
        for (consumer, kind, state), seconds in sorted(self.states.items()):
            yield f"  {consumer}  {kind:<15} {state:<40} {seconds:7.0f}"
        yield f"errors in logs: {self.explained} explained, {len(self.unexplained)} not explained"
        for entry in self.unexplained[: 3 * SHOWN]:
            yield f"  {entry.time[11:19]} {entry.pod}: {entry.text[:LINE_CHARACTERS]}"
        yield f"warnings in logs: {sum(self.warnings.values())}"
        for (program, message), times in Counter(self.warnings).most_common(SHOWN):
            yield f"  {times:>5}  {program}: {message[:LINE_CHARACTERS]}"
        for consumer, verdict in self.audits.items():
            yield f"audit of {consumer}: {verdict}"
        yield from map(str, self.verdicts)
        yield from (f"PROBLEM: {problem}" for problem in self.problems)
        yield "clean" if self.is_clean else f"NOT CLEAN. The same campaign again: {self.command}"

    def _unread(self) -> Iterable[str]:
        stopped, wanted = list[Span](), list[Span]()
        for span in self.unread:
            (stopped if STOPPED.intersection(active(self.outcomes, span)) else wanted).append(span)
        for title, spans in (("", wanted), (" while its consumer was stopped on purpose", stopped)):
            seconds = max((span.seconds for span in spans), default=0.0)
            yield f"longest time without a reader of a partition{title}: {seconds:.1f} s"
            for span in longest(spans):
                causes = ", ".join(active(self.outcomes, span)) or "no fault active"
                place = f"{span.consumer}/{span.partition}"
                yield f"  {span.seconds:6.1f} s  {place} from {span.began:.0f} s on ({causes})"


def active(outcomes: Iterable[Outcome], span: Span) -> list[str]:
    """PURE: names of the faults of a consumer, or of a shared part, that were active in a time or up to 10 s before."""
    return [
        outcome.action.fault.name
        for outcome in outcomes
        if outcome.result is not Result.SKIPPED
        and (outcome.action.consumer == span.consumer or "{consumer}" not in outcome.action.fault.part)
        and outcome.began <= span.end
        and (outcome.ended is None or outcome.ended >= span.began - 10)
    ]


def longest(spans: Iterable[Span]) -> list[Span]:
    """PURE: the longest times, one for all partitions of a consumer whose times began together."""
    found: dict[tuple[str, int], Span] = {}
    for span in sorted(spans, key=lambda span: -span.seconds):
        found.setdefault((span.consumer, round(span.began)), span)
    return list(found.values())[:SHOWN]


def _action(outcome: Outcome) -> str:
    """One line: when, what, how long, and the cause if it is not done."""
    if outcome.result is not Result.DONE:
        what = f"{outcome.result}: {outcome.detail}"
    elif outcome.ended is None:
        what = "not undone"
    else:
        what = f"until {outcome.ended:.0f} s" if outcome.action.seconds else ""
    return f"  {outcome.began:6.0f} s  {outcome.action.fault.name} ({outcome.action.consumer}) {what}".rstrip()
