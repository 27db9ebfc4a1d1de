"""`python -m tests.bench.fleet_size`: 4 and 16 real host processes on the same hub of 32 partitions.

Prints the time from the start of all processes until the partitions are balanced and read, and the requests to storage
for each partition and minute while each partition gets an event a second. The requests are counted in Azurite's access
log. At the end each event is in exactly one file. Leases of 60 s, files of 20 s, the emulator and Azurite on the same
machine, an operator's messages; takes below three minutes on a machine of two cores.
"""

import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.calls import requests
from tests.bench.failover import ROLL, stage
from tests.bench.machine import servers_at

PARTITIONS, SIZES = 32, (4, 16)
LEASE_SECONDS, FILE_SECONDS = 60, 20
AFTER_SECONDS, COUNT_SECONDS = 5.0, 40.0  # from balanced until requests are counted; how long


def measure(scratch: Path, hosts: int) -> tuple[float, float, Counter[str]]:
    """Seconds until so many hosts are balanced, the longest unread partition then, and requests by kind."""
    with servers_at(scratch, access_log=True) as servers:
        roll = ROLL | {"maxSeconds": FILE_SECONDS}
        with stage(servers, f"fleet-{hosts}", LEASE_SECONDS, PARTITIONS, told=True, roll=roll) as at:
            began = time.monotonic()
            at.want(hosts)
            settled = at.settle(at.hosts(0, hosts)) - began
            at.readers.begin()
            time.sleep(AFTER_SECONDS)
            log = scratch / "azurite.log"
            before = requests(log)
            time.sleep(COUNT_SECONDS)
            found = requests(log) - before
            unread = at.readers.longest()
    kinds = Counter[str]()
    for kind, count in found.items():
        kinds[" ".join(kind.split(" ")[:2])] += count
    return settled, unread, kinds


def main() -> None:
    """Print a line for each number of hosts."""
    for hosts in SIZES:
        with TemporaryDirectory() as name:
            settled, unread, kinds = measure(Path(name), hosts)
        scale = 60 / COUNT_SECONDS / PARTITIONS
        most = ", ".join(f"{kind.strip()} {count * scale:.1f}" for kind, count in kinds.most_common(6))
        calls = kinds.total() * scale
        print(
            f"{hosts} hosts, {PARTITIONS} partitions: balanced after {settled:.1f} s, then longest unread {unread:.1f} "
            f"s, {calls:.1f} storage calls for each partition and minute: {most}",
            flush=True,
        )


if __name__ == "__main__":
    main()
