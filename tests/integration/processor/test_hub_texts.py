"""What a host says when Event Hubs refuses: the cause and its remedy, from the AMQP error that arrives.

The texts are those of the service, as users published them: see `source.causes`.
"""

import pytest

from eventconsumer_api.wire.host_report import Problem
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer
from tests.support.waiting import wait_until

TRACKING = " TrackingId:5e1f_G16, SystemTracker:gateway5, Timestamp:2026-01-31T00:00:00"
REFUSALS = [
    (
        "com.microsoft:entity-disabled",
        "Messaging entity 'orders' is currently disabled.",
        ("EventHubRefused", "spec.eventHub.name", "set its status to Active"),
    ),
    (
        "amqp:resource-limit-exceeded",
        "Exceeded the maximum number of allowed receivers per partition in a consumer group which is 5.",
        ("EventHubRefused", "spec.eventHub.consumerGroup", "stop other readers of this consumer group"),
    ),
    (
        "amqp:not-allowed",
        "The operation is not allowed for the tier Basic.",
        ("EventHubRefused", "spec.eventHub.name", "change the tier"),
    ),
    (
        "com.microsoft:argument-error",
        "The partition key is invalid.",
        ("EventHubRefused", "spec.eventHub.name", "it refuses an argument"),
    ),
    (
        "amqp:internal-error",
        "The service was unable to process the request.",
        ("EventHubUnreachable", "spec.eventHub.authentication.connectionStringSecretRef", "Azure's service health"),
    ),
    (
        "com.microsoft:timeout",
        "The operation did not complete within the allocated time 00:01:00.",
        ("EventHubUnreachable", "spec.eventHub.authentication.connectionStringSecretRef", "Azure's service health"),
    ),
    (
        "amqp:unauthorized-access",
        "Ip has been prevented to connect to the endpoint.",
        ("EventHubUnreachable", "spec.eventHub.authentication.connectionStringSecretRef", "networking settings"),
    ),
]


def said(orders: Consumer, reason: str, remedy: str) -> Problem:
    """The problem that a running host reports, once it does."""
    found: list[Problem] = []

    def met() -> bool:
        report = orders.hosts[0].report()
        found[:] = [each for each in report.problems if each.reason == reason and remedy in each.message]
        return bool(found)

    wait_until(met, f"{reason}, {remedy}: {orders.hosts[0].report().problems}")
    return found[0]


def test_a_running_host_tells_why_its_links_are_refused(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=1)
    host = orders.host()
    wait_until(lambda: host.owned() == {"0"}, "it reads")
    for condition, text, (reason, field, remedy) in REFUSALS:
        orders.emulator.admin.refuse(condition, text + TRACKING)
        orders.emulator.admin.detach(condition, text + TRACKING)
        problem = said(orders, reason, remedy)
        assert problem.field == field
        assert text in problem.message
        assert problem.message.index(remedy) < 300
        orders.emulator.admin.clear_faults()
        wait_until(lambda: not host.report().problems, f"over: {host.report().problems}")


@pytest.mark.parametrize(
    ("status", "text", "reason", "remedy"),
    [
        (401, "Ip has been prevented to connect to the endpoint.", "EventHubUnreachable", "networking settings"),
        (401, "ExpiredToken: The token is expired.", "EventHubUnauthorized", "set the node's time (NTP)"),
        (401, "InvalidSignature: The token has an invalid signature.", "EventHubUnauthorized", "copy the connection"),
        (403, "Quota.", "EventHubUnauthorized", "lacks the right Listen, or a quota"),
        (500, "The service was unable to process the request.", "EventHubUnreachable", "Azure's service health"),
    ],
)
def test_a_host_that_cannot_sign_in_tells_why(
    consumer: MakeConsumer, status: int, text: str, reason: str, remedy: str
) -> None:
    orders = consumer(partitions=1)
    orders.emulator.admin.fail_cbs(status, text + TRACKING)
    try:
        orders.host()
        assert said(orders, reason, remedy).message.index(remedy) < 300
    finally:
        orders.emulator.admin.clear_faults()


def test_a_deleted_hub_is_named(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=1)
    host = orders.host()
    wait_until(lambda: host.owned() == {"0"}, "it reads")
    orders.emulator.admin.delete_hub("orders")
    problem = said(orders, "EventHubNotFound", "create it")
    assert problem.field == "spec.eventHub.name"
