"""Computes the status from the observed state, the plan and the errors of applying it. Pure.

The status also remembers what the observed state no longer shows: the last report of hosts that do not answer, and the
time of each condition's last transition. A system at rest yields the same status each time, so nothing is written.
"""

from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_api.v1alpha1.status import (
    Condition,
    DrainedStatus,
    EffectiveStatus,
    EventConsumerStatus,
    HostsStatus,
    HubStatus,
    LagStatus,
    MissingStatus,
    NoticesStatus,
    PartitionsStatus,
    RetentionStatus,
    StorageStatus,
    TableStatus,
)
from eventconsumer_api.wire.host_report import NoticesReport, RetentionReport, TableReport
from eventconsumer_operator.conditions.checks import CHECKS, Finding
from eventconsumer_operator.conditions.facts import Facts, gather
from eventconsumer_operator.conditions.replaystatus import replay_status
from eventconsumer_operator.conditions.sparkstatus import spark_status
from eventconsumer_operator.conditions.storagestatus import storage_status
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.plan import Plan
from eventconsumer_operator.resource.images import spark_image
from eventconsumer_operator.resource.missing import missing
from eventconsumer_operator.resource.names import selector_text
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.settings import Settings

MESSAGE_LIMIT = 1024


def make_status(
    observed: Observed,
    plan: Plan | None,
    errors: tuple[OperatorError, ...],
    settings: Settings,
    *,
    started: bool = False,
) -> EventConsumerStatus:
    """The new status.

    Args:
        observed: The state before the plan was applied.
        plan: The plan; None if there is none, and then `errors` says why.
        errors: Errors of planning and applying.
        settings: For the effective values.
        started: Whether the planned Spark application was started.
    """
    previous = observed.consumer.status
    spark = spark_status(observed, plan.spark if plan else None, started=started)
    facts = gather(observed, plan, errors, spark)
    table, notices, retention = _sink_parts(observed, plan)
    fleet = observed.fleet
    # The Secret of a changed spec may name another hub.
    same = previous.hub if previous.observed_generation == observed.consumer.generation else HubStatus()
    drained = previous.drained
    if fleet:
        drained = DrainedStatus(
            files=fleet.files,
            events=fleet.events,
            bytes=fleet.bytes,
            last_file_time=fleet.last_file_time,
            gap_events=fleet.gap_events,
            watermark=fleet.watermark.files if fleet.watermark else None,
        )
    return EventConsumerStatus(
        observed_generation=observed.consumer.generation,
        conditions=_conditions(observed, facts),
        hub=HubStatus(
            namespace=fleet.hub_namespace or None if fleet else same.namespace,
            name=fleet.hub_name or None if fleet else same.name,
            partition_count=observed.partition_count,
            created_at=fleet.hub_created_at if fleet else previous.hub.created_at,
        ),
        replicas=facts.existing,
        selector=selector_text(observed.consumer.key, labels.COMPONENT_HOST),
        hosts=HostsStatus(desired=facts.desired, ready=facts.ready, no_leader_since=facts.no_leader_since),
        missing=[
            MissingStatus(
                object=each.owner,
                expected=each.expected,
                existing=each.existing,
                since=each.since,
                cause=redact(each.cause),
            )
            for each in missing(observed)
        ],
        partitions=_partitions(facts),
        lag=_lag(observed, facts),
        scaling=plan.scaling if plan else previous.scaling,
        replay=replay_status(observed, plan.spec) if plan else previous.replay,
        drained=drained,
        table=table,
        notices=notices,
        retention=retention,
        storage=storage_status(observed),
        spark=spark,
        effective=_effective(plan, settings) if plan else previous.effective,
    )


def _partitions(facts: Facts) -> PartitionsStatus:
    if not facts.total or facts.unseen:
        return PartitionsStatus(total=facts.total or None)
    return PartitionsStatus(total=facts.total, owned=facts.owned, unowned=facts.total - facts.owned)


def _lag(observed: Observed, facts: Facts) -> LagStatus:
    fleet = observed.fleet
    if facts.off or facts.outdated:
        return LagStatus()  # nobody knows it
    if fleet is None:
        return observed.consumer.status.lag
    return LagStatus(
        events=fleet.lag_events, seconds=None if fleet.lag_seconds is None else max(0, round(fleet.lag_seconds))
    )


def _sink_parts(
    observed: Observed, plan: Plan | None
) -> tuple[TableStatus | None, NoticesStatus | None, RetentionStatus | None]:
    """The parts of spec.sink as the leading host last reported them; None: not in the spec, or no report yet."""
    previous = observed.consumer.status
    if plan is None or observed.fleet is None:
        return previous.table, previous.notices, previous.retention
    config, fleet = plan.config, observed.fleet
    return (
        _table(fleet.table, previous.table) if config.table else None,
        _notices(fleet.notices, previous.notices) if config.notices else None,
        _retention(fleet.retention, previous.retention) if config.retention else None,
    )


def _table(report: TableReport | None, previous: TableStatus | None) -> TableStatus | None:
    """The table; the time of its last commit outlives the leading host."""
    if report is None:
        return previous
    return TableStatus(
        version=report.version,
        files=report.files,
        events=report.events,
        pending_files=report.pending_files,
        pending_events=report.pending_events,
        oldest_pending_time=report.oldest_pending_time,
        last_commit_time=report.committed_at or (previous.last_commit_time if previous else None),
        log_retention_seconds=None if report.log_retention_seconds is None else int(report.log_retention_seconds),
    )


def _notices(report: NoticesReport | None, previous: NoticesStatus | None) -> NoticesStatus | None:
    """The notices; the time of the last one outlives the leading host."""
    if report is None:
        return previous
    last = report.acknowledged_at or (previous.last_time if previous else None)
    return NoticesStatus(pending_events=report.pending_events, last_time=last)


def _retention(report: RetentionReport | None, previous: RetentionStatus | None) -> RetentionStatus | None:
    """Retention."""
    if report is None:
        return previous
    return RetentionStatus(
        files=report.files,
        events=report.events,
        bytes=report.bytes,
        oldest_file_time=report.oldest_file_time,
        excess_bytes=report.excess_bytes,
        held=report.held,
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
    # Messages contain text of hosts, kubelets, the API server and Jobs.
    message = redact(finding.message)
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"


def wire(status: EventConsumerStatus) -> dict[str, Any]:
    """The status as it is written, without unknown values.

    Empty objects are left out, too: server-side apply turns an object that loses all its fields into `null`, which the
    schema rejects.
    """
    content = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {name: value for name, value in content.items() if value != {}}


def same_but_numbers(one: EventConsumerStatus, other: EventConsumerStatus) -> bool:
    """Whether two statuses differ at most in the numbers that change constantly while events flow."""
    return _without_numbers(one) == _without_numbers(other)


def same_but_moving(one: EventConsumerStatus, other: EventConsumerStatus) -> bool:
    """Whether two statuses differ at most in what moves while no event flows: watermarks, rates of storage requests."""
    return _without_moving(one) == _without_moving(other)


def _without_moving(status: EventConsumerStatus) -> EventConsumerStatus:
    spark = status.spark.model_copy(update={"watermark": None}) if status.spark else None
    drained = status.drained.model_copy(update={"watermark": None})
    return status.model_copy(update={"drained": drained, "storage": StorageStatus(), "spark": spark})


def _without_numbers(status: EventConsumerStatus) -> EventConsumerStatus:
    spark = (
        status.spark.model_copy(
            update={"pending_files": 0, "pending_bytes": 0, "processed_files": 0, "watermark": None}
        )
        if status.spark
        else None
    )
    # The message of this condition counts events.
    conditions = [
        each.model_copy(update={"message": ""}) if each.type == ConditionType.BODIES_UNREADABLE else each
        for each in status.conditions
    ]
    numbers = {
        "conditions": conditions,
        "lag": LagStatus(),
        "drained": DrainedStatus(),
        "storage": StorageStatus(),
        "table": None,
        "notices": None,
        "retention": None,
        "spark": spark,
    }
    return status.model_copy(update=numbers)
