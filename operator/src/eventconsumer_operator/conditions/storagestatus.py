"""Computes status.storage: storage requests of all hosts per month, estimated from their reports. Pure.

The estimates have two digits and change only by more than a tenth: otherwise each reconcile would write the status.
While a host does not report, the last estimate is kept, because the sum of the others would be too small.
"""

from collections.abc import Iterable
from math import floor, log10

from eventconsumer_api.v1alpha1.status import StorageStatus
from eventconsumer_operator.resource.observed import Observed

HOURS = 730  # in a month
STEADY = 0.1  # relative difference up to which the estimate is kept


def storage_status(observed: Observed) -> StorageStatus:
    """The new estimates."""
    before = observed.consumer.status.storage
    if not observed.pods:
        return StorageStatus(requests_per_month=0, idle_requests_per_month=0) if _known(before) else before
    reports = [report.storage for report in observed.reports.values()]
    if len(reports) < len(observed.pods) or not all(reports):
        return before
    told = [report for report in reports if report is not None]
    return StorageStatus(
        requests_per_month=_steady(_month(report.requests_per_hour for report in told), before.requests_per_month),
        idle_requests_per_month=_steady(
            _month(report.idle_requests_per_hour for report in told), before.idle_requests_per_month
        ),
    )


def _known(status: StorageStatus) -> bool:
    return status != StorageStatus()


def _month(rates: Iterable[float | None]) -> float | None:
    """The sum of all hosts; None where a host has no estimate yet."""
    total = 0.0
    for rate in rates:
        if rate is None:
            return None
        total += rate
    return total * HOURS


def _steady(value: float | None, before: int | None) -> int | None:
    if value is None or (before is not None and abs(value - before) <= STEADY * before):
        return before
    if value < 1:
        return 0
    return int(round(value, 1 - floor(log10(value))))
