"""Checks the cron expression of spec.spark.trigger.schedule. Pure.

The schema only checks for five fields; the library that hosts use checks whether they match a time.
"""

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError

FIELD = "spec.spark.trigger.schedule"
_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # any date: the library searches 50 years


def check_schedule(spec: EventConsumerSpec) -> None:
    """Check the schedule, if there is one.

    Raises:
        SpecError: It is not a cron expression, or never matches a date.
    """
    if spec.spark is None or not spec.spark.trigger.schedule:
        return
    expression = spec.spark.trigger.schedule
    try:
        matches = next(CronSim(expression, _SOME_DAY), None) is not None
    except CronSimError as error:
        raise SpecError(
            FIELD, f"{expression!r} is not a cron expression of five fields ({error}): use one such as 0 * * * *"
        ) from None
    if not matches:
        raise SpecError(FIELD, f"{expression!r} never matches a date: use one that does, such as 0 * * * *")
