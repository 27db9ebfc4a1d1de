"""Assumptions about Azure, the result of a check of each, and the report. Pure.

The JSON names of the report are a stable interface, like those of the other tools.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from pydantic import Field

from eventconsumer_api.shared.model import Report
from eventconsumer_api.shared.redaction import redact

SCHEMA_VERSION = 1
SLOW, SEND = "--slow", "--send"
_HOLDS, _DIFFERS, _UNJUDGED = 0, 1, 2

T = TypeVar("T")


class CheckOutcome(StrEnum):
    """Result of a check."""

    PASSED = "passed"
    DIFFERS = "differs"
    SKIPPED = "skipped"
    FAILED = "failed"


class Differs(Exception):  # noqa: N818 - a finding, not a fault of the program
    """The assumption is not true here; the text is what was seen."""


class Skipped(Exception):  # noqa: N818 - see `Differs`
    """The check cannot be carried out here; the text is the reason."""


@dataclass(frozen=True)
class Assumption(Generic[T]):
    """A behaviour of Azure that hosts rely on, and its check.

    Attributes:
        name: Of the check; stable.
        text: The behaviour, one sentence.
        consequence: What happens to a consumer where Azure behaves differently.
        remedy: What its user can do.
        check: Returns what it saw. Raises `Differs` or `Skipped`; any error of the host means that it is undecided.
        options: The options of the command that it needs: it waits for long, or it sends events.
        seconds: Its time limit.
    """

    name: str
    text: str
    consequence: str
    remedy: str
    check: Callable[[T], Awaitable[str]]
    options: tuple[str, ...] = ()
    seconds: float = 90.0


class Result(Report):
    """The result of one check."""

    target: str = Field(description="hub, leases, sink, or both containers where they are in one account.")
    check: str
    assumption: str
    outcome: CheckOutcome
    detail: str = Field(description="What was seen, or why the check was not carried out.")
    consequence: str = Field(default="", description="Only where the assumption is not true.")
    remedy: str = ""
    seconds: float = Field(default=0.0, description="Duration of the check.")


class CertifyReport(Report):
    """The report of `certify`. It has no secret; it names the namespace, the hub and the accounts."""

    version: int = SCHEMA_VERSION
    program: str = Field(description="Version of the program.")
    started: datetime
    seconds: float
    consumer_group: str
    slow: bool
    send: bool
    stopped: bool = Field(default=False, description="A signal ended it: the remaining checks were skipped.")
    facts: dict[str, str] = Field(default={}, description="Properties of the namespace, the hub and the accounts.")
    results: list[Result] = Field(default=[])
    leftovers: list[str] = Field(default=[], description="What could not be removed.")

    def count(self, outcome: CheckOutcome) -> int:
        """Number of results with an outcome."""
        return sum(result.outcome is outcome for result in self.results)

    @property
    def exit_code(self) -> int:
        """0 all assumptions that were checked hold, 1 one does not, 2 a check failed, or something is left."""
        if self.count(CheckOutcome.DIFFERS):
            return _DIFFERS
        undecided = self.stopped or self.leftovers or self.count(CheckOutcome.FAILED)
        return _UNJUDGED if undecided else _HOLDS


def judged(target: str, assumption: Assumption[T], outcome: CheckOutcome, detail: str, seconds: float = 0.0) -> Result:
    """The result of a check; consequence and remedy only where the assumption is not true."""
    differs = outcome is CheckOutcome.DIFFERS
    return Result(
        target=target,
        check=assumption.name,
        assumption=assumption.text,
        outcome=outcome,
        detail=redact(" ".join(detail.split())),
        consequence=assumption.consequence if differs else "",
        remedy=assumption.remedy if differs else "",
        seconds=round(seconds, 2),
    )


def skipped(target: str, assumptions: Sequence[Assumption[T]], why: str) -> list[Result]:
    """Results of checks that were not carried out, all for one reason."""
    return [judged(target, each, CheckOutcome.SKIPPED, why) for each in assumptions]


def missing_option(assumption: Assumption[T], given: Sequence[str]) -> str:
    """The reason to skip a check whose options were not given; empty: none."""
    reasons = {SLOW: "waits for long: needs --slow", SEND: "sends events: needs --send"}
    return "; ".join(reasons[option] for option in assumption.options if option not in given)


def line(result: Result) -> str:
    """A result in one line."""
    return f"{result.outcome:<8}{result.target}: {result.check}: {result.detail} ({result.seconds:.1f} s)"
