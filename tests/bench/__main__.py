"""`python -m tests.bench [NAME ...] [--quick] [--long] [--out FOLDER]`: measure, and write docs/benchmarks."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench import balance, calls, drain, latency, memory, receive, scale
from tests.bench.options import Options
from tests.bench.plots import draw
from tests.bench.results import FOLDER, Row, table, write

BENCHES: dict[str, Callable[[Options], list[Row]]] = {
    "receive": receive.rows,
    "drain": drain.rows,
    "scale": scale.rows,
    "memory": memory.rows,
    "latency": latency.rows,
    "calls": calls.rows,
    "balance": balance.rows,
}


def main() -> int:
    """Run the named benchmarks, or all; 1 where one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; all without one")
    parser.add_argument("--quick", action="store_true", help="small counts; nothing is written without --out")
    parser.add_argument("--long", action="store_true", help="the row over ten million events, too")
    parser.add_argument("--out", type=Path, help="folder of latest.json and the plots, docs/benchmarks without it")
    options = parser.parse_args()
    if unknown := set(options.names) - BENCHES.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; take some of {', '.join(BENCHES)}")
    folder = options.out or (None if options.quick else FOLDER)
    failed = []
    for name in options.names or BENCHES:
        print(f"--- {name}", flush=True)
        try:
            rows = BENCHES[name](Options(quick=options.quick, long=options.long))
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
