"""Serves one aiohttp application on a port of its own, for as long as the task lives."""

import asyncio

from aiohttp import web


async def serve_until_cancelled(application: web.Application, port: int) -> None:
    """Serve on all interfaces until cancelled.

    Args:
        application: What is served.
        port: TCP port.

    Raises:
        OSError: The port is taken.
    """
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
