"""A port that another program has: the host says so in one error of its own."""

import socket
from typing import Any, cast

import pytest

from eventconsumer_host.errors import PortTaken
from eventconsumer_host.host.health import HealthServer, Heartbeat
from eventconsumer_host.metrics import Metrics


async def test_a_port_that_is_taken() -> None:
    server = HealthServer(Heartbeat(lambda: 0.0), cast(Any, None), Metrics())
    with socket.create_server(("", 0)) as taken:
        try:
            with pytest.raises(PortTaken, match="in use"):
                await server.start(taken.getsockname()[1])
        finally:
            await server.stop()
