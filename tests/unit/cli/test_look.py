"""status, partitions, hosts, batches, table and top: what they show, and what they say if there is nothing to show."""

from datetime import UTC, datetime, timedelta

import pytest
import yaml

from eventconsumer_api.kube import labels
from eventconsumer_api.wire.host_report import BatchReport, HostState, Problem, TableReport, WatermarkReport
from eventconsumer_cli.commands.hosts import ids
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, POD
from tests.unit.cli.fakes import EFFECTIVE, HEALTHY, THEN, FakeCluster, condition, consumer, fleet, pod, report, shop
from tests.unit.cli.running import Shell

COMMANDS = ("status", "partitions", "hosts", "batches", "table")


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
    ]
    cluster.put(EVENT_CONSUMER, consumer(conditions=bad))
    seen = shell.run(cluster, "status", "orders")
    assert seen.code == 0
    for text in (
        "Secret orders-storage has no key connectionString",
        "kubectl eventconsumer doctor orders -n shop",
        "kubectl eventconsumer gap show orders -n shop",
        "4 of 4 are read",
        "1,000,100 events",  # the hosts know more than the status
    ):
        assert text in seen.out
    assert "complete" not in seen.out


def test_status_tells_up_to_when_files_and_batches_are_complete(shell: Shell) -> None:
    cluster, noon = shop(), datetime(2026, 1, 1, 12, tzinfo=UTC)
    made = consumer(drained={"watermark": "2026-01-01T11:30:00Z"})
    made["status"]["spark"]["watermark"] = {"time": "2026-01-01T11:00:00Z", "batch": 7}
    cluster.put(EVENT_CONSUMER, made)
    cluster.reports = {}
    seen = shell.run(cluster, "status", "orders")
    assert "all events before 2026-01-01 11:30 UTC are in files" in seen.out
    assert "all events before 2026-01-01 11:00 UTC are in batches up to 7" in seen.out
    watermark = WatermarkReport(files=noon, commits=noon, batch=9)
    cluster.reports = {
        "orders-host-0": report("orders-host-0", "0", fleet=fleet({}, watermark=watermark))
    }  # knows more
    seen = shell.run(cluster, "status", "orders")
    assert "all events before 2026-01-01 12:00 UTC are in files" in seen.out
    assert "all events before 2026-01-01 12:00 UTC are in batches up to 9" in seen.out


def test_status_tells_how_far_notices_are(shell: Shell) -> None:
    cluster = shop()
    cluster.put(EVENT_CONSUMER, consumer(notices={"pendingEvents": 5000, "lastTime": THEN.isoformat()}))
    text = "5,000 events are in files without an acknowledged notice, the last one 2d"
    assert text in shell.run(cluster, "status", "orders").out
    cluster.put(EVENT_CONSUMER, consumer(notices={"pendingEvents": 0}))
    assert "all are acknowledged" in shell.run(cluster, "status", "orders").out


def test_status_tells_what_retention_removed_and_holds(shell: Shell) -> None:
    cluster = shop()
    kept = {"files": 5000, "bytes": 7_000_000, "excessBytes": 3_000_000, "oldestFileTime": THEN.isoformat()}
    cluster.put(EVENT_CONSUMER, consumer(retention=kept | {"held": "in no committed batch"}))
    seen = " ".join(shell.run(cluster, "status", "orders").out.split())
    assert "5,000 files with 7.0 MB were removed, the oldest kept file is 2d" in seen
    assert "3.0 MB above the limit; a file is due but in no committed batch" in seen
    cluster.put(EVENT_CONSUMER, consumer(retention={"files": 0}))
    assert "0 files with 0 B were removed" in " ".join(shell.run(cluster, "status", "orders").out.split())


def test_status_names_a_silent_operator(shell: Shell) -> None:
    cluster = FakeCluster()
    made = consumer()
    del made["status"]
    cluster.put(EVENT_CONSUMER, made)
    for words in (("status",), ("status", "orders")):
        seen = shell.run(cluster, *words)
        assert "the operator has not written a status yet" in seen.out
        assert "doctor orders -n shop" in seen.out


def test_the_status_of_a_newer_operator_is_shown_or_refused_in_words(shell: Shell) -> None:
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


def test_partitions_show_owners_and_unowned_partitions(shell: Shell) -> None:
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
    assert "no host reads partition 3" in seen.out
    document = shell.run(cluster, "partitions", "-o", "json").json
    assert document[0]["owner"] == "orders-host-0" and document[0]["lagSeconds"] == 7.5
    assert document[3]["owner"] is None


def test_partitions_of_foreign_owners_are_named_as_they_are(shell: Shell) -> None:
    cluster = shop()
    leader = cluster.reports["orders-host-0"]
    told = fleet({"0": "orders-host-0"}).model_copy(update={"owners": {"3": "some-sdk-processor"}})
    cluster.reports["orders-host-0"] = leader.model_copy(update={"fleet": told})
    found = shell.run(cluster, "partitions", "-o", "json").json[3]
    assert "some-sdk-processor" not in found["owner"]  # a host knows best which partitions it reads
    del cluster.reports["orders-host-1"]
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
            labels.LABEL_COMPONENT: labels.COMPONENT_SPARK,
            labels.LABEL_BATCH: "3",
            labels.LABEL_ATTEMPT: attempt,
            "spark-role": role,
        }
        cluster.put(POD, made)
    seen = shell.run(cluster, "batches")
    assert "500 events read, 499 rows written in 1m5s" in seen.out
    rows = [line.split() for line in seen.out.splitlines() if line.startswith(" ") and "b3" in line]
    assert [row[:4] for row in rows] == [["3", "2", "Running", "1"], ["3", "1", "Failed", "0"]]
    assert "kubectl logs -n shop b3-a2" in seen.out
    assert shell.run(cluster, "batches", "-o", "json").json["attempts"][0]["executors"] == 1


def test_batches_show_all_that_are_open_and_their_failures(shell: Shell) -> None:
    cluster = shop()
    open_batches = [BatchReport(number=number, files=number, bytes=1, events=9, reason="Files") for number in (3, 4)]
    leader = cluster.reports["orders-host-0"]
    told = fleet({"0": "orders-host-0"}, open_batches=open_batches)
    cluster.reports["orders-host-0"] = leader.model_copy(update={"fleet": told})
    later = {"batch": 4, "attempt": 5, "application": "b4-a5", "failures": 4, "lastFailure": "no memory"}
    resource = consumer()
    resource["status"]["spark"]["laterBatches"] = [later]
    cluster.put(EVENT_CONSUMER, resource)
    seen = shell.run(cluster, "batches").out
    assert "3: 3 files, 9 events, 1 B (for Files), attempt 2" in seen
    assert "4: 4 files, 9 events, 1 B (for Files), attempt 5" in seen
    assert "batch 4: 4 in a row; the last: no memory" in seen
    document = shell.run(cluster, "batches", "-o", "json").json
    assert [each["number"] for each in document["openBatches"]] == [3, 4]


def test_batches_of_a_consumer_without_spark(shell: Shell) -> None:
    cluster = shop()
    cluster.put(EVENT_CONSUMER, consumer(spark=False))
    seen = shell.run(cluster, "batches", "orders")
    assert seen.code == 3 and "has no spec.spark" in seen.err and "files orders -n shop" in seen.err


def test_table_shows_location_lag_and_problem(shell: Shell) -> None:
    cluster = shop()
    seen = shell.run(cluster, "table", "orders")  # no leading host has read the log of the table: the status counts
    assert seen.code == 0, seen.err
    for text in (
        "drained/shop/orders in the storage account of Secret orders-storage",
        "19 with 950,000 events",
        "50,000 events in 1 file, the oldest file is 2d2h old",
        "every 10 s",
    ):
        assert text in seen.out
    stopped = Problem(field="spec.sink.table", reason="TableInvalid", message="writer version 5: remove it")
    leader = cluster.reports["orders-host-0"]
    assert leader.fleet is not None
    live = TableReport(
        version=9,
        files=20,
        events=999_000,
        pending_files=2,
        pending_events=1100,
        oldest_pending_time=datetime.now(UTC) - timedelta(hours=2, minutes=30, seconds=10),
        log_retention_seconds=604_800,
    )
    updates = {"fleet": leader.fleet.model_copy(update={"table": live}), "problems": (stopped,)}
    cluster.reports["orders-host-0"] = leader.model_copy(update=updates)
    seen = shell.run(cluster, "table", "orders")
    for text in (
        "20 with 999,000 events",
        "1,100 events in 2 files, the oldest file is 2h30m old",
        "for 7d, at most 100,000 versions",
        "TableInvalid: writer version 5: remove it",
        "kubectl eventconsumer audit orders -n shop",
    ):
        assert text in seen.out
    document = shell.run(cluster, "table", "-o", "json").json
    assert document["location"] == {"container": "drained", "prefix": "shop/orders", "url": None}
    assert 9010 <= document["lag"].pop("seconds") < 9060
    assert document["lag"] == {"files": 2, "events": 1100}
    assert (document["version"], document["maxSeconds"], document["problem"]) == (9, 10, "writer version 5: remove it")


def test_table_without_an_answer_or_without_a_table(shell: Shell) -> None:
    made = consumer(table=None, effective=None)
    made["spec"]["sink"] |= {"storageAccountUrl": "https://shop.blob.core.windows.net/", "table": {}}
    cluster = FakeCluster()
    cluster.put(EVENT_CONSUMER, made)
    seen = shell.run(cluster, "table", "orders")
    assert seen.code == 0 and "no host has read the log" in seen.out and "lag" not in seen.out
    made["status"] |= {"effective": EFFECTIVE, "conditions": [condition("Ready", "False", "TableInvalid", "damaged")]}
    cluster.put(EVENT_CONSUMER, made)
    seen = shell.run(cluster, "table")
    for text in ("https://shop.blob.core.windows.net/drained/shop/orders\n", "TableInvalid: damaged"):
        assert text in seen.out
    del made["spec"]["sink"]["table"]
    cluster.put(EVENT_CONSUMER, made)
    seen = shell.run(cluster, "table", "orders")
    assert seen.code == 3 and "has no spec.sink.table" in seen.err and "files orders -n shop" in seen.err


def test_top_measures_over_an_interval(shell: Shell) -> None:
    cluster = shop()
    changed = {"orders-host-1": report("orders-host-1", "2", "3", events=100_000)}
    shell.clock.steps = [lambda: cluster.reports.update(changed)]
    found = shell.run(cluster, "top", "--once", "-o", "json").json
    rates = {each["partition"]: each["rates"] for each in found["partitions"]}
    assert rates["0"] == {"received": 0, "filed": 0, "files": 0}
    assert rates["3"]["filed"] > 1_000 and rates["3"]["received"] > 1_000
    assert found["rates"]["filed"] >= rates["3"]["filed"]
    assert found["lag"] == {"events": 40, "seconds": 7.5}


def many() -> FakeCluster:
    """A cluster with consumers in several namespaces, one with each severity, and one that is late."""
    cluster = shop()
    stuck = [condition("Stalled", "True", "StorageUnreachable", "no route"), condition("Ready", "False", "Fenced", "x")]
    moving = [condition("Ready", "False", "Progressing", "1 of 2")]
    cluster.put(EVENT_CONSUMER, consumer("bills", "office", conditions=stuck, lag={}))
    cluster.put(EVENT_CONSUMER, consumer("calls", "office", conditions=moving, lag={"events": 5, "seconds": 900}))
    return cluster


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), ["calls", "orders", "bills"]),
        (("--sort", "state"), ["bills", "calls", "orders"]),
        (("--sort", "name"), ["bills", "calls", "orders"]),
        (("--state", "problem"), ["bills"]),
        (("--state", "problem", "--state", "ok", "--sort", "lag"), ["orders", "bills"]),
    ],
)
def test_top_of_all_is_a_line_for_each(shell: Shell, words: tuple[str, ...], shown: list[str]) -> None:
    seen = shell.run(many(), "top", "-A", *words)
    lines = seen.out.splitlines()
    assert lines[0].startswith("3 consumers  1 problem  1 notice  1 ok  lag 1,239 events"), seen
    assert [line.split()[1] for line in lines[3:]] == shown
    found = shell.run(many(), "top", "-A", *words, "-o", "json").json["consumers"]
    assert [each["name"] for each in found] == shown


def test_top_of_all_measures_over_an_interval(shell: Shell) -> None:
    cluster = many()
    drained = {"files": 21, "events": 1_100_000, "bytes": 1}
    shell.clock.steps = [lambda: cluster.put(EVENT_CONSUMER, consumer(drained=drained))]
    found = shell.run(cluster, "top", "-A", "--once", "-o", "json").json["consumers"]
    assert {each["name"]: each["rates"]["filed"] > 0 for each in found} == {
        "calls": False,
        "orders": True,
        "bills": False,
    }


def test_options_of_top_that_do_not_fit_are_refused(shell: Shell) -> None:
    for words in (("-A", "--sort", "owner"), ("--state", "ok"), ("--sort", "state")):
        seen = shell.run(shop(), "top", *words)
        assert seen.code == 3 and "-A" in seen.err + " ".join(words), seen


def test_top_prints_one_look_where_there_is_no_terminal(shell: Shell) -> None:
    seen = shell.run(shop(), "top", "--sort", "lag")
    assert seen.code == 0
    for text in ("orders  Ready", "orders-host-1", "batch 2 committed", "0 files waiting"):
        assert text in seen.out  # files as the leading host counts them now
    assert "\x1b" not in seen.out


@pytest.mark.parametrize("command", [*COMMANDS, "top"])
def test_tables_fit_long_names_are_folded_and_nothing_is_cut(shell: Shell, command: str) -> None:
    long = "payments-eu-west-settlement-orders-host-0"
    folded = FakeCluster()
    folded.put(EVENT_CONSUMER, consumer())
    folded.put(POD, pod(long))
    folded.reports = {long: report(long, "0", "1", "2", "3", events=7_654_321, fleet=fleet({}))}
    number = "30,617,284" if command == "hosts" else "7654321"
    for cluster, shown in ((shop(), ("orders-host-0", "orders-host-1")), (folded, (number,))):
        seen = shell.run(cluster, command, *([] if command == "status" else ["orders"]), columns=80)
        assert seen.code == 0, seen.err
        assert max(map(len, seen.out.splitlines())) <= 80 and "…" not in seen.out
        assert command in {"status", "batches", "table"} or all(text in seen.out for text in shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_json_and_yaml_are_one_document(shell: Shell, command: str) -> None:
    as_json = shell.run(shop(), command, "orders", "-o", "json").json
    as_yaml = yaml.safe_load(shell.run(shop(), command, "orders", "-o", "yaml").out)
    assert type(as_json) is type(as_yaml) and len(as_json) == len(as_yaml) > 0


@pytest.mark.parametrize("command", [*COMMANDS, "top", "logs", "suspend", "resume"])
def test_a_missing_or_ambiguous_consumer_is_an_error_with_a_remedy(shell: Shell, command: str) -> None:
    several = shop()
    several.put(EVENT_CONSUMER, consumer("bills"))
    cases: list[tuple[FakeCluster, tuple[str, ...], int, tuple[str, ...]]] = [
        (FakeCluster(), ("orders",), 1, ("no EventConsumer orders in namespace shop", "status -A")),
        (several, ("nothing",), 1, ("there are: bills, orders",)),
    ]
    if command != "status":
        cases.append((several, (), 3, ("several EventConsumers: bills, orders",)))
        cases.append((FakeCluster(), (), 1, ("no EventConsumer in namespace shop",)))
    for cluster, words, code, says in cases:
        seen = shell.run(cluster, command, *words)
        assert seen.code == code and all(text in seen.err for text in says), seen


def test_status_of_an_empty_namespace_names_the_first_step(shell: Shell) -> None:
    seen = shell.run(FakeCluster(), "status")
    assert seen.code == 0 and seen.out == "" and "init" in seen.err
    assert shell.run(FakeCluster(), "status", "-o", "json").json["items"] == []


@pytest.mark.parametrize("command", ["partitions", "hosts", "top"])
def test_silent_hosts_are_explained(shell: Shell, command: str) -> None:
    cluster, empty, suspended = shop(), FakeCluster(), consumer()
    cluster.forbidden = {"pods"}
    suspended["spec"]["suspend"] = True
    empty.put(EVENT_CONSUMER, suspended)
    refused, asleep = (shell.run(each, command, "orders") for each in (cluster, empty))
    assert refused.code == 4 and "pods is forbidden for you" in refused.err
    assert asleep.code == 3 and "suspended" in asleep.err and "resume orders -n shop" in asleep.err
