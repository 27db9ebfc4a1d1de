"""Judges the world: one pure check for each condition, in the order in which people need to know.

`Facts` are the few numbers and texts that the checks need, so that each check reads like a specification. A Finding
becomes a condition in status.py, which adds times; nothing here knows the previous status.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from eventconsumer_api.conditions import ConditionType, Reason
from eventconsumer_operator.errors import OperatorError, SpecError
from eventconsumer_operator.spark.status import SparkFacts

Verdict = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class Blocker:
    """A problem that a user must fix."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class Facts:
    """What conditions are judged by.

    Attributes:
        suspended: spec.suspend.
        scaled_to_zero: The spec asks for a fixed number of hosts, and that is 0.
        asleep: No host runs because nothing comes; the probe looks for events.
        errors: What kept the operator from planning or applying.
        problems: Problems that hosts report and a user must fix.
        advice: Reports of hosts for the user's information.
        gaps: What is missing in the files for ever; empty for nothing.
        pod_failures: Why host pods do not start.
        slow_pods: Which host pods are not ready though they had the time, without saying why.
        restarts: Why host pods were restarted lately.
        desired: Desired number of hosts.
        ready: Ready hosts.
        hosts_set: Name of the hosts' StatefulSet.
        existing: Host pods that exist.
        current: Host pods of the newest template.
        reported: Whether any host has answered.
        total: Partitions of the hub; 0 if not known.
        owned: Partitions that are read.
        behind: Whether events wait; None if not known.
        spark: Spark's share.
    """

    suspended: bool = False
    scaled_to_zero: bool = False
    asleep: bool = False
    errors: tuple[OperatorError, ...] = ()
    problems: tuple[Blocker, ...] = ()
    advice: tuple[str, ...] = ()
    gaps: str = ""
    pod_failures: tuple[str, ...] = ()
    slow_pods: tuple[str, ...] = ()
    restarts: tuple[str, ...] = ()
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
    def blockers(self) -> tuple[Blocker, ...]:
        """All problems that a user must fix, most fundamental first."""
        return tuple(self._blockers())

    @property
    def off(self) -> tuple[Reason, str] | None:
        """Why the spec wants no host to run, whatever comes; None: it wants some, or leaves it to the lag."""
        if self.suspended:
            return Reason.SUSPENDED, "spec.suspend is true"
        if self.scaled_to_zero:
            return Reason.SCALED_TO_ZERO, "spec.scaling.mode is Fixed and spec.scaling.replicas is 0"
        return None

    @property
    def scaled(self) -> bool:
        """Whether exactly the wanted hosts exist, of the newest template."""
        return self.existing == self.desired == self.current

    def _blockers(self) -> Iterator[Blocker]:
        for error in self.errors:
            if error.reason not in {None, Reason.PROGRESSING}:
                yield Blocker(error.reason or Reason.REFUSED, str(error))
        if not self.suspended:
            yield from self.problems
            if self.pod_failures:
                yield Blocker(Reason.HOSTS_FAILING, "; ".join(self.pod_failures))
        if self.spark.failing and self.spark.failed:
            yield Blocker(Reason.SPARK_FAILED, self.spark.failing)
        if self.spark.waiting:
            yield Blocker(Reason.SPARK_WAITING, self.spark.waiting)


@dataclass(frozen=True)
class Finding:
    """A condition without its times."""

    status: Verdict
    reason: Reason
    message: str


def stalled(facts: Facts) -> Finding:
    """Whether a user must change something."""
    if not facts.blockers:
        return Finding("False", Reason.AVAILABLE, "No action required")
    return Finding("True", facts.blockers[0].reason, "; ".join(blocker.message for blocker in facts.blockers))


def hosts_available(facts: Facts) -> Finding:
    """Whether the wanted hosts are ready."""
    count = "; ".join((f"{facts.ready} of {facts.desired} hosts are ready", *facts.restarts))
    if facts.off:
        return Finding("False", facts.off[0], f"{facts.off[1]}: no hosts run")
    if facts.ready >= facts.desired:
        return Finding("True", Reason.AVAILABLE, count)
    if facts.pod_failures:
        return Finding("False", Reason.HOSTS_FAILING, f"{count}; " + "; ".join(facts.pod_failures))
    if facts.existing == 0:
        return Finding(
            "False",
            Reason.PROGRESSING,
            f"{count}; no host pod exists yet: if that lasts, kubectl describe statefulset {facts.hosts_set} shows why",
        )
    return Finding("False", Reason.PROGRESSING, "; ".join((count, *facts.slow_pods)))


def draining(facts: Facts) -> Finding:
    """Whether events flow into files."""
    if facts.off:
        return Finding("False", facts.off[0], f"{facts.off[1]}: no events are read")
    if facts.asleep and not facts.reported:
        return Finding("Unknown", Reason.PROGRESSING, "the probe has not reported yet")
    if facts.asleep:
        return Finding(
            "True",
            Reason.IDLE,
            "Idle: all events are written to files; hosts are scaled to zero until new events arrive",
        )
    if not facts.reported:
        return Finding("Unknown", Reason.NO_REPORT, "no host has reported yet")
    count = f"{facts.owned} of {facts.total} partitions are read"
    if facts.total == 0 or facts.owned < facts.total:
        return Finding("True" if facts.owned else "False", Reason.PROGRESSING, count)
    if facts.behind is False:
        return Finding("True", Reason.IDLE, "; ".join((f"{count}; all events are written to files", *facts.advice)))
    return Finding("True", Reason.AVAILABLE, "; ".join((count, *facts.advice)))


def data_gap(facts: Facts) -> Finding:
    """Whether events were lost to retention. That stays true: the files tell it for ever."""
    if facts.gaps:
        return Finding("True", Reason.DATA_GAP, facts.gaps)
    if not facts.reported:
        unknown = f"{facts.off[1]}: unknown while no host runs" if facts.off else "no host has reported yet"
        return Finding("Unknown", Reason.NO_REPORT, unknown)
    return Finding("False", Reason.AVAILABLE, "no events expired before they were written")


def spark_healthy(facts: Facts) -> Finding:
    """Whether the open batch is getting on: false from its first failed attempt until it is committed."""
    spark = facts.spark
    if not spark.enabled:
        return Finding("True", Reason.DISABLED, "Spark is not enabled in the spec")
    if spark.failing or spark.waiting:
        reason = Reason.SPARK_WAITING if spark.waiting else Reason.SPARK_RETRYING
        if spark.failed:
            reason = Reason.SPARK_FAILED
        return Finding("False", reason, "; ".join(filter(None, (spark.waiting, spark.failing))))
    state = spark.running or "no batch is open"
    if spark.behind:
        return Finding("True", Reason.SPARK_BEHIND, "; ".join(filter(None, (state, spark.behind, spark.quarantine))))
    if spark.quarantine:
        return Finding("True", Reason.SPARK_QUARANTINED, f"{state}; {spark.quarantine}")
    return Finding("True", Reason.PROGRESSING if spark.running else Reason.IDLE, state)


def reconciling(facts: Facts) -> Finding:
    """Whether the operator is still working towards the spec."""
    if any(isinstance(error, SpecError) for error in facts.errors):
        return Finding("False", Reason.SPEC_INVALID, "waiting for a valid spec")
    if facts.blockers:
        # Not both: tools that wait for a resource (kstatus) would take it for one that gets there by itself.
        return Finding("False", facts.blockers[0].reason, "waiting for the problem that condition Stalled describes")
    if facts.errors:
        return Finding("True", Reason.PROGRESSING, str(facts.errors[0]))
    if facts.existing > facts.desired:
        leaving = facts.existing - facts.desired
        return Finding(
            "True", Reason.PROGRESSING, f"{leaving} of {facts.existing} hosts are handing over their partitions"
        )
    if not facts.scaled:
        count = f"{facts.current} of {facts.desired} hosts are up to date"
        return Finding("True", Reason.PROGRESSING, "; ".join((count, *facts.slow_pods)))
    if facts.ready < facts.desired:
        count = f"{facts.ready} of {facts.desired} hosts are ready"
        return Finding("True", Reason.PROGRESSING, "; ".join((count, *facts.slow_pods)))
    if facts.desired and (not facts.reported or facts.owned < facts.total or not facts.total):
        return Finding("True", Reason.PROGRESSING, draining(facts).message)
    return Finding("False", Reason.AVAILABLE, "All resources match the spec")


def ready(facts: Facts) -> Finding:
    """Whether all resources match the spec and no action is required.

    Where the spec wants hosts, they run and own all partitions. Where it wants none, none runs: tools that wait for a
    resource must not wait for ever for one that rests because it was told to. `Draining` says that nothing is read.
    """
    blocked = stalled(facts)
    if blocked.status == "True":
        return Finding("False", blocked.reason, blocked.message)
    if facts.off:
        return Finding("False" if facts.existing else "True", facts.off[0], hosts_available(facts).message)
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
    (ConditionType.SPARK_HEALTHY, spark_healthy),
)
