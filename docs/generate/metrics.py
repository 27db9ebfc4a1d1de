"""docs/reference/metrics.md, from the code: `python -m docs.generate.metrics > docs/reference/metrics.md`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector, CollectorRegistry

from eventconsumer_api.v1alpha1.status import (
    Condition,
    EventConsumerStatus,
    HostsStatus,
    HubStatus,
    LagStatus,
    PartitionsStatus,
    SparkStatus,
)
from eventconsumer_api.wire.host_report import (
    FleetReport,
    HostReport,
    HostState,
    NoticesReport,
    PartitionLag,
    PartitionReport,
    Problem,
    RetentionReport,
    TableReport,
    WatermarkReport,
)
from eventconsumer_host import metrics as host
from eventconsumer_operator import metrics as operator
from eventconsumer_operator.keys import Key

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = """\
# Metrics

Generated from the code by `python -m docs.generate.metrics`. Counters start at 0 with each process, and a series
with labels appears with its first count. The [alerts](../runbooks/index.md) and the Grafana dashboard use some of
these.

"""
OPERATOR = """\
## Operator: port 8081, `/metrics`

`namespace` and `name` are those of the EventConsumer: scrape with `honorLabels: true`, as the chart's ServiceMonitor
does. `eventconsumer_operator_api_requests_total` does not count the requests that keep the watches open.

"""
HOST = """\
## Hosts: port 8080, `/metrics`

Each host reports its own work. The leading host, or the probe while no host runs, also reports the lag of all
partitions, the files that wait for Spark, and the watermark. The chart's PodMonitor adds `namespace`, `pod`, and
`eventconsumer_io_consumer`, the name of the EventConsumer.

"""


@dataclass(frozen=True)
class Described:
    """One metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


class _Idle:
    """An idle queue."""

    adds = retries = 0

    def __len__(self) -> int:
        return 0

    def overdue(self) -> float:
        return 0.0

    def longest(self) -> float:
        return 0.0


def _status() -> EventConsumerStatus:
    condition = Condition(
        type="Stalled", status="True", reason="Fenced", message="", last_transition_time=NOW, observed_generation=1
    )
    return EventConsumerStatus(
        conditions=[condition],
        hub=HubStatus(created_at=NOW),
        hosts=HostsStatus(desired=1),
        partitions=PartitionsStatus(total=1, owned=1, unowned=0),
        lag=LagStatus(events=0, seconds=0),
        spark=SparkStatus(),
    )


def _report() -> HostReport:
    return HostReport(
        owner="",
        state=HostState.RUNNING,
        partitions=(PartitionReport(id="0", epoch=0),),
        problems=(Problem(field="", reason="Fenced", message=""),),
        fleet=FleetReport(
            partition_count=1,
            hub_created_at=NOW,
            owners={},
            lag_events=0,
            lag_seconds=0.0,
            lags={"0": PartitionLag(events=0, seconds=0.0)},
            files=0,
            events=0,
            bytes=0,
            table=TableReport(version=0, files=0, events=0),
            notices=NoticesReport(pending_events=0),
            retention=RetentionReport(files=0, events=0, bytes=0, oldest_file_time=NOW),
            watermark=WatermarkReport(files=NOW, commits=NOW),
        ),
    )


def operators() -> list[Described]:
    """Metrics of the operator."""
    resources = operator.ResourceGauges(None)
    resources.record(Key("", ""), _status())
    fixed = [each for each in vars(operator).values() if isinstance(each, MetricWrapperBase)]
    return sorted(_described([*fixed, resources, operator.QueueState(_Idle(), CollectorRegistry())]), key=_order)


def hosts() -> list[Described]:
    """Metrics of a host."""
    found = host.Metrics()
    fixed = [each for each in vars(found).values() if isinstance(each, MetricWrapperBase)]
    return sorted(_described([*fixed, host.StateGauges(_report, {"0": 0.0}, spark=True)]), key=_order)


def _order(metric: Described) -> str:
    return metric.name


def _described(collectors: Iterable[Collector]) -> Iterator[Described]:
    for collector in collectors:
        if isinstance(collector, MetricWrapperBase):
            yield _one(next(iter(collector.collect())), tuple(collector._labelnames))
            continue
        for family in collector.collect():
            yield _one(family, tuple(family.samples[0].labels))


def _one(family: Metric, labels: tuple[str, ...]) -> Described:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return Described(name, family.type, labels, family.documentation)


def _table(metrics: Iterable[Described]) -> str:
    rows = [
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.text} |"
        for each in metrics
    ]
    return "\n".join(["| name | type | labels | meaning |", "|---|---|---|---|", *rows, "\n"])


def page() -> str:
    """The page."""
    return (HEAD + OPERATOR + _table(operators()) + HOST + _table(hosts())).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
