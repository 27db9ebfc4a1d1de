"""`plan`: from a manifest, or from a consumer that runs; what is absent, and what a limit says."""

from pathlib import Path

import pytest
import yaml

from eventconsumer_cli.kube.kinds import EVENT_CONSUMER
from tests.unit.cli.fakes import FakeCluster, consumer, report, shop
from tests.unit.cli.running import CommandClock, Shell
from tests.unit.operator.worlds import SPEC

MANIFEST = {"apiVersion": "eventconsumer.io/v1alpha1", "kind": "EventConsumer", "metadata": {"name": "orders"}}


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    """A file with a Secret and a consumer."""
    path = tmp_path / "orders.yaml"
    path.write_text(yaml.safe_dump_all([{"kind": "Secret"}, MANIFEST | {"spec": SPEC}]))
    return str(path)


def test_a_manifest_is_planned_without_a_cluster(shell: Shell, manifest: str) -> None:
    command = ("plan", "-f", manifest, "--rate", "5000", "--partitions", "32", "--event-bytes", "2000")
    seen = shell.run(FakeCluster(), *command)
    assert seen.code == 0, seen.err
    assert "5,000 events per second of 2.0 kB, 10.0 MB/s, 32 partitions" in seen.out
    assert "10 throughput units" in seen.out
    made = shell.run(FakeCluster(), *command, "-o", "json").json
    assert made["load"]["bytesPerSecond"] == 10_000_000
    assert made["costPerMonth"] == pytest.approx(sum(made["costsPerMonth"].values()), abs=0.05)
    names = ("core-hour", "gib-hour", "writes", "reads", "gb-month", "unit-hour", "million-events")
    prices = [word for name in names for word in ("--price", f"{name}=0")]
    assert shell.run(FakeCluster(), *command, *prices, "-o", "json").json["costPerMonth"] == 0


@pytest.mark.parametrize(
    ("partitions", "said"),
    [
        ("25", None),  # 78 %
        ("26", ", close to the limit; above it, the hub cannot be created"),
        ("32", ", at the limit; above it, the hub cannot be created"),
        ("33", ", above the limit: the hub cannot be created"),
    ],
)
def test_a_consequence_is_announced_and_said_only_above_a_limit(
    shell: Shell, manifest: str, partitions: str, said: str | None
) -> None:
    seen = shell.run(FakeCluster(), "plan", "-f", manifest, "--rate", "1", "--partitions", partitions)
    found = " ".join(seen.out.split()).partition("partitions of a Standard Event Hub, ")[2]
    assert f", {found}".startswith(said) if said else not found


@pytest.mark.parametrize(
    ("price", "message"),
    [
        ("cores=1", "there is no price 'cores' use one of core-hour"),
        ("writes", "the amount is not a number"),
        ("writes=-1", "below 0"),
        ("writes=nan", "not finite"),
    ],
)
def test_a_wrong_price_is_refused(shell: Shell, manifest: str, price: str, message: str) -> None:
    seen = shell.run(FakeCluster(), "plan", "-f", manifest, "--rate", "1", "--partitions", "1", "--price", price)
    assert seen.code == 3
    assert message in " ".join(seen.err.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: Secret", "has 0 EventConsumers"),
        ("a: [", "cannot be read"),
        (yaml.safe_dump(MANIFEST | {"spec": {}}), "spec.eventHub: Field required"),
    ],
)
def test_a_file_without_a_consumer_is_refused(shell: Shell, tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(content)
    seen = shell.run(FakeCluster(), "plan", "-f", str(path), "--rate", "1", "--partitions", "1")
    assert seen.code == 3
    assert message in seen.err


def test_a_manifest_needs_a_rate_and_partitions(shell: Shell, manifest: str) -> None:
    seen = shell.run(FakeCluster(), "plan", "-f", manifest)
    assert seen.code == 3
    assert "add --rate and --partitions" in seen.err
    assert "exclude each other" in shell.run(FakeCluster(), "plan", "orders", "-f", manifest).err


def test_the_rate_of_a_running_consumer_is_measured(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clock = shop(), CommandClock()
    made = consumer()
    made["spec"] = SPEC
    cluster.put(EVENT_CONSUMER, made)
    later = {"orders-host-1": report("orders-host-1", "2", "3", events=4_711)}
    clock.steps = [lambda: cluster.reports.update(later)]
    monkeypatch.setattr("eventconsumer_cli.commands.plan.time", clock)
    seen = shell.run(cluster, "plan", "orders", "-o", "json")
    assert seen.code == 0, seen.err
    assert seen.json["load"]["partitions"] == 4
    assert seen.json["load"]["eventsPerSecond"] > 0
    assert "measuring the rate of events for 20s" in seen.err


def test_a_consumer_without_hosts_needs_a_rate(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clock = shop(), CommandClock()
    made = consumer()
    made["spec"] = SPEC
    cluster.put(EVENT_CONSUMER, made)
    cluster.reports = {}
    clock.steps = [lambda: None]
    monkeypatch.setattr("eventconsumer_cli.commands.plan.time", clock)
    seen = shell.run(cluster, "plan", "orders")
    assert seen.code == 3
    assert "add --rate" in seen.err
    assert shell.run(cluster, "plan", "orders", "--rate", "10").code == 0
