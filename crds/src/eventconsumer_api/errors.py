"""The base of the errors of hosts, storage and Spark.

Messages are redacted when the error is built, so that texts of libraries can be shown and logged.
"""

# ruff: noqa: N818 - the names are the outcomes

from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.wire.host_report import Problem


class EventConsumerError(Exception):
    """An error whose message contains no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


class Blocked(EventConsumerError):
    """A problem that a user must correct.

    Attributes:
        problem: Field, cause and remedy.
    """

    def __init__(self, field: str, reason: Reason, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.problem = Problem(field=field, reason=reason, message=redact(message))
