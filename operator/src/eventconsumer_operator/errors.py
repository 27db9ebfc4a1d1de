"""Errors of the operator, with the reason of the condition that reports them and the retry.

    OperatorError
    ├── SpecError             SpecInvalid      no retry until the generation changes
    ├── NameTaken             NameTaken        slow retry: a user must rename or remove an object
    ├── Contested             Contested        corrections wait: another client changes an object back
    ├── Refused               Refused          slow retry: the API server rejects an object of the operator
    ├── Forbidden             Forbidden        slow retry: an administrator must grant a permission
    ├── DependencyNotReady    Progressing      retry after its own delay
    └── Transient             (none)           retry with backoff: API server unreachable, conflict, throttled
        ├── Changed           (none)           the object has changed
        └── Gone              (none)           the object does not exist

Each message names the thing, the cause and the remedy. It holds no secret: the operator never reads Secrets.
"""

# ruff: noqa: N818 - the classes are named like the reasons of conditions

from eventconsumer_api.spec.conditions import Reason


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
    """An object that the operator must create exists, and the operator cannot adopt it."""

    reason = Reason.NAME_TAKEN


class Contested(OperatorError):
    """Another client changes an object of the operator again and again."""

    reason = Reason.CONTESTED


class Refused(OperatorError):
    """The API server rejects an object of the operator (HTTP 400, 422: admission, limits)."""

    reason = Reason.OBJECT_REFUSED


class Forbidden(OperatorError):
    """The operator lacks a permission, or a quota forbids the object (HTTP 403)."""

    reason = Reason.FORBIDDEN


class DependencyNotReady(OperatorError):
    """Another object must change first.

    Attributes:
        delay: Time to the next reconcile, seconds.
    """

    reason = Reason.PROGRESSING

    def __init__(self, message: str, delay: float) -> None:
        super().__init__(message)
        self.delay = delay


class Transient(OperatorError):
    """A retry is the remedy."""


class Changed(Transient):
    """The object has another version than expected, or the name exists (HTTP 409)."""


class Gone(Transient):
    """The object does not exist (HTTP 404)."""
