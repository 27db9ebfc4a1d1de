"""A campaign continues whatever fails, and undoes every fault. The faults act on a list instead of a cluster."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.chaos.campaign import UNDO_PATIENCE_SECONDS, Campaign, Result
from tests.chaos.schedule import Action, Fault, NoTarget
from tests.chaos.stage import CampaignStage

Act = Callable[[Any, Action], Any]


class Scene:
    """A campaign in virtual time, whose stage is a list of effects."""

    def __init__(self, *faults: tuple[float, float, Act, Act | None], stop_at: float = 1e9) -> None:
        self.effects: list[str] = []
        self.lines: list[str] = []
        self.now = 0.0
        self._stop_at = stop_at
        self.campaign = Campaign(
            cast(CampaignStage, self.effects), lambda: self.now, self._wait, self._sleep, self.lines.append
        )
        self.actions = [
            Action(number, at, Fault(f"fault-{number}", f"part-{number}", act, undo, (0, seconds)), "a", seconds, 0.0)
            for number, (at, seconds, act, undo) in enumerate(faults, 1)
        ]

    def _wait(self, seconds: float) -> bool:
        self.now = min(self.now + seconds, self._stop_at)
        return self.now >= self._stop_at

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, duration: float = 100) -> bool:
        """Run to the end, and undo everything."""
        try:
            return self.campaign.run(self.actions, duration)
        finally:
            self.campaign.undo_all()

    @property
    def results(self) -> list[Result]:
        """Result of each action."""
        return [outcome.result for outcome in self.campaign.outcomes]


def act(text: str, error: Exception | None = None) -> Act:
    """A fault with an effect, and perhaps an error."""

    def do(effects: list[str], _: Action) -> None:
        effects.append(text)
        if error:
            raise error

    return do


def test_faults_happen_at_their_times_and_end_after_their_durations() -> None:
    scene = Scene((10, 0, act("once"), None), (20, 30, act("on"), act("off")), (30, 0, act("between"), None))
    assert scene.run()
    assert scene.effects == ["once", "on", "between", "off"]
    outcomes = scene.campaign.outcomes
    assert [(outcome.began, outcome.ended) for outcome in outcomes] == [(10, 10), (20, 50), (30, 30)]


def test_a_fault_may_return_an_undo_that_knows_its_target() -> None:
    def stop(effects: list[str], _: Action) -> Callable[[], None]:
        return lambda: effects.append("continued")

    scene = Scene((10, 5, stop, None))
    scene.run()
    assert scene.effects == ["continued"]


def test_a_fault_without_a_target_is_skipped_and_one_that_fails_is_counted() -> None:
    scene = Scene(
        (10, 0, act("x", NoTarget("no pod")), act("not undone")),
        (20, 0, act("y", OSError("kubectl")), None),
        (30, 0, act("z"), None),
    )
    assert scene.run()
    assert scene.results == [Result.SKIPPED, Result.FAILED, Result.DONE]
    assert scene.effects == ["x", "y", "z"]
    assert any("no pod" in line for line in scene.lines) and any("OSError: kubectl" in line for line in scene.lines)


def test_a_fault_that_failed_is_undone_because_it_may_have_had_an_effect() -> None:
    scene = Scene((10, 20, act("on", TimeoutError("kubectl")), act("off")))
    scene.run()
    assert scene.effects == ["on", "off"]


def test_an_undo_is_repeated_until_it_succeeds() -> None:
    failures = [OSError("down"), OSError("down")]

    def off(effects: list[str], _: Action) -> None:
        if failures:
            raise failures.pop()
        effects.append("off")

    scene = Scene((10, 5, act("on"), off))
    scene.run()
    assert scene.effects == ["on", "off"]
    assert scene.campaign.outcomes[0].ended == 19
    assert not scene.campaign.outcomes[0].undo_error


def test_an_undo_that_never_succeeds_is_reported() -> None:
    scene = Scene((10, 5, act("on"), act("tried", OSError("down"))))
    scene.run()
    (left,) = scene.campaign.not_undone
    assert left.undo_error == "OSError: down" and left.ended is None
    assert scene.now >= 100 + UNDO_PATIENCE_SECONDS


def test_a_part_with_an_active_fault_is_left_alone() -> None:
    failing = act("tried", OSError("down"))
    scene = Scene((10, 5, act("on"), failing), (20, 0, act("second"), None))
    second = scene.actions[1]
    scene.actions[1] = Action(2, 20, Fault("other", "part-1", second.fault.act), "a", 0, 0.0)
    scene.run(30)
    assert scene.results == [Result.DONE, Result.SKIPPED]
    assert "second" not in scene.effects


def test_a_person_ends_the_campaign_and_all_faults_are_undone() -> None:
    scene = Scene((10, 50, act("on"), act("off")), (40, 0, act("late"), None), stop_at=25)
    assert not scene.run()
    assert scene.effects == ["on", "off"]


@pytest.mark.parametrize("duration", [15.0, 60.0])
def test_all_faults_end_with_the_campaign(duration: float) -> None:
    scene = Scene((10, 500, act("on"), act("off")))
    assert scene.run(duration)
    assert scene.effects == ["on", "off"]
    assert scene.campaign.outcomes[0].ended == duration
