"""What a check's end means for the report, and which checks there are."""

import asyncio
from datetime import UTC, datetime

import pytest

from eventconsumer_host.errors import HubUnreachable
from eventconsumer_tools.certify import storage
from eventconsumer_tools.certify.command import groups, judge
from eventconsumer_tools.certify.model import (
    SEND,
    SLOW,
    Assumption,
    CertifyReport,
    CheckOutcome,
    Differs,
    Skipped,
    judged,
    missing_option,
)


def assumption(error: Exception | None = None, seconds: float = 5.0, options: tuple[str, ...] = ()) -> Assumption[str]:
    """One whose check ends with an error, or reports its subject."""

    async def check(subject: str) -> str:
        if seconds == 0:
            await asyncio.Event().wait()
        if error is not None:
            raise error
        return subject

    return Assumption("name", "It holds.", "harm", "help", check, options, seconds)


@pytest.mark.parametrize(
    ("one", "outcome", "detail"),
    [
        (assumption(), CheckOutcome.PASSED, "seen"),
        (assumption(Differs("other")), CheckOutcome.DIFFERS, "other"),
        (assumption(Skipped("no right")), CheckOutcome.SKIPPED, "no right"),
        (assumption(HubUnreachable("no connection")), CheckOutcome.FAILED, "undecided: no connection"),
        (assumption(seconds=0), CheckOutcome.FAILED, "undecided: no result within 0 s"),
    ],
)
async def test_the_end_of_a_check(one: Assumption[str], outcome: CheckOutcome, detail: str) -> None:
    assert await judge(one, "seen") == (outcome, detail)
    result = judged("hub", one, outcome, detail)
    assert (result.consequence, result.remedy) == (("harm", "help") if outcome is CheckOutcome.DIFFERS else ("", ""))


def test_a_defect_of_the_program_is_no_result() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(judge(assumption(ZeroDivisionError()), "seen"))


def report(*outcomes: CheckOutcome, left: tuple[str, ...] = (), stopped: bool = False) -> CertifyReport:
    """One with these outcomes."""
    return CertifyReport(
        program="1",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1,
        consumer_group="checks",
        slow=False,
        send=False,
        stopped=stopped,
        results=[judged("hub", assumption(), outcome, "") for outcome in outcomes],
        leftovers=list(left),
    )


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (report(), 0),
        (report(CheckOutcome.PASSED, CheckOutcome.SKIPPED), 0),
        (report(CheckOutcome.PASSED, CheckOutcome.DIFFERS, CheckOutcome.FAILED), 1),
        (report(CheckOutcome.PASSED, CheckOutcome.FAILED), 2),
        (report(CheckOutcome.PASSED, left=("container x",)), 2),
        (report(CheckOutcome.PASSED, stopped=True), 2),
    ],
)
def test_exit_codes(found: CertifyReport, code: int) -> None:
    assert found.exit_code == code


def test_no_secret_is_reported() -> None:
    result = judged("hub", assumption(), CheckOutcome.FAILED, "refused:\n Endpoint=sb://a/;SharedAccessKey=c2VjcmV0")
    assert "c2VjcmV0" not in result.detail and "\n" not in result.detail


def test_options_that_a_check_needs() -> None:
    assert missing_option(assumption(options=(SEND,)), (SEND,)) == ""
    assert missing_option(assumption(options=(SLOW, SEND)), (SEND,)) == "waits for long: needs --slow"


def test_every_check_is_named_once_and_has_consequence_and_remedy() -> None:
    everything = [*storage.ACCOUNT, *storage.FILES, *storage.LEASES, *groups()]
    assert len({each.name for each in everything}) == len(everything)
    assert all(each.text.endswith(".") and each.consequence and each.remedy for each in everything)
