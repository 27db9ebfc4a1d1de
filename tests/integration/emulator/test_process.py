"""The command as a process: ports, TLS, heartbeats, a clean end."""

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient, TransportType

from eventhubs_emulator.framing import AMQP_HEADER, EMPTY_FRAME, frame
from eventhubs_emulator.performatives import Open
from tests.integration.emulator.sdk import Hub, count, receive_sync
from tests.support.servers import EmulatorProcess
from tests.support.waiting import HANG_SECONDS


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "eventhubs_emulator", *options],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


def test_it_ends_cleanly_at_sigterm_and_comes_back_empty_on_the_same_ports(tmp_path: Path) -> None:
    server = EmulatorProcess(tmp_path, "--hub=orders=1")
    server.start()
    ports = server.port, server.admin_port
    hub = Hub(server, "orders")
    hub.put(2)
    assert receive_sync(hub, count(2), starting_position="-1").bodies == ["0", "1"]
    assert server.stop() == 0
    server.start()
    assert (server.port, server.admin_port) == ports
    assert server.admin.hub("orders")["partitions"][0]["events"] == 0
    server.close()
    log = server.log_file.read_text()
    assert "connection opened" in log
    assert "Traceback" not in log
    assert "SAS_KEY_VALUE" not in log


def test_a_port_that_is_taken_is_explained() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = run("--port", str(taken.getsockname()[1]), "--admin-port=0")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "choose another --host, --port" in ended.stderr.strip().splitlines()[-1]


def test_a_port_file_that_cannot_be_written_is_explained() -> None:
    ended = run("--port=0", "--admin-port=0", "--port-file=/nowhere/ports")
    assert ended.returncode == 2
    assert "--port-file /nowhere/ports cannot be written" in ended.stderr


def test_the_ports_are_printed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "eventhubs_emulator", "--port=0", "--admin-port=0", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = json.loads(process.stdout.readline())
    with socket.create_connection((found["host"], found["port"]), 5):
        pass
    process.terminate()
    _, said = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, said) == (0, "")


def test_silent_clients_are_sent_away_and_others_get_heartbeats(tmp_path: Path) -> None:
    server = EmulatorProcess(tmp_path, "--idle-timeout=2")
    server.start()
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.settimeout(10)
        client.sendall(AMQP_HEADER + frame(0, Open("silent", max_frame_size=65536, idle_time_out=1500).encode()))
        started, said = time.monotonic(), b""
        while part := client.recv(4096):
            said += part
        assert time.monotonic() - started > 1.5
    assert said.count(EMPTY_FRAME) >= 2
    assert b"inactive for more than the allowed 2000 milliseconds" in said
    server.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that signs itself."""
    directory = tmp_path_factory.mktemp("tls")
    key, certificate = directory / "key.pem", directory / "cert.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {certificate} -subj /CN=localhost"
    subprocess.run([*command.split(), "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return certificate, key


def test_over_tls_with_a_custom_port(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """With TLS the SDK ignores the port of the endpoint; `custom_endpoint_address` brings it to another one."""
    server = EmulatorProcess(tmp_path, "--hub=orders=1", f"--tls-cert={certificate[0]}", f"--tls-key={certificate[1]}")
    server.start()
    text = server.connection_string("orders").replace("UseDevelopmentEmulator=true;", "")
    options = {
        "custom_endpoint_address": f"sb://localhost:{server.port}",
        "transport_type": TransportType.Amqp,
        "connection_verify": str(certificate[0]),
    }
    with EventHubProducerClient.from_connection_string(text, **options) as producer:
        producer.send_event(EventData("over TLS"))
    with EventHubConsumerClient.from_connection_string(text, "$Default", **options) as consumer:
        assert consumer.get_partition_properties("0")["last_enqueued_sequence_number"] == 0
    server.close()


def test_plain_bytes_to_a_tls_port_are_refused_and_the_server_continues(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    server = EmulatorProcess(tmp_path, f"--tls-cert={certificate[0]}", f"--tls-key={certificate[1]}")
    server.start()
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(AMQP_HEADER)
        client.settimeout(5)
        with contextlib.suppress(ConnectionError):
            assert b"AMQP" not in client.recv(100)
    context = ssl.create_default_context(cafile=str(certificate[0]))
    with (
        socket.create_connection(("127.0.0.1", server.port), 5) as client,
        context.wrap_socket(client, server_hostname="localhost") as secure,
    ):
        secure.sendall(AMQP_HEADER)
        assert secure.recv(8) == AMQP_HEADER
    server.close()
    assert "Traceback" not in server.log_file.read_text()


def test_garbage_from_many_clients_leaves_it_working(tmp_path: Path) -> None:
    server = EmulatorProcess(tmp_path, "--hub=orders=1", "--max-connections=20")
    server.start()
    opened = []
    for number in range(40):
        client = socket.create_connection(("127.0.0.1", server.port), 5)
        client.sendall(uuid.uuid4().bytes * (number + 1))
        opened.append(client)
    for client in opened:
        client.close()
    hub = Hub(server, "orders")
    hub.put(1)
    assert server.admin.hub("orders")["partitions"][0]["events"] == 1
    server.close()
    assert "Traceback" not in server.log_file.read_text()
