"""Pure checks, one per condition, ordered by importance to users.

A Finding becomes a condition in status.py, which adds times; no check knows the previous status. `messages` has the
sentences.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from eventconsumer_api.kube import labels
from eventconsumer_api.spec.conditions import ConditionType, Reason
from eventconsumer_operator.conditions import messages
from eventconsumer_operator.conditions.facts import Facts
from eventconsumer_operator.conditions.messages import joined
from eventconsumer_operator.errors import SpecError

_OF_HOSTS = {labels.COMPONENT_HOST, labels.COMPONENT_PROBE}

Verdict = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class Finding:
    """A condition without its times."""

    status: Verdict
    reason: Reason
    message: str


@dataclass(frozen=True)
class Blocker:
    """A problem that a user must fix."""

    reason: Reason
    message: str


def blockers(facts: Facts) -> tuple[Blocker, ...]:
    """All problems that a user must fix, most fundamental first."""
    return tuple(_blockers(facts))


def _blockers(facts: Facts) -> Iterator[Blocker]:
    for error in facts.errors:
        if error.reason not in {None, Reason.PROGRESSING}:
            yield Blocker(error.reason or Reason.OBJECT_REFUSED, str(error))
    if facts.older_reader:
        yield Blocker(Reason.CONSUMER_GROUP_IN_USE, messages.consumer_group_in_use(facts.older_reader))
    if facts.off not in {Reason.SUSPENDED, Reason.CONSUMER_GROUP_IN_USE}:  # hosts that end report what does not matter
        for problem in facts.problems:
            yield Blocker(problem.reason, messages.host_problem(problem))
        if facts.pod_failures:
            yield Blocker(Reason.HOSTS_FAILING, messages.pods_failing(facts.pod_failures))
        if facts.stuck_pods:
            yield Blocker(Reason.HOSTS_FAILING, messages.pods_stuck(facts.stuck_pods, facts.current < facts.existing))
    yield from _absent(facts)
    spark = spark_healthy(facts)
    if spark.reason in {Reason.SPARK_FAILED, Reason.SPARK_WAITING}:
        yield Blocker(spark.reason, spark.message)


def _absent(facts: Facts) -> Iterator[Blocker]:
    """What is expected and has been missing for minutes: pods, ready pods, reports."""
    for each in facts.missing:
        reason = Reason.HOSTS_FAILING if each.component in _OF_HOSTS else Reason.OBJECT_REFUSED
        yield Blocker(reason, messages.pods_missing(each))
    if facts.off:
        return
    if stuck := tuple(pod for pod in facts.unready_pods if pod.stuck):
        yield Blocker(Reason.HOSTS_FAILING, messages.pods_unready(stuck))
    if facts.silent:
        yield Blocker(Reason.HOSTS_FAILING, messages.hosts_silent(facts.silent))
    if facts.probe_silent_since:
        yield Blocker(Reason.HOSTS_FAILING, messages.probe_silent(facts.probe, facts.probe_silent_since))


def stalled(facts: Facts) -> Finding:
    """Whether a user must change something."""
    found = blockers(facts)
    if not found:
        return Finding("False", Reason.AVAILABLE, messages.NO_ACTION)
    return Finding("True", found[0].reason, joined(*(blocker.message for blocker in found)))


def hosts_available(facts: Facts) -> Finding:
    """Whether the desired hosts are ready."""
    if facts.off:
        return Finding("False", facts.off, messages.no_hosts(facts.off))
    count = joined(messages.hosts_ready(facts.ready, facts.desired), messages.pods_restarted(facts.restarts))
    if facts.ready >= facts.desired:
        return Finding("True", Reason.AVAILABLE, count)
    if facts.pod_failures:
        return Finding("False", Reason.HOSTS_FAILING, joined(count, messages.pods_failing(facts.pod_failures)))
    if absent := [each for each in facts.missing if each.component == labels.COMPONENT_HOST]:
        return Finding("False", Reason.HOSTS_FAILING, joined(count, *map(messages.pods_missing, absent)))
    if facts.existing == 0:
        return Finding("False", Reason.PROGRESSING, joined(count, messages.no_pod(facts.hosts_set)))
    return Finding("False", Reason.PROGRESSING, joined(count, messages.pods_unready(facts.unready_pods)))


def draining(facts: Facts) -> Finding:
    """Whether events are written to files."""
    if facts.off:
        return Finding("False", facts.off, messages.not_reading(facts.off))
    if facts.asleep and not facts.reported:
        return Finding("Unknown", Reason.PROGRESSING, messages.NO_PROBE_REPORT)
    if facts.asleep:
        return Finding("True", Reason.IDLE, messages.IDLE)
    if not facts.reported:
        return Finding("Unknown", Reason.NO_REPORT, messages.NO_HOST_REPORT)
    count = joined(messages.partitions_read(facts.owned, facts.total), *map(messages.host_problem, facts.passing))
    if facts.total == 0 or facts.owned < facts.total:
        return Finding("True" if facts.owned else "False", Reason.PROGRESSING, count)
    advice = map(messages.host_problem, facts.advice)
    if facts.behind is False:
        return Finding("True", Reason.IDLE, joined(count, messages.NO_LAG, *advice))
    return Finding("True", Reason.AVAILABLE, joined(count, *advice))


def data_gap(facts: Facts) -> Finding:
    """Whether events were lost to retention that no user has acknowledged: the files record gaps permanently."""
    lost = facts.lost
    text = facts.lost_before or (messages.events_lost(lost) if lost else "")
    if lost and lost.are_acknowledged:
        text = ""
    if text := joined(text, *map(messages.host_problem, facts.gaps)):
        return Finding("True", Reason.DATA_GAP, text)
    if lost:
        return Finding("False", Reason.GAP_ACKNOWLEDGED, messages.gap_acknowledged(lost))
    if not facts.reported:
        return Finding("Unknown", Reason.NO_REPORT, messages.unknown(facts.off))
    return Finding("False", Reason.AVAILABLE, messages.NO_GAP)


def bodies_unreadable(facts: Facts) -> Finding:
    """Whether bodies of events in the files of the last minutes do not fit the columns of bodies."""
    if not facts.typed:
        return Finding("False", Reason.DISABLED, messages.NO_COLUMNS)
    if facts.body_errors:
        return Finding("True", Reason.BODIES_UNREADABLE, messages.bodies_unreadable(facts.body_errors))
    if not facts.reported:
        return Finding("Unknown", Reason.NO_REPORT, messages.unknown(facts.off))
    return Finding("False", Reason.AVAILABLE, messages.BODIES_FIT)


def spark_healthy(facts: Facts) -> Finding:
    """Whether all open batches make progress: false from the first failed attempt at one until its commit."""
    spark = facts.spark
    if not spark.enabled:
        return Finding("True", Reason.DISABLED, messages.SPARK_DISABLED)
    if not facts.leading:
        return _unconfirmed(facts)
    if spark.failed or spark.waiting:
        reason = Reason.SPARK_WAITING if spark.waiting else Reason.SPARK_RETRYING
        if spark.exhausted:
            reason = Reason.SPARK_FAILED
        return Finding("False", reason, joined(_waiting(facts), _failing(facts)))
    state = messages.batch_steps(spark.batches) if spark.batches else messages.no_batch(spark.resident)
    left_out = messages.quarantined(spark.quarantine) if spark.quarantine else ""
    if spark.behind:
        return Finding("True", Reason.SPARK_BEHIND, joined(state, messages.spark_behind(spark.behind), left_out))
    if left_out:
        return Finding("True", Reason.SPARK_QUARANTINED, joined(state, left_out))
    return Finding("True", Reason.PROGRESSING if spark.batches else Reason.IDLE, state)


def _unconfirmed(facts: Facts) -> Finding:
    """The last word about Spark: no leading host reports, so nothing is known about the open batches."""
    before = facts.spark_before
    if before is None or facts.no_leader_since is None:
        return Finding("Unknown", Reason.NO_REPORT, messages.unknown(facts.off))
    return Finding(before.status, Reason(before.reason), messages.unconfirmed(before.message, facts.no_leader_since))


def _failing(facts: Facts) -> str:
    return joined(*(messages.batch_failing(each, each.failed) for each in facts.spark.batches if each.failed))


def _waiting(facts: Facts) -> str:
    batches = {each.number: each for each in facts.spark.batches}
    first = facts.spark.batches[0] if batches else None
    found = ((each, batches.get(each.batch, first)) for each in facts.spark.waiting)
    return joined(*(messages.batch_waiting(batch, each) for each, batch in found if batch))


def reconciling(facts: Facts) -> Finding:
    """Whether the operator is still applying the spec."""
    if any(isinstance(error, SpecError) for error in facts.errors):
        return Finding("False", Reason.SPEC_INVALID, messages.SPEC_AWAITED)
    if found := blockers(facts):
        # Never with Stalled: tools that follow kstatus would wait for a resource that needs an action.
        return Finding("False", found[0].reason, messages.FIX_AWAITED)
    if text := _progress(facts):
        return Finding("True", Reason.PROGRESSING, text)
    return Finding("False", Reason.AVAILABLE, messages.AS_SPECIFIED)


def _progress(facts: Facts) -> str:
    """What is in progress; empty for nothing."""
    if facts.errors:
        return str(facts.errors[0])
    if facts.existing > facts.desired:
        return messages.hosts_leaving(facts.existing - facts.desired, facts.existing)
    waits = messages.pods_unready(facts.unready_pods)
    if not facts.scaled:
        return joined(messages.hosts_up_to_date(facts.current, facts.desired), waits)
    if facts.ready < facts.desired:
        return joined(messages.hosts_ready(facts.ready, facts.desired), waits)
    if facts.desired and (not facts.reported or facts.owned < facts.total or not facts.total):
        return draining(facts).message
    return ""


def ready(facts: Facts) -> Finding:
    """Whether all resources match the spec and no action is required.

    Where the spec sets hosts, they run and own all partitions. Where it sets zero hosts, none runs, and the resource is
    ready: tools that wait for it must not wait endlessly. `Draining` says that no events are read.
    """
    blocked = stalled(facts)
    if blocked.status == "True":
        return Finding("False", blocked.reason, blocked.message)
    if facts.off:
        return Finding("False" if facts.existing else "True", facts.off, hosts_available(facts).message)
    for check in (hosts_available, draining):
        finding = check(facts)
        if finding.status != "True" or finding.reason is Reason.PROGRESSING:
            return Finding("False", finding.reason, finding.message)
    return Finding("True", Reason.AVAILABLE, draining(facts).message)


CHECKS: tuple[tuple[ConditionType, Callable[[Facts], Finding]], ...] = (
    (ConditionType.READY, ready),
    (ConditionType.RECONCILING, reconciling),
    (ConditionType.STALLED, stalled),
    (ConditionType.HOSTS_AVAILABLE, hosts_available),
    (ConditionType.DRAINING, draining),
    (ConditionType.DATA_GAP, data_gap),
    (ConditionType.BODIES_UNREADABLE, bodies_unreadable),
    (ConditionType.SPARK_HEALTHY, spark_healthy),
)
