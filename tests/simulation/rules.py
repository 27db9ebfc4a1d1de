"""What may happen: each rule with its weight, and the ranges of the numbers it is played with.

Numbers are drawn from 0 to their bound; a rule that does not fit the moment does nothing. Rules are data, so a run is a
seed and a list of rules with numbers: it can be printed, played again and shortened.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from tests.simulation.world import HOSTS, World

PAUSES = (0.05, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0)  # seconds
COUNTS = (1, 2, 3, 5, 8, 13, 40)
RATES = (0.9, 0.95, 1.0, 1.05, 1.1)
SIDES = ({"storage"}, {"hub"}, {"storage", "hub"})
TARGETS = (
    ("put", "from="),
    ("put", "$Default/"),
    ("set_metadata", ""),
    ("put", "_genesis"),
    ("put", "_batches"),
    ("head", ""),
    ("read", ""),
    ("list", ""),
    ("acquire_lease", ""),
    ("renew_lease", ""),
    ("change_lease", ""),
    ("release_lease", ""),
    ("open", ""),
    ("describe", ""),
    ("partition", ""),
    ("", ""),
)
HOST, PARTITION = HOSTS - 1, 5


@dataclass(frozen=True)
class Rule:
    """Something that may happen."""

    weight: float
    bounds: tuple[int, ...]
    play: Callable[..., None]


Step = tuple[str, tuple[int, ...]]
"""A rule's name and its numbers."""


def _cut(world: World, host: int, sides: int) -> None:
    world.with_host(host, lambda found: found.node.cut.update(SIDES[sides]))


def _upset(world: World, kind: int, target: int) -> None:
    world.upset(kind, *TARGETS[target])


RULES: Mapping[str, Rule] = {
    "wait": Rule(30, (len(PAUSES) - 1,), lambda w, n: w.run(PAUSES[n])),
    "produce": Rule(25, (PARTITION, len(COUNTS) - 1), lambda w, p, n: w.produce(p, COUNTS[n])),
    "start": Rule(6, (HOST, 1), World.start),
    "stop": Rule(2, (HOST,), lambda w, h: w.with_host(h, lambda found: found.stop())),
    "crash": Rule(3, (HOST, 1), World.crash),
    "pause": Rule(4, (HOST,), World.pause),
    "resume": Rule(3, (HOST,), World.resume),
    "cut": Rule(2, (HOST, len(SIDES) - 1), _cut),
    "mend": Rule(2, (HOST,), lambda w, h: w.with_host(h, lambda found: found.node.cut.clear())),
    "clock rate": Rule(
        1, (HOST, len(RATES) - 1), lambda w, h, n: w.with_host(h, lambda found: found.machine.set_rate(RATES[n]))
    ),
    "upset": Rule(12, (5, len(TARGETS) - 1), _upset),
    "hold a file": Rule(4, (), lambda w: w.upset(3, "put", "from=")),
    "release": Rule(4, (), lambda w: w.network.release()),
    "operator": Rule(2, (HOSTS,), World.operator),
    "tell wrongly": Rule(2, (HOSTS, HOSTS + 1, 15, 15), World.tell_wrongly),
    "tell late": Rule(1, (HOST, len(PAUSES) - 1), lambda w, h, n: w.tell_late(h, PAUSES[n])),
    "expire lease": Rule(2, (PARTITION,), lambda w, p: w.tamper(p, lambda t, name: t.expire(name))),
    "break lease": Rule(1, (PARTITION,), lambda w, p: w.tamper(p, lambda t, name: t.break_lease(name, 8))),
    "foreign lease": Rule(0.5, (PARTITION,), lambda w, p: w.tamper(p, lambda t, name: t.take(name))),
    "delete lease": Rule(1, (PARTITION,), lambda w, p: w.tamper(p, lambda t, name: t.delete(name))),
    "damage lease": Rule(0.5, (PARTITION, 5), lambda w, p, n: w.tamper(p, lambda t, name: t.damage(name, n))),
    "checkpoint down": Rule(1, (PARTITION, 20), lambda w, p, n: w.tamper(p, lambda t, name: t.edit(name, -1 - n))),
    "checkpoint up": Rule(0.5, (PARTITION, 20), lambda w, p, n: w.tamper(p, lambda t, name: t.edit(name, 1 + n))),
    "break session": Rule(1, (HOST,), World.break_session),
    "delete leases": Rule(0.3, (), World.delete_leases),
    "retention": Rule(3, (PARTITION, 12), World.retain),
    "redeliver": Rule(2, (PARTITION, 9), World.redeliver),
    "skip": Rule(1, (PARTITION, 4), lambda w, p, n: w.skip(p, n + 1)),
    "drop link": Rule(2, (PARTITION,), World.drop),
    "freeze link": Rule(1, (PARTITION,), World.freeze),
    "rival": Rule(1, (PARTITION, 3), World.rival),
    "rivals leave": Rule(2, (), World.rivals_leave),
    "recreate hub": Rule(0.1, (), World.recreate),
    "add partition": Rule(0.5, (), World.add_partition),
    "clean up": Rule(1, (5,), World.clean_up),
    "commit batch": Rule(2, (), World.commit_batch),
}


def play(world: World, step: Step) -> None:
    """Play one step, and let its first consequences happen."""
    name, numbers = step
    world.note(f"--- {name} {' '.join(map(str, numbers))}")
    RULES[name].play(world, *numbers)
    world.run(0.02)


def script(rng: Random, steps: int, emphasis: Mapping[str, float] | None = None) -> list[Step]:
    """A random list of steps.

    Args:
        rng: Where it comes from.
        steps: Its length.
        emphasis: Factors of rules' weights.
    """
    names = list(RULES)
    weights = [RULES[name].weight * (emphasis or {}).get(name, 1) for name in names]
    chosen = rng.choices(names, weights, k=steps)
    return [(name, tuple(rng.randint(0, bound) for bound in RULES[name].bounds)) for name in chosen]
