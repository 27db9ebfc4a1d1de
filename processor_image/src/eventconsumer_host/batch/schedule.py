"""Cron schedules in UTC. Pure.

The operator rejects an invalid expression. If a host gets one (from an operator of another version), it reports a
problem and uses the other triggers.
"""

from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason

FIELD = "spec.spark.trigger.schedule"


def last_tick(expression: str, now: datetime) -> datetime | None:
    """The last scheduled time up to `now`, to the second; None if there was none within 50 years.

    Args:
        expression: A cron expression of five fields; empty: no schedule.
        now: Wall clock.

    Raises:
        Blocked: The expression is invalid.
    """
    if not expression:
        return None
    # The search goes backwards from an exclusive end: one second later, `now` itself is included.
    after = now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
    try:
        return next(CronSim(expression, after, reverse=True), None)
    except CronSimError as error:
        raise Blocked(
            FIELD,
            Reason.SPEC_INVALID,
            f"{expression!r} is not a cron expression of five fields ({error}): use one such as 0 * * * *",
        ) from None
