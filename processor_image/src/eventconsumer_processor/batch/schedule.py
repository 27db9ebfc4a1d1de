"""Cron schedules in UTC. Pure.

The operator refuses an expression that cannot be read; a host that meets one all the same (the operator may be of
another version) tells of it and goes by the other triggers.
"""

from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from eventconsumer_api.conditions import Reason
from eventconsumer_api.errors import Blocked

FIELD = "spec.spark.trigger.schedule"


def last_tick(expression: str, now: datetime) -> datetime | None:
    """The last scheduled time up to `now`, to the second; None where none was within 50 years.

    Args:
        expression: Five fields of cron; empty: there is no schedule.
        now: Wall clock.

    Raises:
        Blocked: The expression cannot be read.
    """
    if not expression:
        return None
    # Backwards it finds what lies before: a second later `now` itself counts.
    after = now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
    try:
        return next(CronSim(expression, after, reverse=True), None)
    except CronSimError as error:
        raise Blocked(
            FIELD,
            Reason.SPEC_INVALID,
            f"{expression!r} is no cron expression of five fields ({error}): write one such as 0 * * * *",
        ) from None
