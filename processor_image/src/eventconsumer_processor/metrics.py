"""What a host counts, in Prometheus terms. Names and labels are documented here and nowhere else."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """The metrics of one host, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.events = self._counter("events", "Events committed to files by this host.", "partition")
        self.files = self._counter("files", "Files committed by this host.", "partition")
        self.bytes = self._counter("bytes", "Bytes of committed files.", "partition")
        self.received = self._counter("received", "Events received and kept by this host.", "partition")
        self.dropped = self._counter("dropped", "Events received again and dropped by sequence number.", "partition")
        self.adopted = self._counter("adopted", "Files of another writer found in a slot and adopted.", "partition")
        self.gap_events = self._counter(
            "gap_events", "Events that retention removed before they were read.", "partition"
        )
        self.receive_errors = self._counter("receive_errors", "Links lost or refused, by error.", "partition", "error")
        self.commit_retries = self._counter("commit_retries", "Commits repeated after a storage error.", "partition")
        self.handled = self._counter("handled_events", "Events processed by the handler.", "partition")
        self.handler_failures = self._counter(
            "handler_failures", "Calls of the handler that failed, by error.", "partition", "error"
        )
        self.dead_letters = self._counter("dead_letters", "Events that became dead letters.", "partition")
        self.handler_seconds = Histogram(
            "eventconsumer_handler_seconds",
            "Seconds that a call of the handler's process_events took.",
            buckets=(0.001, 0.01, 0.1, 0.5, 1, 5, 30, 120),
            registry=self.registry,
        )
        self.lease_changes = self._counter("lease_changes", "Leases acquired, stolen, released and lost.", "change")
        self.storage_calls = self._counter(
            "storage_calls", "Storage requests by operation and outcome.", "operation", "outcome"
        )
        self.buffered = self._gauge("buffered_bytes", "Bytes of events received and not committed yet.", "partition")
        self.leases = self._gauge("leases", "Partition leases held by this host.")
        self.leader = self._gauge("leader", "1 while this host leads the consumer.")
        self.lag_events = self._gauge("lag_events", "Events not in a file yet (leading host only).")
        self.lag_seconds = self._gauge("lag_seconds", "Age of the oldest such event (leading host only).")

    def observe_storage(self, operation: str, outcome: str) -> None:
        """Count one storage request."""
        self.storage_calls.labels(operation, outcome).inc()

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"eventconsumer_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"eventconsumer_{name}", text, labels, registry=self.registry)
