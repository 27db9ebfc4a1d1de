"""The base of the errors of hosts, storage and Spark.

Messages are redacted where the error is built, so whatever a library put into its own message can be shown and logged.
"""

# ruff: noqa: N818 - the names say what happened

from eventconsumer_api.conditions import Reason
from eventconsumer_api.host_report import Problem
from eventconsumer_api.redaction import redact


class EventConsumerError(Exception):
    """An error whose message holds no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


class Blocked(EventConsumerError):
    """A problem that a user must fix.

    Attributes:
        problem: The field, what is wrong and what to do.
    """

    def __init__(self, field: str, reason: Reason, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.problem = Problem(field=field, reason=reason, message=redact(message))
