"""The receiver of notices: one POST for each, with a credential that only this endpoint receives.

A user names the URL, and the administrator allows it. Redirects are not followed: the target may be any machine, and
would receive the credential. The content of an answer is neither decompressed nor shown: a user must not read a service
of the network by it.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp

from eventconsumer_api.errors import Blocked
from eventconsumer_api.shared.limited_http import limited_session
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.wire.host_config import NoticesConfig
from eventconsumer_host.amqp.connection import tls_context
from eventconsumer_host.errors import NoticeFailed
from eventconsumer_host.notice.message import NoticeMessage
from eventconsumer_storage.credential import place, read_secret
from eventconsumer_storage.proxy import proxy_for

URL = "spec.sink.notices.url"
POST_SECONDS = 30.0  # limit of one request
CONNECT_SECONDS = 5.0
ANSWER_BYTES = 65_536  # a longer answer ends the connection
RETRY_AFTER_SECONDS = 600.0  # the longest pause that an endpoint may ask for
# The endpoint is well, and does not accept this notice. Source: RFC 9110, "Client Error 4xx".
_THIS_NOTICE = frozenset({400, 409, 411, 413, 415, 422})
_LATER = frozenset({408, 425, 429})
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


class NoticeEndpoint:
    """The endpoint of one consumer's notices."""

    def __init__(self, config: NoticesConfig) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None

    async def post(self, message: NoticeMessage) -> None:
        """Send a notice and return after the endpoint acknowledged it with a status of 200 to 299.

        Raises:
            Blocked: The Secret or its key is missing, or its text is not the value of a header.
            NoticeFailed: The endpoint did not acknowledge the notice.
        """
        status, after = await self._ask("POST", {"Content-Type": message.content_type}, message.body)
        if not 200 <= status < 300:
            raise self._failure(status, after)

    async def look(self) -> int:
        """Send the credential without a notice, by OPTIONS, which is safe (RFC 9110); the status of the answer.

        Raises:
            Blocked: As `post`.
            NoticeFailed: No connection, or no answer in time.
        """
        return (await self._ask("OPTIONS", {}, None))[0]

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, method: str, headers: dict[str, str], body: bytes | None) -> tuple[int, str]:
        """Status of the answer, and its header Retry-After."""
        headers = headers | self._credential()
        parts = urlsplit(self._config.url)
        proxy = proxy_for(parts.scheme, parts.hostname or "")
        session = self._session = self._session or _session()
        try:
            async with session.request(
                method,
                self._config.url,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=proxy.url if proxy else None,
            ) as response:
                status, after = response.status, response.headers.get("Retry-After", "")
                await _finish(response)
        except aiohttp.ClientHttpProxyError as error:
            raise NoticeFailed(URL, f"the proxy answers with HTTP {error.status}") from None
        except aiohttp.ClientResponseError:  # the text may have a part of the answer
            raise NoticeFailed(URL, "its answer is not as HTTP requires, or has too many bytes") from None
        except TimeoutError:
            raise NoticeFailed(URL, f"it does not answer within {POST_SECONDS:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoticeFailed(URL, f"no connection to {parts.netloc}: {_reason(error)}") from None
        return status, after

    def _credential(self) -> dict[str, str]:
        credential = self._config.credential
        if credential is None:
            return {}
        value = read_secret(credential, f"the value of the header {self._config.header}")
        if not _VALUE.fullmatch(value):
            raise Blocked(
                credential.field,
                Reason.NOTICES_FAILING,
                f"{place(credential)} is not the value of a header: use one line of printable ASCII characters",
            )
        return {self._config.header: value}

    def _failure(self, status: int, after: str) -> NoticeFailed:
        if status in _LATER or status >= 500:
            return NoticeFailed(URL, f"it answers with HTTP {status}", retry_after=_seconds(after))
        if 300 <= status < 400:
            cause = f"it answers with a redirect (HTTP {status}), which hosts do not follow: set the URL of the target"
            return NoticeFailed(URL, cause, lasting=True)
        if status in {401, 403, 407}:
            credential = self._config.credential
            field = credential.field if credential else "spec.sink.notices.authentication"
            remedy = f"correct {place(credential)}" if credential else "name a Secret with a credential"
            return NoticeFailed(field, f"it refuses the credential (HTTP {status}): {remedy}", lasting=True)
        if status in _THIS_NOTICE:
            cause = f"it refuses the notice (HTTP {status}): correct the endpoint, or spec.sink.notices.format"
            return NoticeFailed("spec.sink.notices.format", cause, lasting=True, only_this=True)
        return NoticeFailed(URL, f"it answers with HTTP {status}: correct the URL", lasting=True)


def _session() -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=POST_SECONDS, connect=CONNECT_SECONDS)
    return limited_session(timeout, 2 * ANSWER_BYTES, chunked=True, ssl=tls_context())


async def _finish(response: aiohttp.ClientResponse) -> None:
    """Read an answer, so that the connection can be used again; its content is not used."""
    left = ANSWER_BYTES
    try:
        while left > 0 and (piece := await response.content.read(left)):
            left -= len(piece)
    except (aiohttp.ClientError, TimeoutError):
        left = 0  # the status arrived before
    if left <= 0:
        response.close()


def _reason(error: Exception) -> str:
    """The cause, without the URLs and object names of aiohttp's texts."""
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    return str(cause) or type(cause).__name__


def _seconds(after: str) -> float:
    """The pause of the header Retry-After, seconds or a date; 0: none."""
    try:
        seconds = float(after) if after.strip().isdigit() else _until(after)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), RETRY_AFTER_SECONDS)


def _until(date: str) -> float:
    time = parsedate_to_datetime(date)
    return (time.replace(tzinfo=time.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
