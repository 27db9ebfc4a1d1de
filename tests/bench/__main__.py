"""`python -m tests.bench [NAME ...] [--quick] [--long] [--out FOLDER]`: measure, and write docs/benchmarks."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from tests.bench.options import Options
from tests.bench.plots import draw
from tests.bench.results import FOLDER, table, write

# Modules with a function `rows`.
NAMES = ("receive", "drain", "scale", "memory", "latency", "calls", "balance", "columns")


def main() -> int:
    """Run the named benchmarks, or all; 1 where one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all without one")
    parser.add_argument("--quick", action="store_true", help="small counts; nothing is written without --out")
    parser.add_argument("--long", action="store_true", help="the row over ten million events, too")
    parser.add_argument("--out", type=Path, help="folder of latest.json and the plots, docs/benchmarks without it")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; take some of {', '.join(NAMES)}")
    folder = options.out or (None if options.quick else FOLDER)
    failed = []
    for name in options.names or NAMES:
        print(f"--- {name}", flush=True)
        try:
            rows = import_module(f"tests.bench.{name}").rows(Options(quick=options.quick, long=options.long))
        except (RuntimeError, TimeoutError, AssertionError) as error:
            print(f"{name} failed: {error}", flush=True)
            failed.append(name)
            continue
        print(table(rows), flush=True)
        if folder:
            draw(write(rows, folder), folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
