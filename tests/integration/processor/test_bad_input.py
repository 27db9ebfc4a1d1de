"""Bad input outside of Secrets (test_redaction): /status names field and remedy, and the process stays well."""

import socket

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import HostProcess
from tests.support.azurite import AzuriteProcess


def assert_well(host: HostProcess) -> None:
    """The process is well and never restarted."""
    assert "Traceback" not in host.log
    assert host.get("/healthz") == b"ok\n"
    assert host.process.poll() is None


def test_an_unknown_consumer_group_and_a_refused_container_name_are_both_reported(consumer: MakeConsumer) -> None:
    orders = consumer()
    host = orders.host(
        eventHub=orders.config["eventHub"] | {"consumerGroup": "billing"},
        sink=orders.config["sink"] | {"container": "Not_A_Container"},
    )
    problem = host.problem("EventHubNotFound")
    assert problem.field == "spec.eventHub.consumerGroup"
    assert "billing" in problem.message
    problem = host.problem("ContainerInvalid")
    assert problem.field == "spec.sink.container"
    assert "Not_A_Container" in problem.message
    assert_well(host)


def test_silent_servers_are_reported(consumer: MakeConsumer, azurite: AzuriteProcess) -> None:
    orders = consumer()
    good = orders.hub_secret.read_text(), orders.storage_secret.read_text()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts by the kernel, and never answers
        port = silent.getsockname()[1]
        orders.hub_secret.write_text(good[0].replace(f"localhost:{orders.emulator.port}", f"localhost:{port}"))
        orders.storage_secret.write_text(good[1].replace(str(azurite.port), str(port)))
        host = orders.host()
        host.problem("EventHubUnreachable")
        host.problem("StorageUnreachable")
        assert {problem.field for problem in host.report().problems} == {
            f"spec.{part}.authentication.connectionStringSecretRef" for part in ("eventHub", "checkpointStore", "sink")
        }
        assert_well(host)


def test_plain_endpoints_need_the_administrators_flag(consumer: MakeConsumer) -> None:
    orders = consumer()
    host = orders.host(allowInsecureEndpoints=False)
    host.problem("InsecureEndpoint")
    fields = {problem.field.split(".")[1] for problem in host.report().problems}
    assert fields == {"eventHub", "checkpointStore", "sink"}
    assert_well(host)


def test_unreadable_configuration_ends_with_an_explanation(consumer: MakeConsumer) -> None:
    orders = consumer()
    host = orders.host(checked=False, leases=orders.config["leases"] | {"durationSeconds": "soon"})
    assert host.process.wait(20) == 2
    assert "the configuration is invalid for this version" in host.log
    assert "durationSeconds" in host.log
