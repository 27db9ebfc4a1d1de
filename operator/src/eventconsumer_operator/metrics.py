"""Metrics of the operator itself, and of each resource from its status.

docs/reference/metrics.md is generated from the names, labels and texts. Gauges of resources and of the queue are read
at each scrape, so a deleted resource leaves no series.
"""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from eventconsumer_api.resource.remedies import severity
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_operator.keys import Key

disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the number of series

RECONCILES = Counter(
    "eventconsumer_operator_reconciles",
    "Reconciles by result: done, looked (nothing had changed), failed, forbidden, crashed.",
    ["result"],
)
SECONDS = Histogram(
    "eventconsumer_operator_reconcile_duration_seconds",
    "Duration of a reconcile by result, seconds.",
    ["result"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60),
)
API_REQUESTS = Counter(
    "eventconsumer_operator_api_requests",
    "Requests to the API server by verb, resource and HTTP status code; code 0: no answer.",
    ["verb", "resource", "code"],
)
FLEET_MESSAGES = Counter(
    "eventconsumer_operator_fleet_messages",
    "Messages to hosts about their fleet by result: delivered, refused, unreachable.",
    ["result"],
)
APPLICATIONS = Counter(
    "eventconsumer_operator_spark_applications",
    "Spark applications started, by mode: Local, Executors.",
    ["mode"],
)
LOOP_LAG = Gauge(
    "eventconsumer_operator_loop_lag_seconds",
    "Maximum delay of the event loop in the last minute, seconds.",
)
LISTED = Gauge("eventconsumer_operator_list_age_seconds", "Age of the last complete list of a kind, seconds.", ["kind"])
MISSED = Counter("eventconsumer_operator_missed_changes", "Changes found by a list that no watch had reported.")
_STATUSES = ("True", "False", "Unknown")


class Queue(Protocol):
    """The numbers of a work queue."""

    adds: int
    retries: int

    def __len__(self) -> int:
        """Queued keys, due or not."""

    def overdue(self) -> float:
        """Seconds by which the oldest due key is overdue; 0 if none is."""

    def longest(self) -> float:
        """Age of the oldest running reconcile, seconds; 0 if none runs."""


class QueueState(Collector):
    """Metrics of a work queue at a scrape."""

    def __init__(self, queue: Queue, registry: CollectorRegistry = REGISTRY) -> None:
        """Show `queue` in `registry`."""
        self._queue = queue
        registry.register(self)

    def describe(self) -> list[Metric]:
        """No metric is registered in advance."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the queue."""
        prefix = "eventconsumer_operator"
        queue = self._queue
        yield GaugeMetricFamily(f"{prefix}_queue_length", "Keys in the work queue, due or waiting.", len(queue))
        yield GaugeMetricFamily(
            f"{prefix}_queue_overdue_seconds",
            "Delay of the oldest overdue key in the work queue, seconds.",
            queue.overdue(),
        )
        yield GaugeMetricFamily(
            f"{prefix}_longest_running_seconds",
            "Age of the oldest running reconcile, seconds.",
            queue.longest(),
        )
        yield CounterMetricFamily(
            f"{prefix}_queue_adds", "Keys added to the work queue, including keys that already waited.", queue.adds
        )
        yield CounterMetricFamily(f"{prefix}_queue_retries", "Keys requeued after a failure.", queue.retries)


class ResourceGauges(Collector):
    """Gauges of every EventConsumer, from the status it was given last."""

    def __init__(self, registry: CollectorRegistry | None = REGISTRY) -> None:
        """Show them in `registry`."""
        self._statuses: dict[Key, EventConsumerStatus] = {}
        if registry:
            registry.register(self)

    def record(self, key: Key, status: EventConsumerStatus) -> None:
        """The status of a resource is this now, whether it was written or not."""
        self._statuses[key] = status

    def forget(self, key: Key) -> None:
        """There is no such resource."""
        self._statuses.pop(key, None)

    def describe(self) -> list[Metric]:
        """No metric is registered in advance."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Tell."""
        conditions = _gauge("condition", "1 for the current status of each condition, otherwise 0.", "type", "status")
        problem = _gauge(
            "problem",
            "1 for each reason of a condition that requires an action. Absent: no action is required.",
            "reason",
        )
        lag_events = _gauge("lag_events", "Events that are in no file yet. Absent: unknown.")
        lag_seconds = _gauge("lag_seconds", "Age of the oldest event that is in no file, seconds. Absent: unknown.")
        total = _gauge("partitions", "Partitions of the hub. Absent: unknown.")
        unowned = _gauge("partitions_unowned", "Partitions that no host reads. Absent: unknown, or no host is desired.")
        desired = _gauge("hosts_desired", "Desired number of hosts.")
        ready = _gauge("hosts_ready", "Ready hosts.")
        drained = _gauge("drained_events", "Events in files since the chains' start. Absent: unknown.")
        files = _gauge("drained_files", "Files since the chains' start. Absent: unknown.")
        failures = _gauge(
            "spark_failures", "Failed attempts in a row at an open batch, the highest number. Absent: no Spark."
        )
        for key, status in sorted(self._statuses.items()):
            place = [key.namespace, key.name]
            for condition in status.conditions:
                for each in _STATUSES:
                    conditions.add_metric([*place, condition.type, each], float(condition.status == each))
            for reason in sorted({each.reason for each in status.conditions if severity(each) == "problem"}):
                problem.add_metric([*place, reason], 1.0)
            if status.lag.events is not None:
                lag_events.add_metric(place, status.lag.events)
            if status.lag.seconds is not None:
                lag_seconds.add_metric(place, status.lag.seconds)
            if status.partitions.total is not None:
                total.add_metric(place, status.partitions.total)
            if status.partitions.unowned is not None and status.hosts.desired:
                unowned.add_metric(place, status.partitions.unowned)
            desired.add_metric(place, status.hosts.desired)
            ready.add_metric(place, status.hosts.ready)
            if status.hub.created_at is not None:
                drained.add_metric(place, status.drained.events)
                files.add_metric(place, status.drained.files)
            if spark := status.spark:
                later = (batch.failures for batch in spark.later_batches)
                failures.add_metric(place, max(spark.failures, *later, 0))
        yield from (
            conditions,
            problem,
            lag_events,
            lag_seconds,
            total,
            unowned,
            desired,
            ready,
            drained,
            files,
            failures,
        )


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"eventconsumer_resource_{name}", text, labels=("namespace", "name", *labels))


RESOURCES = ResourceGauges()
