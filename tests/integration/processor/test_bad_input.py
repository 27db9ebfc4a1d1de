"""Bad input: /status names field and remedy within 20 s, no key leaks, and a correction heals without a restart."""

import socket

import pytest

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import assert_exactly_once, read_drained
from tests.integration.processor.hosts import HostProcess
from tests.support.azurite import KEY, AzuriteProcess
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

SECRET_KEY = "c2VjcmV0LWtleS1vZi10ZXN0cw=="


def assert_silent(host: HostProcess, *secrets: str) -> None:
    """No secret in the log, /status or /metrics; the process is well and never restarted."""
    everything = host.log + host.get("/status").decode() + host.get("/metrics").decode()
    for secret in (*secrets, KEY, SECRET_KEY):
        assert secret.strip("=") not in everything
    assert "Traceback" not in host.log
    assert host.get("/healthz") == b"ok\n"
    assert host.process.poll() is None


def assert_heals(host: HostProcess, partitions: int = 4) -> None:
    """The same process owns all partitions soon."""
    wait_until(lambda: len(host.owned()) == partitions, f"healed: {host.log[-2000:]}")
    wait_until(lambda: not host.report().problems, "no problem is left")
    assert host.report().state == "Running"


def test_missing_secret_key(consumer: MakeConsumer) -> None:
    orders = consumer()
    text = orders.hub_secret.read_text()
    orders.hub_secret.unlink()
    host = orders.host()
    problem = host.problem("SecretKeyMissing")
    assert problem.field == "spec.eventHub.authentication.connectionStringSecretRef"
    assert problem.message.startswith("Secret eventHub-secret has no key connectionString: create it")
    assert host.report().state == "Blocked"
    assert_silent(host)
    orders.hub_secret.write_text(text)
    assert_heals(host)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (f"not a connection string {SECRET_KEY.strip('=')}", "part 1 is not of the form Name=value"),
        (f"Endpoint=sb://localhost:1/;SharedAccessKey={SECRET_KEY}", "neither SharedAccessKeyName and SharedAccessKey"),
        (f"SharedAccessKeyName=Root;SharedAccessKey={SECRET_KEY}", "no part Endpoint"),
    ],
)
def test_bad_connection_string(consumer: MakeConsumer, text: str, part: str) -> None:
    orders = consumer()
    good = orders.hub_secret.read_text()
    orders.hub_secret.write_text(text)
    host = orders.host()
    assert part in host.problem("ConnectionStringInvalid").message
    assert_silent(host)
    orders.hub_secret.write_text(good)
    assert_heals(host)


def test_unknown_hub(consumer: MakeConsumer, emulator: EmulatorProcess) -> None:
    orders = consumer()
    orders.hub_secret.write_text(emulator.connection_string("missing"))
    host = orders.host()
    assert host.problem("EventHubNotFound").field == "spec.eventHub.name"
    assert_silent(host)
    emulator.admin.create_hub("missing", partitions=4)
    assert_heals(host)


def test_unknown_consumer_group(consumer: MakeConsumer) -> None:
    orders = consumer()
    hub = orders.config["eventHub"]
    host = orders.host(eventHub=hub | {"consumerGroup": "billing"})
    problem = host.problem("EventHubNotFound")
    assert problem.field == "spec.eventHub.consumerGroup"
    assert "billing" in problem.message
    assert_silent(host)


def test_refused_key_of_the_hub(consumer: MakeConsumer, emulator: EmulatorProcess) -> None:
    orders = consumer()
    good = orders.hub_secret.read_text()
    orders.hub_secret.write_text(emulator.connection_string("orders", key=SECRET_KEY))
    host = orders.host()
    assert host.problem("EventHubUnauthorized").field.endswith("connectionStringSecretRef")
    assert_silent(host)
    orders.hub_secret.write_text(good)
    assert_heals(host)


def test_unreachable_hub_and_storage_are_both_reported(consumer: MakeConsumer, azurite: AzuriteProcess) -> None:
    orders = consumer()
    good = orders.hub_secret.read_text(), orders.storage_secret.read_text()
    with socket.socket() as closed:  # bound, not listening: refused, and nobody else can take it
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        orders.hub_secret.write_text(good[0].replace(f"localhost:{orders.emulator.port}", f"localhost:{port}"))
        orders.storage_secret.write_text(good[1].replace(str(azurite.port), str(port)))
        host = orders.host()
        host.problem("EventHubUnreachable")
        found = {problem.field: problem.reason for problem in host.report().problems}
        assert found == {
            "spec.eventHub.authentication.connectionStringSecretRef": "EventHubUnreachable",
            "spec.leaseStore.authentication.connectionStringSecretRef": "StorageUnreachable",
            "spec.sink.authentication.connectionStringSecretRef": "StorageUnreachable",
        }
        assert_silent(host)
    orders.hub_secret.write_text(good[0])
    orders.storage_secret.write_text(good[1])
    assert_heals(host)


def test_silent_servers_are_reported_in_time(consumer: MakeConsumer, azurite: AzuriteProcess) -> None:
    orders = consumer()
    good = orders.hub_secret.read_text(), orders.storage_secret.read_text()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts by the kernel, and never answers
        port = silent.getsockname()[1]
        orders.hub_secret.write_text(good[0].replace(f"localhost:{orders.emulator.port}", f"localhost:{port}"))
        orders.storage_secret.write_text(good[1].replace(str(azurite.port), str(port)))
        host = orders.host()
        host.problem("EventHubUnreachable")
        host.problem("StorageUnreachable")
        assert_silent(host)


def test_refused_key_of_storage(consumer: MakeConsumer) -> None:
    orders = consumer()
    good = orders.storage_secret.read_text()
    orders.storage_secret.write_text(good.replace(KEY, SECRET_KEY))
    host = orders.host()
    assert host.problem("StorageUnauthorized").field.endswith("connectionStringSecretRef")
    assert_silent(host)
    orders.storage_secret.write_text(good)
    assert_heals(host)


def test_refused_container_name(consumer: MakeConsumer) -> None:
    orders = consumer()
    host = orders.host(sink=orders.config["sink"] | {"container": "Not_A_Container"})
    problem = host.problem("ContainerInvalid")
    assert problem.field == "spec.sink.container"
    assert "Not_A_Container" in problem.message
    assert_silent(host)


def test_plain_endpoints_need_the_administrators_flag(consumer: MakeConsumer) -> None:
    orders = consumer()
    host = orders.host(allowInsecureEndpoints=False)
    host.problem("InsecureEndpoint")
    fields = {problem.field.split(".")[1] for problem in host.report().problems}
    assert fields == {"eventHub", "leaseStore", "sink"}
    assert_silent(host)


def test_rotated_credential(consumer: MakeConsumer, emulator: EmulatorProcess) -> None:
    orders = consumer()
    good = orders.hub_secret.read_text()
    orders.publish(100)
    host = orders.host()
    wait_until(lambda: sum(p.events for p in host.report().partitions) == 100, "drained")
    orders.hub_secret.write_text(emulator.connection_string("orders", key=SECRET_KEY))
    host.problem("EventHubUnauthorized")
    assert_silent(host)
    orders.hub_secret.write_text(good)
    assert_heals(host)
    orders.publish(100, start=100)
    wait_until(lambda: sum(p.next_sequence_number or 0 for p in host.report().partitions) == 200, "drained on")


def test_deleted_lease_container_is_rebuilt_from_the_files(consumer: MakeConsumer) -> None:
    orders = consumer()
    orders.publish(100)
    host = orders.host()
    wait_until(lambda: sum(p.events for p in host.report().partitions) == 100, "drained")
    with orders.container(orders.leases) as leases:
        leases.delete_container()
    wait_until(lambda: "the lease container was deleted" in host.log, "the loss is noticed")
    assert_heals(host)
    orders.publish(100, start=100)
    wait_until(lambda: sum(p.next_sequence_number or 0 for p in host.report().partitions) == 200, "drained on")
    with orders.container(orders.drained) as container:
        assert_exactly_once(read_drained(container, "shop/orders"), orders.heads(), 200)
    assert max(partition.epoch for partition in host.report().partitions) >= 2


def test_recreated_hub_is_never_drained_into_the_old_chains(consumer: MakeConsumer, emulator: EmulatorProcess) -> None:
    orders = consumer()
    orders.publish(100)
    host = orders.host()
    wait_until(lambda: sum(p.events for p in host.report().partitions) == 100, "drained")
    emulator.admin.recreate_hub("orders")
    problem = host.problem("HubDiverged")
    assert problem.field == "spec.eventHub.name"
    assert_silent(host)
    assert host.terminate() == 0
    restarted = orders.host("orders-host-1")
    restarted.problem("HubDiverged")
    assert_silent(restarted)


def test_unreadable_configuration_ends_with_an_explanation(consumer: MakeConsumer) -> None:
    orders = consumer()
    host = orders.host(checked=False, leases=orders.config["leases"] | {"durationSeconds": "soon"})
    assert host.process.wait(20) == 2
    assert "the configuration is invalid for this version" in host.log
    assert "durationSeconds" in host.log
