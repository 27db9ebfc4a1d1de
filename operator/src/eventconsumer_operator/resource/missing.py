"""Pods that should exist and do not, because the API server refuses them, or their controller does not run. Pure.

A controller that cannot create a pod says so in Events only: the status of a StatefulSet or Job has no condition for
it. Events expire, after an hour by default (`--event-ttl` of kube-apiserver), and the state lasts. So status.missing
keeps the time and the cause while pods are missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1.status import MISSING_MAX
from eventconsumer_operator.kube.manifest import JOB, STATEFUL_SET, controller_uid, describe, is_being_deleted, kind_of
from eventconsumer_operator.resource.names import host_name, probe_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import SLOW

# Longest pause of the Job controller between two pods of a Job
# (kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy).
_JOB_BACKOFF = timedelta(minutes=6)
_ENDED = {"Complete", "Failed", "Suspended"}  # conditions of a Job that gets no pod


@dataclass(frozen=True)
class Missing:
    """Pods of one object that do not exist.

    Attributes:
        owner: Kind and name of the object, as kubectl takes them.
        uid: Its uid.
        component: labels.COMPONENT_* of its pods.
        expected: Pods that should exist.
        existing: Pods that exist.
        since: Since when pods are missing.
        cause: What the API server answered to the controller; empty: unknown.
        patience: Time for which this is normal.
    """

    owner: str
    uid: str
    component: str
    expected: int
    existing: int
    since: datetime
    cause: str = ""
    patience: timedelta = SLOW

    def lasts(self, now: datetime) -> bool:
        """Whether it needs an action: a controller creates pods within seconds."""
        return now - self.since >= self.patience


def missing(observed: Observed) -> tuple[Missing, ...]:
    """The objects whose pods are missing. An object whose pods exist again starts anew."""
    before = {each.object: each for each in observed.consumer.status.missing}
    found = []
    for owner, component, expected, existing in _counts(observed):
        if existing < expected and not is_being_deleted(owner):
            known, uid = before.get(describe(owner)), owner["metadata"]["uid"]
            failed = kind_of(owner) == JOB and owner.get("status", {}).get("failed")
            found.append(
                Missing(
                    describe(owner),
                    uid,
                    component,
                    expected,
                    existing,
                    since=known.since if known else observed.now,
                    cause=observed.refusals.get(uid) or (known.cause if known else ""),
                    patience=SLOW + _JOB_BACKOFF if failed else SLOW,
                )
            )
    return tuple(found[:MISSING_MAX])


def _counts(observed: Observed) -> Iterator[tuple[Manifest, str, int, int]]:
    """Objects with the component of their pods, the number of these that should exist, and of those that do."""
    key = observed.consumer.key
    for name, component, pods in (
        (host_name(key), labels.COMPONENT_HOST, observed.pods),
        (probe_name(key), labels.COMPONENT_PROBE, observed.probes),
    ):
        if stateful_set := observed.children.get((STATEFUL_SET, name)):
            yield stateful_set, component, stateful_set.get("spec", {}).get("replicas", 0), len(pods)
    for component, jobs, pods in (
        (labels.COMPONENT_SPARK, observed.applications, observed.drivers),
        (labels.COMPONENT_REPLAY, observed.replays, observed.replay_pods),
        (labels.COMPONENT_REPROCESS, observed.reprocess_jobs, observed.reprocess_pods),
    ):
        with_pod = {controller_uid(pod) for pod in pods if not _is_over(pod)}
        for job in jobs:
            if kind_of(job) == JOB:  # other launchers say themselves why they create no driver
                yield job, component, int(not _has_ended(job)), int(job["metadata"]["uid"] in with_pod)


def _is_over(pod: Manifest) -> bool:
    return pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}


def _has_ended(job: Manifest) -> bool:
    """Whether a Job gets no further pod, or is suspended."""
    conditions = job.get("status", {}).get("conditions", [])
    return any(each.get("type") in _ENDED and each.get("status") == "True" for each in conditions)
