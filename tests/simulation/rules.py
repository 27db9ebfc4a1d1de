"""What may happen: each rule with its weight, and the ranges of the numbers it is played with.

Numbers are drawn from 0 to their bound; a rule that does not fit the moment does nothing. Rules are data, so a run is a
seed and a list of rules with numbers: it can be printed, played again and shortened.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from tests.simulation.checker import IN_FLIGHT
from tests.simulation.consumer import HOSTS
from tests.simulation.stream import MOST_PARTITIONS, Stream
from tests.simulation.world import SimulatedWorld

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
    ("put", "_commits"),
    ("put", "_delta_log"),
    ("put", "_watermark"),
    ("put", "_retention"),
    ("head", ""),
    ("read", ""),
    ("list", ""),
    ("acquire_lease", ""),
    ("renew_lease", ""),
    ("release_lease", ""),
    ("open", ""),
    ("describe", ""),
    ("partition", ""),
    ("", ""),
    ("put", ".checkpoint.parquet"),
    ("put", "_last_checkpoint"),
    ("put", "_notices"),
    ("notice", ""),
)
CONSUMER = 1
HOST, PARTITION = 2 * HOSTS - 1, 2 * MOST_PARTITIONS - 1  # of two consumers


@dataclass(frozen=True)
class Rule:
    """Something that may happen."""

    weight: float
    bounds: tuple[int, ...]
    play: Callable[..., None]


Step = tuple[str, tuple[int, ...]]
"""A rule's name and its numbers."""


def _cut(world: SimulatedWorld, host: int, sides: int) -> None:
    world.host(host, lambda found: found.node.cut.update(SIDES[sides]))


def _upset(world: SimulatedWorld, kind: int, target: int) -> None:
    world.upset(kind, *TARGETS[target])


RULES: Mapping[str, Rule] = {
    "wait": Rule(30, (len(PAUSES) - 1,), lambda w, n: w.run(PAUSES[n])),
    "produce": Rule(25, (PARTITION, len(COUNTS) - 1), lambda w, p, n: w.at(p, Stream.produce, COUNTS[n])),
    "start": Rule(6, (HOST, 1), SimulatedWorld.start),
    "stop": Rule(2, (HOST,), lambda w, h: w.host(h, lambda found: found.stop())),
    "crash": Rule(3, (HOST, 1), SimulatedWorld.crash),
    "pause": Rule(4, (HOST,), lambda w, h: w.host(h, lambda found: setattr(found.machine, "paused", True))),
    "resume": Rule(3, (HOST,), lambda w, h: w.host(h, lambda found: found.machine.resume())),
    "cut": Rule(2, (HOST, len(SIDES) - 1), _cut),
    "mend": Rule(2, (HOST,), lambda w, h: w.host(h, lambda found: found.node.cut.clear())),
    "clock rate": Rule(
        1, (HOST, len(RATES) - 1), lambda w, h, n: w.host(h, lambda found: found.machine.set_rate(RATES[n]))
    ),
    "upset": Rule(12, (5, len(TARGETS) - 1), _upset),
    "hold a file": Rule(4, (), lambda w: w.upset(3, "put", "from=")),
    "hold a version": Rule(1, (), lambda w: w.upset(3, "put", "_delta_log")),
    "hold a cursor": Rule(1, (), lambda w: w.upset(3, "put", "_retention")),
    "hold a watermark": Rule(1, (), lambda w: w.upset(3, "put", "_watermark")),
    "upset a notice": Rule(2, (5,), lambda w, kind: w.upset(kind, "notice")),
    "refuse notices": Rule(1.5, (PARTITION, 5), lambda w, p, n: w.at(p, Stream.refuse_notices, n)),
    "optimize": Rule(1, (CONSUMER, 4), lambda w, c, n: w.consumer(c).stream.optimize(n)),
    "alter table": Rule(0.7, (CONSUMER, 2), lambda w, c, n: w.consumer(c).stream.alter_table(n)),
    "tidy table": Rule(0.7, (CONSUMER, 3), lambda w, c, n: w.consumer(c).stream.tidy_table(n)),
    "release": Rule(4, (), lambda w: w.network.release()),
    "operator": Rule(2, (CONSUMER, HOSTS), lambda w, c, n: w.consumer(c).operator(n)),
    "tell wrongly": Rule(2, (2 * HOSTS + 1, HOSTS + 1, 15, 15), SimulatedWorld.tell_wrongly),
    "tell late": Rule(1, (HOST, len(PAUSES) - 1), lambda w, h, n: w.tell_late(h, PAUSES[n])),
    "expire lease": Rule(2, (PARTITION,), lambda w, p: w.tamper(p, lambda t, name: t.expire(name))),
    "break lease": Rule(1, (PARTITION,), lambda w, p: w.tamper(p, lambda t, name: t.break_lease(name, 8))),
    "foreign lease": Rule(0.5, (PARTITION,), lambda w, p: w.tamper(p, lambda t, name: t.take(name))),
    "delete lease": Rule(1, (PARTITION,), lambda w, p: w.tamper(p, lambda t, name: t.delete(name))),
    "damage lease": Rule(0.5, (PARTITION, 5), lambda w, p, n: w.tamper(p, lambda t, name: t.damage(name, n))),
    "checkpoint down": Rule(1, (PARTITION, 20), lambda w, p, n: w.tamper(p, lambda t, name: t.edit(name, -1 - n))),
    "checkpoint up": Rule(0.5, (PARTITION, 20), lambda w, p, n: w.tamper(p, lambda t, name: t.edit(name, 1 + n))),
    "recreate resource": Rule(1, (CONSUMER, 2, 1), lambda w, c, how, move: w.consumer(c).recreate(how, move)),
    "delete leases": Rule(0.3, (), SimulatedWorld.delete_leases),
    "retention": Rule(3, (PARTITION, 12), lambda w, p, n: w.at(p, Stream.retain, n)),
    "redeliver": Rule(2, (PARTITION, 9), lambda w, p, n: w.at(p, Stream.redeliver, n)),
    "start early": Rule(1, (PARTITION, 9), lambda w, p, n: w.at(p, Stream.start_early, n)),
    "skip": Rule(1, (PARTITION, 4), lambda w, p, n: w.at(p, Stream.skip, n + 1)),
    "drop link": Rule(2, (PARTITION,), lambda w, p: w.at(p, Stream.drop)),
    "freeze link": Rule(1, (PARTITION,), lambda w, p: w.at(p, Stream.freeze)),
    "rival": Rule(1, (PARTITION, 3), lambda w, p, n: w.at(p, Stream.rival, n)),
    "rivals leave": Rule(2, (CONSUMER,), lambda w, c: w.consumer(c).stream.rivals_leave()),
    "recreate hub": Rule(0.2, (CONSUMER,), lambda w, c: w.consumer(c).stream.recreate()),
    "fail over": Rule(0.4, (PARTITION, 15), lambda w, p, n: w.at(p, Stream.fail_over, n + 1)),
    "promote": Rule(0.3, (CONSUMER,), lambda w, c: w.consumer(c).stream.promote()),
    "move broker": Rule(1, (PARTITION, 4), lambda w, p, n: w.at(p, Stream.move, n)),
    "compact": Rule(0.7, (PARTITION, 1000), lambda w, p, n: w.at(p, Stream.compact, n)),
    "accept": Rule(0.4, (CONSUMER,), lambda w, c: w.accept(w.consumer(c).stream)),
    "add partition": Rule(0.5, (CONSUMER,), lambda w, c: w.consumer(c).stream.add_partition()),
    "clean up": Rule(1, (CONSUMER, 5), lambda w, c, n: w.consumer(c).stream.clean_up(n)),
    "commit batch": Rule(2, (CONSUMER, IN_FLIGHT - 1), lambda w, c, n: w.consumer(c).stream.commit_batch(n)),
}


def play(world: SimulatedWorld, step: Step) -> None:
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
