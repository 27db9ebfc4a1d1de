"""How the cost of draining grows with the partitions of a host, and with the backlog; bodies of 1 KB.

Measured as in `drain`. On 32 partitions the same number of events makes more, and smaller, files.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.drain import PARTITIONS, QUICK, drain
from tests.bench.drainers import Way
from tests.bench.hubs import fill
from tests.bench.machine import servers_at
from tests.bench.options import Options
from tests.bench.results import Row

BYTES = 1000  # of a body
PER_HOST = (1, 8, 32)  # partitions
BACKLOGS = (20_000, 100_000, 400_000)  # events
EVENTS = 200_000  # on each number of partitions


def rows(options: Options) -> list[Row]:
    """Drain hubs with more partitions, then with more events."""
    less = QUICK if options.quick else 1
    found = []
    with TemporaryDirectory() as name, servers_at(Path(name)) as servers:
        hubs = [(f"cost_partitions_{count}", EVENTS, count) for count in PER_HOST]
        hubs += [(f"cost_backlog_{count // 1000}k", count, PARTITIONS) for count in BACKLOGS]
        for row, events, partitions in hubs:
            hub = row.replace("_", "-")
            count = fill(servers[0], hub, BYTES, events // less, partitions)
            ours, peer = (
                drain(way, Path(name), servers, hub, count, partitions, options) for way in (Way.OURS, Way.SDK)
            )
            found.append(Row(row, "CPU us per event", ours.micros, peer.micros))
            servers[0].admin.delete_hub(hub)
    return found
