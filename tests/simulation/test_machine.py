"""The rules under hypothesis: it chooses them, and shortens what fails."""

import json
import os
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, note, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.simulation.rules import RULES, Step, play
from tests.simulation.world import SimulatedWorld

EXAMPLES = int(os.environ.get("SIMULATION_EXAMPLES", "60"))


class Machine(RuleBasedStateMachine):
    """A world; each rule of `RULES` is a rule here, and the invariants are checked within each."""

    def __init__(self) -> None:
        super().__init__()
        self.world: SimulatedWorld | None = None
        self.steps: list[Step] = []
        self.seed = ""

    @initialize(seed=st.integers(0, 999))
    def begin(self, seed: int) -> None:
        """A world with one host."""
        self.seed = f"machine/{seed}"
        self.world = SimulatedWorld(self.seed)
        self.step("start", 0, 0)

    def step(self, name: str, *numbers: int) -> None:
        """Play one step."""
        assert self.world is not None
        self.steps.append((name, numbers))
        try:
            play(self.world, (name, numbers))
        except BaseException:
            self.report()
            raise

    def teardown(self) -> None:
        """Heal, settle, and take the world down."""
        if self.world is None:
            return
        world, self.world = self.world, None
        try:
            if not world.violations():
                world.settle()
        except BaseException:
            self.world = world
            self.report()
            raise
        finally:
            world.close()

    def report(self) -> None:
        """How to play this again, and what happened."""
        assert self.world is not None
        note(f"python -m tests.simulation --replay {self.seed} --script '{json.dumps(self.steps)}'")
        note("\n".join(self.world.trace[-150:]))


def _method(name: str) -> Any:
    bounds = RULES[name].bounds

    def act(self: Machine, **numbers: int) -> None:
        self.step(name, *(numbers[f"n{index}"] for index in range(len(bounds))))

    act.__name__ = name.replace(" ", "_")
    return rule(**{f"n{index}": st.integers(0, bound) for index, bound in enumerate(bounds)})(act)


# Rules that end most of what can happen are left to the seeded driver, which can weigh them.
for _name, _each in RULES.items():
    if _each.weight >= 0.5:
        setattr(Machine, _name.replace(" ", "_"), _method(_name))
for _often in range(4):
    setattr(Machine, f"wait_{_often}", _method("wait"))
    setattr(Machine, f"produce_{_often}", _method("produce"))

TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
