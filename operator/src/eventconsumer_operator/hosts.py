"""Asks hosts what they do: GET http://<pod>:8080/status, all at once, with short time limits.

A host that does not answer is simply absent from the result; the operator never waits long for one and never believes
anything but a well-formed answer of bounded size. No credential is sent and none is expected.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Mapping
from typing import Protocol

import aiohttp
from pydantic import ValidationError

from eventconsumer_api.host_report import HostReport

_log = logging.getLogger(__name__)

TIMEOUT = aiohttp.ClientTimeout(total=3, sock_connect=1)
_MAX_BYTES = 4 * 1024 * 1024  # a report of 1,000 partitions has about 200 kB


class Hosts(Protocol):
    """Where reports come from."""

    async def reports(self, addresses: Mapping[str, str]) -> dict[str, HostReport]:
        """Ask every host; addresses and answers by pod name. Hosts that do not answer are absent."""


class HttpHosts:
    """`Hosts` over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        """Use `session`, which the caller closes, and the port on which all hosts answer."""
        self._session = session
        self._port = port

    async def reports(self, addresses: Mapping[str, str]) -> dict[str, HostReport]:
        """See `Hosts`."""
        answers = await asyncio.gather(*(self._report(name, address) for name, address in addresses.items()))
        return {name: report for name, report in zip(addresses, answers, strict=True) if report is not None}

    async def _report(self, name: str, address: str) -> HostReport | None:
        try:
            async with self._session.get(
                f"http://{url_host(address)}:{self._port}/status", timeout=TIMEOUT, allow_redirects=False
            ) as response:
                if response.status != 200:
                    _log.info("host %s answered HTTP %s", name, response.status)
                    return None
                body = await _read(response.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.debug("host %s does not answer: %s: %s", name, type(error).__name__, error)
            return None
        try:
            return HostReport.model_validate_json(body)
        except ValidationError as error:
            _log.warning("host %s sent a report that is not understood: %s", name, error.errors()[0]["msg"])
            return None


def url_host(address: str) -> str:
    """An IP address as URLs have it."""
    return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address


async def _read(content: aiohttp.StreamReader) -> bytes:
    body = bytearray()
    async for chunk in content.iter_chunked(65_536):
        body += chunk
        if len(body) > _MAX_BYTES:
            raise aiohttp.ClientPayloadError(f"more than {_MAX_BYTES} bytes")
    return bytes(body)
