"""Facts: the typed values from which conditions follow, gathered from the observed state and the plan. Pure.

Only what others say stays text: problems that hosts report, errors of the API server, termination messages.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from eventconsumer_api.kube import labels
from eventconsumer_api.spec.conditions import ADVISORY, UNREACHABLE, ConditionType, Reason
from eventconsumer_api.v1alpha1 import ScalingMode, SinkBodyType
from eventconsumer_api.v1alpha1.status import Condition, SparkStatus
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.kube.manifest import name_of
from eventconsumer_operator.plan import Plan
from eventconsumer_operator.plan.probe import is_asleep, is_probing
from eventconsumer_operator.resource.missing import Missing, missing
from eventconsumer_operator.resource.names import host_name, hosts_set, probe_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import (
    SLOW,
    PodFailure,
    Restart,
    StuckPod,
    UnreadyPod,
    is_ready,
    pod_failures,
    ready_since,
    restarts,
    stuck_pods,
    unready_pods,
)
from eventconsumer_operator.resource.programs import required_objects
from eventconsumer_operator.spark.facts import SparkFacts, spark_facts

PATIENCE = timedelta(minutes=2)
"""A problem of the network of some hosts may pass without an action: after this time it does not."""


@dataclass(frozen=True)
class HostProblem:
    """A problem that hosts report.

    Attributes:
        reason: Its reason.
        field: Path in the resource, such as spec.sink.container; several have "and" between them.
        text: Cause and remedy, from the host.
        hosts: Names of the pods that report it.
        reporting: Number of hosts that report at all.
        since: Since when the first of them has it; None: unknown.
    """

    reason: Reason
    field: str
    text: str
    hosts: tuple[str, ...] = ()
    reporting: int = 0
    since: datetime | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is a problem of the network that other hosts do not have."""
        return self.reason in UNREACHABLE and len(self.hosts) < self.reporting

    def may_pass(self, now: datetime) -> bool:
        """Whether it may pass without an action: some hosts have it, and not for long."""
        return self.is_local and self.since is not None and now - self.since < PATIENCE


@dataclass(frozen=True)
class Silent:
    """No leading host answers, although hosts are ready.

    Attributes:
        since: Since when.
        hosts: Names of the ready pods that do not answer; empty: they answer, and none of them leads.
    """

    since: datetime
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class LostEvents:
    """Events that expired before they were written.

    Attributes:
        events: How many.
        newest: Sequence numbers of the newest ones by partition; empty: in files before the last batch; None: unknown.
        acknowledged: spec.acknowledgedGapEvents.
    """

    events: int
    newest: tuple[tuple[str, str], ...] | None = ()
    acknowledged: int = 0

    @property
    def are_acknowledged(self) -> bool:
        """Whether a user has seen all. A greater number is of another chain, or is meant to hide later ones."""
        return self.events == self.acknowledged


@dataclass(frozen=True)
class BodyErrors:
    """Events in new files whose bodies do not fit the columns of bodies.

    Attributes:
        events: How many have each error, the most frequent one first.
        file: Name of the newest file with one.
    """

    events: tuple[tuple[str, int], ...]
    file: str


@dataclass(frozen=True)
class Facts:
    """What conditions follow from.

    Attributes:
        suspended: spec.suspend.
        older_reader: Name of the older EventConsumer that reads the consumer group; empty: none.
        scaled_to_zero: The spec sets a fixed number of hosts, and it is 0.
        asleep: Hosts are scaled to zero until new events arrive; the probe looks for them.
        errors: Errors of planning and applying.
        problems: Problems that hosts report and a user must fix.
        passing: Problems of some hosts that may pass without an action.
        advice: Problems that hosts report and that require no action to continue, without lost events.
        lost: Events lost to retention, by the last report of a leading host; None: none.
        lost_before: The message of the previous DataGap condition, while no host leads; empty for none.
        gaps: Lost events that hosts without files report.
        typed: Whether files have columns of bodies.
        body_errors: Bodies that do not fit them; None: hosts report none.
        missing: Pods that have not existed for so long that an action is needed, but those of Spark applications.
        silent: Hosts that have not reported for so long that an action is needed; None: they report, or none is ready.
        probe_silent_since: Since when the probe does not tell the lag, for so long that an action is needed; None: no.
        probe: Name of the probe's StatefulSet.
        pod_failures: Host pods that do not start.
        stuck_pods: Host pods that are being deleted and do not end.
        unready_pods: Host pods that are not ready, and do not say why.
        restarts: Recent restarts of host pods that are not ready again.
        desired: Desired number of hosts.
        ready: Ready hosts.
        hosts_set: Name of the hosts' StatefulSet.
        existing: Host pods that exist, without those that do not end.
        current: Host pods of the newest template.
        reported: Whether any host has answered.
        leading: Whether a leading host has answered.
        no_leader_since: Since when no leading host answers; None: one answers.
        outdated: Whether no leading host has answered for so long that its last numbers are unknown.
        unseen: Whether hosts exist, and none has answered for as long.
        spark_before: The previous condition SparkHealthy, while no leading host answers; None: it says nothing.
        total: Partitions of the hub; 0 if unknown.
        owned: Partitions that are read.
        behind: Whether events are pending; None if unknown.
        spark: Spark's share.
    """

    suspended: bool = False
    older_reader: str = ""
    scaled_to_zero: bool = False
    asleep: bool = False
    errors: tuple[OperatorError, ...] = ()
    problems: tuple[HostProblem, ...] = ()
    passing: tuple[HostProblem, ...] = ()
    advice: tuple[HostProblem, ...] = ()
    lost: LostEvents | None = None
    lost_before: str = ""
    gaps: tuple[HostProblem, ...] = ()
    typed: bool = False
    body_errors: BodyErrors | None = None
    missing: tuple[Missing, ...] = ()
    silent: Silent | None = None
    probe_silent_since: datetime | None = None
    probe: str = ""
    pod_failures: tuple[PodFailure, ...] = ()
    stuck_pods: tuple[StuckPod, ...] = ()
    unready_pods: tuple[UnreadyPod, ...] = ()
    restarts: tuple[Restart, ...] = ()
    desired: int = 0
    ready: int = 0
    hosts_set: str = ""
    existing: int = 0
    current: int = 0
    reported: bool = False
    leading: bool = False
    no_leader_since: datetime | None = None
    outdated: bool = False
    unseen: bool = False
    spark_before: Condition | None = None
    total: int = 0
    owned: int = 0
    behind: bool | None = None
    spark: SparkFacts = field(default_factory=SparkFacts)

    @property
    def off(self) -> Reason | None:
        """Why no hosts are wanted; None: the spec sets hosts, or the number follows the lag."""
        if self.suspended:
            return Reason.SUSPENDED
        if self.older_reader:
            return Reason.CONSUMER_GROUP_IN_USE
        return Reason.SCALED_TO_ZERO if self.scaled_to_zero else None

    @property
    def scaled(self) -> bool:
        """Whether exactly the desired hosts exist, of the newest template."""
        return self.existing == self.desired == self.current


def gather(
    observed: Observed, plan: Plan | None, errors: tuple[OperatorError, ...], spark: SparkStatus | None = None
) -> Facts:
    """Reduce the observed state and the plan to facts.

    Args:
        observed: The state before the plan was applied.
        plan: The plan; None if there is none.
        errors: Errors of planning and applying.
        spark: Spark's new status.
    """
    stateful_set = hosts_set(observed)
    status = stateful_set.get("status", {})
    # While the StatefulSet controller has not seen the newest template, its numbers are about the old one.
    seen = status.get("observedGeneration", 0) >= stateful_set.get("metadata", {}).get("generation", 1)
    desired = plan.hosts if plan else stateful_set.get("spec", {}).get("replicas", 0)
    suspended = bool(plan and plan.spec.suspend)
    zero = bool(plan and plan.scaling.mode is ScalingMode.FIXED and plan.hosts == 0)
    asleep = bool(plan and is_asleep(plan.scaling))
    probes = observed.probes if plan and is_probing(plan.scaling) else ()
    unknown_since = plan.scaling.unknown_since if plan else None
    no_leader_since = _no_leader_since(observed)
    outdated = no_leader_since is not None and observed.now - no_leader_since >= SLOW
    total = observed.partition_count or 0
    problems = _problems(observed)
    passing = tuple(problem for problem in problems if problem.may_pass(observed.now))
    stuck = stuck_pods(observed.pods, observed.now)
    gaps = tuple(problem for problem in problems if problem.reason is Reason.DATA_GAP)
    return Facts(
        suspended=suspended,
        older_reader="" if suspended or plan is None else observed.older_reader,
        scaled_to_zero=zero,
        asleep=asleep,
        errors=errors,
        problems=tuple(each for each in problems if each.reason not in ADVISORY and each not in passing),
        passing=passing,
        advice=tuple(each for each in problems if each.reason in ADVISORY and each not in gaps),
        lost=_lost(observed),
        lost_before="" if observed.fleet or gaps else _lost_before(observed),
        gaps=gaps,
        typed=bool(plan and plan.spec.sink.body and plan.spec.sink.body.type is SinkBodyType.JSON),
        body_errors=_body_errors(observed),
        missing=tuple(
            each for each in missing(observed) if each.lasts(observed.now) and each.component != labels.COMPONENT_SPARK
        ),
        silent=None if suspended or zero or asleep or problems or not outdated else _silent(observed, no_leader_since),
        probe_silent_since=unknown_since if unknown_since and observed.now - unknown_since >= SLOW else None,
        probe=probe_name(observed.consumer.key),
        pod_failures=pod_failures((*observed.pods, *probes)),
        stuck_pods=(*stuck, *stuck_pods(probes, observed.now)),
        unready_pods=unready_pods(
            (*observed.pods, *probes), observed.now, required_objects(plan.spec.processing) if plan else ()
        ),
        restarts=restarts((pod for pod in observed.pods if not is_ready(pod)), observed.now),
        desired=desired,
        ready=min(status.get("readyReplicas", 0), desired),
        hosts_set=host_name(observed.consumer.key),
        existing=max(0, status.get("replicas", 0) - len(stuck)),
        current=status.get("updatedReplicas", status.get("replicas", 0)) if seen else 0,
        reported=bool(observed.reports),
        leading=observed.fleet is not None,
        no_leader_since=no_leader_since,
        outdated=outdated,
        unseen=outdated and bool(observed.pods) and not observed.reports,
        spark_before=_spark_before(observed),
        total=total,
        owned=0 if suspended or observed.older_reader or (zero and not observed.pods) else min(_owned(observed), total),
        behind=observed.fleet.lag_events > 0 if observed.fleet and observed.fleet.lag_events is not None else None,
        spark=spark_facts(observed, plan.spark if plan else None, spark),
    )


def _problems(observed: Observed) -> tuple[HostProblem, ...]:
    """Problems that hosts report, once each, in a stable order, with the hosts that have them."""
    found: dict[tuple[str, str], HostProblem] = {}
    for pod, report in sorted(observed.reports.items()):
        for problem in report.problems:
            one = replace(reported_problem(problem), reporting=len(observed.reports), since=problem.since)
            known = found.get((problem.field, problem.reason), one)
            times = [time for time in (known.since, problem.since) if time is not None]
            found[problem.field, problem.reason] = replace(
                known, hosts=(*known.hosts, pod), since=min(times, default=None)
            )
    return _by_cause(found[where] for where in sorted(found))


def _by_cause(problems: Iterable[HostProblem]) -> tuple[HostProblem, ...]:
    """One problem for each cause, with all its fields: the error in parentheses at the end of a text may differ."""
    found: dict[tuple[Reason, str, tuple[str, ...]], HostProblem] = {}
    for problem in problems:
        where = problem.reason, problem.text.partition(" (")[0], problem.hosts
        known = found.get(where)
        if known is None:
            found[where] = problem
        else:
            times = [time for time in (known.since, problem.since) if time is not None]
            found[where] = replace(known, field=f"{known.field} and {problem.field}", since=min(times, default=None))
    return tuple(found.values())


def _no_leader_since(observed: Observed) -> datetime | None:
    return None if observed.fleet else observed.consumer.status.hosts.no_leader_since or observed.now


def _silent(observed: Observed, no_leader_since: datetime | None) -> Silent | None:
    """Hosts that have been ready for long while no leading host answers."""
    ready = {name_of(pod): since for pod in observed.pods if (since := ready_since(pod))}
    if no_leader_since is None or not ready:
        return None
    since = max(no_leader_since, min(ready.values()))
    if observed.now - since < SLOW:
        return None
    return Silent(since, tuple(sorted(ready)) if not observed.reports else ())


def _spark_before(observed: Observed) -> Condition | None:
    before = observed.consumer.status.condition(ConditionType.SPARK_HEALTHY)
    says_something = {*Reason} - {Reason.DISABLED, Reason.NO_REPORT}  # an operator of another version has other reasons
    return before if before and before.reason in says_something else None


def reported_problem(problem: Problem) -> HostProblem:
    """The fact of a problem that a host reports."""
    try:
        reason = Reason(problem.reason)
    except ValueError:
        reason = Reason.HOSTS_FAILING  # a newer host has more reasons than this operator; its message is shown
    return HostProblem(reason, problem.field, problem.message)


def _lost(observed: Observed) -> LostEvents | None:
    fleet = observed.fleet
    events = fleet.gap_events if fleet else observed.consumer.status.drained.gap_events
    if not events:
        return None
    newest = tuple(sorted(fleet.gaps.items())) if fleet else None
    acknowledged = observed.consumer.spec.get("acknowledgedGapEvents")  # also of a spec that is not valid
    return LostEvents(events, newest, acknowledged if isinstance(acknowledged, int) else 0)


def _lost_before(observed: Observed) -> str:
    before = observed.consumer.status.condition(ConditionType.DATA_GAP)
    return before.message if before and before.status == "True" else ""


def _body_errors(observed: Observed) -> BodyErrors | None:
    found = [each for report in observed.reports.values() for each in report.body_errors]
    if not found:
        return None
    events = Counter[str]()
    for each in found:
        events[each.error] += each.events
    newest = max(found, key=lambda each: (each.committed_at, each.file))
    return BodyErrors(tuple(sorted(events.items(), key=lambda item: (-item[1], item[0]))), newest.file)


def _owned(observed: Observed) -> int:
    told = [partition for report in observed.reports.values() for partition in report.partitions]
    read = {partition.id for partition in told if partition.read}
    if observed.fleet:
        return len(observed.fleet.owners.keys() - ({partition.id for partition in told} - read))
    if observed.reports:
        return len(read)
    # No host answers: without pods no partition is read; otherwise the last report counts for now.
    return observed.consumer.status.partitions.owned or 0 if observed.pods else 0
