"""The process: `python -m eventconsumer_operator --processor-image … --spark-image …`.

Ends with 0 after SIGTERM or SIGINT, with 1 when a watch broke for good, or the file of the fleet's key cannot be used;
being started anew is the remedy for everything else.
"""

import asyncio
import functools
import os
import sys

import aiohttp

from eventconsumer_api.labels import HOST_PORT
from eventconsumer_operator import logs
from eventconsumer_operator.api import KubernetesApi, connect
from eventconsumer_operator.controller import Controller
from eventconsumer_operator.fleet import Fleets, HttpMessenger
from eventconsumer_operator.fleetkey import FleetKey, FleetKeyError
from eventconsumer_operator.health import Health, LoopLag, serve
from eventconsumer_operator.hosts import HttpHosts
from eventconsumer_operator.keys import Key
from eventconsumer_operator.metrics import QueueState
from eventconsumer_operator.reconcile import Reconciler
from eventconsumer_operator.resync import Resync
from eventconsumer_operator.settings import Settings, parse_settings
from eventconsumer_operator.store import Store
from eventconsumer_operator.watch import dead_watchers, watch
from eventconsumer_operator.workqueue import WorkQueue


async def run(settings: Settings) -> None:
    """Run the operator until it is told to stop."""
    async with await connect() as client, aiohttp.ClientSession() as session:
        api = KubernetesApi(client)
        queue: WorkQueue[Key] = WorkQueue()
        QueueState(queue)
        store = Store()
        fleets = Fleets(api, HttpMessenger(session, HOST_PORT), FleetKey.load(settings.fleet_key_file))
        reconciler = Reconciler(api, store, HttpHosts(session, HOST_PORT), settings, fleets)
        resync = Resync(api, store, settings.namespaces, queue.add, settings.resync_seconds)
        lag = LoopLag()
        health = Health(queue, resync, lag, functools.partial(dead_watchers, settings.namespaces))
        background = [
            asyncio.create_task(Controller(queue, reconciler, settings.workers).run(), name="controller"),
            asyncio.create_task(resync.run(), name="resync"),
            asyncio.create_task(lag.run(), name="loop lag"),
            asyncio.create_task(serve(health, settings.health_port), name="health"),
        ]
        # The watch comes last and ends first: it handles the signals.
        watching = asyncio.create_task(watch(api, store, settings.namespaces, queue.add), name="watch")
        try:
            done, _ = await asyncio.wait([watching, *background], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (watching, *background):
                task.cancel()
            await asyncio.gather(watching, *background, return_exceptions=True)


def main() -> None:
    """Entry point."""
    settings = parse_settings(sys.argv[1:], os.environ)
    logs.configure(settings.log_level)
    try:
        asyncio.run(run(settings))
    except FleetKeyError as error:
        sys.exit(f"eventconsumer-operator: {error}")


if __name__ == "__main__":
    main()
