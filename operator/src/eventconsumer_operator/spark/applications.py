"""Reads applications of all launchers into one record, `Application`. Pure.

An application does not show whether its batch was processed: only the batch's commit record does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from eventconsumer_api import labels
from eventconsumer_api.kinds import Kind, Manifest
from eventconsumer_operator.kube.manifest import (
    APACHE_APPLICATION,
    JOB,
    KUBEFLOW_APPLICATION,
    is_being_deleted,
    kind_of,
    name_of,
)
from eventconsumer_operator.spark.applicationstate import ApplicationState, LauncherMessage, Said, moment
from eventconsumer_operator.spark.operators import said_by_apache, said_by_kubeflow

__all__ = ["Application", "ApplicationState", "Said", "application_of", "moment"]


@dataclass(frozen=True)
class Application:
    """One attempt at a batch.

    Attributes:
        name: Its name.
        kind: Kind of its object.
        batch: Number of its batch; 0: none, or unreadable.
        attempt: Number of the attempt at the batch, from 1.
        state: Its state.
        message: Why it failed or waits, from its launcher; empty for nothing.
        started: When it was created.
        finished: When it ended; None while it runs.
        uid: Its uid.
        deleted: Whether it is being deleted and waits for its finalizers.
    """

    name: str
    kind: Kind
    batch: int
    attempt: int
    state: ApplicationState
    message: LauncherMessage
    started: datetime | None
    finished: datetime | None
    uid: str
    deleted: bool = False

    @property
    def ended(self) -> bool:
        """Whether it succeeded or failed."""
        return self.state in {ApplicationState.SUCCEEDED, ApplicationState.FAILED}


def said_by_job(job: Manifest) -> Said:
    """Read a Job: its conditions if it has ended, else whether its pod is ready."""
    status = job.get("status", {})
    for condition in status.get("conditions", []):
        if condition.get("status") != "True":
            continue
        finished = moment(condition.get("lastTransitionTime"))
        if condition["type"] == "Complete":
            return Said(ApplicationState.SUCCEEDED, finished=finished)
        if condition["type"] == "Failed":
            text = ": ".join(part for part in (condition.get("reason"), condition.get("message")) if part)
            return Said(ApplicationState.FAILED, text, finished)
    return Said(ApplicationState.RUNNING if status.get("ready") else ApplicationState.PENDING)


READERS: Mapping[Kind, Callable[[Manifest], Said]] = {
    JOB: said_by_job,
    KUBEFLOW_APPLICATION: said_by_kubeflow,
    APACHE_APPLICATION: said_by_apache,
}
"""Reads the status of each kind of application."""


def application_of(manifest: Manifest) -> Application:
    """Read an application of any kind."""
    kind = kind_of(manifest)
    metadata = manifest["metadata"]
    said = READERS[kind](manifest)
    started = moment(metadata.get("creationTimestamp"))
    # Without a time of its end an application would be kept for ever: then its creation counts.
    ended = said.state in {ApplicationState.SUCCEEDED, ApplicationState.FAILED}
    return Application(
        name=name_of(manifest),
        kind=kind,
        batch=_number(metadata, labels.LABEL_BATCH, 0),
        attempt=_number(metadata, labels.LABEL_ATTEMPT, 1),
        state=said.state,
        message=said.message,
        started=started,
        finished=(said.finished or started) if ended else None,
        uid=metadata["uid"],
        deleted=is_being_deleted(manifest),
    )


def _number(metadata: Mapping[str, Any], label: str, absent: int) -> int:
    text = metadata.get("labels", {}).get(label)
    if text is None:
        return absent
    return int(text) if text.isascii() and text.isdigit() else 0
