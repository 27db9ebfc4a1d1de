"""Errors of the hub are decided by condition or status code, from our receiver as from the SDK, never by their text."""

from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.eventhub._pyamqp.error import (
    AMQPLinkError,
    AuthenticationException,
    ErrorCondition,
    TokenAuthFailure,
    TokenExpired,
)
from azure.eventhub.exceptions import AuthenticationError, ConnectError, EventHubError

from eventconsumer_host.errors import (
    HubBusy,
    HubNotFound,
    HubUnauthorized,
    HubUnreachable,
    LinkStolen,
    PositionRefused,
)
from eventconsumer_host.source.causes import cause_of
from eventconsumer_host.source.conditions import error_for, taker_of
from eventconsumer_host.source.sdk import source_error


def wrapped(kind: type[EventHubError], cause: Exception) -> EventHubError:
    """The error that the SDK's client raises for an error of its AMQP library."""
    try:
        try:
            raise cause
        except Exception:
            raise kind(str(cause), cause) from None  # type: ignore[arg-type]
    except EventHubError as error:
        return error


# A text with each word that a condition or a user's name may have.
TEXT = (
    "The link 'G1:link:stolen' of hub 'auth-failed-not-found-unauthorized-access' is detached. status code: 401, "
    "status code: 404, InvalidSignature, entity-disabled, time, server-busy. "
    "The supplied sequence number '4' is invalid. The last sequence number in the system is '2'"
)
CONDITIONS = [
    ("amqp:link:stolen", LinkStolen),
    ("amqp:not-found", HubNotFound),
    ("amqp:resource-deleted", HubNotFound),
    ("com.microsoft:entity-disabled", HubNotFound),
    ("amqp:unauthorized-access", HubUnauthorized),
    ("com.microsoft:auth-failed", HubUnauthorized),
    ("com.microsoft:server-busy", HubBusy),
    ("com.microsoft:argument-error", PositionRefused),
    ("com.microsoft:georeplication:invalid-offset", PositionRefused),
    ("com.microsoft:argument-out-of-range", HubUnreachable),
    ("amqp:link:detach-forced", HubUnreachable),
    ("amqp:connection:forced", HubUnreachable),
    ("amqp:not-found-at-all", HubUnreachable),
    ("", HubUnreachable),
]


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
def test_the_condition_decides(condition: str, expected: type[Exception]) -> None:
    assert type(error_for(condition, TEXT)) is expected
    link = AMQPLinkError(condition.encode() or ErrorCondition.UnknownError, description=TEXT.encode())
    assert type(source_error(link)) is expected
    assert type(source_error(wrapped(ConnectError, link))) is expected


@pytest.mark.parametrize(
    ("condition", "part"),
    [
        ("com.microsoft:entity-disabled", "is disabled"),
        ("amqp:resource-limit-exceeded", "a quota"),
        ("amqp:not-allowed", "does not allow it"),
        ("com.microsoft:argument-out-of-range", "an argument"),
        ("amqp:internal-error", "internal error"),
        ("com.microsoft:timeout", "in time"),
        ("com.microsoft:server-busy", "limits the requests"),
        ("amqp:link:detach-forced", ""),
        ("com.microsoft:argument-error", ""),  # TEXT is about a position
    ],
)
def test_a_condition_has_its_cause_from_both_receivers(condition: str, part: str) -> None:
    link = AMQPLinkError(condition.encode(), description=TEXT.encode())
    for error in (error_for(condition, TEXT), source_error(link), source_error(wrapped(ConnectError, link))):
        cause = cause_of(error)
        assert (part in cause.text) if cause else not part


def test_a_name_of_a_user_selects_no_cause() -> None:
    named = "Unauthorized access. 'Listen' claim(s) are required. Resource: 'sb://a/InvalidSignature-ExpiredToken'."
    assert cause_of(error_for("amqp:unauthorized-access", named)) is None


@pytest.mark.parametrize(
    ("condition", "status", "expected"),
    [
        ("", 401, HubUnauthorized),
        ("", 403, HubUnauthorized),
        ("", 404, HubNotFound),
        ("", 503, HubBusy),
        ("", 500, HubUnreachable),
        ("", None, HubUnreachable),
        ("amqp:internal-error", 404, HubNotFound),
        ("amqp:not-found", 401, HubNotFound),
    ],
)
def test_the_status_of_a_response_decides_where_the_condition_says_nothing(
    condition: str, status: int | None, expected: type[Exception]
) -> None:
    assert type(error_for(condition, TEXT, status)) is expected
    if not condition:
        assert type(source_error(wrapped(AuthenticationError, TokenAuthFailure(status, TEXT)))) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ClientAuthenticationError("AADSTS700016"), HubUnauthorized),
        (TokenExpired(ErrorCondition.InternalError, description="CBS Authentication Expired."), HubUnauthorized),
        (AuthenticationException(ErrorCondition.InternalError, description="Failed to open CBS."), HubUnreachable),
        (TimeoutError("Authentication attempt timed-out."), HubUnreachable),
        (OSError("no route"), HubUnreachable),
        (ValueError("not-found"), HubUnreachable),
    ],
)
def test_other_errors_of_the_sdk(error: Any, expected: type[Exception]) -> None:
    assert type(source_error(error)) is expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        # From the comment in azeventhubs/partition_client.go of azure-sdk-for-go.
        (
            "amqp:link:stolen: New receiver 'EventHubConsumerClientTestID-Interloper' with higher epoch of '1' is "
            "created hence current receiver 'EventHubConsumerClientTestID' with epoch '0' is getting disconnected. If "
            "you are recreating the receiver, make sure a higher epoch is used.",
            "EventHubConsumerClientTestID-Interloper",
        ),
        # Azure/azure-event-hubs-spark, issue 496.
        ("Receiver 'nil' with a higher epoch '59' already exists. Receiver 'nil' with epoch 58 cannot be created.", ""),
        (
            "Receiver 'orders-host-1' with a higher epoch '59' already exists. Receiver 'a' with epoch 58 cannot be "
            "created.",
            "orders-host-1",
        ),
        (
            "New receiver with higher epoch of '5' is created hence current receiver with epoch '4' is getting "
            "disconnected.",
            "",
        ),
        ("New receiver 'a\nb' with higher epoch of '5' is created", ""),
        (f"New receiver '{'a' * 65}' with higher epoch of '5' is created", ""),
        ("stolen", ""),
    ],
)
def test_the_reader_that_took_a_link_is_named_in_the_text(text: str, name: str) -> None:
    assert taker_of(LinkStolen(text)) == name
