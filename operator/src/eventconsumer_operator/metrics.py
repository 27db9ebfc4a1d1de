"""What the operator measures about itself."""

from prometheus_client import Counter, Gauge, Histogram

RECONCILES = Counter(
    "eventconsumer_operator_reconciles", "Reconciles by result: done, failed, forbidden, crashed.", ["result"]
)
SECONDS = Histogram(
    "eventconsumer_operator_reconcile_seconds",
    "Duration of a reconcile, seconds.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60),
)
QUEUE_LENGTH = Gauge("eventconsumer_operator_queue_length", "Keys in the work queue, due or waiting.")
