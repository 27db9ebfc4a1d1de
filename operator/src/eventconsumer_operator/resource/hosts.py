"""Talks to hosts over HTTP, concurrently and with short time limits: reads reports, and sends operator messages.

`GET /status` of a host returns its report. `POST /fleet` takes an operator message, and returns the report too if the
request prefers that (`Prefer: return=representation`, RFC 7240): a resource at rest costs one request for each host.

A host that does not answer is absent from the result. A host runs code of users, so only well-formed answers within the
limits of `HostReport` and of this module are accepted, and the log has one entry per resource in five minutes. A host
whose answers are not well-formed is asked again later and later. No credential is sent or expected.
"""

import asyncio
import ipaddress
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import aiohttp
import structlog
from pydantic import ValidationError

from eventconsumer_api.shared.connections import HEAD_BYTES
from eventconsumer_api.shared.limited_http import limited_session
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.wire.fleet import FLEET_PATH, FLEET_SIGNATURE_HEADER
from eventconsumer_api.wire.host_report import REPORT_MAX_BYTES, HostReport
from eventconsumer_operator import metrics

_log = structlog.get_logger(__name__)

TIMEOUT = aiohttp.ClientTimeout(total=3, sock_connect=1)
RESOURCE_MAX_BYTES = 3 * REPORT_MAX_BYTES  # 1,024 hosts, of which two lead, report about 1.5 MB
# Reports in memory take up to ten times their size: 160 MiB. A thousand reports of hubs with 32 partitions fit.
HELD_MAX_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_ANSWER_BYTES = REPORT_MAX_BYTES + 2 * HEAD_BYTES + _CHUNK_BYTES  # a report that is too long is refused with this cause
BACKOFF_SECONDS = 2.0  # after the first bad answer; twice as long after each further one
BACKOFF_MAX_SECONDS = 300.0
_CAUSE_CHARACTERS = 200
_REFUSAL_BYTES = 500  # of an answer that rejects a message


class _ReportRefused(Exception):  # noqa: N818 - named after what happened
    """The answer is not a report within the limits; the message gives the cause."""


class _BadAnswer(_ReportRefused):
    """The host itself is to blame, so it is asked again later."""


@dataclass(frozen=True)
class _Backoff:
    """A host that gave bad answers.

    Attributes:
        times: Bad answers in a row.
        until: Time of the next request, seconds of the clock.
        cause: Of the last one.
    """

    times: int
    until: float
    cause: str


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


def host_session() -> aiohttp.ClientSession:
    """A client session for hosts: a few bytes before the body of an answer, whose length the head gives."""
    return limited_session(TIMEOUT, _ANSWER_BYTES)


class HttpHosts:
    """`Hosts` and `fleet.messages.Messenger` over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, port: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Create.

        Args:
            session: As of `host_session`; the caller closes it.
            port: The port on which all hosts answer.
            clock: Seconds.
        """
        self._session = session
        self._port = port
        self._clock = clock
        self._backoffs: dict[tuple[str, str], _Backoff] = {}  # by pod name and address
        self._repeats = LogThrottle()
        self._refusals = LogThrottle()  # of messages
        self._held = 0  # bytes of all reports that are being read or in memory

    async def reports(self, addresses: Mapping[str, str]) -> dict[str, HostReport]:
        """See `Hosts`."""
        return await self._each(addresses, self._report)

    async def send(
        self, addresses: Mapping[str, str], body: bytes, signature: str, *, with_reports: bool = False
    ) -> dict[str, HostReport]:
        """See `Messenger`."""
        headers = {FLEET_SIGNATURE_HEADER: signature, "Content-Type": "application/json"}
        if with_reports:
            headers["Prefer"] = "return=representation"

        async def send(name: str, address: str, look: _Look) -> HostReport | None:
            result, report = await self._send(name, address, body, headers, look)
            metrics.FLEET_MESSAGES.labels(result).inc()
            return report

        return await self._each(addresses, send)

    async def _each(
        self, addresses: Mapping[str, str], request: Callable[[str, str, _Look], Awaitable[HostReport | None]]
    ) -> dict[str, HostReport]:
        """Do a request to each host of one resource; reports by pod name."""
        look = _Look()
        answers = await asyncio.gather(*(request(name, address, look) for name, address in addresses.items()))
        self._log_refusals(next(iter(addresses), ""), look.refused)
        return {name: report for name, report in zip(addresses, answers, strict=True) if report is not None}

    async def _report(self, name: str, address: str, look: _Look) -> HostReport | None:
        if self._waits(name, address, look):
            return None
        try:
            async with self._request("GET", address, "/status") as response:
                if response.status != 200:
                    raise _ReportRefused(f"the host answered HTTP {response.status}")
                report = await self._read(response, look)
            self._backoffs.pop((name, address), None)
            return report
        except (_ReportRefused, aiohttp.ClientResponseError) as refused:
            self._refuse(name, address, refused, look)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.debug("host did not answer", host=name, error=f"{type(error).__name__}: {error}")
        return None

    async def _send(
        self, name: str, address: str, body: bytes, headers: Mapping[str, str], look: _Look
    ) -> tuple[str, HostReport | None]:
        """Send a message; returns the result for the metric, and the report if the host returns it."""
        if self._waits(name, address, look):
            return "unreachable", None
        try:
            async with self._request("POST", address, FLEET_PATH, data=body, headers=headers) as response:
                if response.status < 300:
                    self._refusals.over(name)
                    report = await self._read(response, look) if response.status == 200 else None
                    self._backoffs.pop((name, address), None)
                    return "delivered", report
                why = (await response.content.read(_REFUSAL_BYTES)).decode(errors="replace").strip()
        except _ReportRefused as refused:
            self._refuse(name, address, refused, look)
            return "delivered", None
        except aiohttp.ClientResponseError as refused:
            self._refuse(name, address, refused, look)
            return "unreachable", None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.debug("operator message not delivered to a host", host=name, error=f"{type(error).__name__}: {error}")
            return "unreachable", None
        if times := self._refusals.again(name):  # the host chooses the text, so a new text is not logged at once
            _log.info("a host rejected an operator message", host=name, http=response.status, why=why, times=times)
        return "refused", None

    def _waits(self, name: str, address: str, look: _Look) -> bool:
        """Whether the time to ask a host again has not come."""
        found = self._backoffs.get((name, address))
        if found is None or found.until <= self._clock():
            return False
        look.refused[name] = found.cause
        return True

    def _refuse(self, name: str, address: str, error: Exception, look: _Look) -> None:
        """Note a bad answer; if the host is to blame, it is asked again later and later."""
        if isinstance(error, aiohttp.ClientResponseError):  # aiohttp could not parse it, or it was beyond a limit
            cause = error.message.partition("\n")[0]
            error = _BadAnswer(f"the host does not answer as HTTP requires: {cause[:_CAUSE_CHARACTERS]}")
        look.refused[name] = str(error)
        if not isinstance(error, _BadAnswer):
            return
        now, host = self._clock(), (name, address)
        times = self._backoffs[host].times + 1 if host in self._backoffs else 1
        seconds = min(BACKOFF_SECONDS * 2.0 ** min(times - 1, 10), BACKOFF_MAX_SECONDS)
        self._backoffs[host] = _Backoff(times, now + seconds, str(error))
        # Pods that are gone are not asked again.
        gone = [each for each, found in self._backoffs.items() if found.until + BACKOFF_MAX_SECONDS < now]
        for each in gone:
            del self._backoffs[each]

    def _request(
        self,
        method: str,
        address: str,
        path: str,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._session.request(
            method,
            f"http://{url_host(address)}:{self._port}{path}",
            data=data,
            headers={"Accept-Encoding": "identity", **headers},
            timeout=TIMEOUT,
            allow_redirects=False,
            auto_decompress=False,  # a small answer must not become a large one
        )

    def _log_refusals(self, first: str, refused: Mapping[str, str]) -> None:
        """Log the refused reports of one resource, whose first host is `first`."""
        if not refused:
            if self._repeats.over(first):
                _log.info("host reports can be used again", host=first)
        elif times := self._repeats.again(first):
            host, error = next(iter(refused.items()))
            _log.warning(
                "cannot use a host's report: run operator and hosts at the same version; it is asked again later",
                host=host, error=error, hosts=len(refused), times=times,
            )  # fmt: skip

    async def _read(self, response: aiohttp.ClientResponse, look: _Look) -> HostReport:
        """Read one report.

        Raises:
            _ReportRefused: The answer is no report, or is beyond a limit, or does not arrive in time.
            aiohttp.ClientError, TimeoutError, OSError: The host does not answer.
        """
        body = bytearray()
        try:
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                body += chunk
                look.bytes += len(chunk)
                self._held += len(chunk)
                if len(body) > REPORT_MAX_BYTES:
                    raise _BadAnswer(f"a report of more than {REPORT_MAX_BYTES} bytes")
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
                raise _BadAnswer(first["msg"]) from None
            if isinstance(error, TimeoutError):
                raise _BadAnswer("a report that does not arrive in time") from None
            raise
        weakref.finalize(report, self._release, len(body))
        return report

    def _release(self, count: int) -> None:
        self._held -= count


def url_host(address: str) -> str:
    """An IP address in the syntax of URLs."""
    return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
