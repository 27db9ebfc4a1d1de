"""Runs a schedule: injects each fault at its time, and undoes it when its time is over, whatever fails meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from tests.chaos.schedule import Action, NoTarget, Undo

if TYPE_CHECKING:
    from tests.chaos.stage import CampaignStage

UNDO_PATIENCE_SECONDS = 180.0  # an undo waits for parts that other faults disturb
RETRY_SECONDS = 2.0


class Result(StrEnum):
    """The result of an action."""

    DONE = "done"
    SKIPPED = "skipped"  # the target did not exist
    FAILED = "failed"  # the means to inject the fault failed, for example kubectl without an API server


@dataclass
class Outcome:
    """What became of an action.

    Attributes:
        action: The action.
        result: Its result.
        detail: The cause, if it is not done.
        began: Seconds after the start of the campaign.
        ended: Time of the undo, or of the action itself; None: not undone.
        undo_error: The cause of the last failed undo.
    """

    action: Action
    result: Result
    detail: str
    began: float
    ended: float | None
    undo_error: str = ""


@dataclass
class _Active:
    outcome: Outcome
    undo: Undo
    due: float


@dataclass
class Campaign:
    """Runs actions.

    Attributes:
        stage: Passed to each fault.
        clock: Seconds after the start of the campaign.
        wait: Waits for so many seconds, or until a person ends the campaign; whether a person has ended it.
        sleep: Waits for so many seconds.
        tell: Shows a line.
        outcomes: All actions so far.
    """

    stage: CampaignStage
    clock: Callable[[], float]
    wait: Callable[[float], bool]
    sleep: Callable[[float], None]
    tell: Callable[[str], None]
    outcomes: list[Outcome] = field(default_factory=list)
    _active: list[_Active] = field(default_factory=list)

    def run(self, actions: Sequence[Action], duration: float) -> bool:
        """Run all actions, and wait until the campaign is over; then call `undo_all`.

        Returns:
            Whether it ran to its end; False: a person has ended it.
        """
        waiting = list(actions)
        ended_by_hand = False
        while not ended_by_hand and (now := self.clock()) < duration:
            for active in [each for each in self._active if each.due <= now]:
                self._undo(active)
            while waiting and waiting[0].at <= self.clock():
                self._act(waiting.pop(0))
            upcoming = [duration, *(each.due for each in self._active), *(action.at for action in waiting[:1])]
            ended_by_hand = self.wait(max(0.0, min(upcoming) - self.clock()))
        return not ended_by_hand

    def undo_all(self) -> None:
        """Undo all active faults, the last one first; a failed undo is repeated until `UNDO_PATIENCE_SECONDS`."""
        deadline = self.clock() + UNDO_PATIENCE_SECONDS
        while self._active:
            for active in reversed(list(self._active)):
                self._undo(active)
            if self._active and self.clock() >= deadline:
                break
            if self._active:
                self.sleep(RETRY_SECONDS)

    @property
    def not_undone(self) -> list[Outcome]:
        """Faults that are still active."""
        return [active.outcome for active in self._active]

    def _act(self, action: Action) -> None:
        began = self.clock()
        if any(active.outcome.action.part == action.part for active in self._active):
            self._record(action, Result.SKIPPED, f"a fault of {action.part} is still active", began)
            return
        undo: Undo | None = partial(action.fault.undo, self.stage, action) if action.fault.undo else None
        try:
            undo = action.fault.act(self.stage, action) or undo
        except NoTarget as error:
            self._record(action, Result.SKIPPED, str(error), began)
            return
        except Exception as error:  # the campaign continues without this action
            outcome = self._record(action, Result.FAILED, _text(error), began)
        else:
            outcome = self._record(action, Result.DONE, "", began)
        if undo is not None:
            outcome.ended = None
            self._active.append(_Active(outcome, undo, began + action.seconds))

    def _record(self, action: Action, result: Result, detail: str, began: float) -> Outcome:
        outcome = Outcome(action, result, detail, began, self.clock())
        self.outcomes.append(outcome)
        shown = "" if result is Result.DONE else f": {result}: {detail}"
        lasting = f" for {action.seconds:.0f} s" if action.seconds else ""
        self.tell(f"{began:6.0f} s  {action.number:>3} {action.fault.name}{lasting} ({action.consumer}){shown}")
        return outcome

    def _undo(self, active: _Active) -> None:
        outcome = active.outcome
        try:
            active.undo()
        except Exception as error:  # repeated: another fault may be in the way
            outcome.undo_error = _text(error)
            active.due = self.clock() + RETRY_SECONDS
            self.tell(f"{self.clock():6.0f} s      not undone yet: {outcome.action.fault.name}: {outcome.undo_error}")
            return
        outcome.ended, outcome.undo_error = self.clock(), ""
        self._active.remove(active)
        self.tell(f"{outcome.ended:6.0f} s      end of {outcome.action.fault.name} ({outcome.action.consumer})")


def _text(error: Exception) -> str:
    detail = getattr(error, "detail", "").strip().splitlines()
    return " ".join([f"{type(error).__name__}: {error}", *detail[-1:]])
