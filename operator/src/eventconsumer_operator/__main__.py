"""The process: `python -m eventconsumer_operator --processor-image … --spark-image …`.

Exits with 0 after SIGTERM or SIGINT. Exits with 1 if a watch fails for good, the leader lease is lost, the fleet key
file cannot be used, no cluster is configured, or a port is in use. The kubelet then restarts it.
"""

import asyncio
import contextlib
import functools
import gc
import os
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine

import structlog

from eventconsumer_api.kube.labels import HOST_PORT
from eventconsumer_api.shared import logs
from eventconsumer_api.shared.coredumps import forbid_core_dumps
from eventconsumer_api.shared.terminal import guarded
from eventconsumer_operator.controller import Controller
from eventconsumer_operator.fleet.key import FleetKey, FleetKeyError
from eventconsumer_operator.fleet.messages import Fleets
from eventconsumer_operator.health import Health, LoopLag, WorkHealth, serve, serve_probes
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import KubernetesApi, NoCluster, connect
from eventconsumer_operator.kube.leader import Elector, LeadLost
from eventconsumer_operator.kube.manifest import watched_kinds
from eventconsumer_operator.kube.resync import Resync
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.kube.watch import dead_watchers, watch
from eventconsumer_operator.kube.workqueue import WorkQueue
from eventconsumer_operator.metrics import QueueState
from eventconsumer_operator.page.histories import Histories
from eventconsumer_operator.page.server import host_names, make_application
from eventconsumer_operator.reconcile import Reconciler
from eventconsumer_operator.resource.hosts import HttpHosts, host_session
from eventconsumer_operator.serving import PortTaken, serve_until_cancelled
from eventconsumer_operator.settings import Settings, parse_settings

Work = Coroutine[object, object, object]

# A collection of the oldest generation reads all objects. A list of thousands of objects, which makes no cycles, caused
# hundreds of collections with Python's threshold of 700. Source: docs.python.org/3/library/gc.html
_GC_THRESHOLDS = (20_000, 20, 20)


async def run(settings: Settings) -> None:
    """Run the operator until a signal stops it."""
    async with await connect() as client, host_session() as session:
        api = KubernetesApi(client)
        lag = LoopLag()
        now = Health(lag)
        histories: Histories | None = None
        served = [
            asyncio.create_task(lag.run(), name="loop lag"),
            asyncio.create_task(serve(lambda: now, settings.health_port), name="health"),
        ]
        if settings.probe_port is not None:
            served.append(asyncio.create_task(serve_probes(lambda: now, settings.probe_port), name="probes"))
        if settings.status_page_port is not None:
            names = host_names(settings.operator_namespace, settings.status_page_hosts)
            page = make_application(lambda: histories, names)
            serving = serve_until_cancelled(page, settings.status_page_port, "--status-page-port")
            served.append(asyncio.create_task(serving, name="page"))
        try:
            async with _lead(api, settings) as keep:
                if keep is None:
                    return
                queue: WorkQueue[Key] = WorkQueue()
                QueueState(queue)
                store = Store(clusterwide="" in settings.namespaces, kinds=watched_kinds(settings.spark_launchers))
                hosts = HttpHosts(session, HOST_PORT)
                fleets = Fleets(api, hosts, FleetKey.load(settings.fleet_key_file))
                histories = None if settings.status_page_port is None else Histories()
                reconciler = Reconciler(api, store, hosts, settings, fleets, histories=histories)
                resync = Resync(api, store, settings.namespaces, queue.add, settings.resync_seconds)
                now = WorkHealth(queue, resync, lag, lambda: dead_watchers(settings.namespaces, store.served))
                await _until_one_ends(
                    served,
                    keep,
                    Controller(queue, reconciler, settings.workers).run,
                    resync.run,
                    # The watch handles the signals and returns after one.
                    functools.partial(watch, api, store, settings.namespaces, queue.add),
                )
        finally:
            for task in served:
                task.cancel()
            await asyncio.gather(*served, return_exceptions=True)


async def _until_one_ends(others: list[asyncio.Task[None]], *work: Callable[[], Work]) -> None:
    tasks = [asyncio.create_task(start()) for start in work]
    try:
        done, _ = await asyncio.wait([*tasks, *others], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def _lead(api: KubernetesApi, settings: Settings) -> AsyncIterator[Callable[[], Work] | None]:
    """Wait for the leader lease; yield the coroutine that renews it, or None after a signal."""
    if not settings.leader_elect:
        yield _for_ever
        return
    elector = Elector(api, settings.operator_namespace, f"{socket.gethostname()}_{uuid.uuid4()}")
    if not await _unless_stopped(elector.win()):
        yield None
        return
    try:
        yield elector.keep
    finally:
        await elector.release()


async def _for_ever() -> None:
    await asyncio.Event().wait()


async def _unless_stopped(wait: Work) -> bool:
    """Await `wait`; return False if SIGTERM or SIGINT came first."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    for each in signals:
        loop.add_signal_handler(each, stopped.set)
    tasks = (asyncio.create_task(wait), asyncio.create_task(stopped.wait()))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return not stopped.is_set()
    finally:
        for each in signals:
            loop.remove_signal_handler(each)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@guarded()
def main() -> None:
    """Entry point."""
    forbid_core_dumps()
    settings = parse_settings(sys.argv[1:], os.environ)
    logs.configure(settings.log_level)
    gc.freeze()  # what was imported stays
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        asyncio.run(run(settings))
    except (FleetKeyError, LeadLost, NoCluster, PortTaken) as error:
        structlog.get_logger(__name__).error("the operator exits", error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
