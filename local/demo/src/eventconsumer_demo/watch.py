"""Follows one EventConsumer until all sent events are drained and processed: a line for each change."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError, console

HEADER = (
    f"{'time':>6}  {'hosts':>7}  {'partitions':>10}  {'lag':>8}  {'files':>6}  {'events':>8}  {'table':>8}  "
    f"{'pending':>7}  {'done':>5}  Spark"
)


@dataclass(frozen=True)
class View:
    """The parts of the resource's status that the demo shows."""

    hosts: str
    partitions: str
    lag: int | None
    files: int
    events: int
    table: int  # events in the table over the files
    pending: int
    processed: int
    batch: str
    ready: str

    @classmethod
    def of(cls, status: dict[str, Any]) -> "View":
        """Parse a status; absent parts are shown as unknown."""
        hosts, partitions = status.get("hosts", {}), status.get("partitions", {})
        drained, spark = status.get("drained", {}), status.get("spark", {})
        conditions = {each["type"]: each for each in status.get("conditions", [])}
        ready = conditions.get("Ready", {})
        application = spark.get("lastApplication", "")
        return cls(
            hosts=f"{hosts.get('ready', 0)}/{hosts.get('desired', '?')}",
            partitions=f"{partitions.get('owned', 0)}/{partitions.get('total', '?')}",
            lag=status.get("lag", {}).get("events"),
            files=drained.get("files", 0),
            events=drained.get("events", 0),
            table=status.get("table", {}).get("events", 0),
            pending=spark.get("pendingFiles", 0),
            processed=spark.get("processedFiles", 0),
            batch=f"{application} {conditions.get('SparkHealthy', {}).get('reason', '')}".strip(),
            ready=""
            if ready.get("status") == "True"
            else f"{ready.get('reason', 'Waiting')}: {ready.get('message', '')}",
        )

    def line(self, elapsed: float) -> str:
        """One line of the table."""
        lag = "?" if self.lag is None else f"{self.lag:,}"
        return (
            f"{elapsed:5.0f}s  {self.hosts:>7}  {self.partitions:>10}  {lag:>8}  {self.files:>6}  "
            f"{self.events:>8,}  {self.table:>8,}  {self.pending:>7}  {self.processed:>5}  {self.batch}"
        )

    def finished(self, events: int) -> bool:
        """Whether all `events` are in files and in the table over them, and Spark has processed all files."""
        drained = self.events >= events and self.table >= events and self.lag == 0
        return drained and self.files > 0 and self.processed >= self.files


def follow(cluster: Cluster, name: str, events: int, *, timeout: float, check: Callable[[], None]) -> View:
    """Print the table until the consumer has processed `events` events.

    Args:
        check: Called in each round; raises if another part failed, such as the publisher.

    Raises:
        DemoError: Not finished within `timeout` seconds.
    """
    console.print(HEADER, style="bold")
    started = time.monotonic()
    shown: View | None = None
    while (elapsed := time.monotonic() - started) < timeout:
        check()
        view = View.of(cluster.get("eventconsumer", name).get("status", {}))
        if view != shown:
            console.print(view.line(elapsed))
            if view.ready and (shown is None or view.ready != shown.ready):
                console.print(f"        {view.ready}", style="dim")
            shown = view
        if view.finished(events):
            return view
        time.sleep(1)
    raise DemoError(f"EventConsumer {name} did not finish within {timeout:.0f} s", hint="check the conditions below")
