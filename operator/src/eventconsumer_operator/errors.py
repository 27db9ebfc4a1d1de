"""Every error the operator raises on purpose, with how long to wait and which condition reason tells people about it.

    OperatorError
    ├── SpecError             SpecInvalid      no retry until the generation changes
    ├── NameTaken             NameTaken        slow retry: a user must rename or remove an object
    ├── Refused               Refused          slow retry: the API server does not accept an object of ours
    ├── Forbidden             Forbidden        slow retry: an administrator must grant a permission
    ├── DependencyNotReady    Progressing      retry after its own delay
    └── Transient             (none)           retry with backoff: API server away, conflict, throttled
        ├── Changed           (none)           the object changed meanwhile
        └── Gone              (none)           the object vanished meanwhile

Each message names the thing, the cause and the remedy, and is safe to show: nothing of a Secret ever reaches this
program.
"""

# ruff: noqa: N818 - the classes are named after what happened, like the reasons people read in the status.

from eventconsumer_api.conditions import Reason


class OperatorError(Exception):
    """Base of all errors above."""

    reason: Reason | None = None


class SpecError(OperatorError):
    """The resource cannot be turned into a plan.

    Attributes:
        field: Path in the resource, such as spec.sink.container.
    """

    def __init__(self, field: str, message: str, reason: Reason = Reason.SPEC_INVALID) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.reason = reason


class NameTaken(OperatorError):
    """An object that the operator must create exists and has another owner."""

    reason = Reason.NAME_TAKEN


class Refused(OperatorError):
    """The API server does not accept an object that the operator must create (HTTP 400, 422: admission, limits)."""

    reason = Reason.REFUSED


class Forbidden(OperatorError):
    """The operator lacks a right, or a quota forbids the object (HTTP 403)."""

    reason = Reason.FORBIDDEN


class DependencyNotReady(OperatorError):
    """Something else must happen first.

    Attributes:
        delay: When to look again, seconds.
    """

    reason = Reason.PROGRESSING

    def __init__(self, message: str, delay: float) -> None:
        super().__init__(message)
        self.delay = delay


class Transient(OperatorError):
    """Trying again later is the remedy."""


class Changed(Transient):
    """The object is not the version that was read, or the name is taken (HTTP 409)."""


class Gone(Transient):
    """The object does not exist (any more)."""
