"""`python -m tests.bench.notices`: the rate of notices, their cost, and how late they are.

One host with eight partitions, Azurite, and a receiver on loopback that answers at once. Rate and cost: the same
backlog is drained into small files with notices and without them, in turn; time until all files are there, CPU time of
the host until all notices have arrived, too, and the rate of notices while some arrive. Delay: from the commit of a
file, as the notice names it, to the arrival, under the backlog, and with a file now and then. Storage tells the time of
the commit to the second, so the delays are 0 to 1 s too long.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.drainers import Drainer, Roll, Way, drainer
from tests.bench.hubs import await_readers, body, fill, held
from tests.bench.machine import cpu_seconds, servers_at
from tests.support.azurite import AzuriteProcess
from tests.support.receiver import Answer, NoticeServer, Posted
from tests.support.servers import EmulatorProcess

PARTITIONS = 8
EVENTS_EACH = 10  # of a file
BODY_BYTES = 200
SETTLE_SECONDS = 2.0  # behind the last attach; then the cursor of notices is there
EVERY_SECONDS = 0.5  # between events, where files come now and then
PAUSE_SECONDS = 1.0  # a longer time between two notices is the host's, which looks for files now and then
HUB, QUIET_HUB = "notices", "notices-quiet"


class Receiver(NoticeServer):
    """Acknowledges each notice at once, and keeps when it arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: dict[str, float] = {}  # file -> seconds since its commit, of its first notice
        self.times: list[float] = []  # of arrivals
        self.answer = self._take

    def _take(self, posted: Posted) -> Answer:
        now, event = time.time(), json.loads(posted.body)
        committed = datetime.fromisoformat(event["time"]).timestamp()
        self.delays.setdefault(event["subject"], now - committed)
        self.times.append(now)
        return Answer()

    def rate(self) -> float:
        """Notices for each second, without the pauses of the host."""
        gaps = [later - time for time, later in pairwise(sorted(self.times)) if later - time < PAUSE_SECONDS]
        return len(gaps) / sum(gaps) if gaps else 0.0


@dataclass(frozen=True)
class Taken:
    """What a backlog took.

    Attributes:
        files: Number of files.
        seconds: Until all files were there.
        rate: Notices for each second.
        cpu: CPU seconds of the host until all notices were there, too.
        delays: From the commit of each file to its notice, seconds.
    """

    files: int
    seconds: float
    rate: float
    cpu: float
    delays: Sequence[float]


def drain(scratch: Path, servers: tuple[EmulatorProcess, AzuriteProcess], events: int, *, notices: bool) -> Taken:
    """Drain the filled hub, with notices or without."""
    with Receiver() as receiver:
        url, roll = receiver.url if notices else "", Roll(most_events=EVENTS_EACH)
        with drainer(Way.OURS, scratch, servers, HUB, roll, batch=EVENTS_EACH, notices=url) as running:
            with held(servers[0], HUB):
                await_readers(servers[0], HUB, PARTITIONS)
                time.sleep(SETTLE_SECONDS)
                before = cpu_seconds(running.process.pid)
            begun = time.monotonic()
            running.wait(lambda: sum(running.drained()) >= events, f"{events} events are in files")
            seconds, files = time.monotonic() - begun, len(running.drained())
            if notices:
                _await_all(running, receiver)
            cpu = cpu_seconds(running.process.pid) - before
        return Taken(files, seconds, receiver.rate(), cpu, list(receiver.delays.values()))


def now_and_then(scratch: Path, servers: tuple[EmulatorProcess, AzuriteProcess], events: int) -> list[float]:
    """The delays where an event comes now and then, and files close after a second."""
    admin = servers[0].admin
    admin.create_hub(QUIET_HUB, partitions=PARTITIONS)
    with Receiver() as receiver:
        roll = Roll(most_seconds=1)
        with drainer(Way.OURS, scratch, servers, QUIET_HUB, roll, notices=receiver.url) as running:
            await_readers(servers[0], QUIET_HUB, PARTITIONS)
            time.sleep(SETTLE_SECONDS)
            for number in range(events):
                admin.put_event(QUIET_HUB, str(number % PARTITIONS), body(BODY_BYTES, number))
                time.sleep(EVERY_SECONDS)
            running.wait(lambda: sum(running.drained()) >= events, f"{events} events are in files")
            _await_all(running, receiver)
        return list(receiver.delays.values())


def _await_all(running: Drainer, receiver: Receiver) -> None:
    files = len(running.drained())
    running.wait(lambda: len(receiver.delays) >= files, f"{files} files have notices")


def shown(delays: Sequence[float]) -> str:
    """Median and 99th percentile."""
    cuts = statistics.quantiles(delays, n=100)
    return f"median {cuts[49]:.2f} s, 99th percentile {cuts[98]:.2f} s, {len(delays)} notices"


def main() -> None:
    """Print rate, cost and delays."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.notices", description=__doc__)
    parser.add_argument("--files", type=int, default=240, help="of the backlog [240]")
    parser.add_argument("--rounds", type=int, default=2, help="drains of each kind [2]")
    parser.add_argument("--single", type=int, default=12, help="events that come now and then [12]")
    options = parser.parse_args()
    with TemporaryDirectory() as name, servers_at(Path(name)) as servers:
        events = fill(servers[0], HUB, BODY_BYTES, options.files * EVENTS_EACH, PARTITIONS)
        taken: dict[bool, list[Taken]] = {False: [], True: []}
        for number in range(options.rounds):
            for notices in (False, True) if number % 2 == 0 else (True, False):
                found = drain(Path(name), servers, events, notices=notices)
                taken[notices].append(found)
                print(
                    f"{'with' if notices else 'without'} notices: {found.files / found.seconds:.0f} files/s, "
                    f"{1000 * found.cpu / found.files:.2f} ms of CPU a file, {found.files} files"
                    + (f", {found.rate:.0f} notices/s" if notices else ""),
                    flush=True,
                )
        quiet = now_and_then(Path(name), servers, options.single)
    rates = {kind: statistics.median(each.files / each.seconds for each in runs) for kind, runs in taken.items()}
    costs = {kind: statistics.median(1000 * each.cpu / each.files for each in runs) for kind, runs in taken.items()}
    print(f"files/s with notices / without: {rates[True] / rates[False]:.2f}")
    print(f"notices/s: {statistics.median(each.rate for each in taken[True]):.0f}")
    print(f"CPU of a notice: {costs[True] - costs[False]:.2f} ms, of a file without it {costs[False]:.2f} ms")
    print(f"from commit to notice, backlog: {shown([delay for each in taken[True] for delay in each.delays])}")
    print(f"from commit to notice, a file now and then: {shown(quiet)}")


if __name__ == "__main__":
    main()
