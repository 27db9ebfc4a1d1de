"""Plays scripts: from a seed for as long as asked, and failing ones again with fewer steps."""

import gc
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.simulation.checker import Violation
from tests.simulation.loop import Deadlock
from tests.simulation.rules import Step, play, script
from tests.simulation.world import SimulatedWorld

EPISODE = 60  # steps
OPENING: list[Step] = [
    ("start", (0, 0)),
    ("produce", (0, 3)),
    ("produce", (6, 3)),
    ("start", (4, 0)),
    ("start", (1, 0)),
    ("wait", (3,)),
]


@dataclass
class Outcome:
    """What came of a script."""

    steps: int = 0
    kind: str = ""  # of world
    checks: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0  # of virtual time
    rows: int = 0
    violation: str = ""
    trace: list[str] = field(default_factory=list)


def run(seed: str, steps: Sequence[Step], kind: str = "", only: frozenset[str] = frozenset()) -> Outcome:
    """Play a script, heal, and settle; `kind` and `only` as in `SimulatedWorld`."""
    world = SimulatedWorld(seed, kind, only)
    outcome = Outcome(kind=world.kind)
    try:
        for step in steps:
            play(world, step)
            outcome.steps += 1
        world.settle()
    except Violation as violation:
        outcome.violation = str(violation)
    except (Deadlock, Exception) as error:
        outcome.violation = f"{error!r}\n{traceback.format_exc()}"
    finally:
        outcome.checks = +world.checks()
        outcome.seconds = world.loop.now - 1000
        outcome.rows = world.rows()
        outcome.trace = list(world.trace)
        world.close()
    return outcome


def episode(seed: str, steps: int = EPISODE, emphasis: Mapping[str, float] | None = None) -> list[Step]:
    """The script of a seed."""
    return OPENING + script(Random(f"script {seed}"), steps, emphasis)


def shorten(seed: str, steps: list[Step], most: int = 150) -> list[Step]:
    """A shorter script that violates the same invariant; at most `most` runs are tried."""
    wanted = run(seed, steps).violation.partition(":")[0]
    size, tried = max(1, len(steps) // 2), 0
    while size and tried < most:
        at = 0
        while at < len(steps) and tried < most:
            fewer = steps[:at] + steps[at + size :]
            tried += 1
            if run(seed, fewer).violation.partition(":")[0] == wanted:
                steps = fewer
            else:
                at += size
        size //= 2
    gc.collect()
    return steps
