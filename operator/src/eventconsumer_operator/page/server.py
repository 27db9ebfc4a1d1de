"""Serves the status page and its API: read-only, without login, without external resources.

Any client that reaches the port can read names, states and numbers, but no events or secrets. The
Content-Security-Policy allows only scripts of this server. Only the leading operator has data; the others answer 503
and close the connection, so the next request may reach the leader.

A page of another site can make a browser resolve the site's own name to the address of this server (DNS rebinding), and
then read the answers. So it answers only under known host names.
"""

import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from importlib import resources

from aiohttp import ETag, web
from pydantic import BaseModel, ValidationError

from eventconsumer_operator.keys import Key
from eventconsumer_operator.page import view
from eventconsumer_operator.page.histories import Histories
from eventconsumer_operator.page.model import Choice, ErrorView

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
    "Server": "eventconsumer-operator",
}
SERVICE = "eventconsumer-operator-page"
LOCAL = ("localhost", "127.0.0.1", "[::1]")  # of kubectl port-forward
_HOST = re.compile(r"(?P<name>\[::1\]|[a-z0-9.-]+)(:[0-9]{1,5})?")
_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_RETRY_SECONDS = 1
_FRESH_SECONDS = 1.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def host_names(namespace: str, others: Iterable[str] = ()) -> frozenset[str]:
    """The host names under which the page answers: those of a forwarded port, of its Service, and of an ingress.

    Args:
        namespace: Of the operator; empty: unknown.
        others: Names that the administrator lists.
    """
    service = [f"{SERVICE}.{namespace}{suffix}" for suffix in ("", ".svc", ".svc.cluster.local")] if namespace else []
    return frozenset((*LOCAL, SERVICE, *service, *others))


def make_application(histories: Callable[[], Histories | None], names: frozenset[str]) -> web.Application:
    """The page and its API.

    Args:
        histories: Returns the histories; None while this operator does not lead.
        names: The host names under which it answers; see `host_names`.
    """

    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer only under known host names (RFC 9110, section 15.5.20)."""
        host = _HOST.fullmatch(request.headers.get("Host", "").lower())
        if host is None or host["name"] not in names:
            return _json(
                ErrorView(
                    error="the status page does not answer under this host name: open it by kubectl port-forward, or "
                    "add the name to statusPage.hosts of the chart"
                ),
                421,
            )
        return await handler(request)

    rendered = AnswerCache()

    async def consumers(request: web.Request) -> web.Response:
        found = histories()
        if found is None:
            return _not_leading()
        try:
            choice = Choice.model_validate(dict(request.query))
        except ValidationError as error:
            (first, *_) = error.errors(include_url=False, include_context=False, include_input=False)
            return _json(ErrorView(error=f"{first['loc'][0]}: {first['msg']}"), 400)
        body = rendered.get(f"?{choice!r}", lambda: view.consumer_list(found, choice))
        return _tagged(request, body, "application/json")

    async def consumer(request: web.Request) -> web.Response:
        found = histories()
        if found is None:
            return _not_leading()
        key = Key(request.match_info["namespace"], request.match_info["name"])
        entry = found.get(key)
        if entry is None:
            return _json(ErrorView(error=f"EventConsumer {key} does not exist, or its namespace is not served"), 404)
        return _tagged(request, rendered.get(str(key), lambda: view.detail(key, entry)), "application/json")

    application = web.Application(middlewares=[_guard, known])
    application.add_routes(
        [
            web.get("/api/consumers", consumers),
            web.get("/api/consumers/{namespace}/{name}", consumer),
            *(web.get(path, _file(*file)) for path, file in _FILES.items()),
        ]
    )
    return application


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set the headers of every answer, including errors."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        error.headers.update(HEADERS)
        raise
    response.headers.update(HEADERS)
    return response


def _file(name: str, content_type: str) -> Handler:
    # Read once: no path of a request reaches the file system.
    body = resources.files(__package__).joinpath("static", name).read_bytes()

    async def serve(request: web.Request) -> web.StreamResponse:
        return _tagged(request, body, content_type)

    return serve


class AnswerCache:
    """Cache of answers for one second: many readers cost no more than one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty cache; `clock` returns seconds."""
        self._clock = clock
        self._answers: dict[str, tuple[float, bytes]] = {}

    def get(self, what: str, make: Callable[[], BaseModel]) -> bytes:
        """The answer to `what` as JSON; `make` makes it if none is cached."""
        now = self._clock()
        self._answers = {name: made for name, made in self._answers.items() if now - made[0] < _FRESH_SECONDS}
        if what not in self._answers:
            self._answers[what] = (now, make().model_dump_json(by_alias=True).encode())
        return self._answers[what][1]


def _tagged(request: web.Request, body: bytes, content_type: str) -> web.Response:
    # Weak, because the body may be compressed.
    tag = ETag(hashlib.sha256(body).hexdigest()[:32], is_weak=True)
    if any(given.value in (tag.value, "*") for given in request.if_none_match or ()):
        response = web.Response(status=304)
    else:
        response = web.Response(body=body, content_type=content_type, charset="utf-8")
        response.enable_compression()
    response.etag = tag
    return response


def _json(model: BaseModel, status: int) -> web.Response:
    return web.Response(
        text=model.model_dump_json(by_alias=True), status=status, content_type="application/json", charset="utf-8"
    )


def _not_leading() -> web.Response:
    response = _json(
        ErrorView(error="this operator waits for the leader lease; only the leading operator has data"), 503
    )
    response.headers["Retry-After"] = str(_RETRY_SECONDS)
    response.force_close()
    return response
