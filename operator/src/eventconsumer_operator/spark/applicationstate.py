"""How far an application is: the one vocabulary that the words of all launchers are put into. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class ApplicationState(Enum):
    """How far an application is."""

    PENDING = "pending"  # nothing of it runs yet
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class Said:
    """What an object's status says.

    Attributes:
        state: Its state.
        message: Why it failed, or what it waits for.
        finished: When it ended; None while it has not, or where that is not told.
    """

    state: ApplicationState
    message: str = ""
    finished: datetime | None = None


def moment(text: str | None) -> datetime | None:
    """A time as the API server writes it; None where there is none."""
    return datetime.fromisoformat(text) if text else None
