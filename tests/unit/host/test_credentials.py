"""Credentials: the meaning of each kind of text; no message holds a value of it."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ServiceRequestError
from azure.core.pipeline.transport import AsyncHttpResponse, AsyncHttpTransport
from azure.identity.aio import WorkloadIdentityCredential
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.spec.endpoints import AZURE_HUB_SUFFIXES
from eventconsumer_api.wire.host_config import Credential, HubConfig
from eventconsumer_host.credentials import FreshIdentity, hub_access

KEY = "c2VjcmV0LWtleQ=="
HOST = "shop.servicebus.windows.net"
HUB = f"Endpoint=sb://{HOST}/;SharedAccessKeyName=Listen;SharedAccessKey={KEY}"
MISSING, INVALID = Reason.SECRET_KEY_MISSING, Reason.CONNECTION_STRING_INVALID
INSECURE, DENIED = Reason.INSECURE_ENDPOINT, Reason.ENDPOINT_NOT_ALLOWED
REFUSED = "key connectionString of Secret shop-secret names a host that is not allowed:"


def credential(tmp_path: Path, text: str | None) -> Credential:
    """A credential whose Secret holds `text`, or is missing."""
    file = tmp_path / "secret"
    if text is not None:
        file.write_text(text)
    return Credential(field="spec.x", secret="shop-secret", key="connectionString", connection_string_file=str(file))


def hub(tmp_path: Path, text: str | None, **fields: Any) -> HubConfig:
    """A hub's configuration."""
    return HubConfig(consumer_group="$Default", credential=credential(tmp_path, text), **fields)


def test_entity_path_or_the_spec_names_the_hub(tmp_path: Path) -> None:
    assert hub_access(hub(tmp_path, f"{HUB};EntityPath=orders\n"), False, AZURE_HUB_SUFFIXES).name == "orders"
    access = hub_access(hub(tmp_path, HUB, name="orders"), False, AZURE_HUB_SUFFIXES)
    assert (access.host, access.name, access.namespace) == (HOST, "orders", HOST)
    assert KEY not in repr(access)


@pytest.mark.parametrize(("asked", "told"), [("AmqpWebSockets", 1), ("amqp", 0), ("", 0)])
def test_the_spec_decides_the_transport_and_a_string_that_asks_for_another_is_named(
    tmp_path: Path, asked: str, told: int
) -> None:
    with capture_logs() as logs:
        access = hub_access(hub(tmp_path, f"{HUB};TransportType={asked}", name="orders"), False, AZURE_HUB_SUFFIXES)
    assert access.transport == "Amqp"
    assert len([entry for entry in logs if "another transport than spec.eventHub.transport" in entry["event"]]) == told


@pytest.mark.parametrize(
    ("text", "fields", "reason", "part"),
    [
        (None, {}, MISSING, "Secret shop-secret, or its key connectionString, does not exist"),
        ("  ", {}, MISSING, "key connectionString of Secret shop-secret is empty"),
        ("nonsense", {}, INVALID, "part 1 is not of the form"),
        (f'"{HUB}"', {}, INVALID, "must have no quotes"),
        (HUB.replace("Endpoint=sb", "HostName=sb"), {}, INVALID, "copy the Event Hub-compatible endpoint"),
        (HUB, {}, INVALID, "add EntityPath=<hub>"),
        (f"{HUB};EntityPath=a", {"name": "b"}, INVALID, "but spec.eventHub.name is b"),
        (HUB, {"fully_qualified_namespace": "other.net"}, INVALID, "make them equal"),
        (f"{HUB};UseDevelopmentEmulator=true", {"name": "b"}, INSECURE, "without TLS"),
        (
            HUB.replace(HOST, "collector.example"),
            {"name": "b"},
            DENIED,
            f"{REFUSED} collector.example is not <namespace>",
        ),
        (HUB.replace(HOST, "10.0.0.1:5671"), {"name": "b"}, INSECURE, "10.0.0.1"),
        (HUB.replace("shop.", "collector.example?."), {"name": "b"}, DENIED, "collector.example is not <namespace>"),
        (HUB.replace(HOST, "shop.blob.core.windows.net"), {"name": "b"}, DENIED, "extend hubSuffixes"),
        (HUB.replace(HOST, f"{HOST}@collector.example"), {"name": "b"}, DENIED, f"{REFUSED} collector.example"),
        (HUB.replace(HOST, "[shop"), {"name": "b"}, INVALID, "Endpoint that is not a URL"),
        (HUB.replace(HOST, "shop\uff03.net"), {"name": "b"}, INVALID, "Endpoint that is not a URL"),
    ],
)
def test_bad_hub_credentials(
    tmp_path: Path, text: str | None, fields: dict[str, str], reason: Reason, part: str
) -> None:
    with pytest.raises(Blocked) as raised:
        hub_access(hub(tmp_path, text, **fields), False, AZURE_HUB_SUFFIXES)
    assert raised.value.problem.reason == reason
    assert part in raised.value.problem.message
    assert KEY not in str(raised.value)


def test_the_administrators_domains_replace_azures(tmp_path: Path) -> None:
    config = hub(tmp_path, HUB.replace("servicebus.windows.net", "hubs.azure.example"), name="orders")
    assert hub_access(config, False, ("hubs.azure.example",)).namespace == "shop.hubs.azure.example"


def of_identity(namespace: str) -> HubConfig:
    """A hub's configuration with a workload identity."""
    identity = Credential(field="spec.eventHub.authentication.workloadIdentity", client_id="id")
    return HubConfig(fully_qualified_namespace=namespace, name="orders", consumer_group="$Default", credential=identity)


def test_no_token_is_sent_to_a_host_that_is_not_allowed() -> None:
    with pytest.raises(Blocked, match=r"collector\.example is not <namespace>"):
        hub_access(of_identity("collector.example"), False, AZURE_HUB_SUFFIXES)


def test_workload_identity_names_missing_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Blocked, match="AZURE_TENANT_ID, AZURE_FEDERATED_TOKEN_FILE not set"):
        hub_access(of_identity(HOST), False, AZURE_HUB_SUFFIXES)
    token = tmp_path / "token"
    token.write_text("jwt")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(token))
    access = hub_access(of_identity(HOST), False, AZURE_HUB_SUFFIXES)
    assert access.identity is not None and access.connection_string is None


class Entra:
    """Gives a new token for each request of azure-identity."""

    def __init__(self, folder: Path) -> None:
        self.given = 0
        self.lifetime = 3600
        self.down = False
        self._file = folder / "token"
        self._file.write_text("jwt of the cluster")

    def credential(self) -> AsyncTokenCredential:
        return WorkloadIdentityCredential(
            tenant_id="t", client_id="c", token_file_path=str(self._file), transport=EntraTransport(self)
        )


class EntraTransport(AsyncHttpTransport[Any, Any]):
    """The network of a credential."""

    def __init__(self, entra: Entra) -> None:
        self.entra = entra

    async def send(self, request: Any, **_: Any) -> Any:
        if self.entra.down:
            raise ServiceRequestError("no route")
        self.entra.given += 1
        token = {"token_type": "Bearer", "expires_in": self.entra.lifetime, "access_token": f"{self.entra.given}"}
        return EntraResponse(request, json.dumps(token))

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def __aexit__(self, *_: object) -> None:
        """Nothing to close."""


class EntraResponse(AsyncHttpResponse):
    """A token."""

    def __init__(self, request: Any, body: str) -> None:
        super().__init__(request, None)
        self._body = body
        self.status_code, self.reason, self.content_type = 200, "OK", "application/json"
        self.headers = {"Content-Type": self.content_type}

    def body(self) -> bytes:
        return self._body.encode()


async def test_a_token_of_an_identity_is_reused_only_while_it_has_15_minutes(tmp_path: Path) -> None:
    entra = Entra(tmp_path)
    identity = FreshIdentity(entra.credential)
    assert [(await identity.get_token("scope")).token for _ in range(3)] == ["1", "1", "1"]
    entra.lifetime = 890
    short = FreshIdentity(entra.credential)
    assert [(await short.get_token("scope")).token for _ in range(3)] == ["2", "3", "4"]
    plain = entra.credential()
    assert [(await plain.get_token("scope")).token for _ in range(2)] == ["5", "5"]  # with azure-identity's own cache


async def test_the_last_token_of_an_identity_serves_until_it_expires_if_entra_does_not_respond(tmp_path: Path) -> None:
    entra = Entra(tmp_path)
    entra.lifetime = 890
    identity = FreshIdentity(entra.credential)
    last = await identity.get_token("scope")
    entra.down = True
    assert await identity.get_token("scope") == last
    with pytest.raises(AzureError):
        await identity.get_token("another scope")


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="\r\n;="), min_size=12))
def test_no_message_holds_a_secret(secret: str) -> None:
    secret = "k3y" + secret.strip()
    texts = [
        secret,
        f"SharedAccessKey={secret}",
        f"Endpoint=sb://a;SharedAccessKey={secret}",
        f"AccountName=a;AccountKey={secret}",
        f"AccountKey={secret}",
        f"{secret};{secret}",
    ]
    with TemporaryDirectory() as folder:
        for text in texts:
            try:
                hub_access(hub(Path(folder), text, name="h"), False, AZURE_HUB_SUFFIXES)
            except Blocked as error:
                assert secret not in str(error)
