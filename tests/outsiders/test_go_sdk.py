"""A processor of the Azure SDK for Go before, beside and after our hosts, on its blobs; see go/ for the program.

That SDK uses the names of namespace, hub and consumer group for its blobs as its user spells them, also the group
`$Default`; the SDKs of the other languages write lower case.
"""

import json
import os
import signal
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_cluster.gotoolchain import find_go
from local_cluster.layout import Layout
from local_cluster.mirror import debian_mirror
from local_cluster.tools import ToolModule, Tools
from tests.integration.processor.drained import read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.integration.processor.test_sdk_processor import foreign
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

HUB, PARTITIONS = "Orders", 4


@pytest.fixture(scope="module")
def program() -> Path:
    """The program in go/, compiled once for each version; without a Go, the error names the remedy."""
    module = ToolModule("go", ".", ("azuresdk",))
    tools = Tools(Path(__file__).parent, Layout.from_environment().cache, (module,))
    tools.build(module, lambda: find_go(debian_mirror()))
    return tools.path("azuresdk")


class GoProcessor:
    """One such process; it writes a checkpoint after each batch."""

    def __init__(self, program: Path, orders: Consumer, name: str) -> None:
        self._output, self._log = orders.directory / f"{name}.jsonl", orders.directory / f"{name}.log"
        with self._output.open("wb") as output, self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [program],
                env=os.environ
                | {
                    "HUB": orders.emulator.connection_string(),
                    "NAME": HUB,
                    "GROUP": "$Default",
                    "STORAGE": orders.storage_secret.read_text(),
                    "CONTAINER": orders.leases,
                },
                stdout=output,
                stderr=log,
            )

    @property
    def given(self) -> dict[str, list[int]]:
        """Partition -> sequence numbers of the batches it was given and checkpointed."""
        found: dict[str, list[int]] = defaultdict(list)
        text = self._output.read_text()
        for line in map(json.loads, text[: text.rfind("\n") + 1].splitlines()):
            found[line["partition"]] += line["numbers"]
        return found

    def __repr__(self) -> str:
        """The end of its log."""
        return f"{self.given} {self._log.read_text()[-3000:]}"

    def stop(self) -> None:
        """Stop in order: it gives its partitions back."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def orders(emulator: EmulatorProcess, azurite: AzuriteProcess, tmp_path: Path) -> Iterator[Consumer]:
    """A consumer of a hub with an upper-case letter, in layout AzureSdk."""
    emulator.admin.create_hub(HUB, partitions=PARTITIONS)
    made = Consumer(tmp_path, emulator, azurite, HUB)
    made.config["leases"]["layout"] = "AzureSdk"
    made.config["startingPosition"] = {"type": "Latest"}  # a checkpoint that is not found shows as lost events
    with made.container(made.leases) as container:
        container.create_container()  # the SDK makes none
    yield made
    made.close()


Start = Callable[[str], GoProcessor]


@pytest.fixture
def go(program: Path, orders: Consumer) -> Iterator[Start]:
    """Starts processors: `go("go-0")`."""
    started: list[GoProcessor] = []

    def start(name: str) -> GoProcessor:
        started.append(GoProcessor(program, orders, name))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def publish(orders: Consumer, each: int) -> dict[str, int]:
    """Send events to every partition; the hub's last numbers then."""
    for partition in orders.heads():
        orders.emulator.admin.put_events(orders.hub, partition, [(b"x", {})] * each)
    return orders.heads()


def reached(processor: GoProcessor) -> dict[str, int]:
    """Partition -> the last sequence number that the processor was given."""
    return {partition: numbers[-1] for partition, numbers in processor.given.items()}


def drained(host: HostProcess) -> dict[str, int]:
    """Partition -> the last sequence number in files."""
    return {part.id: (part.next_sequence_number or 0) - 1 for part in host.report().partitions}


def owners(orders: Consumer) -> Counter[bool]:
    """Number of ownerships by whether a host of ours is the owner, whatever their names."""
    with orders.container(orders.leases) as container:
        found = [blob.metadata for blob in container.list_blobs(include=["metadata"]) if "/ownership/" in blob.name]
    return Counter("epoch" in facts for facts in found if facts.get("ownerid"))


def test_ours_continues_at_the_checkpoints_of_go_and_go_at_ours(orders: Consumer, go: Start) -> None:
    first_part = publish(orders, 10)
    first = go("go-0")
    wait_until(lambda: reached(first) == first_part, ("Go reads the first part", first))
    first.stop()
    second_part = publish(orders, 10)
    host = orders.host()
    wait_until(lambda: drained(host) == second_part, ("ours reads the second part", host))
    assert not host.report().problems
    assert host.terminate() == 0
    with orders.container(orders.drained) as container:
        found = read_drained(container, "shop/orders")
    assert found.rows == {p: list(range(first_part[p] + 1, second_part[p] + 1)) for p in first_part}
    third_part = publish(orders, 10)
    second = go("go-1")
    wait_until(lambda: reached(second) == third_part, ("Go reads the third part", second))
    second.stop()
    assert second.given == {p: list(range(second_part[p] + 1, third_part[p] + 1)) for p in second_part}


@pytest.mark.long
def test_partitions_are_shared_with_go(orders: Consumer, go: Start) -> None:
    orders.config["leases"]["shared"] = True
    other = go("go-0")
    wait_until(lambda: owners(orders) == {False: PARTITIONS}, ("Go owns all", other))
    publish(orders, 10)
    host = orders.host()
    half = {True: PARTITIONS // 2, False: PARTITIONS // 2}
    wait_until(lambda: owners(orders) == half and len(host.owned()) == PARTITIONS // 2, ("half each", other, host))
    heads = publish(orders, 10)
    wait_until(lambda: {**reached(other), **drained(host)} == heads, ("both read", other, host))
    other.stop()
    wait_until(lambda: owners(orders) == {True: PARTITIONS}, ("ours takes what Go gave back", host))
    heads = publish(orders, 10)
    wait_until(lambda: drained(host) == heads, ("ours reads all", host))
    assert not host.report().problems
    assert host.terminate() == 0
    with orders.container(orders.drained) as container:
        result = read_drained(container, "shop/orders")
    given = Counter((partition, number) for partition, numbers in other.given.items() for number in numbers)
    rows = Counter((partition, number) for partition, numbers in result.rows.items() for number in numbers)
    assert set(rows.values()) == {1}
    assert foreign(result).keys() <= given.keys()
    assert rows.keys() | given.keys() == {(p, number) for p, head in heads.items() for number in range(head + 1)}


@pytest.mark.long  # integration/processor/test_identity.py has a group in another case, of two of ours
def test_a_consumer_that_is_in_lower_case_leaves_partitions_to_go_and_says_so(orders: Consumer, go: Start) -> None:
    first = orders.host()
    wait_until(lambda: len(first.owned()) == PARTITIONS, ("ours owns all, in lower case", first))
    assert first.terminate() == 0
    other = go("go-0")
    wait_until(lambda: owners(orders) == {False: PARTITIONS}, ("Go owns all", other))
    host = orders.host()
    assert "/Orders/$Default/ownership/" in host.problem("LeaseInvalid").message
    heads = publish(orders, 10)
    wait_until(lambda: reached(other) == heads, ("Go reads", other))
    assert host.owned() == set()
    other.stop()
    wait_until(lambda: len(host.owned()) == PARTITIONS and not host.report().problems, ("ours reads on", host))
    assert host.terminate() == 0
