"""CPU time of an event from the hub to a table, on each way that this project has: side by side in one run.

    python -m tests.bench.spark_paths [--events 20000] [--rounds 3]

- table over the files: a host drains the events and registers the files; nothing is copied.
- resident driver: a host drains, and a driver that stays copies the files into Spark's table.
- own driver: a host drains, and each batch starts a driver.

Draining is measured with `--backlog` events of 1 KB. A batch of Spark has `--events` in 8 files. The first batch of the
resident driver is left out: it includes its start, as a batch with its own driver does.
"""

import argparse
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from eventconsumer_operator.spark.native import QUICK_START
from tests.bench.drain import drain
from tests.bench.drainers import Way
from tests.bench.hubs import fill
from tests.bench.machine import servers_at
from tests.bench.options import Options
from tests.bench.spark_resident import Bench, Taken, alone, resident
from tests.support.azurite import azurite_with_client

PARTITIONS = 4


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spark_paths", description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="in a batch of Spark [20,000]")
    parser.add_argument("--files", type=int, default=8, help="in a batch of Spark [8]")
    parser.add_argument("--backlog", type=int, default=100_000, help="events to drain [100,000]")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each way [3]")
    parser.add_argument("--java", default=QUICK_START, help="options of the JVM")
    parser.add_argument("--memory", default="1g", help="maximum heap of the JVM [1g]")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        drained = draining(Path(name), options)
        own, warm = spark(Path(name), options)
    print(f"{'way':<22}{'draining':>10}{'Spark':>10}{'together':>10}   us of CPU an event")
    print(f"{'table over the files':<22}{drained[Way.OURS_TABLE]:>10.1f}{0:>10.1f}{drained[Way.OURS_TABLE]:>10.1f}")
    for label, taken in (("resident driver", warm), ("own driver", own)):
        micros = 1e6 * statistics.median(each.cpu for each in taken) / options.events
        print(f"{label:<22}{drained[Way.OURS]:>10.1f}{micros:>10.1f}{drained[Way.OURS] + micros:>10.1f}")
    for label, taken in (("resident driver", warm), ("own driver", own)):
        seconds = statistics.median(each.seconds for each in taken)
        print(f"{label}: {seconds:.1f} s from a frozen batch of {options.events:,} events to its commit")
    return 0


def draining(folder: Path, options: argparse.Namespace) -> dict[Way, float]:
    """CPU time of a host for each event, without and with a table, microseconds."""
    found: dict[Way, list[float]] = {Way.OURS: [], Way.OURS_TABLE: []}
    with servers_at(folder) as servers:
        count = fill(servers[0], "paths", 1000, options.backlog, PARTITIONS)
        for _ in range(options.rounds):
            for way, micros in found.items():
                micros.append(drain(way, folder, servers, "paths", count, PARTITIONS, Options()).micros)
    return {way: statistics.median(micros) for way, micros in found.items()}


def spark(folder: Path, options: argparse.Namespace) -> tuple[list[Taken], list[Taken]]:
    """Batches with their own driver, and batches of a resident driver after its first one."""
    warm: list[Taken] = []
    with azurite_with_client(folder) as (azurite, service):
        bench = Bench(azurite, service, folder, options)
        own = [alone(bench) for _ in range(options.rounds)]
        resident(bench, options.rounds + 2, lambda number, taken, _: warm.append(taken) if number > 1 else None)
    return own, warm


if __name__ == "__main__":
    sys.exit(main())
