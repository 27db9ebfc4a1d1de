"""The number of hosts by the lag: bounds and monotony for any world, and a model of hosts that drain under a load."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.v1alpha1 import LagScaling, Scaling, ScalingMode
from eventconsumer_api.v1alpha1.status import ScalingStatus
from eventconsumer_api.wire.host_report import PartitionLag
from eventconsumer_operator.plan.lag import HOLD_COOLDOWNS, STEP, TRIAL_COOLDOWNS, ScalingInput, decide
from eventconsumer_operator.plan.lag import UNKNOWN as SILENT
from tests.unit.operator.worlds import NOW

CALM = PartitionLag(events=0, seconds=0.0)
UNKNOWN = PartitionLag()


def scaling(least: int = 1, most: int = 32, **lag: int) -> Scaling:
    return Scaling(mode=ScalingMode.LAG, min_replicas=least, max_replicas=most, lag=LagScaling(**lag))


def memory(replicas: int, **given_: object) -> ScalingStatus:
    """The last decision, made long ago."""
    facts = {"replicas": replicas, "reason": "r", "mode": "Lag", "last_scale_time": NOW - timedelta(days=1)}
    return ScalingStatus.model_validate(facts | given_)


def late(seconds: float) -> PartitionLag:
    return PartitionLag(events=10, seconds=seconds)


def view(*lags: PartitionLag, ready: int = 1000, **facts: object) -> ScalingInput:
    named = {str(number): lag for number, lag in enumerate(lags)}
    return replace(ScalingInput(now=NOW, lags=named, partitions=len(lags), ready=ready), **facts)  # type: ignore[arg-type]


# --- up --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "lags", "wanted"),
    [
        (1, [late(61)] * 8, 2),
        (2, [late(61)] * 8, 3),
        (2, [late(90)] * 8, 3),
        (4, [late(90)] * 8, 6),
        (4, [late(600)] * 8, 8),
        (2, [late(600)] * 8, 4),  # at most twofold
        (1, [late(600)] + [CALM] * 7, 1),  # one partition is read by one host
        (2, [late(600)] * 3 + [CALM] * 5, 3),
        (5, [late(600)] * 3 + [CALM] * 5, 5),
        (4, [late(60)] * 8, 4),  # not above the target
    ],
)
def test_so_many_hosts_for_so_late_partitions(hosts: int, lags: list[PartitionLag], wanted: int) -> None:
    assert decide(view(*lags), scaling(), memory(hosts)).replicas == wanted


def test_late_partitions_that_share_a_host_are_helped_by_more_hosts() -> None:
    lags = [late(600), late(600), *[CALM] * 6]
    apart = {str(number): str(number % 4) for number in range(8)}
    assert decide(view(*lags, owners=apart), scaling(), memory(4)).replicas == 4
    assert decide(view(*lags, owners=apart | {"1": "0"}), scaling(), memory(4)).replicas == 5


def test_the_reason_stays_while_the_number_of_hosts_does() -> None:
    up = decide(view(*[late(90)] * 3, CALM), scaling(), memory(2))
    assert (up.replicas, up.reason) == (3, "3 partitions more than 60 s late")
    later = decide(view(late(91), CALM, CALM, CALM, now=NOW + timedelta(seconds=3)), scaling(), up)
    assert later == up


def test_an_event_in_a_file_that_is_not_full_yet_is_not_late() -> None:
    lags = [late(130)] * 8
    assert decide(view(*lags, normal_seconds=80), scaling(), memory(2)).replicas == 2
    assert decide(view(*lags, normal_seconds=60), scaling(), memory(2)).replicas == 3


def test_no_second_step_before_the_first_could_help() -> None:
    first = decide(view(*[late(600)] * 8), scaling(), memory(1))
    assert first.replicas == 2
    soon = NOW + STEP - timedelta(seconds=1)
    assert decide(view(*[late(630)] * 8, now=soon), scaling(), first).replicas == 2
    starting = NOW + STEP
    assert decide(view(*[late(631)] * 8, now=starting, ready=1), scaling(), first).replicas == 2
    assert decide(view(*[late(631)] * 8, now=starting, ready=2), scaling(), first).replicas == 4
    # Where a file takes up to 70 s, no file of the new host is there before.
    assert decide(view(*[late(701)] * 8, now=starting, normal_seconds=70), scaling(), first).replicas == 2
    file = starting + timedelta(seconds=70)
    assert decide(view(*[late(771)] * 8, now=file, normal_seconds=70), scaling(), first).replicas == 4
    never = NOW + timedelta(seconds=120)
    assert decide(view(*[late(720)] * 8, now=never, ready=1), scaling(), first).replicas == 4


def test_hosts_that_will_catch_up_soon_get_no_help() -> None:
    first = decide(view(*[late(600)] * 8), scaling(), memory(2))
    minute = NOW + timedelta(seconds=60)
    assert decide(view(*[late(400)] * 8, now=minute), scaling(), first).replicas == 4
    slow = decide(view(*[late(595)] * 8, now=minute), scaling(), first)
    assert (slow.replicas, slow.insufficient_replicas) == (8, 2)  # 4 gain on the lag: they are not too few, only slow
    lost = decide(view(*[late(601)] * 8, now=minute), scaling(), first)
    assert (lost.replicas, lost.insufficient_replicas) == (8, 4)


# --- down ------------------------------------------------------------------------------------------------------------


def calm_for(seconds: float, **given_: object) -> dict[str, object]:
    return {"no_lag_since": NOW - timedelta(seconds=seconds)} | given_


@pytest.mark.parametrize(("hosts", "fewer"), [(32, 24), (9, 7), (4, 3), (3, 2), (2, 1), (1, 1)])
def test_a_quarter_leaves_after_the_cooldown(hosts: int, fewer: int) -> None:
    lags = [CALM] * 32
    assert decide(view(*lags), scaling(), memory(hosts, **calm_for(299))).replicas == hosts
    down = decide(view(*lags), scaling(), memory(hosts, **calm_for(300)))
    assert down.replicas == fewer
    again = NOW + timedelta(seconds=299)
    assert decide(view(*lags, now=again), scaling(), down).replicas == fewer


def test_a_lag_above_a_quarter_of_the_target_keeps_the_hosts() -> None:
    before = memory(8, **calm_for(900))
    assert decide(view(*[CALM] * 7, late(15)), scaling(), before).replicas == 6
    held = decide(view(*[CALM] * 7, late(16)), scaling(), before)
    assert (held.replicas, held.no_lag_since) == (8, None)


def test_an_unknown_lag_removes_no_host_and_ends_the_calm() -> None:
    before = memory(8, **calm_for(900))
    unknown = decide(view(*[CALM] * 7, UNKNOWN), scaling(), before)
    assert (unknown.replicas, unknown.no_lag_since) == (8, None)
    assert decide(view(*[CALM] * 7, partitions=8), scaling(), before).replicas == 8
    assert decide(ScalingInput(now=NOW, lags=None, partitions=8), scaling(), before) == before


def test_a_number_that_was_too_few_is_not_tried_again_for_some_cooldowns() -> None:
    recent = {
        "insufficient_replicas": 3,
        "insufficient_replicas_time": NOW - timedelta(seconds=300 * HOLD_COOLDOWNS - 1),
    }
    assert decide(view(*[CALM] * 8), scaling(), memory(4, **calm_for(900, **recent))).replicas == 4
    assert decide(view(*[CALM] * 8), scaling(), memory(8, **calm_for(900, **recent))).replicas == 6
    past = recent | {"insufficient_replicas_time": NOW - timedelta(seconds=300 * HOLD_COOLDOWNS)}
    again = decide(view(*[CALM] * 8), scaling(), memory(8, **calm_for(900, **past | {"insufficient_replicas": 7})))
    assert (again.replicas, again.insufficient_replicas) == (7, 6)
    soon = NOW + timedelta(seconds=300 * TRIAL_COOLDOWNS - 1)
    assert decide(view(*[CALM] * 8, now=soon), scaling(), again).replicas == 7
    later = NOW + timedelta(seconds=300 * TRIAL_COOLDOWNS)
    assert decide(view(*[CALM] * 8, now=later), scaling(), again).replicas == 6


# --- zero ------------------------------------------------------------------------------------------------------------

ZERO = scaling(least=0)


def test_to_zero_only_when_all_is_in_files_and_nothing_came_for_long() -> None:
    before = memory(2, **calm_for(900))
    quiet = {"last_enqueued_time": NOW - timedelta(seconds=900)}
    zero = decide(view(CALM, CALM, **quiet), ZERO, before)
    assert (zero.replicas, zero.reason) == (0, "no events arrived for 900 s")
    assert decide(view(CALM, late(5), **quiet), ZERO, before).replicas == 1
    busy = {"last_enqueued_time": NOW - timedelta(seconds=899)}
    assert decide(view(CALM, CALM, **busy), ZERO, before).replicas == 1
    assert decide(view(CALM, CALM, **quiet), scaling(least=1), before).replicas == 1
    assert decide(view(CALM, UNKNOWN, **quiet), ZERO, before).replicas == 2
    # A hub that never had an event: so long as nobody was late.
    assert decide(view(CALM, CALM), ZERO, memory(2, **calm_for(899))).replicas == 1
    assert decide(view(CALM, CALM), ZERO, before).replicas == 0


def test_from_zero_at_the_first_event_and_only_then() -> None:
    zero = memory(0, last_scale_time=NOW)
    assert decide(view(CALM, CALM), ZERO, zero) == zero
    awake = decide(view(CALM, PartitionLag(events=1, seconds=0.0)), ZERO, zero)
    assert (awake.replicas, awake.reason, awake.no_lag_since) == (1, "events arrived in 1 partition", None)


@pytest.mark.parametrize("blind", [ScalingInput(now=NOW, partitions=2), view(CALM, UNKNOWN), view(CALM, partitions=2)])
def test_lag_that_no_probe_tells_for_minutes_starts_a_host_which_stays_until_the_probe_reports(
    blind: ScalingInput,
) -> None:
    first = decide(blind, ZERO, memory(0))
    assert (first.replicas, first.unknown_since) == (0, NOW)
    assert decide(view(CALM, CALM), ZERO, first).unknown_since is None  # it reported in time
    assert decide(replace(blind, now=NOW + SILENT - timedelta(seconds=1)), ZERO, first) == first
    later = NOW + SILENT
    awake = decide(replace(blind, now=later), ZERO, first)
    assert (awake.replicas, awake.unknown_since) == (1, NOW)
    assert awake.reason == "the probe does not report the lag of all partitions"
    # The host tells that all is calm: still nobody would see events without it.
    day = timedelta(days=1)
    calm = view(CALM, CALM, now=later + day)
    stays = decide(calm, ZERO, awake.model_copy(update={"no_lag_since": later}))
    assert (stays.replicas, stays.unknown_since) == (1, NOW)
    back = decide(replace(calm, probed=True), ZERO, stays)
    assert (back.replicas, back.unknown_since) == (0, None)
    assert decide(calm, scaling(least=1), stays).unknown_since is None


# --- the beginning, and bounds that change ---------------------------------------------------------------------------


@pytest.mark.parametrize(("least", "existing", "wanted"), [(0, 0, 1), (1, 0, 1), (3, 0, 3), (3, 5, 5), (0, 99, 8)])
def test_it_begins_with_the_existing_hosts_or_the_minimum_and_one_at_least(
    least: int, existing: int, wanted: int
) -> None:
    begun = decide(ScalingInput(now=NOW, partitions=8, existing=existing), scaling(least=least), None)
    assert (begun.replicas, begun.mode, begun.last_scale_time) == (wanted, ScalingMode.LAG, NOW)


LAGS = st.builds(
    lambda seconds: UNKNOWN if seconds is None else (late(seconds) if seconds else CALM),
    st.none() | st.just(0) | st.integers(0, 100_000),
)
SCALING = st.tuples(st.integers(0, 40), st.integers(1, 40), st.integers(1, 900), st.integers(0, 900)).map(
    lambda facts: scaling(min(facts[:2]), facts[1], target_seconds=facts[2], cooldown_seconds=facts[3])
)
TIMES = st.none() | st.integers(0, 10_000).map(lambda seconds: NOW - timedelta(seconds=seconds))
MEMORY = st.builds(
    memory,
    st.integers(0, 40),
    last_scale_time=TIMES,
    no_lag_since=TIMES,
    scale_up_lag_seconds=st.none() | st.integers(0, 10_000),
    insufficient_replicas=st.none() | st.integers(0, 40),
    insufficient_replicas_time=TIMES,
)


@given(
    lags=st.none() | st.lists(LAGS, max_size=40),
    partitions=st.none() | st.integers(1, 40),
    rule=SCALING,
    before=st.none() | MEMORY,
    existing=st.integers(0, 60),
    ready=st.integers(0, 40),
    newest=TIMES,
    owners=st.dictionaries(st.integers(0, 40).map(str), st.sampled_from("abc")),
)
def test_the_bounds_always_hold(
    lags: list[PartitionLag] | None,
    partitions: int | None,
    rule: Scaling,
    before: ScalingStatus | None,
    existing: int,
    ready: int,
    newest: datetime | None,
    owners: dict[str, str],
) -> None:
    named = None if lags is None else {str(number): lag for number, lag in enumerate(lags)}
    seen = ScalingInput(NOW, named, partitions, owners, newest, existing=existing, ready=ready)
    most = min(rule.max_replicas, partitions or rule.max_replicas)
    least = min(rule.min_replicas, most)
    found = decide(seen, rule, before)
    assert least <= found.replicas <= most
    assert ScalingStatus.model_validate(found.model_dump(mode="json", by_alias=True)) == found
    if found.replicas == 0 and before and before.replicas:
        assert named is not None and len(named) >= (partitions or 0)
        assert all(lag.events == 0 for lag in named.values())
    if before and least <= before.replicas <= most:
        if before.replicas:
            assert found.replicas <= 2 * before.replicas
        if found.replicas > max(before.replicas, 1):
            behind = [number for number, lag in (named or {}).items() if lag.seconds]
            alone = len({owners.get(number, number) for number in behind})
            assert found.replicas <= max(len(behind), before.replicas + len(behind) - alone)
            assert len(behind) > 1
        if named and any(lag.events is None for lag in named.values()):
            assert found.replicas >= before.replicas
        if found.replicas == before.replicas:
            assert found.reason == before.reason and found.last_scale_time == before.last_scale_time


@given(
    lags=st.lists(st.integers(0, 10_000), min_size=1, max_size=20),
    more=st.lists(st.integers(0, 10_000), min_size=20, max_size=20),
    rule=SCALING,
    before=MEMORY,
    ready=st.integers(0, 40),
)
def test_more_lag_never_means_fewer_hosts(
    lags: list[int], more: list[int], rule: Scaling, before: ScalingStatus, ready: int
) -> None:
    def hosts(seconds: list[int]) -> int:
        return decide(view(*[late(each) if each else CALM for each in seconds], ready=ready), rule, before).replicas

    assert hosts(lags) <= hosts([one + other for one, other in zip(lags, more, strict=False)])


# --- a model: hosts that drain ----------------------------------------------------------------------------------------

TICK = 3  # seconds: the model continues as often as the operator looks


@dataclass
class Model:
    """A consumer, looked at every 3 s: events a second come in, hosts drain their share, files are made as they roll.

    Attributes:
        load: Events a second in all partitions together, by the second.
        capacity: Events a second that one host drains.
        shares: Share of the load, by partition.
    """

    load: Callable[[int], float]
    capacity: float
    rule: Scaling
    partitions: int = 8
    roll: int = 60
    start_seconds: int = 10
    status: ScalingStatus | None = None
    second: int = 0
    history: list[int] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shares = self.shares or [1 / self.partitions] * self.partitions
        self.came = [[0.0] for _ in range(self.partitions)]  # cumulative, at the end of each tick
        self.drained = [0.0] * self.partitions
        self.filed = [0.0] * self.partitions
        self.opened: list[int | None] = [None] * self.partitions  # since when a file is being made
        self.newest = NOW
        self.running: list[int] = []  # when each host begins to read

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.second)

    def run(self, seconds: int) -> list[int]:
        """Go on; the numbers of hosts, one a second."""
        for _ in range(seconds // TICK):
            self._tick()
        return self.history[-seconds:]

    def _tick(self) -> None:
        self.second += TICK
        if self.load(self.second):
            self.newest = self.now
        for number, share in enumerate(self.shares):
            self.came[number].append(self.came[number][-1] + self.load(self.second) * share * TICK)
        reading = sum(begin <= self.second for begin in self.running)
        for host in range(reading):
            self._drain([number for number in range(self.partitions) if number % reading == host])
        self._look()
        self.history += [self.status.replicas if self.status else 0] * TICK

    def _drain(self, own: list[int]) -> None:
        left = self.capacity * TICK
        for done, number in enumerate(sorted(own, key=lambda each: self.came[each][-1] - self.drained[each])):
            part = min(self.came[number][-1] - self.drained[number], left / (len(own) - done))
            self.drained[number] += part
            left -= part
            if self.opened[number] is None and part:
                self.opened[number] = self.second
            since = self.opened[number]
            if since is not None and self.second - since >= self.roll:
                self.filed[number], self.opened[number] = self.drained[number], None

    def _look(self) -> None:
        lags = {}
        for number in range(self.partitions):
            events = round(self.came[number][-1] - self.filed[number], 6)
            first = bisect_right(self.came[number], self.filed[number] + 1e-6)
            age = 0.0 if events <= 0 else self.second - first * TICK + 8.0  # as late as a leader sees it
            lags[str(number)] = PartitionLag(events=max(0, round(events + 0.4999)), seconds=age)
        reading = sum(begin <= self.second for begin in self.running)
        owners = {str(number): str(number % reading) for number in range(self.partitions) if reading}
        seen = ScalingInput(
            self.now, lags, self.partitions, owners, self.newest, ready=reading, normal_seconds=self.roll + 20
        )
        self.status = decide(seen, self.rule, self.status)
        wanted = self.status.replicas
        self.running = self.running[:wanted] + [self.second + self.start_seconds] * (wanted - len(self.running))


@pytest.mark.parametrize("load", [50.0, 390.0, 700.0])
def test_a_constant_load_reaches_a_steady_number_that_keeps_up(load: float) -> None:
    """One host drains 100 events a second; there are 8 partitions."""
    model = Model(lambda _: load, 100.0, scaling())
    model.run(3600)
    later = model.run(2 * 3600)
    stretches = [(hosts, len(list(seconds))) for hosts, seconds in groupby(later)]
    hosts, longest = max(stretches, key=lambda stretch: stretch[1])
    assert longest >= 1800
    assert load / 100 <= hosts <= 2 * load / 100 + 1
    assert len(stretches) <= 12  # once an hour it is tried whether fewer would do
    assert max(model.history) <= 8


def test_a_burst_is_drained_and_the_fleet_shrinks_again() -> None:
    model = Model(lambda second: 600.0 if second < 600 else 20.0, 100.0, scaling())
    grown = max(model.run(1200))
    assert grown >= 6
    model.run(3 * 3600)
    assert model.history[-1] == 1
    assert model.came[0][-1] - model.filed[0] < 20 / 8 * 90


def test_to_zero_and_back() -> None:
    model = Model(lambda second: 0.0 if 600 <= second < 4000 else 80.0, 100.0, scaling(least=0))
    model.run(4000)
    stopped = model.history.index(0, 10)
    assert 600 + 900 - 2 * TICK <= stopped <= 600 + 900 + 400  # the last event came a tick before
    assert set(model.history[stopped:3990]) == {0}
    assert set(model.run(1200)[10:]) == {1}
    assert sum(model.came[0]) > 0
    assert model.came[0][-1] - model.filed[0] < 80 / 8 * 90
