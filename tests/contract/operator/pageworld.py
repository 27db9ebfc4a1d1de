"""A status page with something to see, served over HTTP from a thread of its own, and a headless Chromium to see it.

The histories are filled as the operator fills them: by reconciles' observations and the statuses that the operator's
own code computes from them. Load, owners and batches follow from a formula, so each run shows the same.
"""

import asyncio
import shutil
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_api.wire.host_report import (
    BatchReport,
    CommitReport,
    FleetReport,
    HostReport,
    HostState,
    PartitionLag,
    PartitionReport,
    Problem,
)
from eventconsumer_operator.conditions.status import make_status
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.manifest import STATEFUL_SET
from eventconsumer_operator.page.histories import Histories
from eventconsumer_operator.page.server import host_names, make_application
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.observed import Consumer, Observed
from eventconsumer_operator.settings import Settings

KEY = Key("shop", "orders")
BLOCKED = Key("shop", "payments")
PARTITIONS = 12
STEP = timedelta(seconds=15)
STEPS = 240  # an hour
SECRET = {"connectionStringSecretRef": {"name": "s", "key": "k"}}
SETTINGS = Settings(namespaces=("shop",), processor_image="host:1", spark_image="spark:1")
SPEC: dict[str, Any] = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "checkpointStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
    "scaling": {"mode": "Fixed", "replicas": 3},
    "spark": {"output": {"path": "abfss://out@shop.dfs.core.windows.net/orders"}},
}
QUARANTINE = "2 events of drained/orders/partition=4/0000000000021000.parquet have no field `cents`"
MESSAGE = "no container <script>alert(1)</script>: create it, or correct the name"


def owner_of(partition: int, step: int) -> str:
    """Two hosts at first; a third comes after 20 minutes, and the first one's pod is made again after 40."""
    host = partition % 2 if step < 80 else partition % 3
    uid = "two" if host == 0 and step >= 160 else "one"
    return f"shop/orders/orders-host-{host}.{uid}"


def lag_of(partition: int, step: int) -> int:
    """A burst in the first half hour, worst in partitions 4 and 5; then what waits for its file; nothing at the end."""
    if step >= STEPS - 8:
        return 0
    burst = max(0, 70 - abs(step - 60 - partition)) * (900 if partition in {4, 5} else 25)
    return burst + _noise(partition, step // 2) % 160


def events_by(step: int) -> int:
    """Events in files by a step: most while the burst is drained."""
    return sum(700 + _noise(99, each) % 500 + max(0, 60 - abs(each - 90)) * 90 for each in range(step))


def _noise(one: int, other: int) -> int:
    """A number that looks like chance and is the same each time."""
    return zlib.crc32(f"{one}.{other}".encode())


def report_of(host: int, step: int, start: datetime) -> HostReport:
    """What a host says at a step; the first one leads."""
    owners = {str(each): owner_of(each, step) for each in range(PARTITIONS)}
    if step == 160:  # while its pod is made again, nobody reads what the first host read
        owners = {partition: owner for partition, owner in owners.items() if "host-0" not in owner}
    now = start + step * STEP
    number = step // 48
    made = start + number * 48 * STEP
    commit = (
        None
        if number == 0
        else CommitReport(
            number=number,
            committed_at=made - 6 * STEP,
            application=f"orders-spark-{number}",
            rows_read=9_000,
            rows_written=9_000,
            seconds=41.5,
            quarantined_rows=2 if number == 4 else 0,
            quarantine=QUARANTINE if number == 4 else "",
        )
    )
    batch = BatchReport(number=number + 1, files=24, bytes=9 << 20, events=9_000, reason="Files", created_at=made)
    lags = {str(each): lag_of(each, step) for each in range(PARTITIONS)}
    fleet = FleetReport(
        chain="00000000000000c1",
        partition_count=PARTITIONS,
        hub_created_at=start - timedelta(days=9),
        owners=owners,
        lag_events=sum(lags.values()),
        lag_seconds=max(lags.values()) / 50,
        lags={each: PartitionLag(events=lag, seconds=lag / 50) for each, lag in lags.items()},
        files=3 * step,
        events=events_by(step),
        bytes=40_000 * step,
        last_file_time=now - timedelta(seconds=4),
        pending_files=24,
        pending_bytes=9 << 20,
        committed_batch=number,
        committed_reason="Files" if number else "",
        last_commit=commit,
        open_batches=[batch] if step % 48 < 42 else [],
    )
    mine = [each for each, owner in owners.items() if owner.startswith(f"shop/orders/orders-host-{host}.")]
    return HostReport(
        owner=f"shop/orders/orders-host-{host}.one",
        state=HostState.RUNNING,
        partition_count=PARTITIONS,
        partitions=tuple(PartitionReport(id=each, epoch=1) for each in mine),
        fleet=fleet if host == 0 else None,
    )


def record(histories: Histories, key: Key, now: datetime, reports: dict[str, HostReport], hosts: int) -> None:
    """Record what a reconcile would."""
    before = histories.get(key)
    status = before.status if before else EventConsumerStatus()
    consumer = Consumer(key=key, uid=f"uid-{key.name}", resource_version="1", generation=1, spec=SPEC, status=status)
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": f"{key.name}-host",
            "namespace": key.namespace,
            "generation": 1,
            "uid": "set",
            "ownerReferences": [{"uid": consumer.uid, "controller": True}],
        },
        "spec": {"replicas": hosts},
        "status": {"observedGeneration": 1, "replicas": hosts, "readyReplicas": hosts, "updatedReplicas": hosts},
    }
    pods = tuple(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{key.name}-host-{each}"}, "status": {}}
        for each in range(hosts)
    )
    children = {(STATEFUL_SET, f"{key.name}-host"): stateful_set}
    observed = Observed(now=now, consumer=consumer, children=children, pods=pods, reports=reports)
    histories.record(observed, make_status(observed, make_plan(observed, SETTINGS), (), SETTINGS))


def filled_book(end: datetime | None = None) -> Histories:
    """An hour of one consumer that drains, and a look at one that waits for somebody."""
    end = (end or datetime.now(UTC)).replace(microsecond=0)
    start = end - (STEPS - 1) * STEP
    histories = Histories()
    for step in range(STEPS):
        hosts = 2 if step < 80 else 3
        reports = {f"orders-host-{each}": report_of(each, step, start) for each in range(hosts)}
        record(histories, KEY, start + step * STEP, reports, hosts)
    problem = Problem(field="spec.sink.container", reason="ContainerInvalid", message=MESSAGE)
    blocked = HostReport(owner="shop/payments/payments-host-0.one", state=HostState.BLOCKED, problems=(problem,))
    record(histories, BLOCKED, end, {"payments-host-0": blocked}, 1)
    return histories


class PageServer:
    """The page over HTTP on a free port; what it serves is `histories`, None while it "does not lead"."""

    def __init__(self, histories: Histories | None) -> None:
        self.histories = histories
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Listen, on the same port as before."""
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)

    def stop(self) -> None:
        """Listen no more, as an operator that ended."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _start(self) -> None:
        self._runner = web.AppRunner(
            make_application(lambda: self.histories, host_names("home")), access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        if self._runner:
            await self._runner.cleanup()
        self._runner = None


@contextmanager
def serving(histories: Histories | None) -> Iterator[PageServer]:
    """A page server for a while."""
    server = PageServer(histories)
    server.start()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def chromium(width: int = 1400, height: int = 1000, *, dark: bool = False) -> Iterator[webdriver.Chrome]:
    """A headless Chromium that logs its console and its requests.

    Raises:
        RuntimeError: There is none.
    """
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        raise RuntimeError("chromium and chromedriver are needed: ./local/need chromedriver chromium chromium-driver")
    options = Options()
    options.binary_location = program
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-proxy-server",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        "--lang=en-GB",
        f"--window-size={width},{height}",
        *(["--force-dark-mode"] if dark else []),
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()
