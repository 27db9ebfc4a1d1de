"""`python -m tests.simulation --steps N --seed S`: plays random runs until N steps are done."""

import argparse
import json
import sys
import time
from collections import Counter

from tests.simulation.driver import EPISODE, episode, run, shorten


def main() -> int:
    """Run, print what was done and found; 1 where an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", default="1", help="runs are called <seed>/0, <seed>/1, ...")
    parser.add_argument("--replay", metavar="SEED/RUN", help="play one run and print its trace")
    parser.add_argument("--script", help="with --replay: its steps as JSON, as printed for a shortened run")
    options = parser.parse_args()
    if options.replay:
        return _replay(options.replay, options.script)
    return _long(options.seed, options.steps)


def _replay(seed: str, steps: str | None) -> int:
    script = [(name, tuple(numbers)) for name, numbers in json.loads(steps)] if steps else episode(seed)
    outcome = run(seed, script)
    print("\n".join(outcome.trace))
    print(f"\nrun {seed}: {outcome.steps} steps, {outcome.violation or 'nothing violated'}")
    return 1 if outcome.violation else 0


def _long(seed: str, steps: int) -> int:
    checks: Counter[str] = Counter()
    done = number = rows = violations = 0
    seconds, since, shown = 0.0, time.monotonic(), 0.0
    while done < steps:
        name = f"{seed}/{number}"
        outcome = run(name, episode(name, min(EPISODE, steps - done)))
        number += 1
        done += outcome.steps
        rows += outcome.rows
        seconds += outcome.seconds
        checks += outcome.checks
        if outcome.violation:
            violations += 1
            _show(name, outcome.violation, violations)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(
                f"{done:9,} steps, {number:6,} runs, {sum(checks.values()):11,} checks, {violations} violations",
                flush=True,
            )
    wall = time.monotonic() - since
    print(f"\n{done:,} steps in {number:,} runs (seeds {seed}/0 to {seed}/{number - 1}) in {wall:.0f} s;")
    print(f"{seconds / 3600:,.1f} hours of virtual time, {rows:,} events in files; checks of each invariant:")
    print("  " + ", ".join(f"{name} {count:,}" for name, count in sorted(checks.items())))
    print(f"{violations} violations")
    return 1 if violations else 0


def _show(seed: str, violation: str, count: int) -> None:
    print(f"\nrun {seed} violates {violation}\n  python -m tests.simulation --replay {seed}", flush=True)
    if count <= 3:
        fewer = shorten(seed, episode(seed))
        command = f"python -m tests.simulation --replay {seed} --script '{json.dumps(fewer)}'"
        print(f"shortened to {len(fewer)} steps:\n  {command}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
