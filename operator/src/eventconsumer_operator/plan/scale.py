"""The desired number of hosts, and the replicas of the StatefulSet while leaving hosts hand over. Pure.

A leaving host gets a message, hands its partitions over to the others, and is stopped afterwards. So a lower number
reaches the StatefulSet later, host by host from the highest ordinal down, or after `LEAVING` at the latest: a stopped
host hands over, too, but with a longer interruption. The time since when hosts leave is an annotation of the
StatefulSet, which survives restarts of the operator.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1 import CheckpointPolicy, EventConsumerSpec, HandlerMode, ScalingMode
from eventconsumer_api.v1alpha1.status import ScalingStatus
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.kube.manifest import is_being_deleted, name_of
from eventconsumer_operator.plan.lag import ScalingInput, decide
from eventconsumer_operator.resource.names import hosts_set
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import stuck_pods

ANNOTATION_LEAVING = "eventconsumer.io/hosts-leaving"  # <desired hosts> <since>
LEAVING = timedelta(seconds=120)
# Delay until the leading host counts a file: it reads the leases every 5 s, they are listed about every 5 s, and the
# age of an event is known to 5 s.
_MEASURING_SECONDS = 20.0


def scaling_of(observed: Observed, spec: EventConsumerSpec) -> ScalingStatus:
    """The desired number of hosts, and why.

    Raises:
        SpecError: The mode contradicts other fields.
    """
    before = observed.consumer.status.scaling
    if spec.suspend:
        return _told(0, "spec.suspend is true", None, before, observed.now)
    if observed.older_reader:
        return _told(0, f"{observed.older_reader} reads the consumer group", None, before, observed.now)
    scaling, partitions = spec.scaling, observed.partition_count
    match scaling.mode:
        case ScalingMode.LAG:
            return decide(_view(observed, spec), scaling, before if before and before.mode is scaling.mode else None)
        case ScalingMode.FIXED:
            wanted, reason = scaling.replicas or 0, "scaling.replicas"
        case _ if not partitions:
            # A StatefulSet does not replace a pod before it has ended, and a paused one ends with its grace period.
            # One that does not end then is replaced in every mode (`ordinals`).
            ending = sum(map(is_being_deleted, observed.pods)) - len(stuck_pods(observed.pods, observed.now))
            wanted = min(1 + ending, scaling.max_replicas)
            reason = "the number of partitions is unknown"
        case _:
            each = scaling.partitions_per_host
            asked = -(-partitions // each)
            wanted = min(max(asked, scaling.min_replicas), scaling.max_replicas, partitions)
            bounded = (
                ""
                if wanted == asked
                else "; limited by scaling.minReplicas, scaling.maxReplicas and the number of partitions"
            )
            reason = f"{partitions} partitions, {each} for each host{bounded}"
    return _told(wanted, reason, scaling.mode, before, observed.now)


def _told(
    wanted: int, reason: str, mode: ScalingMode | None, before: ScalingStatus | None, now: datetime
) -> ScalingStatus:
    changed = now if before is None or before.replicas != wanted else before.last_scale_time
    return ScalingStatus(replicas=wanted, reason=reason, mode=mode, last_scale_time=changed)


def _view(observed: Observed, spec: EventConsumerSpec) -> ScalingInput:
    fleet = observed.fleet
    hosts = hosts_set(observed)
    return ScalingInput(
        now=observed.now,
        lags=fleet.lags if fleet else None,
        partitions=observed.partition_count,
        owners=fleet.owners if fleet else {},
        last_enqueued_time=fleet.last_enqueued_time if fleet else None,
        existing=max(0, hosts.get("spec", {}).get("replicas", 0) - len(stuck_pods(observed.pods, observed.now))),
        ready=hosts.get("status", {}).get("readyReplicas", 0),
        normal_seconds=normal_seconds(spec),
        probed=any(name_of(pod) in observed.reports for pod in observed.probes),
    )


def normal_seconds(spec: EventConsumerSpec) -> float:
    """Age of the oldest unwritten event while hosts keep up, as the leading host measures it.

    Raises:
        SpecError: The age has no limit.
    """
    processing = spec.processing
    if processing.handler is None or processing.handler_mode is not HandlerMode.REPLACE:
        return spec.sink.roll.max_seconds + _MEASURING_SECONDS
    # Without files an event is processed when a checkpoint follows it.
    if processing.checkpoint.policy in {CheckpointPolicy.EVENTS, CheckpointPolicy.HANDLER}:
        raise SpecError(
            "spec.processing.checkpoint.policy",
            "scaling.mode: Lag cannot measure the lag of a handler without files while checkpoints wait for a number "
            "of events or for the handler: set Batch or Interval, or another scaling.mode",
        )
    interval = processing.checkpoint.policy is CheckpointPolicy.INTERVAL
    return (processing.checkpoint.seconds if interval else 0) + _MEASURING_SECONDS


@dataclass(frozen=True)
class Running:
    """Replicas of the StatefulSet.

    Attributes:
        replicas: Number of pods.
        leaving: Value of `ANNOTATION_LEAVING`; empty: no host leaves.
    """

    replicas: int
    leaving: str = ""


def running(observed: Observed, wanted: int) -> Running:
    """Replicas while `wanted` hosts are desired.

    If no host stays, no host can take over, and all stop at once.
    """
    hosts = hosts_set(observed)
    exist = hosts.get("spec", {}).get("replicas", 0)
    if wanted == 0 or exist <= wanted:
        return Running(wanted)
    since = _leaving_since(hosts, wanted) or observed.now
    holding = [_ordinal(pod) for pod in observed.pods if _ordinal(pod) >= wanted and _holds(observed, pod)]
    if observed.now - since >= LEAVING or not holding:
        return Running(wanted)
    return Running(min(exist, max(holding) + 1), f"{wanted} {since.isoformat()}")


def with_leaving(manifest: Manifest, run: Running) -> Manifest:
    """The StatefulSet with the annotation about leaving hosts."""
    if not run.leaving:
        return manifest
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations", {}) | {ANNOTATION_LEAVING: run.leaving}
    return manifest | {"metadata": metadata | {"annotations": annotations}}


def _leaving_since(hosts: Manifest, wanted: int) -> datetime | None:
    """Since when hosts leave for this number or a lower one; a lower number starts again."""
    told = hosts["metadata"].get("annotations", {}).get(ANNOTATION_LEAVING, "")
    number, _, since = told.partition(" ")
    try:
        return datetime.fromisoformat(since) if int(number) <= wanted else None
    except ValueError:  # written by hand
        return None


def _holds(observed: Observed, pod: Manifest) -> bool:
    """Whether a host may still own partitions; without a report it may."""
    if is_being_deleted(pod) or pod.get("status", {}).get("phase") in {"Pending", "Succeeded", "Failed"}:
        return False
    report = observed.reports.get(name_of(pod))
    return report is None or bool(report.partitions)


def _ordinal(pod: Manifest) -> int:
    return int(name_of(pod).rpartition("-")[2])
