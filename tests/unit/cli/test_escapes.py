"""A writer of a condition, a log line, a host report or the output of a pod does not control the terminal."""

import io
import json
import re
import sys
import unicodedata
from collections.abc import Sequence

import pytest
import yaml

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.wire.host_report import FleetReport
from eventconsumer_cli.errors import ClusterError
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, POD
from tests.support.terminal import Terminal
from tests.unit.cli.fakes import FakeCluster, condition, consumer, fleet, pod, report
from tests.unit.cli.inside import cluster_with
from tests.unit.cli.running import Shell

FORGED = "FORGED"
# Clear the screen, set the title, overwrite the line, an 8-bit sequence, hidden text, reading from right to left, and
# a line that nobody wrote.
ATTACK = f"\x1b[2J\x1b]0;owned\x07\rReady\x9b31m\x1b[8m\u202egnp.exe\u2066\u2028\x7f\n{FORGED}"
OUR_STYLES = re.compile(r"\x1b\[(?:[0-4]|3[1-6])(?:;(?:[0-4]|3[1-6]))*m")


def harmful(shown: str) -> list[str]:
    """Names of the characters in `shown` that a terminal acts on; our own styles are none."""
    rest = OUR_STYLES.sub("", shown)
    return [f"U+{ord(each):04X}" for each in rest if each not in "\n\t" and unicodedata.category(each) in ATTACKING]


ATTACKING = {"Cc", "Cf", "Zl", "Zp", "Cs"}


def attacked() -> FakeCluster:
    """A consumer, two pods, a host and a log of which every text is an attack."""
    cluster = FakeCluster()
    conditions = [
        condition("Ready", "False", "HostsFailing", f"{ATTACK} failed"),
        condition("Stalled", "True", ATTACK, ATTACK),
        condition("Draining", "False", "TableInvalid", ATTACK),
        condition("SparkHealthy", "False", "SparkFailing", ATTACK),
    ]
    spark = {
        "failures": 2,
        "lastFailure": ATTACK,
        "lastApplication": ATTACK,
        "reason": ATTACK,
        "quarantine": {"files": 1, "rows": 1, "message": ATTACK},
    }
    replay = {"name": "a", "state": "Failed", "message": ATTACK}
    scaling = {"replicas": 2, "reason": ATTACK}
    found = consumer(conditions=conditions, replay=replay, scaling=scaling)
    found["status"]["spark"] |= spark
    found["spec"]["sink"]["container"] = found["status"]["effective"]["sinkPrefix"] = ATTACK
    cluster.put(EVENT_CONSUMER, found)
    ended = {"exitCode": 1, "reason": ATTACK, "message": ATTACK, "finishedAt": "2026-01-01T00:00:00Z"}
    failing = [
        {
            "name": "host",
            "restartCount": 3,
            "image": "x",
            "lastState": {"terminated": ended},
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": ATTACK}},
        }
    ]
    cluster.put(POD, pod("orders-host-0"))
    cluster.put(POD, pod("orders-host-1", phase="Pending", message=ATTACK, containerStatuses=failing))
    cluster.reports = {"orders-host-0": report("orders-host-0", "0", ATTACK, fleet=_fleet())}
    for name in ("orders-host-0", "orders-host-1"):
        cluster.log(
            name,
            f"not structured {ATTACK}",
            json.dumps({"level": "warning", "message": ATTACK, "partition": "0", "blob": ATTACK, ATTACK: 1}),
            json.dumps({"level": ATTACK, "timestamp": ATTACK, "message": "lone \ud800"}),
        )
    return cluster


def _fleet() -> FleetReport:
    return fleet({"0": "orders-host-0", ATTACK: ATTACK}, gaps={ATTACK: ATTACK}, committed_reason=ATTACK)


COMMANDS: list[tuple[str, ...]] = [
    ("status",),
    ("status", "orders"),
    ("top", "orders", "--once"),
    ("partitions", "orders"),
    ("hosts", "orders"),
    ("batches", "orders"),
    ("table", "orders"),
    ("logs", "orders"),
]


@pytest.mark.parametrize("output", ["table", "json", "yaml", "name"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_no_text_of_the_cluster_reaches_the_terminal_as_it_is(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], output: str, terminal: bool
) -> None:
    out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("TERM", "xterm-256color")
    ran = shell.run(attacked(), *words, "-n", "shop", "-o", output, columns=300)
    assert ran.code == 0 or (words == ("logs", "orders") and output in {"yaml", "name"})
    assert out.getvalue() or output == "name" or ran.code
    assert harmful(out.getvalue()) == [] and harmful(err.getvalue()) == []
    lines = OUR_STYLES.sub("", out.getvalue() + err.getvalue()).splitlines()
    if words == ("logs", "orders") and output == "json":
        return  # the lines of a pod as they are: it may print any line
    assert output == "yaml" or [line for line in lines if line.lstrip(" |").startswith(FORGED)] == []


def test_documents_for_programs_keep_the_text(shell: Shell) -> None:
    document = shell.run(attacked(), "status", "orders", "-o", "json").json
    assert document["status"]["replay"]["message"] == ATTACK
    document = yaml.safe_load(shell.run(attacked(), "status", "orders", "-o", "yaml").out)
    assert document["status"]["replay"]["message"] == ATTACK


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_the_output_of_a_pod_has_no_more_than_styles(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    def hostile(command: Sequence[str], stdin: bytes | None) -> tuple[int, str, str]:
        return 2, f"\x1b[1;31mfound\x1b[0m {ATTACK} ü\n", f"progress {ATTACK}"

    out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    for words in (
        ("leases",),
        ("audit", "--deep"),
        ("certify", "--consumer-group", "checks"),
        ("checkpoint", "export"),
        ("checkpoint", "set", "-p", "0", "--sequence-number", "3", "--yes"),
        ("files",),
    ):
        assert shell.run(cluster_with(hostile), *words).code == 2
    assert harmful(out.getvalue()) == [] and harmful(err.getvalue()) == []
    assert ("\x1b[1;31mfound\x1b[0m" in out.getvalue()) is terminal
    assert "found" in out.getvalue() and " ü\n" in out.getvalue() and "progress" in err.getvalue()


def test_answers_of_the_api_server_and_of_pods_are_clean_in_errors(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(FakeCluster):
        def get(self, *_: object) -> Manifest:
            raise ClusterError(f"HTTP 500: {ATTACK}", ATTACK)

    seen = shell.run(Broken(), "status", "orders")
    assert seen.code == 4 and "HTTP 500" in seen.err and harmful(seen.err) == []
    waiting = {"reason": "ImagePullBackOff", "message": ATTACK}
    cluster = cluster_with(hosts=False)
    cluster.start = {"phase": "Pending", "containerStatuses": [{"name": "tool", "state": {"waiting": waiting}}]}
    seen = shell.run(cluster, "lag")
    assert seen.code == 3 and "ImagePullBackOff" in seen.err and harmful(seen.err) == []


def test_a_message_with_lines_forges_no_line_of_the_log(shell: Shell) -> None:
    cluster = attacked()
    cluster.log("orders-host-0", json.dumps({"level": "info", "message": "x\n12:00:00 error forged", "a": "y\nforged"}))
    shown = shell.run(cluster, "logs", "orders", "--host", "0", "--tail", "1").out
    assert len(shown.splitlines()) == 1 and "forged" in shown
