"""`python -m tests.attackers.unlimited PACKAGE ...`: one of our programs with the limits of aiohttp alone.

The positive control of attacks on HTTP servers.
"""

import runpy
import sys
from typing import Any

from aiohttp import web

from eventconsumer_api.shared import limited_http


def remove_limits() -> None:
    """Let HTTP servers listen as an application of aiohttp does by itself."""
    runner: Any = limited_http.LimitedRunner

    def create(self: web.AppRunner, application: web.Application, *_: Any) -> None:
        web.AppRunner.__init__(self, application, access_log=None)

    async def listen(self: web.AppRunner, port: int) -> int:
        await self.setup()
        await web.TCPSite(self, "0.0.0.0", port).start()  # one family, so that a free port is one port
        return int(self.addresses[0][1])

    runner.__init__, runner.listen = create, listen


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    remove_limits()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
