"""Spark in a network without a way to storage except a proxy: only the proxy can resolve the account's name."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient

from eventconsumer_api.wire.host_config import ProxyConfig
from eventconsumer_operator.spark.launch import driver_environment, proxy_properties
from tests.integration.spark.conftest import Driver
from tests.integration.spark.drained import DrainedBatch
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess, own_address
from tests.support.forwardproxy import ForwardProxy

NAME = f"{ACCOUNT}.blob.storage.example"
PASSWORD = "changeit"  # noqa: S105 - of a trust store, which has no secret


@pytest.fixture
def address() -> str:
    """An address that no other test uses."""
    return own_address()


@pytest.fixture
def certificate(address: str, tmp_path: Path) -> tuple[Path, Path]:
    """The certificate of the account, and its key."""
    file, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {file} -subj /CN=storage"
    subprocess.run(
        [*command.split(), "-addext", f"subjectAltName=DNS:{NAME},IP:{address}"], check=True, capture_output=True
    )
    return file, key


@pytest.fixture
def storage(address: str, certificate: tuple[Path, Path], tmp_path: Path) -> Iterator[AzuriteProcess]:
    """An account on port 443."""
    server = AzuriteProcess(tmp_path / "azurite.log", host=address, tls=certificate)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def proxy(storage: AzuriteProcess, tmp_path: Path) -> Iterator[ForwardProxy]:
    """The only program that knows the account's address."""
    found = ForwardProxy(tmp_path / "proxy", signs_in=False, names={NAME: storage.host})
    yield found
    found.stop()


def test_a_batch_is_read_and_committed_through_a_proxy(
    certificate: tuple[Path, Path],
    storage: AzuriteProcess,
    proxy: ForwardProxy,
    driver: Driver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    secret = tmp_path / "connectionString"
    secret.write_text(
        f"DefaultEndpointsProtocol=https;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint=https://{NAME}/;"
    )
    with BlobServiceClient.from_connection_string(storage.connection_string) as client:
        drained = DrainedBatch(client.create_container(storage.container()), NAME, str(secret))
        drained.slot("0", 0, 10)
        job = drained.freeze()

        with pytest.raises(socket.gaierror):
            socket.getaddrinfo(NAME, 443)
        launched: Any = SimpleNamespace(config=SimpleNamespace(proxy=ProxyConfig(url=proxy.url)), batch=job)
        variables = {each["name"]: each["value"] for each in driver_environment(launched) if "PROXY" in each["name"]}
        properties = proxy_properties(launched)
        store = trust_store(certificate[0], tmp_path)
        trust = f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword={PASSWORD}"
        properties["spark.driver.extraJavaOptions"] += f" {trust} -XX:TieredStopAtLevel=1"
        properties["spark.hadoop.fs.azure.io.retry.max.retries"] = "0"  # a fault is a failure at once
        ended = driver(job, conf=properties, env=variables)
        assert ended.returncode == 0, ended.stdout
        assert drained.commit() is not None
    assert proxy.connected() == {NAME}


def trust_store(certificate: Path, folder: Path) -> Path:
    """A trust store of Java with the certificate."""
    store = folder / "trusted.p12"
    command = f"keytool -importcert -noprompt -alias it -file {certificate} -keystore {store} -storepass {PASSWORD}"
    subprocess.run(command.split(), check=True, capture_output=True)
    return store
