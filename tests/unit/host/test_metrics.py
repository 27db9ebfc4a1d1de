"""Metrics of a host's state: the present state, without remains of former ones."""

from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from eventconsumer_api.wire.host_report import (
    CommitReport,
    FleetReport,
    HostReport,
    HostState,
    NoticesReport,
    PartitionLag,
    PartitionReport,
    Problem,
    RetentionReport,
    WatermarkReport,
)
from eventconsumer_host import metrics as module
from eventconsumer_host.metrics import Metrics
from tests.unit.operator.worlds import NOW, batch, fleet


def samples(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Value by name and the value of the only label."""
    return {
        (sample.name.removeprefix("eventconsumer_"), next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


class Told:
    """A report that changes."""

    def __init__(self) -> None:
        self.report = HostReport(owner="orders-host-0.uid", state=HostState.STARTING)

    def __call__(self) -> HostReport:
        return self.report


def leading() -> FleetReport:
    lags = {"0": PartitionLag(events=7, seconds=1.5), "1": PartitionLag()}
    return fleet().model_copy(update={"lags": lags, "lag_events": 10, "lag_seconds": 2.5})


def test_leases_and_checkpoints_end_with_the_tenure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: 1.75e9))
    told, metrics = Told(), Metrics()
    metrics.follow(told)
    metrics.checkpointed("0")
    told.report = told.report.model_copy(
        update={"state": HostState.RUNNING, "partitions": (PartitionReport(id="0", epoch=4),)}
    )
    found = samples(metrics)
    assert found["lease_epoch", "0"] == 4
    assert found["checkpoint_timestamp_seconds", "0"] == 1.75e9
    assert (found["host_state", "Running"], found["host_state", "Starting"]) == (1, 0)
    told.report = told.report.model_copy(update={"partitions": ()})
    assert not {("lease_epoch", "0"), ("checkpoint_timestamp_seconds", "0")} & samples(metrics).keys()


def test_lag_is_exported_while_leading_and_where_it_is_known() -> None:
    told, metrics = Told(), Metrics()
    metrics.follow(told)
    told.report = told.report.model_copy(update={"fleet": leading()})
    found = samples(metrics)
    assert (found["partition_lag_events", "0"], found["partition_lag_seconds", "0"]) == (7, 1.5)
    assert ("partition_lag_events", "1") not in found
    assert metrics.registry.get_sample_value("eventconsumer_lag_events") == 10
    assert metrics.registry.get_sample_value("eventconsumer_lag_seconds") == 2.5
    unknown = {"lag_events": None, "lag_seconds": None}
    for ended in (None, leading().model_copy(update=unknown | {"lags": {"0": PartitionLag()}})):
        told.report = told.report.model_copy(update={"fleet": ended})
        assert not [name for name, _ in samples(metrics) if name.startswith("partition_lag")]
        assert metrics.registry.get_sample_value("eventconsumer_lag_events") is None
        assert metrics.registry.get_sample_value("eventconsumer_lag_seconds") is None


def test_spark_metrics_are_exported_while_leading_and_where_spark_is_on() -> None:
    told, metrics, without = Told(), Metrics(), Metrics()
    metrics.follow(told, spark=True)
    without.follow(told)
    names = {"spark_pending_files", "spark_pending_bytes", "spark_pending_seconds"}
    left = {"spark_quarantined_files", "spark_quarantined_rows"}

    def shown(of: Metrics = metrics) -> dict[tuple[str, str], float]:
        return {key: value for key, value in samples(of).items() if key[0].startswith("spark_")}

    assert shown() == {}
    waiting = {"pending_files": 5, "pending_bytes": 700, "pending_seconds": 12.5}
    told.report = told.report.model_copy(update={"fleet": fleet().model_copy(update=waiting)})
    assert shown() == {
        **{(name, ""): value for name, value in zip(sorted(names), (700, 5, 12.5), strict=True)},
        **{(name, ""): 0 for name in left},
        ("spark_batch_number", "committed"): 0,
    }
    assert shown(without) == {}
    commit = CommitReport(
        number=3,
        committed_at=NOW,
        application="a",
        rows_read=1,
        rows_written=1,
        seconds=1,
        quarantined_files=2,
        quarantined_rows=9,
    )
    told.report = told.report.model_copy(
        update={"fleet": fleet(committed=3, batch=batch(4)).model_copy(update={"last_commit": commit})}
    )
    found = shown()
    assert (found["spark_batch_number", "committed"], found["spark_batch_number", "open"]) == (3, 4)
    assert (found["spark_quarantined_files", ""], found["spark_quarantined_rows", ""]) == (2, 9)
    told.report = told.report.model_copy(update={"fleet": fleet(committed=3)})  # its record cannot be read
    assert not {name for name, _ in shown()} & left
    told.report = told.report.model_copy(update={"fleet": None})
    assert shown() == {}


def test_the_watermark_is_exported_while_leading_and_where_it_is_known() -> None:
    told, metrics = Told(), Metrics()
    metrics.follow(told)
    name = "watermark_timestamp_seconds"
    for watermark, expected in (
        (None, {}),
        (WatermarkReport(files=NOW), {"files": NOW.timestamp()}),
        (WatermarkReport(files=NOW, commits=NOW, batch=3), {"files": NOW.timestamp(), "commits": NOW.timestamp()}),
    ):
        told.report = told.report.model_copy(update={"fleet": fleet().model_copy(update={"watermark": watermark})})
        assert {of: value for (found, of), value in samples(metrics).items() if found == name} == expected


def test_pending_notices_are_exported_while_leading() -> None:
    told, metrics = Told(), Metrics()
    metrics.follow(told)
    for notices, expected in ((None, []), (NoticesReport(pending_events=5, pending_seconds=7.5), [5, 7.5])):
        told.report = told.report.model_copy(update={"fleet": fleet().model_copy(update={"notices": notices})})
        found = [value for (name, _), value in samples(metrics).items() if name.startswith("notices_pending_")]
        assert found == expected


def test_retention_is_exported_while_leading() -> None:
    told, metrics = Told(), Metrics()
    metrics.follow(told)
    known = RetentionReport(files=1, events=2, bytes=3, oldest_file_time=NOW, excess_bytes=5)
    for retention, expected in (
        (None, {}),
        (known, {"retention_oldest_file_timestamp_seconds": NOW.timestamp(), "retention_excess_bytes": 5}),
        (RetentionReport(files=0, events=0, bytes=0), {"retention_excess_bytes": 0}),
    ):
        told.report = told.report.model_copy(update={"fleet": fleet().model_copy(update={"retention": retention})})
        gauges = {"retention_oldest_file_timestamp_seconds", "retention_excess_bytes"}
        assert {name: value for (name, _), value in samples(metrics).items() if name in gauges} == expected


def test_problems_are_counted_by_reason() -> None:
    told, metrics = Told(), Metrics()
    metrics.follow(told)
    problems = [Problem(field="spec.sink", reason=reason, message="") for reason in ("Fenced", "Fenced", "DataGap")]
    told.report = told.report.model_copy(update={"problems": tuple(problems)})
    found = samples(metrics)
    assert (found["problems", "Fenced"], found["problems", "DataGap"]) == (2, 1)
