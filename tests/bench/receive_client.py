"""Receives a number of events from one partition with either of our adapters, and prints what that took.

    python -m tests.bench.receive_client sdk|amqp|websocket CONNECTION-STRING EVENTS

Prints "ready" once attached; the clock starts there, while the hub still holds its events back.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable

from eventconsumer_api.v1alpha1 import HubTransport
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.source.hub import Hub
from eventconsumer_host.source.sdk import SdkHub

PREFETCH = 3000
ADAPTERS: dict[str, Callable[[HubAccess], Hub]] = {"sdk": SdkHub, "amqp": AmqpHub, "websocket": AmqpHub}


async def receive(adapter: str, connection: str, count: int) -> None:
    """Receive every event."""
    transport = HubTransport.AMQP_WEB_SOCKETS if adapter == "websocket" else HubTransport.AMQP
    name = connection.rpartition("=")[2]
    hub = ADAPTERS[adapter](HubAccess("localhost", name, "$Default", connection, transport=transport))
    source = await hub.open("0", -1, 1, PREFETCH)
    print("ready", flush=True)
    cpu, started = time.process_time(), time.perf_counter()
    received = 0
    while received < count:
        received += len(await source.receive(PREFETCH, 1))
    taken = {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - started, "events": received}
    print(json.dumps(taken), flush=True)
    await source.close()
    await hub.close()


if __name__ == "__main__":
    asyncio.run(receive(sys.argv[1], sys.argv[2], int(sys.argv[3])))
