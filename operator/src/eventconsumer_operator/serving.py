"""Serves one aiohttp application on its own port, as long as the task runs."""

import asyncio

from aiohttp import web

from eventconsumer_api.shared.limited_http import LimitedRunner


class PortTaken(Exception):  # noqa: N818 - named after what happened
    """A port cannot be used; the message names the option that sets it."""


async def serve_until_cancelled(application: web.Application, port: int, option: str) -> None:
    """Serve on all interfaces until cancelled.

    Args:
        application: The application.
        port: TCP port.
        option: The operator's option that sets the port, for the error.

    Raises:
        PortTaken: Another program listens on the port, or the process may not use it.
    """
    runner = LimitedRunner(application)
    try:
        try:
            await runner.listen(port)
        except OSError as error:
            raise PortTaken(f"cannot listen on {option} {port}: {error.strerror}: set a free port") from None
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
