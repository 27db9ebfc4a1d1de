"""PURE: the schedule of a campaign from its seed. The same seed, faults and duration give the same actions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tests.chaos.stage import CampaignStage

PAUSE_SECONDS = (8.0, 20.0)  # between two actions

Undo = Callable[[], None]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    Attributes:
        name: Unique; names the fault in `--only` and in the report.
        part: The part that it disturbs, with `{consumer}` where each consumer has its own. Two lasting faults of one
            part never overlap.
        act: Injects the fault. Raises `NoTarget` if the target does not exist at this moment. May return an undo that
            knows the target, such as the stopped processes.
        undo: Ends a lasting fault whose `act` returns no undo; called even if `act` failed, for it may have had an
            effect.
        seconds: Shortest and longest duration, seconds; (0, 0): nothing is undone.
        weight: Relative frequency.
    """

    name: str
    part: str
    act: Callable[[CampaignStage, Action], Undo | None]
    undo: Callable[[CampaignStage, Action], None] | None = None
    seconds: tuple[float, float] = (0.0, 0.0)
    weight: float = 1.0


@dataclass(frozen=True)
class Action:
    """One planned fault.

    Attributes:
        number: From 1.
        at: Seconds after the start of the campaign.
        fault: The kind of fault.
        consumer: Name of the consumer that it hits; faults of shared parts ignore it.
        seconds: Duration, seconds; 0: nothing is undone.
        chance: In [0, 1): selects the target among several; see `choose`.
    """

    number: int
    at: float
    fault: Fault
    consumer: str
    seconds: float
    chance: float

    @property
    def part(self) -> str:
        """The disturbed part, with the consumer's name."""
        return self.fault.part.format(consumer=self.consumer)

    def choose(self, items: Sequence[Item]) -> Item:
        """One of the items.

        Raises:
            NoTarget: There is none.
        """
        if not items:
            raise NoTarget("there is none")
        return items[int(self.chance * len(items))]

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.0f} s" if self.seconds else ""
        return f"{self.at:6.0f} s  {self.fault.name}{lasting} ({self.consumer})"


class NoTarget(Exception):
    """The target of a fault does not exist at this moment; the text says which."""


def schedule(faults: Sequence[Fault], consumers: Sequence[str], seed: int, duration: float) -> list[Action]:
    """The actions of a campaign.

    Args:
        faults: The kinds of faults to choose from.
        consumers: Names of the consumers.
        seed: Of all random choices.
        duration: Length of the campaign, seconds. Lasting faults end with it.
    """
    rng = random.Random(seed)
    busy: dict[str, float] = {}  # part -> end of its last fault
    actions: list[Action] = []
    now = rng.uniform(*PAUSE_SECONDS)
    while now < duration:
        consumer = rng.choice(list(consumers))
        free = [fault for fault in faults if busy.get(fault.part.format(consumer=consumer), 0.0) <= now]
        if free:
            fault = rng.choices(free, [fault.weight for fault in free])[0]
            seconds = min(rng.uniform(*fault.seconds), duration - now)
            action = Action(len(actions) + 1, now, fault, consumer, seconds, rng.random())
            busy[action.part] = now + seconds
            actions.append(action)
        now += rng.uniform(*PAUSE_SECONDS)
    return actions
