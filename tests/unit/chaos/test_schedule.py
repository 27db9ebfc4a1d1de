"""The schedule of a campaign depends on its seed alone, and no two faults of one part overlap."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.faults import FAULTS
from tests.chaos.schedule import PAUSE_SECONDS, Action, Fault, NoTarget, Undo, schedule
from tests.chaos.stage import CampaignStage

CONSUMERS = ("a", "b")


def nothing(stage: CampaignStage, action: Action) -> Undo | None:
    """A fault without an effect."""


def test_the_same_seed_gives_the_same_actions() -> None:
    assert schedule(FAULTS, CONSUMERS, 7, 600) == schedule(FAULTS, CONSUMERS, 7, 600)
    assert schedule(FAULTS, CONSUMERS, 7, 600) != schedule(FAULTS, CONSUMERS, 8, 600)


@given(st.integers(0, 2**32), st.floats(0, 7200))
def test_actions_are_in_order_within_the_duration_and_never_disturb_a_part_twice(seed: int, duration: float) -> None:
    actions = schedule(FAULTS, CONSUMERS, seed, duration)
    for before, after in pairwise(actions):
        assert PAUSE_SECONDS[0] <= after.at - before.at
        assert after.number == before.number + 1
    ends: dict[str, float] = {}
    for action in actions:
        assert ends.get(action.part, 0.0) <= action.at
        ends[action.part] = action.at + action.seconds
        assert action.at + action.seconds <= duration
        assert action.seconds <= action.fault.seconds[1]
        assert 0 <= action.chance < 1


def test_an_hour_has_nearly_every_fault_on_each_consumer() -> None:
    actions = [action for seed in range(4) for action in schedule(FAULTS, CONSUMERS, seed, 3600)]
    found = Counter(action.fault.name for action in actions)
    assert set(found) == {fault.name for fault in FAULTS}
    hit = Counter(action.consumer for action in actions)
    assert min(hit.values()) > len(actions) / 3


def test_names_are_unique_and_there_are_enough() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 45


def test_a_target_is_chosen_by_chance() -> None:
    fault = Fault("f", "p", nothing)
    assert [Action(1, 0, fault, "a", 0, chance).choose("xyz") for chance in (0.0, 0.34, 0.999)] == ["x", "y", "z"]
    with pytest.raises(NoTarget):
        Action(1, 0, fault, "a", 0, 0.5).choose([])
