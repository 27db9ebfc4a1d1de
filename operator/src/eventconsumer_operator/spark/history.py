"""Retention of finished applications, which keeps their logs for a while. Pure."""

from datetime import datetime, timedelta

from eventconsumer_api.spark import History
from eventconsumer_operator.spark.applications import Application, ApplicationState
from eventconsumer_operator.spark.attempts import Attempts


def outdated(
    applications: tuple[Application, ...], history: History, attempts: Attempts, now: datetime
) -> tuple[Application, ...]:
    """Finished applications to delete: those beyond the history limits, and those that are too old.

    The newest attempt at the open batch is always kept: its result is not final.
    """
    ended = [
        each
        for each in applications
        if each.ended and not each.deleted and not (each.batch == attempts.batch and each.attempt == attempts.attempt)
    ]
    ended.sort(key=lambda each: (each.finished or now, each.batch, each.attempt), reverse=True)
    limits = {ApplicationState.SUCCEEDED: history.succeeded, ApplicationState.FAILED: history.failed}
    return tuple(
        each
        for state, limit in limits.items()
        for place, each in enumerate(each for each in ended if each.state is state)
        if place >= limit or now - (each.finished or now) > timedelta(seconds=history.ttl_seconds)
    )
