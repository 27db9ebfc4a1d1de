"""Reads the reports of hosts: GET http://<pod>:8080/status, concurrently, with short time limits.

A host that does not answer is absent from the result. A host runs code of users, so only well-formed answers within the
limits of `HostReport` and of this module are accepted, and the log has one entry per resource in five minutes. No
credential is sent or expected.
"""

import asyncio
import ipaddress
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
import structlog
from pydantic import ValidationError

from eventconsumer_api.host_report import REPORT_MAX_BYTES, HostReport
from eventconsumer_api.log_throttle import LogThrottle

_log = structlog.get_logger(__name__)

TIMEOUT = aiohttp.ClientTimeout(total=3, sock_connect=1)
RESOURCE_MAX_BYTES = 3 * REPORT_MAX_BYTES  # 1,024 hosts, of which two lead, report about 1.5 MB
# Reports in memory take up to ten times their size: 160 MiB. A thousand reports of hubs with 32 partitions fit.
HELD_MAX_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024


class _ReportRefused(Exception):  # noqa: N818 - named after what happened
    """The answer is not a report within the limits; the message gives the cause."""


@dataclass
class _Look:
    """One reading of the hosts of one resource.

    Attributes:
        bytes: Size of the reports that are being read or accepted.
        refused: Cause by pod name.
    """

    bytes: int = 0
    refused: dict[str, str] = field(default_factory=dict)


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
        self._held = 0  # bytes of all reports that are being read or in memory

    async def reports(self, addresses: Mapping[str, str]) -> dict[str, HostReport]:
        """See `Hosts`."""
        look = _Look()
        answers = await asyncio.gather(*(self._report(name, address, look) for name, address in addresses.items()))
        self._log_refusals(next(iter(addresses), ""), look.refused)
        return {name: report for name, report in zip(addresses, answers, strict=True) if report is not None}

    async def _report(self, name: str, address: str, look: _Look) -> HostReport | None:
        try:
            return await self._read(address, look)
        except _ReportRefused as refused:
            look.refused[name] = str(refused)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.debug("host did not answer", host=name, error=f"{type(error).__name__}: {error}")
        return None

    def _log_refusals(self, first: str, refused: Mapping[str, str]) -> None:
        """Log the refused reports of one resource, whose first host is `first`."""
        if not refused:
            if self._repeats.over(first):
                _log.info("host reports can be used again", host=first)
        elif times := self._repeats.again(first):
            host, error = next(iter(refused.items()))
            _log.warning(
                "cannot use a host's report: run operator and hosts at the same version; retrying",
                host=host, error=error, hosts=len(refused), times=times,
            )  # fmt: skip

    async def _read(self, address: str, look: _Look) -> HostReport:
        """Read one report.

        Raises:
            _ReportRefused: The answer is no report, or is beyond a limit.
            aiohttp.ClientError, TimeoutError, OSError: The host does not answer.
        """
        body = bytearray()
        try:
            async with self._session.get(
                f"http://{url_host(address)}:{self._port}/status",
                headers={"Accept-Encoding": "identity"},
                timeout=TIMEOUT,
                allow_redirects=False,
                auto_decompress=False,  # a small answer must not become a large one
            ) as response:
                if response.status != 200:
                    raise _ReportRefused(f"the host answered HTTP {response.status}")
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    body += chunk
                    look.bytes += len(chunk)
                    self._held += len(chunk)
                    if len(body) > REPORT_MAX_BYTES:
                        raise _ReportRefused(f"a report of more than {REPORT_MAX_BYTES} bytes")
                    if look.bytes > RESOURCE_MAX_BYTES:
                        raise _ReportRefused(f"the hosts of the resource report more than {RESOURCE_MAX_BYTES} bytes")
                    if self._held > HELD_MAX_BYTES:
                        raise _ReportRefused(f"all hosts report more than {HELD_MAX_BYTES} bytes at a time")
            report = HostReport.model_validate_json(body)
        except BaseException as error:
            look.bytes -= len(body)
            self._held -= len(body)
            if isinstance(error, ValidationError):
                (first, *_) = error.errors(include_url=False, include_context=False, include_input=False)
                raise _ReportRefused(first["msg"]) from None
            raise
        weakref.finalize(report, self._release, len(body))
        return report

    def _release(self, count: int) -> None:
        self._held -= count


def url_host(address: str) -> str:
    """An IP address in the syntax of URLs."""
    return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
