"""Serves one aiohttp application on a port of its own, for as long as the task lives."""

import asyncio

from aiohttp import web


class PortTaken(Exception):  # noqa: N818 - named after what happened
    """A port cannot be listened on; the message names the option that chooses it."""


async def serve_until_cancelled(application: web.Application, port: int, option: str) -> None:
    """Serve on all interfaces until cancelled.

    Args:
        application: What is served.
        port: TCP port.
        option: The operator's option that chooses the port, for the error.

    Raises:
        PortTaken: Another program listens there, or it may not be used.
    """
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, port=port).start()
        except OSError as error:
            raise PortTaken(f"{option} {port} cannot be listened on: {error.strerror}: name a free port") from None
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
