"""The desired number of hosts in scaling mode Lag. Pure: a function of the lag, the time and the last decision.

The measure is lateness: the age of a partition's oldest unwritten event, minus its age while hosts keep up (an event
waits in memory until its file is full). A partition is late if this exceeds `lag.targetSeconds`.

- Up: in proportion to the greatest lateness, at most by a factor of two. The next step waits until the new hosts had
  time to help, and is skipped if they will catch up soon. One host reads a partition: more hosts help only while late
  partitions share a host, so a single busy partition never grows the fleet.
- Down: by a quarter of the hosts, after `lag.cooldownSeconds` without lateness, and as long after the effect of the
  last change. A number that was too few is not tried again for some cooldowns, and then with one host less; otherwise a
  constant load would oscillate between two numbers.
- To zero: with `minReplicas: 0`, when all events are in files and no events arrived for `lag.idleSeconds`; back to one
  at the first event. Files that wait for Spark need no host: the probe makes batches of them.
- Unknown lag never removes a host, and without any report the number stays. But with zero hosts only the probe can tell
  that events arrive: if it does not report the lag of all partitions for `UNKNOWN`, a host runs in its place. The probe
  stays, and no host is removed to zero until it reports.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from eventconsumer_api.shared.plurals import plural
from eventconsumer_api.v1alpha1 import Scaling, ScalingMode
from eventconsumer_api.v1alpha1.status import ScalingStatus
from eventconsumer_api.wire.host_report import PartitionLag
from eventconsumer_operator.resource.podfailures import SLOW

STEP = timedelta(seconds=30)  # for new hosts to start; they can help only when they have written files
START = timedelta(seconds=120)  # longest wait for hosts that are not ready
UNKNOWN = SLOW  # a probe reports within a minute
CATCH_UP_SECONDS = 300.0  # the current hosts may catch up within this time
CALM_SHARE = 0.25  # of the target: a partition above this share is about to be late
HOLD_COOLDOWNS = 12  # cooldowns before a number that was too few is tried again
TRIAL_COOLDOWNS = 3  # cooldowns for such a trial before the next lower number


@dataclass(frozen=True)
class ScalingInput:
    """Input of a decision.

    Attributes:
        now: The time.
        lags: Lag by partition; None: not reported.
        partitions: Number of partitions; None: unknown.
        owners: Owner by partition, where known.
        last_enqueued_time: Enqueued time of the newest event; None: no event, or unknown.
        existing: Replicas of the StatefulSet.
        ready: Ready host pods.
        normal_seconds: Age of the oldest unwritten event while hosts keep up.
        probed: Whether the probe reports.
    """

    now: datetime
    lags: Mapping[str, PartitionLag] | None = None
    partitions: int | None = None
    owners: Mapping[str, str] = field(default_factory=dict)
    last_enqueued_time: datetime | None = None
    existing: int = 0
    ready: int = 0
    normal_seconds: float = 0.0
    probed: bool = False

    @property
    def known(self) -> bool:
        """Whether the lag of every partition is known."""
        lags = self.lags or {}
        return len(lags) >= (self.partitions or 1) and all(lag.events is not None for lag in lags.values())


def decide(view: ScalingInput, scaling: Scaling, before: ScalingStatus | None) -> ScalingStatus:
    """The desired number of hosts, with the memory for the next decision.

    Args:
        view: The input.
        scaling: The spec.
        before: The last decision in this mode; None: there is none.
    """
    most = min(scaling.max_replicas, view.partitions or scaling.max_replicas)
    least = min(scaling.min_replicas, most)
    if before is None:
        wanted = view.existing or max(1, least)
        return _Step(view, most, least).to(
            wanted, "unchanged from the mode before" if view.existing else "initial number"
        )
    step = _Step(view, most, least, before)
    if not least <= before.replicas <= most:
        return step.to(before.replicas, "")
    if before.replicas == 0:
        return _awake(step)
    if before.unknown_since and (view.probed or least):
        before = before.model_copy(update={"unknown_since": None})
        step = _Step(view, most, least, before)
    if view.lags is None:
        return before
    target = scaling.lag.target_seconds
    lateness = {
        partition: lag.seconds - view.normal_seconds for partition, lag in view.lags.items() if lag.seconds is not None
    }
    late = {partition: seconds for partition, seconds in lateness.items() if seconds > target}
    if late:
        return _rise(step, late, target)
    if not view.known or max(lateness.values(), default=0.0) > target * CALM_SHARE:
        return before.model_copy(update={"no_lag_since": None})
    return _fall(step, view.lags, scaling)


@dataclass(frozen=True)
class _Step:
    """One decision."""

    view: ScalingInput
    most: int
    least: int
    before: ScalingStatus | None = None

    def to(self, wanted: int, reason: str, **memory: object) -> ScalingStatus:
        """A new number within the bounds; the reason names a bound that applies."""
        if wanted > self.most:
            wanted, bound = self.most, f"at most {self.most}: scaling.maxReplicas, or the number of partitions"
        elif wanted < self.least:
            wanted, bound = self.least, f"at least {self.least}: scaling.minReplicas"
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


def _awake(step: _Step) -> ScalingStatus:
    before, view = step.before, step.view
    assert before is not None  # noqa: S101 - it was zero
    behind = sum(bool(lag.events) for lag in (view.lags or {}).values())
    if behind:
        reason = f"events arrived in {plural(behind, 'partition')}"
        return step.to(1, reason, no_lag_since=None, scale_up_lag_seconds=None, unknown_since=None)
    if view.known:
        return before.model_copy(update={"unknown_since": None})
    since = before.unknown_since or view.now
    if view.now - since < UNKNOWN:
        return before.model_copy(update={"unknown_since": since})
    reason = "the probe does not report the lag of all partitions"
    return step.to(1, reason, no_lag_since=None, scale_up_lag_seconds=None, unknown_since=since)


def _rise(step: _Step, late: Mapping[str, float], target: float) -> ScalingStatus:
    before, view = step.before, step.view
    assert before is not None  # noqa: S101 - a decision exists
    hold = before.model_copy(update={"no_lag_since": None})
    current, worst = before.replicas, max(late.values())
    sharing = len(late) - len({view.owners.get(partition, partition) for partition in late})
    useful = max(len(late), current + sharing)
    wanted = min(2 * current, math.ceil(current * worst / target), useful, step.most)
    passed = step.since_change()
    first = before.scale_up_lag_seconds is None
    patience = timedelta(0) if first else STEP + timedelta(seconds=view.normal_seconds)
    if wanted <= current or passed < patience or (view.ready < current and passed < START):
        return hold
    gained = 0.0 if before.scale_up_lag_seconds is None else before.scale_up_lag_seconds - worst
    if gained > 0 and (worst - target) * passed.total_seconds() / gained <= CATCH_UP_SECONDS:
        return hold
    memory: dict[str, object] = {"no_lag_since": None, "scale_up_lag_seconds": math.ceil(worst)}
    if gained <= 0:  # otherwise they were enough, but slow
        memory |= {"insufficient_replicas": current, "insufficient_replicas_time": view.now}
    return step.to(wanted, f"{plural(len(late), 'partition')} more than {target:.0f} s late", **memory)


def _fall(step: _Step, lags: Mapping[str, PartitionLag], scaling: Scaling) -> ScalingStatus:
    before, now = step.before, step.view.now
    assert before is not None  # noqa: S101 - a decision exists
    since = before.no_lag_since or now
    calm = before.model_copy(update={"no_lag_since": since, "scale_up_lag_seconds": None})
    cooldown = timedelta(seconds=scaling.lag.cooldown_seconds)
    # The effect of the last change is visible only in files written since.
    if now - since < cooldown or step.since_change() < cooldown + timedelta(seconds=step.view.normal_seconds):
        return calm
    idle = timedelta(seconds=scaling.lag.idle_seconds)
    quiet = now - (step.view.last_enqueued_time or since)
    done = not any(lag.events for lag in lags.values())
    if step.least == 0 and done and quiet >= idle and before.unknown_since is None:
        return step.to(
            0, f"no events arrived for {scaling.lag.idle_seconds} s", no_lag_since=since, scale_up_lag_seconds=None
        )
    memory: dict[str, object] = {"no_lag_since": since, "scale_up_lag_seconds": None}
    fewer = max(1, step.least, before.replicas - max(1, before.replicas // 4))
    if (
        before.insufficient_replicas is not None
        and before.insufficient_replicas_time is not None
        and fewer <= before.insufficient_replicas
    ):
        held_until = before.insufficient_replicas_time + cooldown * HOLD_COOLDOWNS
        if now < held_until:
            fewer = before.insufficient_replicas + 1
        else:  # try the number that was too few; lower numbers only after this trial
            fewer = before.insufficient_replicas
            memory |= {
                "insufficient_replicas": fewer - 1,
                "insufficient_replicas_time": now - cooldown * (HOLD_COOLDOWNS - TRIAL_COOLDOWNS),
            }
    if fewer >= before.replicas:
        return calm
    return step.to(fewer, f"no partition was late for {scaling.lag.cooldown_seconds} s", **memory)
