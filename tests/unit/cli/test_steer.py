"""suspend, resume and logs."""

import io
import json
import logging

import pytest
import structlog

from eventconsumer_api.shared import logs as api_logs
from eventconsumer_cli.commands import logs
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, POD
from eventconsumer_cli.loglines import LogLine, parse
from tests.unit.cli.fakes import FakeCluster, consumer, fleet, report, shop
from tests.unit.cli.running import Shell


def line(event: str, partition: str | None = None, **more: object) -> str:
    fields = {"level": "info", "timestamp": "2026-11-22T10:00:00Z", "message": event}
    return json.dumps(fields | ({"partition": partition} if partition else {}) | more)


def spec_of(cluster: FakeCluster) -> dict[str, object]:
    return dict(cluster.get(EVENT_CONSUMER, "shop", "orders")["spec"])


def test_suspend_and_resume_print_the_change(shell: Shell) -> None:
    cluster = shop()
    assert shell.run(cluster, "suspend", "orders").out == "orders suspended\n"
    assert spec_of(cluster)["suspend"] is True
    assert shell.run(cluster, "suspend").out == "orders is already suspended\n"
    assert shell.run(cluster, "resume", "-o", "json").json["spec"]["suspend"] is False
    assert shell.run(cluster, "resume").out == "orders is not suspended\n"


def test_suspend_waits_for_the_hosts_to_go(shell: Shell) -> None:
    cluster = shop()
    shell.clock.steps = [lambda name=name: cluster.remove(POD, "shop", name) for name in cluster.reports]
    seen = shell.run(cluster, "suspend", "--wait")
    assert seen.code == 0 and "no host is running" in seen.err
    assert shell.clock.steps == [] and spec_of(cluster)["suspend"] is True


def test_a_wait_that_times_out_names_the_cause(shell: Shell) -> None:
    cluster = shop()
    seen = shell.run(cluster, "suspend", "--wait", "--timeout", "1")
    assert seen.code == 3 and "still running: orders-host-0, orders-host-1" in seen.err
    # Ready is true, but of generation 1: what the operator said before does not count.
    seen = shell.run(cluster, "resume", "--wait", "--timeout", "1")
    assert seen.code == 3 and "was not ready after 1 s" in seen.err


def test_a_git_operator_is_named(shell: Shell) -> None:
    cluster = FakeCluster()
    made = consumer()
    made["metadata"]["managedFields"] = [{"manager": "argocd-controller", "fieldsV1": {"f:spec": {}}}]
    cluster.put(EVENT_CONSUMER, made)
    assert "argocd-controller manages this resource" in shell.run(cluster, "suspend").err


def lossy(events: int, acknowledged: int = 0) -> FakeCluster:
    """A consumer that lost events of partition 3."""
    cluster = shop()
    made = consumer(drained={"files": 20, "gapEvents": 4})  # older than what the leading host says
    made["spec"]["acknowledgedGapEvents"] = acknowledged
    made["metadata"]["managedFields"] = [{"manager": "argocd-controller", "fieldsV1": {"f:spec": {}}}]
    cluster.put(EVENT_CONSUMER, made)
    told = fleet({"3": "orders-host-1"}, gap_events=events, gaps={"3": "17-20,22-22"} if events else {})
    cluster.reports = {"orders-host-0": report("orders-host-0", "0", fleet=told)}
    return cluster


def test_lost_events_are_shown(shell: Shell) -> None:
    seen = shell.run(lossy(1005, 4), "gap", "show", "orders")
    assert seen.code == 0 and "orders: 1,005 events were lost, spec.acknowledgedGapEvents is 4" in seen.out
    assert seen.out.splitlines()[-1].split() == ["3", "17-20,22-22"]
    assert "kubectl eventconsumer files orders -n shop --gaps" in seen.err
    assert "all are acknowledged" in shell.run(lossy(5, 5), "gap", "show").out
    assert shell.run(lossy(5, 4), "gap", "show", "-o", "json").json == {
        "gapEvents": 5,
        "acknowledgedGapEvents": 4,
        "newest": {"3": "17-20,22-22"},
    }
    silent = lossy(5)
    silent.reports = {}
    assert "4 events were lost" in shell.run(silent, "gap", "show").out
    assert shell.run(lossy(0), "gap", "show").out == "orders: no event expired before it was read\n"


def test_lost_events_are_acknowledged_after_a_question(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, questions = lossy(5, 4), []
    seen = shell.run(cluster, "gap", "ack", "orders")
    assert (seen.code, seen.out) == (2, "") and "or set spec.acknowledgedGapEvents: 5" in seen.err
    assert spec_of(cluster)["acknowledgedGapEvents"] == 4
    monkeypatch.setattr("eventconsumer_cli.output.Output.confirm", lambda _, text: bool(questions.append(text)) or True)
    seen = shell.run(cluster, "gap", "ack", "orders")
    assert seen.out == "5 lost events of orders acknowledged: spec.acknowledgedGapEvents is 5\n"
    assert "5 events were lost" in seen.err and "17-20,22-22" in seen.err, "they are shown before the question"
    assert questions == ["Acknowledge 5 lost events of orders?"]
    assert "argocd-controller manages this resource and may reset spec.acknowledgedGapEvents" in seen.err
    assert spec_of(cluster)["acknowledgedGapEvents"] == 5
    seen = shell.run(cluster, "gap", "ack")
    assert seen.out == "the 5 lost events of orders are already acknowledged\n" and "argocd" not in seen.err
    assert len(questions) == 1


def test_an_acknowledgement_without_a_question(shell: Shell) -> None:
    cluster = lossy(5)
    assert shell.run(cluster, "gap", "ack", "--yes", "-o", "json").json["spec"]["acknowledgedGapEvents"] == 5
    nothing = shell.run(lossy(0), "gap", "ack", "--yes")
    assert nothing.code == 3 and "no lost events to acknowledge" in nothing.err


def test_a_missing_right_to_patch_is_named(shell: Shell) -> None:
    cluster = shop()
    cluster.forbidden = {"eventconsumers patch"}
    seen = shell.run(cluster, "suspend")
    assert seen.code == 4 and "eventconsumers patch is forbidden for you" in seen.err


def test_logs_of_a_partition_come_from_its_owner(shell: Shell) -> None:
    cluster = shop()
    cluster.log("orders-host-0", line("not asked", "0"))
    cluster.log("orders-host-1", line("lease taken", "3", epoch=7), line("of another", "2"), line("of all"), "no json")
    seen = shell.run(cluster, "logs", "-p", "3")
    assert seen.code == 0
    said = seen.out.splitlines()
    assert len(said) == 3 and "[3] lease taken" in said[0] and "of all" in said[1] and said[2].endswith("no json")
    assert "epoch=7" in seen.out and "orders-host-1" in seen.out
    cluster.log("orders-host-1", line("before", "3"), line("again", "3"), line("of another", "2"))
    assert shell.run(cluster, "logs", "-p", "3", "--tail", "1", "-o", "json").json["message"] == "again"


def test_logs_of_one_host_and_of_all(shell: Shell) -> None:
    cluster = shop()
    cluster.log("orders-host-0", line("zero"))
    cluster.log("orders-host-1", line("one"), line("two"))
    assert "two" in shell.run(cluster, "logs", "--host", "1", "--tail", "1").out
    cluster.log("orders-host-1", line("three"))
    everything = shell.run(cluster, "logs").out
    assert "zero" in everything and "three" in everything


def test_logs_name_a_missing_right_to_pods(shell: Shell) -> None:
    cluster = shop()
    cluster.forbidden = {"pods"}
    seen = shell.run(cluster, "logs")
    assert seen.code == 4 and "pods is forbidden for you" in seen.err
    cluster.forbidden = {"pods/proxy"}
    cluster.log("orders-host-1", line("needs no proxy"))
    assert "needs no proxy" in shell.run(cluster, "logs").out
    seen = shell.run(cluster, "logs", "-p", "3")
    assert seen.code == 3 and "pods/proxy is forbidden" in seen.err and "logs orders -n shop" in seen.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("-p", "9"), 1, "the hub has no partition 9"),
        (("--host", "7"), 1, "orders has no host 7"),
        (("-p", "1", "--host", "1"), 3, "exclude each other"),
        (("-o", "yaml"), 3, "logs have no format yaml"),
    ],
)
def test_logs_that_cannot_be(shell: Shell, words: tuple[str, ...], code: int, says: str) -> None:
    seen = shell.run(shop(), "logs", *words)
    assert seen.code == code and says in seen.err


def test_followed_logs_go_to_the_next_owner(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = shop()
    shown: list[str] = []
    cluster.log("orders-host-0", line("reads", "0"))

    def hand_over() -> None:
        cluster.log("orders-host-0", line("handing over", "0"))
        cluster.log("orders-host-1", line("lease taken", "0"), line("of another", "2"))
        owners = {"0": "orders-host-1", "1": "orders-host-0", "2": "orders-host-1", "3": "orders-host-1"}
        cluster.reports = {
            "orders-host-0": report("orders-host-0", "1", fleet=fleet(owners)),
            "orders-host-1": report("orders-host-1", "0", "2", "3"),
        }

    def show(_: object, each: LogLine) -> None:
        shown.append(each.text().plain.split("] ")[-1])
        if len(shown) == 1:
            hand_over()
        if len(shown) == 3:
            cluster.remove(EVENT_CONSUMER, "shop", "orders")  # which ends it

    monkeypatch.setattr(logs, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(logs, "_show", show)
    seen = shell.run(cluster, "logs", "-p", "0", "-f")
    assert seen.code == 1  # it does not exist any more
    assert shown == ["reads", "handing over", "lease taken"]
    assert "partition 0 moved from orders-host-0 to orders-host-1" in seen.err
    for name in ("orders-host-0", "orders-host-1"):
        cluster.log(name, ended=True)  # the readers' threads end


def test_lines_are_read_as_the_programs_write_them() -> None:
    written, root = io.StringIO(), logging.getLogger()
    before = root.handlers[:], root.level
    try:
        api_logs.configure(stream=written, namespace="shop", name="orders", host="orders-host-0")
        structlog.get_logger("eventconsumer_host.partition.pump").warning("link lost", partition="3", error="no answer")
    finally:
        structlog.reset_defaults()
        root.handlers[:], level = before
        root.setLevel(level)
    shown = parse("orders-host-0", written.getvalue().encode()).text().plain
    assert shown.endswith('warning orders-host-0 [3] link lost  error="no answer"')


@pytest.mark.parametrize(
    "raw", ["[" * 5000, '{"timestamp": "0001-01-01T00:00:00+14:00", "message": "m"}', '{"message": 1e999}']
)
def test_a_line_of_any_form_is_shown(raw: str) -> None:
    assert "orders-host-0" in parse("orders-host-0", raw.encode()).text().plain
