"""The estimate of storage requests: of all hosts, and steady."""

from typing import Any

from eventconsumer_api.v1alpha1.status import EventConsumerStatus, StorageStatus
from eventconsumer_api.wire.host_report import HostReport, StorageReport
from eventconsumer_operator.conditions.storagestatus import storage_status
from tests.unit.operator.worlds import observed, pod, report


def asking(per_hour: float | None, idle: float = 100.0) -> HostReport:
    """A host that asks so often."""
    return report().model_copy(
        update={"storage": StorageReport(requests_per_hour=per_hour, idle_requests_per_hour=idle)}
    )


def estimate(*reports: HostReport | None, before: StorageStatus | None = None) -> StorageStatus:
    """What is written of hosts with these reports; None: it does not answer."""
    names = [f"orders-host-{number}" for number in range(len(reports))]
    world: dict[str, Any] = {
        "pods": tuple(pod(name) for name in names),
        "reports": {name: each for name, each in zip(names, reports, strict=True) if each},
        "status": EventConsumerStatus(storage=before or StorageStatus()),
    }
    return storage_status(observed(**world))


def test_it_is_the_sum_of_the_hosts_in_a_month_to_two_digits() -> None:
    assert estimate(asking(1000.0), asking(234.0, 50.0)) == StorageStatus(
        requests_per_month=900_000, idle_requests_per_month=110_000
    )
    assert estimate(asking(0.0, 0.001)) == StorageStatus(requests_per_month=0, idle_requests_per_month=0)


def test_it_is_not_known_before_all_hosts_know() -> None:
    assert estimate(asking(1000.0), asking(None)) == StorageStatus(idle_requests_per_month=150_000)
    assert estimate(report()) == StorageStatus()  # a host of before


def test_the_last_word_stands_while_a_host_is_silent() -> None:
    before = StorageStatus(requests_per_month=900_000, idle_requests_per_month=100_000)
    assert estimate(asking(1000.0), None, before=before) == before


def test_it_stays_until_it_differs_by_more_than_a_tenth() -> None:
    before = StorageStatus(requests_per_month=730_000, idle_requests_per_month=73_000)
    assert estimate(asking(1090.0, 91.0), before=before) == before
    assert estimate(asking(1110.0, 89.0), before=before) == StorageStatus(
        requests_per_month=810_000, idle_requests_per_month=65_000
    )


def test_without_hosts_nothing_is_asked() -> None:
    assert estimate() == StorageStatus()
    assert estimate(before=StorageStatus(requests_per_month=9, idle_requests_per_month=9)) == StorageStatus(
        requests_per_month=0, idle_requests_per_month=0
    )
