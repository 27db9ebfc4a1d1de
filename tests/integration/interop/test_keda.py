"""KEDA's scaler for Event Hubs, its own code, on the checkpoints of our hosts: the table in docs/migrate/keda.md."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.cluster import debian_mirror
from local_cluster.gotoolchain import find_go
from local_cluster.layout import Layout
from local_cluster.tools import ToolModule, Tools
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long
PARTITIONS = 3


@pytest.fixture(scope="session")
def scaler() -> Path:
    """The program in keda/, compiled once for each version."""
    module = ToolModule("keda", ".", ("keda",))
    tools = Tools(Path(__file__).parent, Layout.from_environment().cache, (module,))
    tools.build(module, lambda: find_go(debian_mirror()))
    return tools.path("keda")


class Counted:
    """A consumer, and what KEDA counts."""

    def __init__(self, scaler: Path, orders: Consumer) -> None:
        self.orders = orders
        self._scaler = scaler

    def events(self, strategy: str, hub: str | None = None) -> tuple[int, bool]:
        """Unprocessed events, and whether KEDA starts the workload."""
        trigger = {"consumerGroup": "$Default", "blobContainer": self.orders.leases, "checkpointStrategy": strategy}
        answer = subprocess.run(
            [self._scaler],
            input=json.dumps(trigger) + "\n",
            env=os.environ
            | {
                "HUB": self.orders.emulator.connection_string(hub or self.orders.hub),
                "STORAGE": self.orders.storage_secret.read_text(),
            },
            check=True,
            capture_output=True,
            text=True,
        )
        found = json.loads(answer.stdout.splitlines()[-1])
        assert not found.get("error"), found
        return found["events"], found["active"]

    def host(self) -> HostProcess:
        """Start a host and wait until it owns all partitions."""
        host = self.orders.host()
        wait_until(lambda: len(host.owned()) == PARTITIONS, "it owns all")
        return host

    def publish(self, each: int) -> None:
        """Send events to every partition."""
        for partition in self.orders.heads():
            self.orders.emulator.admin.put_events(self.orders.hub, partition, [(b"x", {})] * each)

    def drained(self, host: HostProcess) -> None:
        """Wait until a host has read everything, and stop it."""
        heads = self.orders.heads()
        wait_until(
            lambda: (
                {part.id: part.next_sequence_number for part in host.report().partitions}
                == {partition: head + 1 for partition, head in heads.items()}
            ),
            "all is read",
        )
        assert host.terminate() == 0


@pytest.fixture
def counted(
    request: pytest.FixtureRequest, scaler: Path, emulator: EmulatorProcess, azurite: AzuriteProcess, tmp_path: Path
) -> Iterator[Counted]:
    """A hub and a consumer with leases in the layout of the parameter."""
    emulator.admin.create_hub("Orders", partitions=PARTITIONS)
    orders = Consumer(tmp_path, emulator, azurite, "Orders")
    layout, _, container = request.param.partition(" in ")
    orders.config["leases"]["layout"] = layout
    if container:
        orders.leases = container
        # The default prefix, with the port that only an emulator has.
        prefix = f"localhost:{emulator.port}/orders/"
        orders.config["leases"]["location"] |= {"container": container, "prefix": prefix}
    yield Counted(scaler, orders)
    orders.close()


@pytest.mark.parametrize(
    ("counted", "strategy", "hub"),
    [
        ("EventProcessorHost", "", "Orders"),
        ("EventProcessorHost in azure-webjobs-eventhub", "azureFunction", "orders"),
        ("AzureSdk", "blobMetadata", "orders"),
    ],
    indirect=["counted"],
)
def test_keda_counts_what_is_not_in_files(counted: Counted, strategy: str, hub: str) -> None:
    assert counted.events(strategy, hub) == (0, False)
    counted.drained(counted.host())  # there are leases, and no checkpoint
    assert counted.events(strategy, hub) == (0, False)
    counted.publish(1)
    assert counted.events(strategy, hub) == (PARTITIONS, True)
    counted.drained(counted.host())
    assert counted.events(strategy, hub) == (0, False)
    counted.publish(4)
    assert counted.events(strategy, hub) == (4 * PARTITIONS, True)


@pytest.mark.parametrize("counted", ["AzureSdk"], indirect=True)
def test_with_a_wrong_strategy_or_name_keda_counts_the_whole_hub(counted: Counted) -> None:
    counted.publish(4)
    counted.drained(counted.host())
    assert counted.events("blobMetadata", "orders") == (0, False)
    assert counted.events("blobMetadata", "Orders") == (4 * PARTITIONS, True)
    assert counted.events("", "orders") == (4 * PARTITIONS, True)
