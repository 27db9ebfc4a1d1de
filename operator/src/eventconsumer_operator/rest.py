"""Rest: a resource whose inputs are the same as at its last plan is only looked at. Pure.

A plan and its application cost most of a reconcile. Both are functions of the observed state and of the time, so they
are skipped while the observed state stays the same and nothing is due by time. A look still sends the hosts the last
operator message, and reads their reports.

The digest of reports leaves out what moves while nothing happens. The status shows watermarks and the rate of storage
requests as of the last plan: see `pace.planning_seconds`. A host that does not hear the hub reports a problem
before its silence has a consequence.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.resource.remedies import severity
from eventconsumer_api.spec.conditions import UNREACHABLE
from eventconsumer_api.v1alpha1 import ScalingMode
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_api.wire.host_report import HostReport
from eventconsumer_operator.errors import OperatorError, SpecError
from eventconsumer_operator.kube.manifest import is_being_deleted
from eventconsumer_operator.plan import Plan
from eventconsumer_operator.resource.missing import missing
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import stuck_pods
from eventconsumer_operator.spark.applications import application_of

PATIENCE = timedelta(minutes=5)  # after the last of the times from which on a problem is told in other words
_MOVING: dict[str, Any] = {"storage": True, "hub_silent_seconds": True, "fleet": {"watermark": True}}  # of a report


@dataclass(frozen=True)
class Rest:
    """Memory of the last plan of a resource at rest.

    A plan depends on objects, reports and the time; the status is its own memory.

    Attributes:
        objects: Digest of the objects.
        reports: Digest of the reports.
        until: Time of the next plan, event loop's clock.
    """

    objects: bytes
    reports: bytes
    until: float


def digest_of_objects(observed: Observed) -> bytes:
    """Digest of the spec, the children and the pods."""
    consumer = observed.consumer
    found = hashlib.blake2b(f"{consumer.uid} {consumer.generation} {observed.older_reader}\n".encode(), digest_size=16)
    for manifest in _manifests(observed):
        metadata = manifest["metadata"]
        found.update(f"{metadata.get('uid', '')} {metadata.get('resourceVersion', '')}\n".encode())
    return found.digest()


def digest_of_reports(*reports: Mapping[str, HostReport]) -> bytes:
    """Digest of the reports of hosts, by pod name, without what always moves."""
    found = hashlib.blake2b(digest_size=16)
    for name, report in chain.from_iterable(each.items() for each in reports):
        found.update(f"{name}\n{report.model_dump_json(exclude=_MOVING)}\n".encode())
    return found.digest()


def is_at_rest(
    observed: Observed, plan: Plan | None, errors: Collection[OperatorError], status: EventConsumerStatus
) -> bool:
    """Whether time alone changes nothing before the next plan.

    Args:
        observed: The observed state.
        plan: The plan; None: there is none.
        errors: Errors of planning and applying.
        status: The status that follows from them.
    """
    if any(not isinstance(error, SpecError) for error in errors):
        return False  # the cause may be outside of what is observed
    if plan is None:
        return bool(errors)
    if (
        plan.running.leaving
        or _may_be_replaced(observed)
        or _may_shrink(plan)
        or _works(observed, status)
        or _may_pass(observed)
    ):
        return False
    if plan.scaling.unknown_since or any(not each.lasts(observed.now) for each in missing(observed)):
        return False
    young = (
        condition
        for condition in status.conditions
        if severity(condition) != "ok" and observed.now - condition.last_transition_time < PATIENCE
    )
    return not any(young)


def _may_pass(observed: Observed) -> bool:
    """Whether hosts report a problem that needs an action only if it lasts."""
    return any(problem.reason in UNREACHABLE for report in observed.reports.values() for problem in report.problems)


def _may_be_replaced(observed: Observed) -> bool:
    """Whether a pod is about to end, or to be replaced because it does not."""
    pods = (*observed.pods, *observed.probes)
    return sum(map(is_being_deleted, pods)) > len(stuck_pods(pods, observed.now))


def _may_shrink(plan: Plan) -> bool:
    """Whether a lower number of hosts becomes due while nothing happens."""
    return plan.scaling.mode is ScalingMode.LAG and plan.hosts > plan.spec.scaling.min_replicas


def _works(observed: Observed, status: EventConsumerStatus) -> bool:
    """Whether Spark or a replay is at work, or is to start: both have time limits."""
    if status.spark and status.spark.next_attempt_time:
        return True
    if observed.fleet and observed.fleet.open_batches:
        return True
    if any(not application_of(each).ended for each in observed.applications):
        return True
    pods = chain(observed.drivers, observed.executors, observed.reprocess_pods, observed.replay_pods)
    return any(pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"} for pod in pods)


def _manifests(observed: Observed) -> Iterator[Manifest]:
    yield from observed.children.values()
    for found in (
        observed.pods, observed.probes, observed.drivers, observed.executors,
        observed.reprocess_pods, observed.replay_pods,
    ):  # fmt: skip
        yield from found
