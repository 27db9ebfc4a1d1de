"""Random faults of leading hosts and Spark drivers on the local cluster, under a steady load.

    python -m tests.chaos [--seed 1] [--minutes 30] [--rate 200] [--keep-alive 600] [--launcher Native]

Needs the cluster of `make demo`. Creates a hub and a consumer with a table over its files and with Spark, publishes
events with unique ids, and does something to the leading host or the Spark driver every 8 to 20 s: its process is
killed, or frozen for longer than its lease, or its pod or Job is deleted. Then the faults end, and everything must be
processed. Prints the actions, and compares the ids in the files, in the table over the files and in the table of Spark
with those that were sent. Exit code 1: an event is missing or there twice, or the audit found a violation.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from eventconsumer_api.host_report import HostReport
from eventconsumer_demo import run
from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError
from eventhubs_emulator.admin_client import AdminClient, AdminError
from tests.chaos.verifier import Verdict, bodies_of_files, bodies_of_table, compare
from tests.e2e.conftest import NAMESPACE
from tests.e2e.gitops.engine import local
from tests.e2e.test_bad_input import GOOD_NAMESPACE, GOOD_STORAGE, consumer
from tests.support.podprocesses import processes

NAME = "chaos"
PARTITIONS = 8
TICK_SECONDS = 0.5
FROZEN_SECONDS = (20.0, 45.0)  # a host's lease lasts 15 s, the lease of a driver's claim 30 s
PAUSE_SECONDS = (8.0, 20.0)
SETTLE_SECONDS = 600.0


class Load(threading.Thread):
    """Publishes events with unique ids to all partitions at a steady rate."""

    def __init__(self, admin: AdminClient, hub: str, rate: int) -> None:
        super().__init__(daemon=True)
        self.sent: set[int] = set()
        self.uncertain: set[int] = set()
        self._admin = admin
        self._hub = hub
        self._each = max(1, round(rate * TICK_SECONDS / PARTITIONS))
        self._next = 0
        self._ended = threading.Event()

    def run(self) -> None:
        """Publish until `end`."""
        while not self._ended.wait(TICK_SECONDS):
            for partition in range(PARTITIONS):
                ids = range(self._next, self._next + self._each)
                self._next += self._each
                try:
                    self._admin.put_events(self._hub, str(partition), ((b"%d" % each, {}) for each in ids))
                except (AdminError, OSError):
                    self.uncertain.update(ids)
                else:
                    self.sent.update(ids)

    def end(self) -> None:
        """Stop publishing."""
        self._ended.set()
        self.join()


@dataclass
class Campaign:
    """The consumer, and faults of its parts."""

    cluster: Cluster
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)

    def status(self) -> dict[str, Any]:
        """The resource's status; empty where it cannot be read now."""
        try:
            found: dict[str, Any] = self.cluster.get("eventconsumer", NAME).get("status", {})
        except DemoError:
            return {}
        return found

    def leader(self) -> str:
        """Pod of the leading host; empty: none reports."""
        for pod in self._pods("host"):
            path = f"/api/v1/namespaces/{self.cluster.namespace}/pods/{pod}:8080/proxy/status"
            with contextlib.suppress(DemoError):
                if HostReport.model_validate_json(self.cluster.kubectl("get", "--raw", path)).fleet:
                    return pod
        return ""

    def driver(self) -> str:
        """Pod of the running driver; empty: none runs."""
        return next(iter(self._pods("spark")), "")

    def _pods(self, component: str) -> list[str]:
        labels = f"eventconsumer.io/consumer={NAME},app.kubernetes.io/component={component}"
        found = self.cluster.get("pods", "-l", labels)["items"]
        return [pod["metadata"]["name"] for pod in found if pod["status"].get("phase") == "Running"]

    def act(self) -> None:
        """Do one thing at random; where its victim does not exist, nothing."""
        who, find = self.chance.choice((("leading host", self.leader), ("driver", self.driver)))
        what, do = self.chance.choice(
            (
                ("process killed", self._kill),
                ("process frozen", self._freeze),
                ("pod deleted by force", self._delete),
                ("application deleted" if who == "driver" else "pod deleted", self._delete_orderly),
            )
        )
        pod = find()
        if not pod:
            self.done[f"{who}: none runs"] += 1
            return
        do(pod)
        self.done[f"{who}: {what}"] += 1

    def _kill(self, pod: str) -> None:
        for pid in processes(pod):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _freeze(self, pod: str) -> None:
        pids = processes(pod)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if number is signal.SIGSTOP:
                time.sleep(self.chance.uniform(*FROZEN_SECONDS))

    def _delete(self, pod: str) -> None:
        self.cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--ignore-not-found")

    def _delete_orderly(self, pod: str) -> None:
        owner = self.cluster.get("pod", pod)["metadata"]["ownerReferences"][0]
        victim = f"{owner['kind'].lower()}/{owner['name']}" if owner["kind"] == "Job" else f"pod/{pod}"
        self.cluster.kubectl("delete", victim, "--wait=false", "--ignore-not-found")


def resource(options: argparse.Namespace) -> dict[str, Any]:
    """A consumer with Spark as in the demo, with small files and batches."""
    found = consumer(NAME)
    spec = found["spec"]
    spec["scaling"] = {"mode": "Fixed", "replicas": 3}
    spec["sink"] |= {"prefix": NAME, "roll": {"maxSeconds": 2}}
    spec["spark"] = yaml.safe_load(run.RESOURCE.read_text())["spec"]["spark"] | {
        "trigger": {"files": 40, "ageSeconds": 5},
        "keepAliveSeconds": options.keep_alive,
        "launcher": options.launcher,
        "retry": {"attempts": 3, "backoffSeconds": 1, "maxBackoffSeconds": 10},
    }
    spec["spark"]["output"]["path"] = spec["spark"]["output"]["path"].rpartition("/")[0] + f"/{NAME}"
    return found


def cluster_of_the_demo() -> Cluster:
    """The local cluster.

    Raises:
        SystemExit: It does not run.
    """
    try:
        local("status")
    except subprocess.CalledProcessError:
        raise SystemExit("the local cluster does not run: start it with `make demo`") from None
    return Cluster(NAMESPACE, path=local("path"), kubeconfig=Path(local("kubeconfig")))


def campaign(options: argparse.Namespace, cluster: Cluster, port: int) -> tuple[Load, Campaign]:
    """Run load and faults, and wait until everything is processed."""
    admin = AdminClient(f"http://127.0.0.1:{port}")
    if NAME in {hub["name"] for hub in admin.hubs()}:
        raise SystemExit(
            f"the hub {NAME} exists from an earlier campaign: run `make demo` again, which empties storage"
        )
    admin.create_hub(NAME, partitions=PARTITIONS)
    cluster.secret(f"{NAME}-hub", connectionString=GOOD_NAMESPACE)
    cluster.secret(f"{NAME}-storage", connectionString=GOOD_STORAGE)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(resource(options)))
    load, faults = Load(admin, NAME, options.rate), Campaign(cluster, random.Random(options.seed))
    load.start()
    began = time.monotonic()
    end = began + options.minutes * 60
    while time.monotonic() < end:
        time.sleep(faults.chance.uniform(*PAUSE_SECONDS))
        with contextlib.suppress(DemoError):  # the victim has just ended
            faults.act()
        spark = faults.status().get("spark", {})
        print(
            f"{time.monotonic() - began:6.0f} s: {len(load.sent):>8} events sent, {faults.done.total():>4} actions, "
            f"batch {spark.get('lastBatch')}, attempt {spark.get('attempt')}, failures {spark.get('failures')}",
            flush=True,
        )
    load.end()
    return load, faults


def settle(load: Load, status: Callable[[], dict[str, Any]]) -> float:
    """Wait until hosts and Spark have processed all events; returns the duration, seconds.

    Raises:
        SystemExit: They have not.
    """
    began = time.monotonic()
    while True:
        found = status()
        spark, table = found.get("spark", {}), found.get("table", {})
        drained = found.get("drained", {}).get("events", 0) >= len(load.sent)
        if drained and table.get("events", 0) >= len(load.sent) and spark and not spark.get("pendingFiles"):
            return time.monotonic() - began
        if time.monotonic() - began > SETTLE_SECONDS:
            raise SystemExit(f"not everything is processed after {SETTLE_SECONDS:.0f} s: {json.dumps(found)}")
        time.sleep(1)


def verify(cluster: Cluster, load: Load, folder: str) -> list[Verdict]:
    """Read files and tables, and compare."""
    with cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
        endpoint = f"http://127.0.0.1:{port}/{run.ACCOUNT}"
        storage = {
            "account_name": run.ACCOUNT, "account_key": run.STORAGE_KEY, "endpoint": endpoint, "allow_http": "true",
        }  # fmt: skip
        container = f"{NAME}-sink"
        places = {
            "files": bodies_of_files(run.storage_connection_string(endpoint), container),
            "table over the files": bodies_of_table(f"az://{container}/{folder}", storage),
            "table of Spark": bodies_of_table(f"az://results/{NAME}", storage),
        }
    return [compare(place, bodies, load.sent, load.uncertain) for place, bodies in places.items()]


def main() -> int:
    """Run the campaign; 0 where every event is in each place once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=int, default=200, help="Events a second.")
    parser.add_argument("--keep-alive", type=int, default=600, help="spec.spark.keepAliveSeconds.")
    parser.add_argument("--launcher", default="Native", help="spec.spark.launcher.")
    options = parser.parse_args()
    cluster = cluster_of_the_demo()
    with cluster.port_forward(run.HUB_NAMESPACE, "service/eventhubs", 8081) as port:
        load, faults = campaign(options, cluster, port)
    took = settle(load, faults.status)
    verdicts = verify(cluster, load, NAME)
    command = ("exec", f"{NAME}-host-0", "--", "eventconsumer", "audit", "--deep", "--hub")
    try:
        audit = cluster.kubectl(*command, timeout=600).strip().splitlines()[-1]
        clean = all(verdict.is_clean for verdict in verdicts)
    except DemoError as error:
        audit, clean = error.detail, False
    spark = faults.status().get("spark", {})
    print(f"seed {options.seed}, {options.minutes:g} minutes, {len(load.sent)} events, {len(load.uncertain)} uncertain")
    for action, times in sorted(faults.done.items()):
        print(f"  {action}: {times}")
    print(f"settled after {took:.0f} s, {spark.get('lastBatch', 0)} batches")
    print(*verdicts, f"audit: {audit}", sep="\n")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
