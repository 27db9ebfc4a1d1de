"""`python -m tests.attackers.unlimited PACKAGE ...`: one of our programs with the limits of aiohttp alone.

The positive control of attacks on HTTP servers.
"""

import runpy
import sys
from importlib import import_module
from typing import Any

from aiohttp import web


def remove_limits(package: str) -> None:
    """Let the HTTP servers of a package listen as an application of aiohttp does by itself."""
    runner = import_module(f"{package}.limited_http").LimitedRunner

    def create(self: web.AppRunner, application: web.Application, *_: Any) -> None:
        web.AppRunner.__init__(self, application, access_log=None)

    async def listen(self: web.AppRunner, port: int) -> int:
        await self.setup()
        await web.TCPSite(self, port=port).start()
        return int(self.addresses[0][1])

    runner.__init__, runner.listen = create, listen


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    remove_limits(sys.argv[0])
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
