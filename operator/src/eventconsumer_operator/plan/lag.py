"""How many hosts the lag asks for. Pure: a decision is a function of what was measured, the time, and the last one.

What is judged is lateness: how much older a partition's oldest event in no file is than it gets while hosts keep up,
for an event waits in memory until its file is full. A partition is late beyond `lag.targetSeconds`.

- Up: in proportion to how late the latest partition is, at most twofold, and again only after the hosts that came could
  help, and while they will not catch up soon. A partition is read by one host: more hosts help only while late
  partitions share one, so one busy partition never grows the fleet.
- Down: a quarter of the hosts, once nothing has been late for `lag.cooldownSeconds`, and as long after the last change
  could show. A number that was too few is not tried again for some cooldowns, and then by one host, or a constant load
  would swing between two numbers.
- To zero: with `minReplicas: 0`, once everything is in files and nothing came for `lag.idleSeconds`; back to one at the
  first event. Files that wait for Spark keep no host: the probe makes batches of them.
- What is not known never takes a host away, and without any report nothing changes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from eventconsumer_api.host_report import PartitionLag
from eventconsumer_api.status import ScalingStatus
from eventconsumer_api.v1alpha1 import Scaling, ScalingMode

STEP = timedelta(seconds=30)  # for hosts to start; only when files of theirs can be there, they can have helped
START = timedelta(seconds=120)  # hosts that are not ready yet are waited for as long
CATCH_UP_SECONDS = 300.0  # within this time the hosts that are there may catch up by themselves
CALM_SHARE = 0.25  # of the target: who is later than that is on the way to be late
HOLD_COOLDOWNS = 12  # for so many cooldowns a number that was too few is not tried again
TRIAL_COOLDOWNS = 3  # and so long it is tried before the next one


@dataclass(frozen=True)
class View:
    """What a decision is made from.

    Attributes:
        now: The time.
        lags: Of every partition; None while not reported.
        partitions: Number of partitions; None while it is not known.
        owners: Who reads a partition, where that is known.
        last_enqueued_time: When the newest event came; None: never, or not known.
        existing: Host pods that are asked for now.
        ready: Host pods that are ready.
        normal_seconds: How old the oldest event in no file gets while hosts keep up.
    """

    now: datetime
    lags: Mapping[str, PartitionLag] | None = None
    partitions: int | None = None
    owners: Mapping[str, str] = field(default_factory=dict)
    last_enqueued_time: datetime | None = None
    existing: int = 0
    ready: int = 0
    normal_seconds: float = 0.0


def decide(view: View, scaling: Scaling, before: ScalingStatus | None) -> ScalingStatus:
    """The number of hosts, and what to remember.

    Args:
        view: The world.
        scaling: The spec.
        before: The last decision by this mode; None: there is none.
    """
    most = min(scaling.max_replicas, view.partitions or scaling.max_replicas)
    least = min(scaling.min_replicas, most)
    if before is None:
        wanted = view.existing or max(1, least)
        return _Step(view, most, least).to(wanted, "the number from before mode Lag" if view.existing else "to begin")
    step = _Step(view, most, least, before)
    if not least <= before.replicas <= most:
        return step.to(before.replicas, "")
    if view.lags is None:
        return before
    if before.replicas == 0:
        return _awake(step, view.lags)
    target = scaling.lag.target_seconds
    lateness = {
        partition: lag.seconds - view.normal_seconds for partition, lag in view.lags.items() if lag.seconds is not None
    }
    late = {partition: seconds for partition, seconds in lateness.items() if seconds > target}
    if late:
        return _rise(step, late, target)
    known = len(view.lags) >= (view.partitions or 1) and all(lag.events is not None for lag in view.lags.values())
    if not known or max(lateness.values(), default=0.0) > target * CALM_SHARE:
        return before.model_copy(update={"calm_since": None})
    return _fall(step, view.lags, scaling)


@dataclass(frozen=True)
class _Step:
    """From one decision to the next."""

    view: View
    most: int
    least: int
    before: ScalingStatus | None = None

    def to(self, wanted: int, reason: str, **memory: object) -> ScalingStatus:
        """Another number, within its bounds; a reason that is a bound says so."""
        if wanted > self.most:
            wanted, bound = self.most, f"no more than {self.most}: scaling.maxReplicas, or one for each partition"
        elif wanted < self.least:
            wanted, bound = self.least, f"no fewer than {self.least}: scaling.minReplicas"
        else:
            bound = ""
        kept = self.before.model_dump() if self.before else {}
        fresh = {
            "replicas": wanted,
            "reason": "; ".join(filter(None, (reason, bound))),
            "mode": ScalingMode.LAG,
            "last_scale_time": self.view.now,
        }
        return ScalingStatus.model_validate({**kept, **fresh, **memory})

    def since_change(self) -> timedelta:
        """Time since the number last changed."""
        last = self.before.last_scale_time if self.before else None
        return self.view.now - last if last else timedelta.max


def _awake(step: _Step, lags: Mapping[str, PartitionLag]) -> ScalingStatus:
    assert step.before is not None  # noqa: S101 - there was zero
    behind = sum(bool(lag.events) for lag in lags.values())
    if not behind:
        return step.before
    return step.to(1, f"events came in {_partitions(behind)}", calm_since=None, late_seconds=None)


def _rise(step: _Step, late: Mapping[str, float], target: float) -> ScalingStatus:
    before, view = step.before, step.view
    assert before is not None  # noqa: S101 - there is something to rise from
    hold = before.model_copy(update={"calm_since": None})
    current, worst = before.replicas, max(late.values())
    sharing = len(late) - len({view.owners.get(partition, partition) for partition in late})
    useful = max(len(late), current + sharing)
    wanted = min(2 * current, math.ceil(current * worst / target), useful, step.most)
    passed = step.since_change()
    first = before.late_seconds is None
    patience = timedelta(0) if first else STEP + timedelta(seconds=view.normal_seconds)
    if wanted <= current or passed < patience or (view.ready < current and passed < START):
        return hold
    gained = 0.0 if before.late_seconds is None else before.late_seconds - worst
    if gained > 0 and (worst - target) * passed.total_seconds() / gained <= CATCH_UP_SECONDS:
        return hold
    memory: dict[str, object] = {"calm_since": None, "late_seconds": math.ceil(worst)}
    if gained <= 0:  # else they were enough, and only slow to catch up
        memory |= {"too_few": current, "too_few_time": view.now}
    return step.to(wanted, f"{_partitions(len(late))} more than {target:.0f} s late", **memory)


def _fall(step: _Step, lags: Mapping[str, PartitionLag], scaling: Scaling) -> ScalingStatus:
    before, now = step.before, step.view.now
    assert before is not None  # noqa: S101 - there is something to fall from
    since = before.calm_since or now
    calm = before.model_copy(update={"calm_since": since, "late_seconds": None})
    cooldown = timedelta(seconds=scaling.lag.cooldown_seconds)
    # Whether the last change was right shows only in files that were made since.
    if now - since < cooldown or step.since_change() < cooldown + timedelta(seconds=step.view.normal_seconds):
        return calm
    idle = timedelta(seconds=scaling.lag.idle_seconds)
    quiet = now - (step.view.last_enqueued_time or since)
    done = not any(lag.events for lag in lags.values())
    if step.least == 0 and done and quiet >= idle:
        return step.to(0, f"nothing came for {scaling.lag.idle_seconds} s", calm_since=since, late_seconds=None)
    memory: dict[str, object] = {"calm_since": since, "late_seconds": None}
    fewer = max(1, step.least, before.replicas - max(1, before.replicas // 4))
    if before.too_few is not None and before.too_few_time is not None and fewer <= before.too_few:
        held_until = before.too_few_time + cooldown * HOLD_COOLDOWNS
        if now < held_until:
            fewer = before.too_few + 1
        else:  # try the number that was too few, and the next one below only when this one had its time
            fewer = before.too_few
            memory |= {"too_few": fewer - 1, "too_few_time": now - cooldown * (HOLD_COOLDOWNS - TRIAL_COOLDOWNS)}
    if fewer >= before.replicas:
        return calm
    return step.to(fewer, f"nothing was late for {scaling.lag.cooldown_seconds} s", **memory)


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
