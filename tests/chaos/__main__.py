"""Chaos of every part on the local cluster, under a steady load.

    python -m tests.chaos [--seed 1] [--minutes 30] [--rate 200] [--only NAME,…] [--in-flight N] [--list]

Needs the cluster of `make demo`, on this machine, as root. Creates two consumers that share a storage account and a
container, with tables over their files and with Spark; publishes events with unique ids; and injects a fault of a host,
a driver, the operator, the hub, storage, the network, the control plane, the resource or a Secret every 8 to 20 s. The
seed decides which. Then the faults end, everything must be processed, and a verifier that shares no code with the
product compares the ids in the files, in the tables over the files and in the tables of Spark with the sent ones. The
first consumer has columns of the bodies, of which some are bad; the verifier compares their values, too.

Exit code 1: an event is missing, there twice or has a wrong value, the audit found a violation, not everything was
processed in time, a fault could not be undone, or a log has an error that no documented failure mode explains.
Ctrl-C ends the faults, and prints a report without the comparison (exit code 130).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import Any

from azure.core.exceptions import AzureError

from eventconsumer_demo import run
from eventconsumer_demo.steps import DemoError
from tests.chaos import logs as chaos_logs
from tests.chaos.campaign import Campaign
from tests.chaos.faults import FAULTS
from tests.chaos.load import POLL_SECONDS, STATUS_SECONDS, Load, States, Unread, Watch
from tests.chaos.logs import Logs
from tests.chaos.report import Report
from tests.chaos.schedule import Fault, schedule
from tests.chaos.stage import OPERATOR, CampaignStage, Options, demo_cluster
from tests.chaos.verifier import Events, Filed, Verdict, compare, drained_files, read_delta, read_file

START_SECONDS = 180.0  # until both consumers are ready
SETTLE_SECONDS = 600.0
IDS_OF_A_CONSUMER = 1_000_000_000  # no id belongs to two consumers


def tell(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


class Observation:
    """Load and observations of a stage."""

    def __init__(self, stage: CampaignStage, rate: float, clock: Callable[[], float]) -> None:
        self.stage = stage
        self.clock = clock
        self.unread, self.states = Unread(), States()
        self.loads = {
            name: Load(
                stage.admin,
                name,
                partial(stage.partitions.__getitem__, name),
                rate / len(stage.consumers),
                number * IDS_OF_A_CONSUMER,
            )
            for number, name in enumerate(stage.consumers)
        }
        self.logs = Logs(stage.pod_logs, stage.cluster.namespace, [stage.name, OPERATOR])
        self._watches = [Watch(self._readers, POLL_SECONDS), Watch(self._conditions, STATUS_SECONDS)]

    def begin(self) -> None:
        """Start everything."""
        for thread in (self.logs, *self._watches, *self.loads.values()):
            thread.start()

    def end_load(self) -> None:
        """Publish no more events."""
        for load in self.loads.values():
            load.end()

    def end(self) -> None:
        """Observe no more."""
        for watch in self._watches:
            watch.end()
        self.unread.end(self.clock())
        self.logs.end()

    def _readers(self) -> None:
        links = self.stage.admin.links(kind="reader")
        read = {f"{link['hub']}/{link['partition']}" for link in links}
        every = [f"{name}/{number}" for name, count in self.stage.partitions.items() for number in range(count)]
        self.unread.see(self.clock(), every, read)

    def _conditions(self) -> None:
        found: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(DemoError):
            found = self.stage.statuses()
        for name in self.stage.consumers:
            self.states.see(self.clock(), name, found.get(name))


def pending(status: Mapping[str, Any], watermark: Mapping[str, Any], events: int, ended: datetime) -> str:
    """PURE: what of a consumer's events is not processed yet; empty: all are in files, in the table and in batches.

    Args:
        status: Of the resource.
        watermark: The record `_watermark.json`; at rest that of the status is up to five minutes old.
        events: Number of events that the hub has acknowledged; it may have some more.
        ended: A time after the last event.
    """
    drained, table, spark = (status.get(part, {}) for part in ("drained", "table", "spark"))
    filed, registered = drained.get("events", 0), table.get("events", 0)
    if filed < events or not _reached(watermark.get("files"), ended):
        return f"{filed} of {events} events are in files, up to {watermark.get('files')}"
    if registered < filed or table.get("pendingFiles"):
        return f"{registered} of {filed} events are in the table"
    if spark.get("pendingFiles", 1) or not _reached(watermark.get("commits"), ended):
        return f"Spark has not processed everything: {json.dumps(spark)[:800]}"
    return ""


def _reached(time: str | None, wanted: datetime) -> bool:
    return time is not None and datetime.fromisoformat(time) >= wanted


def settle(
    stage: CampaignStage, loads: dict[str, Load], wait: Callable[[float], bool]
) -> tuple[dict[str, float], list[str]]:
    """Wait until everything is processed; returns seconds by consumer, and problems."""
    began, ended = time.monotonic(), datetime.now(UTC)
    settled: dict[str, float] = {}
    while True:
        waiting = sorted(loads.keys() - settled.keys())
        try:
            statuses, watermarks = stage.statuses(), {name: stage.storage.watermark(name) for name in waiting}
            missing = {
                name: pending(statuses.get(name, {}), watermarks[name], len(loads[name].sent), ended)
                for name in waiting
            }
        except (DemoError, AzureError) as error:
            missing = dict.fromkeys(waiting, f"the state cannot be read: {error}")
        settled |= {name: time.monotonic() - began for name, what in missing.items() if not what}
        if len(settled) == len(loads):
            return settled, []
        if time.monotonic() - began > SETTLE_SECONDS:
            what = [
                f"{name} has not settled after {SETTLE_SECONDS:.0f} s: {why}" for name, why in missing.items() if why
            ]
            return settled, what
        if wait(2.0):
            return settled, ["ended by hand before everything was processed"]


def verify(stage: CampaignStage, loads: dict[str, Load]) -> tuple[list[Verdict], tuple[float, str]]:
    """Read all files and tables, and compare; also the longest time from arrival to file."""
    storage = {
        "account_name": run.ACCOUNT,
        "account_key": run.STORAGE_KEY,
        "endpoint": stage.storage.endpoint,
        "allow_http": "true",
    }
    verdicts: list[Verdict] = []
    slowest = Filed("", Events([], []), 0.0)
    for name, load in loads.items():
        events, typed = Events([], []), "body" in stage.manifests[name]["spec"]["sink"]
        for file in drained_files(stage.storage.connection, stage.storage.sink, name):
            filed = read_file(file, typed=typed)
            events += filed.events
            slowest = max(slowest, filed, key=lambda each: each.seconds)
        places = {
            f"files of {name}": events,
            f"table over the files of {name}": read_delta(f"az://{stage.storage.sink}/{name}", storage, typed=typed),
            f"table of Spark of {name}": read_delta(f"az://results/{name}", storage),
        }
        verdicts += [compare(place, found, load.sent, load.uncertain) for place, found in places.items()]
    return verdicts, (slowest.seconds, slowest.name)


def audit(stage: CampaignStage, name: str) -> tuple[str, list[str]]:
    """The last line of a consumer's audit, and problems."""
    command = ("exec", f"{name}-host-0", "--", "eventconsumer", "audit", "--deep", "--hub")
    try:
        return stage.cluster.kubectl(*command, timeout=600).strip().splitlines()[-1], []
    except DemoError as error:
        last = (error.detail.strip().splitlines() or [str(error)])[-1]
        return last, [f"the audit of {name} is not clean: {error.detail.strip()[-1500:] or error}"]


def chosen(only: str) -> Sequence[Fault]:
    """The faults named in `--only`, or all.

    Raises:
        SystemExit: A name is unknown.
    """
    names = [name for name in only.split(",") if name]
    if unknown := set(names) - {fault.name for fault in FAULTS}:
        raise SystemExit(f"--only: no fault {', '.join(sorted(unknown))}: `python -m tests.chaos --list` shows all")
    return [fault for fault in FAULTS if not names or fault.name in names]


def listing() -> str:
    """One line for each fault."""
    rows = []
    for fault in FAULTS:
        shortest, longest = fault.seconds
        lasting = f"{shortest:.0f} to {longest:.0f} s" if longest else ""
        rows.append(f"{fault.name:<28} {fault.part.format(consumer='a consumer'):<26} {lasting:<12} x {fault.weight:g}")
    return "\n".join(rows)


def ready(stage: CampaignStage, wait: Callable[[float], bool]) -> None:
    """Wait until all partitions of both consumers are read.

    Raises:
        SystemExit: They are not, or a person has ended the campaign.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        found = {
            name: len({link["partition"] for link in stage.admin.links(kind="reader", hub=name)})
            for name in stage.consumers
        }
        if found == stage.partitions:
            return
        if wait(1.0) or time.monotonic() > deadline:
            raise SystemExit(
                f"partitions that are read: {found}, of {stage.partitions}: `kubectl describe evc` shows why"
            )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=200, help="Events a second, of both consumers.")
    parser.add_argument("--only", default="", help="Names of faults, with commas.")
    parser.add_argument("--list", action="store_true", help="Print all faults, and exit.")
    parser.add_argument("--idle-timeout", type=int, default=600, help="spec.spark.idleTimeoutSeconds.")
    parser.add_argument("--in-flight", type=int, default=1, help="spec.spark.batch.inFlight; above 1, no driver stays.")
    parser.add_argument("--launcher", default="Native", help="spec.spark.launcher.")
    parser.add_argument("--keep", action="store_true", help="Leave the consumers in the cluster.")
    return parser.parse_args(arguments)


def perform(stage: CampaignStage, options: argparse.Namespace, command: str, wait: Callable[[float], bool]) -> Report:
    """Run the campaign on an open stage."""
    faults, duration = chosen(options.only), options.minutes * 60
    ready(stage, wait)
    began = time.monotonic()
    observation = Observation(stage, options.rate, lambda: time.monotonic() - began)
    campaign = Campaign(stage, observation.clock, wait, time.sleep, tell)
    observation.begin()
    settled: dict[str, float] = {}
    verdicts: list[Verdict] = []
    slowest = (0.0, "")
    audits: dict[str, str] = {}
    problems: list[str] = []
    try:
        complete = campaign.run(schedule(faults, stage.consumers, options.seed, duration), duration)
    finally:
        campaign.undo_all()
        observation.end_load()
    problems += [f"{each.action.fault.name} is not undone: {each.undo_error}" for each in campaign.not_undone]
    if complete:
        tell("the faults have ended; waiting until everything is processed")
        try:
            stage.repair()
        except Exception as error:
            problems.append(f"the cluster does not recover: {error}")
        settled, unsettled = settle(stage, observation.loads, wait)
        problems += unsettled
        tell("comparing events")
        try:
            verdicts, slowest = verify(stage, observation.loads)
        except Exception as error:
            problems.append(f"files and tables cannot be read: {type(error).__name__}: {error}")
        for name in stage.consumers:
            audits[name], violations = audit(stage, name)
            problems += violations
    else:
        problems.append("ended by hand: nothing was compared")
    observation.end()
    unexplained = chaos_logs.unexplained(observation.logs.errors)
    return Report(
        seed=options.seed,
        command=command,
        outcomes=campaign.outcomes,
        sent=sum(len(load.sent) for load in observation.loads.values()),
        uncertain=sum(len(load.uncertain) for load in observation.loads.values()),
        verdicts=verdicts,
        problems=problems,
        slowest_file=slowest,
        unread=observation.unread.spans,
        settled=settled,
        states=observation.states.seconds,
        unexplained=unexplained,
        explained=len(observation.logs.errors) - len(unexplained),
        warnings=observation.logs.warnings,
        audits=audits,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 0 where it is clean."""
    options = parse(arguments)
    if options.list:
        tell(listing())
        return 0
    chosen(options.only)
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        tell("ending: all faults are undone first")
        stopped.set()

    cluster = demo_cluster()
    stage = CampaignStage.of(
        cluster,
        f"chaos-{int(time.time()) % 0x100000:05x}",
        Options(options.idle_timeout, options.in_flight, options.launcher),
    )
    command = shlex.join(["python", "-m", "tests.chaos", *(sys.argv[1:] if arguments is None else arguments)])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    tell(f"seed {options.seed}, {options.minutes:g} minutes, consumers {', '.join(stage.consumers)}: {command}")
    try:
        stage.open()
        report = perform(stage, options, command, stopped.wait)
        tell(str(report))
    finally:
        if not options.keep:
            try:
                stage.close()
            except Exception as error:  # the report is printed, the exit code stays
                tell(f"not all of {stage.name} could be removed: {error}: run `make demo` again")
    if stopped.is_set():
        return 130
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
