"""The client of schema registries, against a stand-in on real HTTP: protocols, unknown ids, faults, credentials."""

import base64
import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.spec.spark import Registry, RegistryType
from eventconsumer_api.wire.host_config import Credential
from eventconsumer_spark.errors import ConfigurationError, RegistryError
from eventconsumer_spark.registry import client as module
from eventconsumer_spark.registry.check import NO_SCHEMA, check
from eventconsumer_spark.registry.client import TRIES, UNKNOWN, SchemaRegistry
from eventconsumer_spark.registry.schema import MAX_CHARACTERS, Refusal, Schema
from tests.support.registry import StandInRegistry

GUID = "64fc737160ff41bdb8a0b8af028e6827"
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
BASIC = "spec.spark.output.body.registry.authentication.basicSecretRef"


@pytest.fixture
def server() -> Iterator[StandInRegistry]:
    with StandInRegistry() as made:
        yield made


def client(
    server: StandInRegistry, kind: RegistryType, credential: Credential | None = None, path: str = ""
) -> tuple[SchemaRegistry, list[float]]:
    """A client without a token for Confluent, and the pauses that it makes."""
    pauses: list[float] = []
    registry = Registry(type=kind, url=server.url + path)
    token = (lambda: "t") if kind is RegistryType.AZURE else None
    return SchemaRegistry(registry, credential, token, pauses.append), pauses


def test_azure_gives_the_schema_its_version_and_gets_a_token(server: StandInRegistry) -> None:
    server.schemas[GUID], server.versions[GUID], server.authorization = ORDER, 3, "Bearer t"
    registry, _ = client(server, RegistryType.AZURE)
    for _ in range(2):  # kept after the first time
        assert registry.schemas([GUID]) == {GUID: Schema(ORDER, "Order", 3)}
    assert server.requests == [f"/$schemaGroups/$schemas/{GUID}?api-version=2023-07-01"]


def test_confluent_gives_the_schema_below_the_path_of_its_url(server: StandInRegistry, tmp_path: Path) -> None:
    file = tmp_path / "basic"
    file.write_text("user:ä:b\n")
    server.schemas["7"] = ORDER
    server.authorization = "Basic " + base64.b64encode("user:ä:b".encode()).decode()
    credential = Credential(field=BASIC, secret="s", key="k", connection_string_file=str(file))
    registry, _ = client(server, RegistryType.CONFLUENT, credential)
    assert registry.schemas(["7"]) == {"7": Schema(ORDER, "Order", 7)}
    file.write_text("other:c")
    with pytest.raises(RegistryError, match=r"refuses the credential \(HTTP 401\): correct key k of Secret s"):
        registry.schemas(["8"])
    file.write_text("no colon")
    with pytest.raises(ConfigurationError, match="has not the form <user>:<password>"):
        registry.schemas(["8"])
    with pytest.raises(RegistryError, match=r"set spec\.spark\.output\.body\.registry\.authentication"):
        client(server, RegistryType.CONFLUENT)[0].schemas(["7"])


@pytest.mark.parametrize(("kind", "number"), [(RegistryType.AZURE, GUID), (RegistryType.CONFLUENT, "7")])
def test_what_a_publisher_can_cause_is_no_error(kind: RegistryType, number: str, server: StandInRegistry) -> None:
    registry, _ = client(server, kind)
    assert registry.schemas([number]) == {number: UNKNOWN}
    server.schemas[number] = ORDER
    server.others[number] = "JSON"
    assert client(server, kind)[0].schemas([number]) == {number: Refusal("is not an Avro schema")}
    del server.others[number]
    for text in (json.dumps("x" * MAX_CHARACTERS), json.dumps("x" * MAX_CHARACTERS * 5)):
        server.schemas[number] = text
        assert client(server, kind)[0].schemas([number]) == {
            number: Refusal(f"is longer than {MAX_CHARACTERS} characters")
        }
    # It was unknown before, and is asked for again.
    server.schemas[number] = ORDER
    found = registry.schemas([number])[number]
    assert isinstance(found, Schema) and found.text == ORDER
    server.references.add("9")
    server.schemas["9"] = ORDER
    if kind is RegistryType.CONFLUENT:
        refused = registry.schemas(["9"])["9"]
        assert isinstance(refused, Refusal) and "has references" in refused.cause


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_fault_is_tried_again_and_then_an_error_and_never_an_unknown_schema(
    status: int, server: StandInRegistry
) -> None:
    server.schemas["7"] = ORDER
    registry, pauses = client(server, RegistryType.CONFLUENT)
    server.faults = [status] * (TRIES - 1)
    assert registry.schemas(["7"]) == {"7": Schema(ORDER, "Order", 7)}
    assert pauses == [1.0, 2.0, 4.0]
    server.faults = [status] * TRIES
    with pytest.raises(RegistryError, match=rf"answers with HTTP {status}: restore the registry.*the batch waits"):
        registry.schemas(["8"])


def test_a_registry_that_is_away_is_an_error(server: StandInRegistry) -> None:
    registry = SchemaRegistry(Registry(type=RegistryType.CONFLUENT, url="http://127.0.0.1:9"), sleep=lambda _: None)
    with pytest.raises(RegistryError, match=r"no answer: .*refused"):
        registry.schemas(["1"])


def test_a_wrong_url_is_not_an_unknown_schema_and_a_redirect_is_not_followed(server: StandInRegistry) -> None:
    for kind in (RegistryType.CONFLUENT, RegistryType.AZURE):
        with pytest.raises(ConfigurationError, match="HTTP 404: correct the URL"):
            client(server, kind, path="/wrong")[0].schemas(["7"])
        server.faults = [302]
        server.requests.clear()
        with pytest.raises(ConfigurationError, match=r"redirect \(HTTP 302\), which is not followed"):
            client(server, kind)[0].schemas(["7"])
        assert "/elsewhere" not in server.requests
    server.faults = [200]
    with pytest.raises(ConfigurationError, match="answers without a schema"):
        client(server, RegistryType.CONFLUENT)[0].schemas(["7"])


def test_an_identity_that_is_not_injected_is_named(server: StandInRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    registry = Registry(type=RegistryType.AZURE, url=server.url)
    with pytest.raises(ConfigurationError, match="workload identity is not injected"):
        SchemaRegistry(registry, Credential(field="spec.x", client_id="c")).schemas([GUID])


@pytest.mark.parametrize("kind", RegistryType)
def test_a_registry_that_lets_the_driver_read_passes_the_check(kind: RegistryType, server: StandInRegistry) -> None:
    registry, pauses = client(server, kind)
    found = check(registry)
    assert found.ok and server.url in found.detail and "remedy" not in found
    assert len(server.requests) == 1 and NO_SCHEMA[kind] in server.requests[0] and not pauses


def failed(server: StandInRegistry, kind: RegistryType, path: str = "", **credential: Any) -> tuple[str, str]:
    """Cause and remedy of a failed check."""
    given = Credential(field=BASIC, **credential) if credential else None
    found = check(client(server, kind, given, path)[0])
    assert (found.check, found.ok) == ("schema-registry", False)
    return found.detail, found.remedy


@pytest.mark.parametrize("status", [401, 403])
def test_the_check_tells_a_refused_credential_with_the_role_or_the_secret(
    status: int, server: StandInRegistry, tmp_path: Path
) -> None:
    server.faults = [status]
    detail, remedy = failed(server, RegistryType.AZURE, client_id="id-of-spark")
    assert f"refuses the credential (HTTP {status})" in detail
    assert remedy == "give the identity id-of-spark the role Schema Registry Reader in the namespace"
    file = tmp_path / "basic"
    file.write_text("user:password")
    server.faults = [status]
    secret = {"secret": "registry", "key": "basic", "connection_string_file": str(file)}
    detail, remedy = failed(server, RegistryType.CONFLUENT, **secret)
    assert f"{BASIC.rpartition('.')[0]}: {server.url} refuses the credential (HTTP {status})" == detail
    assert remedy == "correct key basic of Secret registry"


@pytest.mark.parametrize("kind", RegistryType)
def test_the_check_tells_a_wrong_url_and_a_registry_that_is_down(kind: RegistryType, server: StandInRegistry) -> None:
    detail, remedy = failed(server, kind, path="/elsewhere")
    assert "/elsewhere answers with HTTP 404" in detail and remedy == "correct the URL, or type, of the registry"
    server.faults = [503] * TRIES
    detail, remedy = failed(server, kind)
    assert "answers with HTTP 503" in detail and remedy.startswith("restore the registry")


def test_the_check_tells_a_missing_secret_and_an_identity_that_is_not_injected(
    server: StandInRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {"secret": "registry", "key": "basic", "connection_string_file": "/nowhere"}
    detail, remedy = failed(server, RegistryType.CONFLUENT, **missing)
    assert detail.endswith("Secret registry, or its key basic, does not exist") and remedy.endswith("<user>:<password>")
    for name in ("AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    registry = Registry(type=RegistryType.AZURE, url=server.url)
    found = check(SchemaRegistry(registry, Credential(field="spec.x", client_id="c")))
    assert "not injected" in found.detail and "annotate the pod's service account" in found.remedy


def test_the_check_tells_a_name_that_is_not_resolved() -> None:
    registry = Registry(type=RegistryType.CONFLUENT, url="http://registry.invalid")
    found = check(SchemaRegistry(registry, sleep=lambda _: None))
    assert "the host name cannot be resolved" in found.detail, found
    assert found.remedy.startswith("correct the URL, or the DNS of the cluster")


def test_the_check_tells_a_certificate_that_is_not_trusted_and_a_server_without_tls(
    server: StandInRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Registry(type=RegistryType.CONFLUENT, url=server.url.replace("http:", "https:"))
    found = check(SchemaRegistry(plain, sleep=lambda _: None))
    assert "TLS fails" in found.detail and found.remedy.startswith("correct the scheme or port"), found
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {certificate}"
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *name], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    with StandInRegistry(tls=tls) as secured:
        registry = Registry(type=RegistryType.CONFLUENT, url=secured.url)
        found = check(SchemaRegistry(registry, sleep=lambda _: None))
        assert "its certificate is not trusted (self-signed certificate)" in found.detail, found
        assert found.remedy.startswith("correct the certificate, or add its authority to the Spark image")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert check(SchemaRegistry(registry)).ok


def test_the_check_is_a_program_that_prints_its_result(server: StandInRegistry) -> None:
    def run(url: str) -> tuple[int, dict[str, Any]]:
        given = {"registry": {"type": "Confluent", "url": url}, "credential": None}
        command = [sys.executable, "-m", "eventconsumer_spark.registry.check"]
        ended = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
        (found,) = json.loads(ended.stdout)["checks"]
        return ended.returncode, found

    code, found = run(server.url)
    assert (code, found["ok"]) == (0, True)
    server.faults = [401]
    code, found = run(server.url)
    assert (code, found["ok"], found["remedy"]) == (2, False, "set spec.spark.output.body.registry.authentication")


@pytest.mark.parametrize("piece", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 ", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_an_answer_without_an_end_is_no_answer(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.5)

    def drip(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(piece)
            while True:
                connection.sendall(piece if b"Continue" in piece else b"1")
                time.sleep(0.01)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(TRIES):
                drip(listener.accept()[0])

        serving = threading.Thread(target=serve)
        serving.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        registry = SchemaRegistry(Registry(type=RegistryType.CONFLUENT, url=url), sleep=lambda _: None)
        with pytest.raises(RegistryError, match="no answer"):
            registry.schemas(["7"])
        serving.join()
