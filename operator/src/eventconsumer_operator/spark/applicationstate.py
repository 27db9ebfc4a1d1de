"""The state of an application, the same for all launchers. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class ApplicationState(Enum):
    """State of an application."""

    PENDING = "pending"  # no pod runs yet
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class UnknownState:
    """The launcher reports a state that this operator does not know.

    Attributes:
        name: The state.
    """

    name: str


@dataclass(frozen=True)
class NoResult:
    """The application ended without a result."""


LauncherMessage = str | UnknownState | NoResult
"""Why an application failed or waits: the launcher's text, empty for none, or a fact that its status shows."""


@dataclass(frozen=True)
class Said:
    """The status of an application's object.

    Attributes:
        state: Its state.
        message: Why it failed or waits.
        finished: When it ended; None while it runs, or where the time is unknown.
    """

    state: ApplicationState
    message: LauncherMessage = ""
    finished: datetime | None = None


def moment(text: str | None) -> datetime | None:
    """A time in the API server's format; None for no time."""
    return datetime.fromisoformat(text) if text else None
