"""Tokens: signatures as the SDK makes them, times of renewal, and no secret in any text."""

from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from azure.eventhub._pyamqp.utils import generate_sas_token
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.amqp import cbs
from eventconsumer_host.amqp.cbs import Token, renew_after
from eventconsumer_host.amqp.messages import DecodedMessage
from eventconsumer_host.amqp.requests import check
from eventconsumer_host.errors import HubNotFound, HubUnauthorized, HubUnreachable
from eventhubs_emulator.messages import parse_request
from eventhubs_emulator.tokens import DEFAULT_POLICY, check_sas

AUDIENCE = "sb://shop.servicebus.windows.net/orders/consumergroups/$Default"
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(texts, texts, texts, st.integers(1, 2**40))
def test_signatures_are_those_of_the_sdk(audience: str, name: str, key: str, expires_at: int) -> None:
    assert cbs.sign(audience, name, key, expires_at) == generate_sas_token(audience, name, key, expires_at)


async def test_a_signature_is_valid_for_an_hour() -> None:
    now = 1_700_000_000.5
    token = await cbs.signing(AUDIENCE, DEFAULT_POLICY.name, DEFAULT_POLICY.key)(now)
    grant = check_sas(token.text, AUDIENCE, {DEFAULT_POLICY.name: DEFAULT_POLICY}, now)
    assert grant.path == "orders/consumergroups/$default"
    assert grant.expires_at == token.expires_at == int(now) + 3600
    assert renew_after(token, now) == pytest.approx(3000, abs=2)


async def test_a_ready_signature_is_used_until_it_expires() -> None:
    make = cbs.ready_made("SharedAccessSignature sr=x&sig=y&se=2000&skn=z")
    token = await make(1000)
    assert (token.expires_at, renew_after(token, 1000)) == (2000, None)
    with pytest.raises(HubUnauthorized, match="expired"):
        await make(2000)
    assert (await cbs.ready_made("SharedAccessSignature sr=x")(0)).expires_at is None


class Identity:
    """Gives what it is told."""

    def __init__(self, answer: AccessToken | Exception) -> None:
        self.answer = answer
        self.scopes: tuple[str, ...] = ()

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.scopes = scopes
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_tokens_of_an_identity() -> None:
    identity: Any = Identity(AccessToken("jwt-text", 5000))
    token = await cbs.of_identity(identity)(0)
    assert (token.kind, token.text, token.expires_at) == ("jwt", "jwt-text", 5000)
    assert identity.scopes == ("https://eventhubs.azure.net/.default",)
    for failure, error in (
        (ClientAuthenticationError("no"), HubUnauthorized),
        (ServiceRequestError("no route"), HubUnreachable),
        (OSError("no file"), HubUnreachable),
    ):
        with pytest.raises(error):
            await cbs.of_identity(Identity(failure))(0)  # type: ignore[arg-type]


@given(st.integers(0, 10**10), st.floats(-1e5, 1e6), st.integers(1, 10**6))
def test_renewal_comes_before_the_end_and_never_at_once(now: float, left: float, failures: int) -> None:
    token = Token("jwt", "x", now + left)
    after, again = renew_after(token, now), renew_after(token, now, failures)
    assert after is not None and again is not None
    assert after >= 5 and 5 <= again <= 60
    if left > 10:
        assert after < left and again < left


@pytest.mark.parametrize(
    ("lifetime", "after"), [(86_400, 85_800), (3600, 3000), (1200, 600), (1000, 500), (300, 150), (8, 5), (-1, 5)]
)
def test_a_token_is_renewed_ten_minutes_or_half_of_its_lifetime_before_it_expires(lifetime: int, after: int) -> None:
    assert renew_after(Token("jwt", "x", 1000.0 + lifetime), 1000.0) == after


def test_failed_renewals_are_repeated_with_growing_pauses() -> None:
    now, found = 0.0, []
    for failures in range(1, 30):
        pause = renew_after(Token("jwt", "x", 600.0), now, failures)
        assert pause is not None
        found.append(pause)
        now += pause
    assert found[:6] == [5, 10, 20, 40, 60, 60]
    assert min(found) == 5 == found[-1]  # little time is left, then none


def test_no_secret_is_shown() -> None:
    assert "secret" not in repr(Token("jwt", "secret", None))


def test_a_request_to_put_a_token_has_all_its_fields() -> None:
    request = parse_request(cbs.put_token(Token("jwt", "text", 5.0), AUDIENCE, bytes(16)))
    assert request.body == "text"
    assert request.reply_to == "$cbs"
    assert request.properties == {"operation": "put-token", "type": "jwt", "name": AUDIENCE, "expiration": 5000}
    assert request.message_id.int == 0


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({b"status-code": 202}, None),
        ({b"status-code": 200, b"status-description": b"OK"}, None),
        ({b"status-code": 401, b"status-description": b"ExpiredToken"}, HubUnauthorized),
        ({b"status-code": 404, b"status-description": b"no such entity"}, HubNotFound),
        ({b"status-code": 500}, HubUnreachable),
        ({b"status-code": b"x", b"status-description": 5}, HubUnreachable),
        (None, HubUnreachable),
    ],
)
def test_answers_of_the_service_become_errors_by_status(
    properties: dict[Any, Any] | None, error: type[Exception] | None
) -> None:
    answer = DecodedMessage(None, properties, None, None, None, None)
    if error is None:
        check(answer)
        return
    with pytest.raises(error):
        check(answer)
