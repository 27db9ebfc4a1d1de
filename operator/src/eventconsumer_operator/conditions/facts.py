"""Facts: the typed values from which conditions follow, gathered from the observed state and the plan. Pure.

Only what others say stays text: problems that hosts report, errors of the API server, termination messages.
"""

from dataclasses import dataclass, field

from eventconsumer_api.conditions import ADVISORY, ConditionType, Reason
from eventconsumer_api.host_report import Problem
from eventconsumer_api.status import SparkStatus
from eventconsumer_api.v1alpha1 import ScalingMode
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.kube.manifest import STATEFUL_SET
from eventconsumer_operator.plan import Plan
from eventconsumer_operator.plan.probe import is_probing
from eventconsumer_operator.resource.names import host_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import (
    PodFailure,
    Restart,
    SlowPod,
    pod_failures,
    restarts,
    slow_pods,
)
from eventconsumer_operator.resource.programs import required_objects
from eventconsumer_operator.spark.facts import SparkFacts, spark_facts


@dataclass(frozen=True)
class HostProblem:
    """A problem that hosts report.

    Attributes:
        reason: Its reason.
        field: Path in the resource, such as spec.sink.container.
        text: Cause and remedy, from the host.
    """

    reason: Reason
    field: str
    text: str


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
class Facts:
    """What conditions follow from.

    Attributes:
        suspended: spec.suspend.
        scaled_to_zero: The spec sets a fixed number of hosts, and it is 0.
        asleep: Hosts are scaled to zero until new events arrive; the probe looks for them.
        errors: Errors of planning and applying.
        problems: Problems that hosts report and a user must fix.
        dead_letters: Dead letters that hosts report.
        lost: Events lost to retention, by the last report of a leading host; None: none.
        lost_before: The message of the previous DataGap condition, while no host leads; empty for none.
        gaps: Lost events that hosts without files report.
        pod_failures: Host pods that do not start.
        slow_pods: Host pods that have not been ready for minutes.
        restarts: Recent restarts of host pods.
        desired: Desired number of hosts.
        ready: Ready hosts.
        hosts_set: Name of the hosts' StatefulSet.
        existing: Host pods that exist.
        current: Host pods of the newest template.
        reported: Whether any host has answered.
        total: Partitions of the hub; 0 if unknown.
        owned: Partitions that are read.
        behind: Whether events are pending; None if unknown.
        spark: Spark's share.
    """

    suspended: bool = False
    scaled_to_zero: bool = False
    asleep: bool = False
    errors: tuple[OperatorError, ...] = ()
    problems: tuple[HostProblem, ...] = ()
    dead_letters: tuple[HostProblem, ...] = ()
    lost: LostEvents | None = None
    lost_before: str = ""
    gaps: tuple[HostProblem, ...] = ()
    pod_failures: tuple[PodFailure, ...] = ()
    slow_pods: tuple[SlowPod, ...] = ()
    restarts: tuple[Restart, ...] = ()
    desired: int = 0
    ready: int = 0
    hosts_set: str = ""
    existing: int = 0
    current: int = 0
    reported: bool = False
    total: int = 0
    owned: int = 0
    behind: bool | None = None
    spark: SparkFacts = field(default_factory=SparkFacts)

    @property
    def off(self) -> Reason | None:
        """Why the spec sets zero hosts; None: it sets hosts, or the number follows the lag."""
        if self.suspended:
            return Reason.SUSPENDED
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
    stateful_set = observed.children.get((STATEFUL_SET, host_name(observed.consumer.key)), {})
    status = stateful_set.get("status", {})
    # While the StatefulSet controller has not seen the newest template, its numbers are about the old one.
    seen = status.get("observedGeneration", 0) >= stateful_set.get("metadata", {}).get("generation", 1)
    desired = plan.hosts if plan else stateful_set.get("spec", {}).get("replicas", 0)
    suspended = bool(plan and plan.spec.suspend)
    zero = bool(plan and plan.scaling.mode is ScalingMode.FIXED and plan.hosts == 0)
    asleep = bool(plan and is_probing(plan.scaling))
    total = observed.partition_count or 0
    problems = tuple(map(host_problem, observed.problems))
    gaps = tuple(problem for problem in problems if problem.reason is Reason.DATA_GAP)
    return Facts(
        suspended=suspended,
        scaled_to_zero=zero,
        asleep=asleep,
        errors=errors,
        problems=tuple(problem for problem in problems if problem.reason not in ADVISORY),
        dead_letters=tuple(problem for problem in problems if problem.reason is Reason.DEAD_LETTERS),
        lost=_lost(observed),
        lost_before="" if observed.fleet or gaps else _lost_before(observed),
        gaps=gaps,
        pod_failures=pod_failures((*observed.pods, *(observed.probes if asleep else ()))),
        slow_pods=slow_pods(observed.pods, observed.now, required_objects(plan.spec.processing) if plan else ()),
        restarts=restarts(observed.pods, observed.now),
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


def host_problem(problem: Problem) -> HostProblem:
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


def _owned(observed: Observed) -> int:
    if observed.fleet:
        return len(observed.fleet.owners)
    if observed.reports:
        return len({partition.id for report in observed.reports.values() for partition in report.partitions})
    # No host answers: without pods no partition is read; otherwise the last report counts for now.
    return observed.consumer.status.partitions.owned if observed.pods else 0
