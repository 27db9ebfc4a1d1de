"""Reads the reports of hosts: GET http://<pod>:8080/status, concurrently, with short time limits.

A host that does not answer is absent from the result. Only well-formed answers of bounded size are accepted. No
credential is sent or expected.
"""

import asyncio
import ipaddress
from collections.abc import Mapping
from typing import Protocol

import aiohttp
import structlog
from pydantic import ValidationError

from eventconsumer_api.host_report import HostReport
from eventconsumer_api.log_throttle import LogThrottle

_log = structlog.get_logger(__name__)

TIMEOUT = aiohttp.ClientTimeout(total=3, sock_connect=1)
_MAX_BYTES = 4 * 1024 * 1024  # a report of 1,000 partitions has about 200 kB


class Hosts(Protocol):
    """Reads reports of hosts."""

    async def reports(self, addresses: Mapping[str, str]) -> dict[str, HostReport]:
        """Read all reports; addresses and reports by pod name. Hosts that do not answer are absent."""


class HttpHosts:
    """`Hosts` over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        """Use `session`, which the caller closes, and the port on which all hosts answer."""
        self._session = session
        self._port = port
        self._repeats = LogThrottle()

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
                    _log.info("host returned no report; retrying", host=name, http=response.status)
                    return None
                body = await _read(response.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.debug("host did not answer", host=name, error=f"{type(error).__name__}: {error}")
            return None
        try:
            report = HostReport.model_validate_json(body)
        except ValidationError as error:
            wrong = error.errors()[0]["msg"]
            if times := self._repeats.again(name, wrong):
                _log.warning(
                    "cannot parse a host's report: run operator and hosts at the same version",
                    host=name, error=wrong, times=times,
                )  # fmt: skip
            return None
        if self._repeats.over(name):
            _log.info("host reports can be parsed again", host=name)
        return report


def url_host(address: str) -> str:
    """An IP address in the syntax of URLs."""
    return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address


async def _read(content: aiohttp.StreamReader) -> bytes:
    body = bytearray()
    async for chunk in content.iter_chunked(65_536):
        body += chunk
        if len(body) > _MAX_BYTES:
            raise aiohttp.ClientPayloadError(f"more than {_MAX_BYTES} bytes")
    return bytes(body)
