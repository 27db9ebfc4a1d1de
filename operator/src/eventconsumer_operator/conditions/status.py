"""Computes the status from what was observed, planned and applied. Pure.

The status is a function of the world, with a memory of three things that the world cannot tell again: what hosts said
while they are silent now, when each condition last changed, and how often it may change. A resting system gives the
same status each time, so nothing is written.
"""

from typing import Any

from eventconsumer_api import labels
from eventconsumer_api.conditions import ADVISORY, ConditionType, Reason
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.redaction import redact
from eventconsumer_api.status import (
    Condition,
    DrainedStatus,
    EffectiveStatus,
    EventConsumerStatus,
    HostsStatus,
    HubStatus,
    LagStatus,
    PartitionsStatus,
    SparkStatus,
    StorageStatus,
)
from eventconsumer_api.v1alpha1 import ScalingMode
from eventconsumer_operator.conditions.checks import CHECKS, Blocker, Facts, Finding
from eventconsumer_operator.conditions.storagestatus import storage_status
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.kube.manifest import STATEFUL_SET
from eventconsumer_operator.plan import Plan
from eventconsumer_operator.plan.probe import is_probing
from eventconsumer_operator.plan.replay import replay_status
from eventconsumer_operator.resource.images import spark_image
from eventconsumer_operator.resource.names import host_name, selector_text
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import pod_failures, restart_texts, restarts, slow_pods
from eventconsumer_operator.settings import Settings
from eventconsumer_operator.spark.status import spark_facts, spark_status

MESSAGE_LIMIT = 1024


def make_status(
    observed: Observed,
    plan: Plan | None,
    errors: tuple[OperatorError, ...],
    settings: Settings,
    *,
    started: bool = False,
) -> EventConsumerStatus:
    """The status to be.

    Args:
        observed: The world before the plan was applied.
        plan: The plan; None if none could be made, and then `errors` says why.
        errors: What kept the operator from planning or applying.
        settings: For the effective values.
        started: Whether the Spark application was started that the plan wanted started.
    """
    previous = observed.consumer.status
    spark = spark_status(observed, plan.spark if plan else None, started=started)
    facts = gather(observed, plan, errors, spark)
    fleet = observed.fleet
    drained = previous.drained
    if fleet:
        drained = DrainedStatus(
            files=fleet.files, events=fleet.events, bytes=fleet.bytes, last_file_time=fleet.last_file_time
        )
    return EventConsumerStatus(
        observed_generation=observed.consumer.generation,
        conditions=_conditions(observed, facts),
        hub=HubStatus(
            partition_count=observed.partition_count,
            created_at=fleet.hub_created_at if fleet else previous.hub.created_at,
        ),
        replicas=facts.existing,
        selector=selector_text(observed.consumer.key, labels.COMPONENT_HOST),
        hosts=HostsStatus(desired=facts.desired, ready=facts.ready),
        partitions=PartitionsStatus(total=facts.total, owned=facts.owned, unowned=facts.total - facts.owned),
        lag=_lag(observed, facts),
        scaling=plan.scaling if plan else previous.scaling,
        replay=replay_status(observed, plan.spec) if plan else previous.replay,
        drained=drained,
        storage=storage_status(observed),
        spark=spark,
        effective=_effective(plan, settings) if plan else previous.effective,
    )


def gather(
    observed: Observed, plan: Plan | None, errors: tuple[OperatorError, ...], spark: SparkStatus | None = None
) -> Facts:
    """Reduce the world to what conditions are judged by."""
    stateful_set = _hosts_set(observed)
    status = stateful_set.get("status", {})
    # While the StatefulSet controller has not seen the newest template, its numbers are about the old one.
    seen = status.get("observedGeneration", 0) >= stateful_set.get("metadata", {}).get("generation", 1)
    desired = plan.hosts if plan else stateful_set.get("spec", {}).get("replicas", 0)
    suspended = bool(plan and plan.spec.suspend)
    zero = bool(plan and plan.scaling.mode is ScalingMode.FIXED and plan.hosts == 0)
    asleep = bool(plan and is_probing(plan.scaling))
    total = observed.partition_count or 0
    told = [Blocker(_reason(problem.reason), f"{problem.field}: {problem.message}") for problem in observed.problems]
    return Facts(
        suspended=suspended,
        scaled_to_zero=zero,
        asleep=asleep,
        errors=errors,
        problems=tuple(blocker for blocker in told if blocker.reason not in ADVISORY),
        advice=tuple(blocker.message for blocker in told if blocker.reason is Reason.DEAD_LETTERS),
        gaps="; ".join(
            filter(None, [_gaps(observed), *(gap.message for gap in told if gap.reason is Reason.DATA_GAP)])
        ),
        pod_failures=pod_failures((*observed.pods, *(observed.probes if asleep else ()))),
        slow_pods=slow_pods(observed.pods, observed.now),
        restarts=restart_texts(restarts(observed.pods, observed.now)),
        desired=desired,
        ready=min(status.get("readyReplicas", 0), desired),
        hosts_set=host_name(observed.consumer.key),
        existing=status.get("replicas", 0),
        current=status.get("updatedReplicas", status.get("replicas", 0)) if seen else 0,
        reported=bool(observed.reports),
        total=total,
        owned=0 if suspended or (zero and not observed.pods) else min(_owned(observed), total),
        behind=observed.fleet.lag_events > 0 if observed.fleet and observed.fleet.lag_events is not None else None,
        spark=spark_facts(observed, plan.spark if plan else None, spark),
    )


def _gaps(observed: Observed) -> str:
    """The events that the files lack; empty for none. The last report stands while no host leads."""
    fleet = observed.fleet
    if fleet is None:
        before = observed.consumer.status.condition(ConditionType.DATA_GAP)
        return before.message if before and before.status == "True" else ""
    if not fleet.gap_events:
        return ""
    newest = "; ".join(f"partition {partition}: {ranges}" for partition, ranges in sorted(fleet.gaps.items()))
    return (
        f"{fleet.gap_events} events were lost: they expired in the Event Hub before they were written to a file"
        f" (newest: {newest or 'in files before the last batch'}): raise the retention, or the number of hosts"
    )


def _hosts_set(observed: Observed) -> Manifest:
    return observed.children.get((STATEFUL_SET, host_name(observed.consumer.key)), {})


def _reason(text: str) -> Reason:
    try:
        return Reason(text)
    except ValueError:
        return Reason.HOSTS_FAILING  # a newer host knows more reasons than this operator; its message still tells


def _owned(observed: Observed) -> int:
    if observed.fleet:
        return len(observed.fleet.owners)
    if observed.reports:
        return len({partition.id for report in observed.reports.values() for partition in report.partitions})
    # No host answers: without pods no partition is read; otherwise the last report stands for now.
    return observed.consumer.status.partitions.owned if observed.pods else 0


def _lag(observed: Observed, facts: Facts) -> LagStatus:
    fleet = observed.fleet
    if facts.suspended:
        return LagStatus()
    if fleet is None:
        return observed.consumer.status.lag
    return LagStatus(
        events=fleet.lag_events, seconds=None if fleet.lag_seconds is None else max(0, round(fleet.lag_seconds))
    )


def _effective(plan: Plan, settings: Settings) -> EffectiveStatus:
    return EffectiveStatus(
        replicas=plan.hosts,
        image=plan.image,
        spark_image=spark_image(plan.spec, settings),
        sink_prefix=plan.config.sink.prefix,
        config_hash=plan.config.digest(),
    )


def _conditions(observed: Observed, facts: Facts) -> list[Condition]:
    conditions = []
    for kind, check in CHECKS:
        finding = check(facts)
        before = observed.consumer.status.condition(kind)
        unchanged = before is not None and before.status == finding.status
        conditions.append(
            Condition(
                type=kind,
                status=finding.status,
                reason=finding.reason,
                message=_shortened(finding),
                last_transition_time=before.last_transition_time if before and unchanged else observed.now,
                observed_generation=observed.consumer.generation,
            )
        )
    return conditions


def _shortened(finding: Finding) -> str:
    # Most of it was written by others: hosts, kubelets, the API server, Jobs.
    message = redact(finding.message)
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"


def wire(status: EventConsumerStatus) -> dict[str, Any]:
    """The status as it is written: what is not known is left out.

    So are parts that became empty: server-side apply turns an object whose fields are all given up into `null`, which
    the schema refuses.
    """
    content = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {name: value for name, value in content.items() if value != {}}


def same_but_numbers(one: EventConsumerStatus, other: EventConsumerStatus) -> bool:
    """Whether two statuses differ at most in the numbers that move all the time while events flow."""
    return _without_numbers(one) == _without_numbers(other)


def _without_numbers(status: EventConsumerStatus) -> EventConsumerStatus:
    spark = (
        status.spark.model_copy(update={"pending_files": 0, "pending_bytes": 0, "processed_files": 0})
        if status.spark
        else None
    )
    numbers = {"lag": LagStatus(), "drained": DrainedStatus(), "storage": StorageStatus(), "spark": spark}
    return status.model_copy(update=numbers)
