"""The Prometheus metrics of a host. docs/reference/metrics.md is generated from the names, labels and texts here.

Counters are incremented where the event happens. Gauges of the current state (held leases, lag) come from the host's
report at each scrape, so that no value remains of a partition that moved or of a leader lease that was lost.
"""

import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from eventconsumer_api.wire.host_report import (
    FleetReport,
    HostReport,
    HostState,
    NoticesReport,
    RetentionReport,
    TableReport,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the number of series


class StateGauges(Collector):
    """Gauges of the current state, from the host's report."""

    def __init__(
        self, report: Callable[[], HostReport], checkpoints: Mapping[str, float], *, spark: bool = False
    ) -> None:
        """Create the collector.

        Args:
            report: Called at each scrape.
            checkpoints: Unix times of this host's checkpoints, by partition.
            spark: Whether Spark batches are configured: else no file waits for one.
        """
        self._report = report
        self._checkpoints = checkpoints
        self._spark = spark

    def describe(self) -> list[Metric]:
        """No descriptions: the registry need not call `report` at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The gauges at present."""
        report = self._report()
        state = _gauge("host_state", "1 for the state of the host: Starting, Running, Blocked, Draining.", "state")
        for each in HostState:
            state.add_metric([each.value], float(report.state is each))
        epoch = _gauge("lease_epoch", "Epoch of each lease that this host holds. Absent: not held.", "partition")
        written = _gauge(
            "checkpoint_timestamp_seconds",
            "Unix time of the last checkpoint of each partition that this host owns.",
            "partition",
        )
        for partition in report.partitions:
            epoch.add_metric([partition.id], partition.epoch)
            if partition.id in self._checkpoints:
                written.add_metric([partition.id], self._checkpoints[partition.id])
        problem = _gauge("problems", "Problems of this host that need an action, by reason.", "reason")
        reasons = [each.reason for each in report.problems]
        for reason in sorted(set(reasons)):
            problem.add_metric([reason], reasons.count(reason))
        yield from (state, epoch, written, problem, *_lags(report))
        yield from _batches(report.fleet if self._spark else None)
        yield from _table(report.fleet.table if report.fleet else None)
        yield from _notices(report.fleet.notices if report.fleet else None)
        yield from _retention(report.fleet.retention if report.fleet else None)
        yield _watermark(report.fleet)


def _lags(report: HostReport) -> Iterator[Metric]:
    total = _gauge(
        "lag_events", "Retained events that are in no file, all partitions (leading host only). Absent: unknown."
    )
    oldest = _gauge("lag_seconds", "Age of the oldest event that is in no file, seconds; 0: none.")
    if report.fleet and report.fleet.lag_events is not None:
        total.add_metric([], report.fleet.lag_events)
    if report.fleet and report.fleet.lag_seconds is not None:
        oldest.add_metric([], report.fleet.lag_seconds)
    events = _gauge("partition_lag_events", "Retained events that are in no file (leading host only).", "partition")
    seconds = _gauge(
        "partition_lag_seconds", "Age of the oldest event that is in no file, seconds; 0: none.", "partition"
    )
    for partition, lag in report.fleet.lags.items() if report.fleet else ():
        if lag.events is not None:
            events.add_metric([partition], lag.events)
        if lag.seconds is not None:
            seconds.add_metric([partition], lag.seconds)
    yield from (total, oldest, events, seconds)


def _batches(fleet: FleetReport | None) -> Iterator[Metric]:
    files = _gauge("spark_pending_files", "Files in no committed Spark batch (leading host only, where Spark is on).")
    size = _gauge("spark_pending_bytes", "Size of the files in no committed Spark batch, bytes.")
    seconds = _gauge("spark_pending_seconds", "Age of the oldest file in no Spark batch, seconds; 0: none.")
    batch = _gauge(
        "spark_batch_number", "Number of the last committed batch (0: none) and of the open batch, if any.", "state"
    )
    left_files = _gauge("spark_quarantined_files", "Unprocessable files, over all committed batches.")
    left_rows = _gauge("spark_quarantined_rows", "Unprocessable events of other files, over all committed batches.")
    if fleet:
        files.add_metric([], fleet.pending_files)
        size.add_metric([], fleet.pending_bytes)
        seconds.add_metric([], fleet.pending_seconds)
        batch.add_metric(["committed"], fleet.committed_batch)
        if fleet.open_batch:
            batch.add_metric(["open"], fleet.open_batch.number)
        if fleet.last_commit or not fleet.committed_batch:  # else its record cannot be parsed: unknown
            left_files.add_metric([], fleet.last_commit.quarantined_files if fleet.last_commit else 0)
            left_rows.add_metric([], fleet.last_commit.quarantined_rows if fleet.last_commit else 0)
    yield from (files, size, seconds, batch, left_files, left_rows)


def _table(table: TableReport | None) -> Iterator[Metric]:
    version = _gauge("table_version", "Version of the table over the files (leading host only, where there is one).")
    files = _gauge("table_files", "Files that hosts have registered in the table, since its start.")
    events = _gauge("table_events", "Events in the registered files, since the table's start.")
    pending = _gauge("table_pending_files", "Files that are not registered in the table yet, as far as they are known.")
    if table:
        version.add_metric([], table.version)
        files.add_metric([], table.files)
        events.add_metric([], table.events)
        pending.add_metric([], table.pending_files)
    yield from (version, files, events, pending)


def _notices(notices: NoticesReport | None) -> Iterator[Metric]:
    pending = _gauge(
        "notices_pending_events",
        "Events in files whose notice is not acknowledged, as far as they are known (leading host only, where there "
        "are notices).",
    )
    oldest = _gauge(
        "notices_pending_seconds",
        "Age of the oldest file whose notice is not acknowledged, seconds; 0: none (leading host only, where there are "
        "notices).",
    )
    if notices:
        pending.add_metric([], notices.pending_events)
        oldest.add_metric([], notices.pending_seconds)
    yield pending
    yield oldest


def _retention(retention: RetentionReport | None) -> Iterator[Metric]:
    oldest = _gauge(
        "retention_oldest_file_timestamp_seconds",
        "Unix time of the commit of the oldest file that is kept (leading host only, where there is retention). "
        "Absent: unknown.",
    )
    excess = _gauge("retention_excess_bytes", "Size of the kept files above spec.sink.retention.bytes, bytes.")
    if retention:
        if retention.oldest_file_time:
            oldest.add_metric([], retention.oldest_file_time.timestamp())
        excess.add_metric([], retention.excess_bytes)
    yield from (oldest, excess)


def _watermark(fleet: FleetReport | None) -> Metric:
    time = _gauge(
        "watermark_timestamp_seconds",
        "Unix time before which all enqueued events, of every partition, are in files, and in committed Spark batches "
        "(leading host only). Absent: unknown.",
        "stage",
    )
    if fleet and fleet.watermark:
        time.add_metric(["files"], fleet.watermark.files.timestamp())
        if fleet.watermark.commits:
            time.add_metric(["commits"], fleet.watermark.commits.timestamp())
    return time


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"eventconsumer_{name}", text, labels=labels)


class Metrics:
    """The metrics of one host, in a separate registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.events = self._counter("committed_events", "Events committed to files by this host.", "partition")
        self.body_errors = self._counter(
            "body_error_events",
            "Events in files committed by this host whose body does not fit a column of bodies (_error).",
            "partition",
        )
        self.files = self._counter("committed_files", "Files committed by this host.", "partition")
        self.bytes = self._counter("committed_bytes", "Bytes of committed files.", "partition")
        self.received = self._counter("received_events", "Events received and kept by this host.", "partition")
        self.duplicates = self._counter(
            "duplicate_events", "Events received again and dropped by sequence number.", "partition"
        )
        self.adopted = self._counter(
            "adopted_files", "Files of another writer found in a slot and adopted.", "partition"
        )
        self.gap_events = self._counter(
            "gap_events", "Events that retention removed before they were read.", "partition"
        )
        self.receive_errors = self._counter("receive_errors", "Links lost or refused, by error.", "partition", "error")
        self.commit_retries = self._counter("commit_retries", "Commits repeated after a storage error.", "partition")
        self.handled = self._counter("handled_events", "Events processed by the handler.", "partition")
        self.handler_dropped = self._counter(
            "handler_dropped_events",
            "Events that the handler dropped (mode Transform), counted in files committed by this host.",
            "partition",
        )
        self.handler_failures = self._counter(
            "handler_failures", "Calls of the handler that failed, by error.", "partition", "error"
        )
        self.dead_letters = self._counter("dead_letters", "Events that became dead letters.", "partition")
        self.redriven = self._counter(
            "redriven_events", "Dead letters that were passed to the handler again and processed.", "partition"
        )
        self.undecoded = self._counter("undecoded_events", "Events that could not be decoded.", "partition")
        self.handler_seconds = Histogram(
            "eventconsumer_handler_duration_seconds",
            "Duration of a call of the handler's process_events, seconds.",
            buckets=(0.001, 0.01, 0.1, 0.5, 1, 5, 30, 120),
            registry=self.registry,
        )
        self.lease_changes = self._counter(
            "lease_changes",
            "Changes of leases: acquired, stolen, taken over (from an ended owner), rebuilt; and causes of their end: "
            "Shutdown, LeaseLost, LinkStolen, Fenced.",
            "change",
        )
        self.rebalances = self._counter(
            "rebalances", "Partitions given to or taken from another live host for balancing."
        )
        self.fleet_messages = self._counter(
            "fleet_messages",
            "Messages of the operator about the fleet, by result: accepted, or the cause of the rejection.",
            "result",
        )
        self.storage_requests = self._counter(
            "storage_requests", "Storage requests by operation and outcome: ok, or the error.", "operation", "outcome"
        )
        self.notices = self._counter(
            "notices",
            "Notices sent by this host, by outcome: acknowledged, refused (the endpoint does not accept this one), or "
            "failed.",
            "outcome",
        )
        self.retention_files = self._counter("retention_removed_files", "Files that this host removed by retention.")
        self.retention_bytes = self._counter(
            "retention_removed_bytes", "Size of the files that this host removed, bytes."
        )
        self.buffered = self._gauge(
            "buffered_bytes", "Size of events that are received but not committed, bytes.", "partition"
        )
        self.leases = self._gauge("leases_held", "Partition leases held by this host.")
        self.leader = self._gauge("leader", "1 while this host leads the consumer.")
        self._checkpoints: dict[str, float] = {}

    def follow(self, report: Callable[[], HostReport], *, spark: bool = False) -> None:
        """Add the gauges of the state in `report`; see `StateGauges`."""
        self.registry.register(StateGauges(report, self._checkpoints, spark=spark))

    def checkpointed(self, partition: str) -> None:
        """Record that this host wrote a checkpoint now."""
        self._checkpoints[partition] = time.time()

    def observe_storage(self, operation: str, outcome: str) -> None:
        """Count one storage request."""
        self.storage_requests.labels(operation, outcome).inc()

    def text(self) -> bytes:
        """The metrics in the exposition format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"eventconsumer_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"eventconsumer_{name}", text, labels, registry=self.registry)
