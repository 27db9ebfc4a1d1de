"""What a Job's status says. Pure."""

from dataclasses import dataclass
from enum import Enum

from eventconsumer_operator.manifest import Manifest


class JobState(Enum):
    """How far a Job is."""

    RUNNING = "running"  # or waiting to run
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class JobStatus:
    """A Job's state.

    Attributes:
        state: How far it is.
        message: Why it failed, as the Job controller says it.
        finished: When it ended, as the API server writes times; empty while it runs.
    """

    state: JobState
    message: str = ""
    finished: str = ""


def state_of(job: Manifest) -> JobStatus:
    """Read the conditions of a Job."""
    for condition in job.get("status", {}).get("conditions", []):
        if condition.get("status") != "True":
            continue
        when = condition.get("lastTransitionTime", "")
        if condition["type"] == "Complete":
            return JobStatus(JobState.SUCCEEDED, finished=when)
        if condition["type"] == "Failed":
            text = ": ".join(part for part in (condition.get("reason"), condition.get("message")) if part)
            return JobStatus(JobState.FAILED, message=text, finished=when)
    return JobStatus(JobState.RUNNING)
