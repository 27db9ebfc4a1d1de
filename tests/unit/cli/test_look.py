"""status, partitions, hosts, batches and top: what they show, and what they say where there is nothing to show."""

import json

import pytest
import yaml

from eventconsumer_api import labels
from eventconsumer_api.host_report import HostState, Problem
from eventconsumer_cli.commands.hosts import ids
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, POD
from tests.unit.cli.fakes import HEALTHY, FakeCluster, condition, consumer, fleet, pod, report, shop
from tests.unit.cli.running import Shell

COMMANDS = ("status", "partitions", "hosts", "batches")


def test_status_lists_consumers_of_one_namespace_or_of_all(shell: Shell) -> None:
    cluster = shop()
    cluster.put(EVENT_CONSUMER, consumer("bills", "office", spark=False))
    one = shell.run(cluster, "status")
    assert one.code == 0
    assert "orders" in one.out and "bills" not in one.out
    everywhere = shell.run(cluster, "status", "-A")
    assert [line.split()[:2] for line in everywhere.out.splitlines()[1:]] == [["office", "bills"], ["shop", "orders"]]
    assert shell.run(cluster, "-n", "office", "status", "-o", "name").out == "eventconsumer.eventconsumer.io/bills\n"
    # What follows the command's name wins.
    assert "bills" in shell.run(cluster, "-n", "shop", "status", "-n", "office").out


def test_status_of_one_names_the_remedy_and_the_next_command(shell: Shell) -> None:
    cluster = shop()
    bad = [
        condition("Ready", "False", "SecretKeyMissing", "spec.sink: Secret orders-storage has no key connectionString"),
        condition("DataGap", "True", "DataGap", "12 events are in no file: raise the retention"),
        *HEALTHY[5:],
    ]
    cluster.put(EVENT_CONSUMER, consumer(conditions=bad[:2]))
    seen = shell.run(cluster, "status", "orders")
    assert seen.code == 0
    assert "Secret orders-storage has no key connectionString" in seen.out
    assert "kubectl eventconsumer doctor orders -n shop" in seen.out
    assert "kubectl eventconsumer audit orders -n shop" in seen.out
    assert "4 of 4 are read" in seen.out
    assert "1,000,100 events" in seen.out  # the hosts know more than the status


def test_status_says_that_an_operator_is_silent(shell: Shell) -> None:
    cluster = FakeCluster()
    made = consumer()
    del made["status"]
    cluster.put(EVENT_CONSUMER, made)
    for words in (("status",), ("status", "orders")):
        seen = shell.run(cluster, *words)
        assert "the operator has not said anything about it yet" in seen.out
        assert "doctor orders -n shop" in seen.out


def test_what_a_newer_operator_says_is_shown_or_refused_in_words(shell: Shell) -> None:
    cluster = shop()
    newer = [*HEALTHY, condition("OfTomorrow", "False", "Unheard", "of")]
    cluster.put(EVENT_CONSUMER, consumer(conditions=newer))
    seen = shell.run(cluster, "status", "orders")
    assert seen.code == 0 and "4 of 4 are read" in seen.out
    cluster.put(EVENT_CONSUMER, consumer(hosts={"ready": "many"}))
    seen = shell.run(cluster, "status")
    assert seen.code == 3 and "status.hosts.ready" in seen.err and "-o yaml" in seen.err
    assert shell.run(cluster, "status", "-o", "yaml").code == 0


def test_status_falls_back_on_the_resource_where_hosts_cannot_be_asked(shell: Shell) -> None:
    cluster = shop()
    cluster.forbidden = {"pods/proxy"}
    seen = shell.run(cluster, "status", "orders")
    assert seen.code == 0
    assert "1,234 events in no file, the oldest is 12s old" in seen.out
    assert "pods/proxy is forbidden for you" in seen.out


def test_partitions_show_owners_and_who_is_missing(shell: Shell) -> None:
    cluster = shop()
    del cluster.reports["orders-host-1"]
    leader = cluster.reports["orders-host-0"]
    assert leader.fleet is not None
    owners = {"0": "orders-host-0", "1": "orders-host-0", "2": "orders-host-1"}
    cluster.reports["orders-host-0"] = leader.model_copy(update={"fleet": fleet(owners)})
    seen = shell.run(cluster, "partitions")
    rows = [line.split() for line in seen.out.splitlines()]
    assert rows[0][:5] == ["PARTITION", "OWNER", "EPOCH", "LAG", "LATE"]
    assert [row[1] for row in rows[1:5]] == ["orders-host-0", "orders-host-0", "orders-host-1", "nobody"]
    assert rows[1][2:6] == ["5", "10", "8s", "100"]
    assert "nobody reads partition 3" in seen.out
    document = shell.run(cluster, "partitions", "-o", "json").json
    assert document[0]["owner"] == "orders-host-0" and document[0]["lagSeconds"] == 7.5
    assert document[3]["owner"] is None


def test_partitions_of_foreign_owners_are_named_as_they_are(shell: Shell) -> None:
    cluster = shop()
    leader = cluster.reports["orders-host-0"]
    told = fleet({"0": "orders-host-0"}).model_copy(update={"owners": {"3": "some-sdk-processor"}})
    cluster.reports["orders-host-0"] = leader.model_copy(update={"fleet": told})
    assert "some-sdk-processor" not in shell.run(cluster, "partitions", "-o", "json").json[3]["owner"]
    del cluster.reports["orders-host-1"]  # what a host reads, it knows best
    assert shell.run(cluster, "partitions", "-o", "json").json[3]["owner"] == "some-sdk-processor"


def test_hosts_show_state_lead_partitions_and_problems(shell: Shell) -> None:
    cluster = shop()
    blocked = Problem(field="spec.sink.container", reason="ContainerInvalid", message="no such name: choose another")
    told = cluster.reports["orders-host-1"].model_copy(update={"state": HostState.BLOCKED, "problems": (blocked,)})
    cluster.reports["orders-host-1"] = told
    waiting = [{"name": "host", "restartCount": 4, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    cluster.put(POD, pod("orders-host-10", phase="Pending", conditions=[], containerStatuses=waiting))
    seen = shell.run(cluster, "hosts")
    rows = [line.split() for line in seen.out.splitlines()]
    assert rows[1][:4] == ["orders-host-0*", "yes", "Running", "0-1"]
    assert rows[2][:4] == ["orders-host-1", "yes", "Blocked", "2-3"]
    assert rows[3][:3] == ["orders-host-10", "no", "ImagePullBackOff"]
    assert "ContainerInvalid: spec.sink.container: no such name: choose another" in seen.out


def test_partition_ids_are_joined() -> None:
    assert ids([]) == "none"
    assert ids(["3", "1", "2", "7"]) == "1-3,7"
    assert ids([str(number) for number in range(0, 40, 2)]) == "0,2,4,6,8,10,12,14,+12"


def test_batches_show_attempts_that_are_still_there(shell: Shell) -> None:
    cluster = shop()
    for name, role, phase, attempt in (
        ("b3-a1", "driver", "Failed", "1"),
        ("b3-a2", "driver", "Running", "2"),
        ("b3-a2-exec-1", "executor", "Running", "2"),
    ):
        made = pod(name, phase=phase)
        made["metadata"]["labels"] |= {
            labels.LABEL_COMPONENT: labels.COMPONENT_SPARK, labels.LABEL_BATCH: "3", labels.LABEL_ATTEMPT: attempt,
            "spark-role": role,
        }  # fmt: skip
        cluster.put(POD, made)
    seen = shell.run(cluster, "batches")
    assert "500 events read, 499 rows written in 1m5s" in seen.out
    rows = [line.split() for line in seen.out.splitlines() if line.startswith(" ") and "b3" in line]
    assert [row[:4] for row in rows] == [["3", "2", "Running", "1"], ["3", "1", "Failed", "0"]]
    assert "kubectl logs -n shop b3-a2" in seen.out
    assert shell.run(cluster, "batches", "-o", "json").json["attempts"][0]["executors"] == 1


def test_batches_of_a_consumer_without_spark(shell: Shell) -> None:
    cluster = shop()
    cluster.put(EVENT_CONSUMER, consumer(spark=False))
    seen = shell.run(cluster, "batches", "orders")
    assert seen.code == 3
    assert "asks for no Spark" in seen.err and "files orders -n shop" in seen.err


def test_top_measures_over_an_interval(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = shop()
    ask = cluster.ask_pod
    asked: list[str] = []

    def moving(namespace: str, name: str, port: int, path: str) -> bytes:
        asked.append(name)
        if len(asked) > 2:  # the second look
            cluster.reports["orders-host-1"] = report("orders-host-1", "2", "3", events=100_000)
        return ask(namespace, name, port, path)

    monkeypatch.setattr(cluster, "ask_pod", moving)
    found = shell.run(cluster, "top", "--once", "--interval", "0.3", "-o", "json").json
    rates = {each["partition"]: each["rates"] for each in found["partitions"]}
    assert rates["0"] == {"received": 0, "filed": 0, "files": 0}
    assert rates["3"]["filed"] > 1_000 and rates["3"]["received"] > 1_000
    assert found["rates"]["filed"] >= rates["3"]["filed"]
    assert found["lag"] == {"events": 40, "seconds": 7.5}


def test_top_prints_one_look_where_there_is_no_terminal(shell: Shell) -> None:
    seen = shell.run(shop(), "top", "--interval", "0.2", "--sort", "lag")
    assert seen.code == 0
    assert "orders  Ready" in seen.out and "orders-host-1" in seen.out
    assert "batch 2 committed" in seen.out and "0 files waiting" in seen.out  # as the leading host counts them now
    assert "\x1b" not in seen.out


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", [*COMMANDS, "top"])
def test_tables_fit_and_nothing_important_is_cut(shell: Shell, command: str, columns: int) -> None:
    cluster = shop()
    words = ["orders"] if command != "status" else []
    seen = shell.run(cluster, command, *words, *(["--interval", "0.2"] if command == "top" else []), columns=columns)
    assert seen.code == 0, seen.err
    assert max(map(len, seen.out.splitlines())) <= columns
    if command in {"partitions", "hosts", "top"}:
        assert "orders-host-0" in seen.out and "orders-host-1" in seen.out
    assert "…" not in seen.out


@pytest.mark.parametrize("command", ["partitions", "hosts", "top"])
def test_long_names_are_folded_and_numbers_stay(shell: Shell, command: str) -> None:
    cluster, long = FakeCluster(), "payments-eu-west-settlement-orders-host-0"
    cluster.put(EVENT_CONSUMER, consumer())
    cluster.put(POD, pod(long))
    cluster.reports = {long: report(long, "0", "1", "2", "3", events=7_654_321, fleet=fleet({}))}
    seen = shell.run(cluster, command, "orders", *(["--interval", "0.2"] if command == "top" else []), columns=80)
    assert seen.code == 0 and max(map(len, seen.out.splitlines())) <= 80
    assert "…" not in seen.out and ("30,617,284" if command == "hosts" else "7654321") in seen.out


@pytest.mark.parametrize("command", COMMANDS)
def test_documents_are_documents(shell: Shell, command: str) -> None:
    cluster = shop()
    as_json = json.loads(shell.run(cluster, command, "orders", "-o", "json").out)
    as_yaml = yaml.safe_load(shell.run(cluster, command, "orders", "-o", "yaml").out)
    assert type(as_json) is type(as_yaml) and len(as_json) == len(as_yaml) > 0


@pytest.mark.parametrize("command", [*COMMANDS, "top", "logs", "suspend", "resume"])
def test_no_consumer_is_answered_with_what_to_do(shell: Shell, command: str) -> None:
    seen = shell.run(FakeCluster(), command, "orders")
    assert seen.code == 1 and "no EventConsumer orders in namespace shop" in seen.err and "status -A" in seen.err
    cluster = shop()
    cluster.put(EVENT_CONSUMER, consumer("bills"))
    other = shell.run(cluster, command, "nothing")
    assert other.code == 1 and "there are: bills, orders" in other.err
    if command != "status":
        several = shell.run(cluster, command)
        assert several.code == 3 and "several EventConsumers: bills, orders" in several.err
        nothing = shell.run(FakeCluster(), command)
        assert nothing.code == 1 and "no EventConsumer in namespace shop" in nothing.err


def test_status_of_an_empty_namespace_says_how_to_begin(shell: Shell) -> None:
    seen = shell.run(FakeCluster(), "status")
    assert seen.code == 0 and seen.out == "" and "init" in seen.err
    assert shell.run(FakeCluster(), "status", "-o", "json").json["items"] == []


@pytest.mark.parametrize("command", ["partitions", "hosts", "top"])
def test_silent_hosts_are_explained(shell: Shell, command: str) -> None:
    cluster = shop()
    cluster.forbidden = {"pods"}
    refused = shell.run(cluster, command, "orders", *(["--once"] if command == "top" else []))
    assert refused.code == 4 and "pods is forbidden for you" in refused.err
    empty = FakeCluster()
    made = consumer()
    made["spec"]["suspend"] = True
    empty.put(EVENT_CONSUMER, made)
    asleep = shell.run(empty, command, "orders", *(["--once"] if command == "top" else []))
    assert asleep.code == 3 and "suspended" in asleep.err and "resume orders -n shop" in asleep.err
