"""What the operator tells of resources and of its queue."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from eventconsumer_api.spec.conditions import ConditionType, Reason
from eventconsumer_api.v1alpha1.status import Condition, EventConsumerStatus, HostsStatus, LagStatus, PartitionsStatus
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import resource_of
from eventconsumer_operator.kube.workqueue import WorkQueue
from eventconsumer_operator.metrics import QueueState, ResourceGauges
from tests.support.fakes.virtual import virtual
from tests.unit.operator.worlds import KEY, NOW

PLACE = {"namespace": KEY.namespace, "name": KEY.name}


def status(ready: str, lag: LagStatus) -> EventConsumerStatus:
    return EventConsumerStatus(
        conditions=[
            Condition(
                type=ConditionType.READY,
                status=ready,
                reason=Reason.AVAILABLE if ready == "True" else Reason.STORAGE_UNREACHABLE,
                message="",
                last_transition_time=NOW,
                observed_generation=1,
            )
        ],
        hosts=HostsStatus(desired=3, ready=2),
        partitions=PartitionsStatus(total=8, owned=6, unowned=2),
        lag=lag,
    )


def test_metrics_of_a_resource_match_its_status_and_end_with_it() -> None:
    registry = CollectorRegistry()
    resources = ResourceGauges(registry)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"eventconsumer_resource_{name}", PLACE | labels)

    resources.record(KEY, status("False", LagStatus(events=7, seconds=90)))
    assert [value("condition", type="Ready", status=each) for each in ("True", "False", "Unknown")] == [0, 1, 0]
    assert value("problem", reason="StorageUnreachable") == 1
    assert (value("lag_events"), value("lag_seconds")) == (7, 90)
    assert (value("partitions"), value("partitions_unowned")) == (8, 2)
    assert (value("hosts_desired"), value("hosts_ready")) == (3, 2)
    resources.record(KEY, status("True", LagStatus()))
    assert value("condition", type="Ready", status="True") == 1
    assert value("problem", reason="StorageUnreachable") is None, "one series for each problem, and no other"
    assert value("lag_events") is None, "an unknown lag is no number"
    resources.forget(KEY)
    assert value("hosts_desired") is None


@virtual
async def test_metrics_of_the_queue_are_read_at_the_scrape() -> None:
    registry = CollectorRegistry()
    queue: WorkQueue[Key] = WorkQueue()
    QueueState(queue, registry)

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"eventconsumer_operator_{name}")

    queue.add(KEY)
    queue.add(Key("shop", "later"), 60)
    await asyncio.sleep(5)
    assert (value("queue_length"), value("queue_overdue_seconds")) == (2, pytest.approx(5))
    assert await queue.get() == KEY
    await asyncio.sleep(2)
    assert (value("queue_length"), value("longest_running_seconds")) == (1, pytest.approx(2))
    queue.retry(KEY)
    queue.done(KEY)
    assert value("longest_running_seconds") == 0
    assert (value("queue_adds_total"), value("queue_retries_total")) == (3, 1)


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/shop/pods", "pods"),
        ("/apis/apps/v1/namespaces/shop/statefulsets/orders-host", "statefulsets"),
        ("/apis/eventconsumer.io/v1alpha1/namespaces/shop/eventconsumers/orders/status", "eventconsumers/status"),
        ("/apis/eventconsumer.io/v1alpha1/eventconsumers", "eventconsumers"),
        ("/api/v1/pods", "pods"),
        ("/apis/eventconsumer.io/v1alpha1", "discovery"),
    ],
)
def test_requests_are_counted_by_resource(path: str, resource: str) -> None:
    assert resource_of(path) == resource
