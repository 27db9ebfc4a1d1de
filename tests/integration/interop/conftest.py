"""An emulator over TLS, consumers on it, and the programs of the Java libraries."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.interop.processes import JavaProcess, TlsConsumer, compiled
from tests.support.azurite import AzuriteProcess
from tests.support.tls import TlsEmulator

MakeTlsConsumer = Callable[..., TlsConsumer]
StartJava = Callable[..., JavaProcess]


@pytest.fixture(scope="session")
def tls_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsEmulator]:
    """One emulator over TLS for the session."""
    server = TlsEmulator(tmp_path_factory.mktemp("tls"))
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def classes() -> str:
    """The class path of the Java programs."""
    return compiled()


@pytest.fixture(scope="session")
def trust(tls_emulator: TlsEmulator) -> Path:
    """A trust store of Java with the emulator's certificate."""
    store = tls_emulator.certificate.with_name("trust.p12")
    options = ["-noprompt", "-storepass", "changeit", "-storetype", "PKCS12"]
    subprocess.run(
        ["keytool", "-importcert", "-file", tls_emulator.certificate, "-keystore", store, *options],
        check=True,
        capture_output=True,
    )
    return store


@pytest.fixture
def consumer(
    tls_emulator: TlsEmulator, azurite: AzuriteProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeTlsConsumer]:
    """Makes a consumer of a new hub whose lease container exists: `consumer(partitions=8, shared=True)`."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tls_emulator.certificate))
    made: list[TlsConsumer] = []

    def make(partitions: int, hub: str = "orders", **leases: object) -> TlsConsumer:
        tls_emulator.admin.create_hub(hub, partitions=partitions)
        orders = TlsConsumer(tmp_path, tls_emulator, azurite, hub)
        orders.config["leases"] |= leases
        with orders.container(orders.leases) as container:
            container.create_container()  # the current SDK makes none
        made.append(orders)
        return orders

    yield make
    for one in made:
        one.close()
    tls_emulator.empty()


@pytest.fixture
def java(classes: str, trust: Path, tmp_path: Path) -> Iterator[StartJava]:
    """Starts programs of the Java libraries: `java(LEGACY, consumer, "java-0")`."""
    started: list[JavaProcess] = []

    def start(program: str, consumer: TlsConsumer, name: str) -> JavaProcess:
        started.append(JavaProcess(classes, program, trust, consumer, tmp_path, name))
        return started[-1]

    yield start
    for one in started:
        one.kill()
