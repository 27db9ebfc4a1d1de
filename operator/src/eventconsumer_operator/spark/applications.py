"""What the applications of a resource say of themselves, whatever launched them. Pure.

Launchers have words of their own; here they become one vocabulary, `ApplicationState`, and one record, `Application`.
Nothing in it tells whether a batch was processed: that is read from its commit record alone.
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
from eventconsumer_operator.spark.applicationstate import ApplicationState, Said, moment
from eventconsumer_operator.spark.operators import said_by_apache, said_by_kubeflow

__all__ = ["Application", "ApplicationState", "Said", "application_of", "moment"]


@dataclass(frozen=True)
class Application:
    """One attempt at a batch.

    Attributes:
        name: Its name.
        kind: What it is an object of.
        batch: Number of its batch; 0: of none, or that cannot be read.
        attempt: Which attempt at the batch it is, from 1.
        state: Its state.
        message: Why it failed, or what it waits for, as its launcher says it; empty where it says nothing.
        started: When it was created.
        finished: When it ended; None while it has not.
        uid: Its uid.
        deleted: Whether it is being deleted and waits for its finalizers.
    """

    name: str
    kind: Kind
    batch: int
    attempt: int
    state: ApplicationState
    message: str
    started: datetime | None
    finished: datetime | None
    uid: str
    deleted: bool = False

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self.state in {ApplicationState.SUCCEEDED, ApplicationState.FAILED}


def said_by_job(job: Manifest) -> Said:
    """Read a Job: its conditions when it has ended, else whether its pod runs."""
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
"""How the status of each kind of application is read."""


def application_of(manifest: Manifest) -> Application:
    """Read an application of any kind."""
    kind = kind_of(manifest)
    metadata = manifest["metadata"]
    said = READERS[kind](manifest)
    started = moment(metadata.get("creationTimestamp"))
    # An end without a time would never be over: then it counts from the beginning.
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
