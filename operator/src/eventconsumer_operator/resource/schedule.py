"""Checks the cron expression of spec.spark.trigger.schedule. Pure.

The schema lets pass what looks like five fields; whether they name a time is judged by the library that hosts find the
times with.
"""

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError

FIELD = "spec.spark.trigger.schedule"
_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # any: calendars repeat within the 50 years that are searched


def check_schedule(spec: EventConsumerSpec) -> None:
    """Judge the schedule, where there is one.

    Raises:
        SpecError: It is no cron expression, or names no day that ever comes.
    """
    if spec.spark is None or not spec.spark.trigger.schedule:
        return
    expression = spec.spark.trigger.schedule
    try:
        comes = next(CronSim(expression, _SOME_DAY), None) is not None
    except CronSimError as error:
        raise SpecError(
            FIELD, f"{expression!r} is no cron expression of five fields ({error}): write one such as 0 * * * *"
        ) from None
    if not comes:
        raise SpecError(FIELD, f"{expression!r} names no day that ever comes: write one that does, such as 0 * * * *")
