"""A network without a way to Azure except a proxy that forwards port 443: a real proxy, and real TLS behind it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventconsumer_api.v1alpha1 import HubTransport
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.errors import HubUnreachable
from tests.integration.processor.hosts import Consumer
from tests.integration.processor.test_drain import wait_drained
from tests.support.azurite import AzuriteProcess, own_address
from tests.support.forwardproxy import PASSWORD, USER, ForwardProxy
from tests.support.servers import EmulatorProcess

COUNT = 60


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """A certificate, its key, and the two addresses that it is for; no other test listens there."""
    folder = tmp_path_factory.mktemp("tls")
    hosts = [own_address(), own_address()]
    files = folder / "cert.pem", folder / "key.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {files[1]} -out {files[0]} -subj /CN=azure"
    names = ",".join(f"IP:{host}" for host in hosts)
    subprocess.run([*command.split(), "-addext", f"subjectAltName={names}"], check=True, capture_output=True)
    return *files, hosts


@pytest.fixture(scope="module")
def secured(
    certificate: tuple[Path, Path, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple["SecuredEmulator", AzuriteProcess]]:
    """Hub and storage, both on port 443."""
    file, key, (hub, storage) = certificate
    folder = tmp_path_factory.mktemp("secured")
    emulator = SecuredEmulator(folder, f"--tls-cert={file}", f"--tls-key={key}", host=hub, port=443)
    azurite = AzuriteProcess(folder / "azurite.log", host=storage, tls=(file, key))
    try:
        emulator.start()
        azurite.start()
        yield emulator, azurite
    finally:
        emulator.close()
        azurite.close()


class SecuredEmulator(EmulatorProcess):
    """An emulator with TLS, with connection strings as those of Azure: without a port."""

    def connection_string(self, hub: str | None = None, name: str = "", key: str = "") -> str:
        """See `EmulatorProcess`."""
        text = super().connection_string(hub).replace("UseDevelopmentEmulator=true;", "")
        return text.replace(f"sb://localhost:{self.port}", f"sb://{self.host}/")


@pytest.fixture
def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ForwardProxy]:
    """A proxy; with the parameter True it requires a user and a password."""
    found = ForwardProxy(tmp_path / "proxy", signs_in=request.param)
    yield found
    found.stop()


def consumer_of(
    secured: tuple[SecuredEmulator, AzuriteProcess], certificate: tuple[Path, Path, list[str]], folder: Path
) -> tuple[Consumer, dict[str, str]]:
    """A consumer with events in its hub, and the environment of its hosts, which trust the certificate."""
    emulator, azurite = secured
    emulator.empty()
    emulator.admin.create_hub("orders", partitions=2)
    for number in range(COUNT):
        emulator.admin.put_event("orders", str(number % 2), b"%d|body" % number)
    orders = Consumer(folder, emulator, azurite, "orders")
    orders.config["eventHub"]["transport"] = "AmqpWebSockets"
    return orders, {"SSL_CERT_FILE": str(certificate[0])}


@pytest.mark.parametrize("proxy", [True], indirect=True)
@pytest.mark.parametrize("client", ["BuiltIn", "AzureSdk"])
def test_a_host_drains_through_a_proxy_that_requires_a_password(
    secured: tuple[SecuredEmulator, AzuriteProcess],
    certificate: tuple[Path, Path, list[str]],
    proxy: ForwardProxy,
    client: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    orders, environment = consumer_of(secured, certificate, tmp_path)
    orders.config["processing"]["client"] = client
    secret = tmp_path / "proxy-secret"
    orders.config["proxy"] = {
        "url": proxy.url,
        "credential": {
            "field": "spec.proxy.credentialsSecretRef",
            "secret": "proxy-secret",
            "key": "user",
            "connectionStringFile": str(secret),
        },
    }
    host = orders.host(environment=environment)
    missing = host.problem("SecretKeyMissing")
    assert missing.message.startswith("Secret proxy-secret, or its key user, does not exist: create it with kubectl")
    secret.write_text("drain:wrong")
    for reason in ("EventHubUnreachable", "StorageUnreachable"):
        refused = host.problem(reason)
        assert f"the proxy 127.0.0.1:{proxy.port} answered 401 to CONNECT " in refused.message
        assert "correct the user and password" in refused.message
    assert proxy.connected() == set()
    secret.write_text(f"{USER}:{PASSWORD}\n")
    wait_drained(orders, COUNT)
    assert proxy.connected() == set(certificate[2])
    assert host.terminate() == 0
    assert PASSWORD not in host.log
    orders.close()


@pytest.mark.parametrize("proxy", [False], indirect=True)
def test_the_environment_of_a_host_names_the_proxy_and_hosts_without(
    secured: tuple[SecuredEmulator, AzuriteProcess],
    certificate: tuple[Path, Path, list[str]],
    proxy: ForwardProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    orders, environment = consumer_of(secured, certificate, tmp_path)
    hub, storage = certificate[2]
    host = orders.host(environment=environment | {"HTTPS_PROXY": proxy.url, "NO_PROXY": storage})
    wait_drained(orders, COUNT)
    assert proxy.connected() == {hub}
    assert host.terminate() == 0
    orders.close()


@pytest.mark.parametrize("proxy", [True], indirect=True)
@pytest.mark.parametrize(
    ("port", "variable", "cause"),
    [
        (443, "http://127.0.0.1:{port}", "answered 407 to CONNECT 127.0.0.9:443: it requires a user and password"),
        (
            444,
            "http://drain:example-password@127.0.0.1:{port}",
            "answered 403 to CONNECT .*: allow this host",
        ),
        (443, "http://proxy.invalid:3128", "through the proxy proxy.invalid:3128 .*not known"),
        (443, "http://127.0.0.1:1", "through the proxy 127.0.0.1:1 .*Connect call failed"),
        (443, "proxy.invalid", "HTTPS_PROXY must have the form http://<host>:<port>"),
    ],
)
async def test_a_proxy_that_does_not_connect_is_named_with_the_remedy(
    proxy: ForwardProxy, port: int, variable: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", variable.format(port=proxy.port))
    text = f"Endpoint=sb://127.0.0.9:{port}/;SharedAccessKeyName=x;SharedAccessKey=y"
    hub = AmqpHub(HubAccess("127.0.0.9", "orders", "$Default", text, transport=HubTransport.AMQP_WEB_SOCKETS))
    with pytest.raises(HubUnreachable, match=cause):
        await hub.describe()
    await hub.close()
