"""The client of the endpoint of notices, against a real HTTP server: what is acknowledged, refused, and sent again."""

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.errors import Blocked
from eventconsumer_api.wire.host_config import Credential, NoticesConfig
from eventconsumer_host.errors import NoticeFailed
from eventconsumer_host.notice import endpoint as module
from eventconsumer_host.notice.endpoint import ANSWER_BYTES, RETRY_AFTER_SECONDS, NoticeEndpoint
from eventconsumer_host.notice.message import NoticeMessage
from eventconsumer_tools.commands.check import Checks, check_notices
from eventconsumer_tools.commands.model import Check
from tests.support.azurite import free_port
from tests.support.receiver import Answer, NoticeServer

MESSAGE = NoticeMessage("application/cloudevents+json; charset=utf-8", b'{"id": "1"}')
HEADER = "spec.sink.notices.authentication.headerSecretRef"


@pytest.fixture
def server() -> Iterator[NoticeServer]:
    with NoticeServer() as made:
        yield made


async def post(url: str, times: int = 1, **options: Any) -> None:
    endpoint = NoticeEndpoint(NoticesConfig(url=url, **options))
    try:
        for _ in range(times):
            await endpoint.post(MESSAGE)
    finally:
        await endpoint.close()


async def refusal(server: NoticeServer, answer: Answer, **options: Any) -> NoticeFailed:
    server.answer = lambda _: answer
    with pytest.raises(NoticeFailed) as caught:
        await post(server.url, **options)
    return caught.value


def secret(tmp_path: Path, value: str) -> dict[str, Any]:
    file = tmp_path / "header"
    file.write_text(value)
    credential = Credential(field=HEADER, secret="hooks", key="token", connection_string_file=str(file))
    return {"header": "aeg-sas-key", "credential": credential}


def self_signed(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for loopback, and its key."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {certificate}"
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *name], check=True, capture_output=True)
    return certificate, key


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_a_status_of_success_acknowledges(status: int, server: NoticeServer, tmp_path: Path) -> None:
    server.answer = lambda _: Answer(status)
    await post(server.url, times=2, **secret(tmp_path, "key==\n"))
    for posted in server.requests:
        assert (posted.path, posted.body) == ("/files", MESSAGE.body)
        assert posted.headers["Content-Type"] == MESSAGE.content_type
        assert posted.headers["aeg-sas-key"] == "key=="
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "lasting", "only_this", "field", "text"),
    [
        (400, True, True, "spec.sink.notices.format", "refuses the notice"),
        (413, True, True, "spec.sink.notices.format", "refuses the notice"),
        (401, True, False, "spec.sink.notices.authentication", "name a Secret"),
        (404, True, False, "spec.sink.notices.url", "correct the URL"),
        (408, False, False, "spec.sink.notices.url", "HTTP 408"),
        (429, False, False, "spec.sink.notices.url", "HTTP 429"),
        (500, False, False, "spec.sink.notices.url", "HTTP 500"),
        (503, False, False, "spec.sink.notices.url", "HTTP 503"),
    ],
)
async def test_every_other_status_is_a_failure(
    status: int, lasting: bool, only_this: bool, field: str, text: str, server: NoticeServer
) -> None:
    error = await refusal(server, Answer(status, body=b"internal text"))
    assert (error.lasting, error.only_this, error.field) == (lasting, only_this, field)
    assert text in str(error) and "internal text" not in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_its_target_gets_nothing(
    status: int, server: NoticeServer, tmp_path: Path
) -> None:
    with NoticeServer() as target:
        error = await refusal(server, Answer(status, {"Location": target.url}), **secret(tmp_path, "key"))
        assert error.lasting and "redirect" in str(error)
        assert len(server.requests) == 1 and not target.requests


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        ("7", 7),
        ("99999", RETRY_AFTER_SECONDS),
        ("soon", 0),
        ("-5", 0),
        ("", 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", RETRY_AFTER_SECONDS),
    ],
)
async def test_the_pause_that_the_endpoint_asks_for_is_limited(
    after: str, seconds: float, server: NoticeServer
) -> None:
    assert (await refusal(server, Answer(429, {"Retry-After": after}))).retry_after == seconds


async def test_the_content_of_an_answer_is_not_read_to_its_end(server: NoticeServer) -> None:
    server.answer = lambda _: Answer(200, body=b"x" * ANSWER_BYTES * 100)
    await post(server.url, times=2)
    assert len(server.requests) == 2


async def test_a_slow_endpoint_is_a_failure(server: NoticeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POST_SECONDS", 0.2)
    release = threading.Event()

    def slow(_: object) -> Answer:
        release.wait()
        return Answer()

    server.answer = slow
    try:
        with pytest.raises(NoticeFailed, match="does not answer within") as caught:
            await post(server.url)
    finally:
        release.set()
    assert not caught.value.lasting


async def test_an_endpoint_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(NoticeFailed, match="no connection to 127") as caught:
        await post(f"http://127.0.0.1:{free_port()}/files")
    assert not caught.value.lasting


async def test_a_refused_credential_names_its_secret_and_not_its_value(server: NoticeServer, tmp_path: Path) -> None:
    error = await refusal(server, Answer(403), **secret(tmp_path, "very-secret"))
    assert error.field == HEADER and "correct key token of Secret hooks" in str(error)
    assert "very-secret" not in str(error)


@pytest.mark.parametrize("value", ["", "one\r\nHost: other", "one\ntwo", "ä"])
async def test_a_secret_that_is_no_value_of_a_header_is_not_sent(
    value: str, server: NoticeServer, tmp_path: Path
) -> None:
    with pytest.raises(Blocked) as caught:
        await post(server.url, **secret(tmp_path, value))
    assert caught.value.problem.field == HEADER and not server.requests


async def test_a_changed_secret_is_used_at_once(server: NoticeServer, tmp_path: Path) -> None:
    given = secret(tmp_path, "old")
    endpoint = NoticeEndpoint(NoticesConfig(url=server.url, **given))
    await endpoint.post(MESSAGE)
    (tmp_path / "header").write_text("new")
    await endpoint.post(MESSAGE)
    await endpoint.close()
    assert [posted.headers["aeg-sas-key"] for posted in server.requests] == ["old", "new"]


async def test_cookies_of_an_answer_are_not_sent_back(server: NoticeServer) -> None:
    server.answer = lambda _: Answer(200, {"Set-Cookie": "a=b"})
    await post(server.url.replace("127.0.0.1", "localhost"), times=2)
    assert "Cookie" not in server.requests[1].headers


async def test_a_proxy_forwards_notices_unless_the_endpoint_is_left_out(
    server: NoticeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NoticeServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/files"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        await post("http://hooks.invalid/files")
        assert [posted.path for posted in proxy.requests] == ["http://hooks.invalid/files"]
        await post(server.url)
        assert (len(server.requests), len(proxy.requests)) == (1, 1)


async def test_only_an_endpoint_with_a_trusted_certificate_gets_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = self_signed(tmp_path)
    with NoticeServer(certificate, key) as server:
        with pytest.raises(NoticeFailed, match="certificate verify failed"):
            await post(server.url, **secret(tmp_path, "key"))
        assert not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        await post(server.url, **secret(tmp_path, "key"))
        assert len(server.requests) == 1


async def checked(url: str, **options: Any) -> Check:
    """The result of the check of an endpoint."""
    checks = Checks()
    await check_notices(NoticesConfig(url=url, **options), checks)
    (found,) = checks.report().checks
    assert found.check == "notices-endpoint"
    return found


@pytest.mark.parametrize("status", [200, 204, 400, 404, 405, 429, 501])
async def test_the_check_is_passed_by_an_endpoint_that_answers_and_sends_no_notice(
    status: int, server: NoticeServer, tmp_path: Path
) -> None:
    server.answer = lambda _: Answer(status)
    found = await checked(server.url, **secret(tmp_path, "key"))
    assert (found.ok, found.remedy) == (True, "") and f"HTTP {status} to OPTIONS" in found.detail
    (asked,) = server.requests
    assert (asked.method, asked.path, asked.body, asked.headers["aeg-sas-key"]) == ("OPTIONS", "/files", b"", "key")


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "correct key token of Secret hooks"),
        (403, "correct key token of Secret hooks"),
        (302, "target of the redirect"),
        (500, "restore the endpoint"),
        (503, "restore the endpoint"),
    ],
)
async def test_the_check_warns_of_an_answer_that_a_notice_would_fail_with(
    status: int, remedy: str, server: NoticeServer, tmp_path: Path
) -> None:
    server.answer = lambda _: Answer(status, {"Location": "http://127.0.0.1:9/"}, b"internal text")
    found = await checked(server.url, **secret(tmp_path, "very-secret"))
    assert found.ok and f"HTTP {status}" in found.detail and remedy in found.remedy
    assert not {"very-secret", "internal text"} & {*found.detail.split(), *found.remedy.split()}
    assert len(server.requests) == 1


async def test_the_check_names_the_field_of_a_credential_that_is_not_set(server: NoticeServer) -> None:
    server.answer = lambda _: Answer(401)
    assert (await checked(server.url)).remedy.startswith("set spec.sink.notices.authentication")


async def test_the_check_fails_without_a_connection(tmp_path: Path) -> None:
    for url, cause in (
        (f"http://127.0.0.1:{free_port()}/files", "no connection to 127.0.0.1"),
        ("http://hooks.invalid/files", "no connection to hooks.invalid"),
    ):
        found = await checked(url)
        assert found.ok is False and found.detail.startswith(f"spec.sink.notices.url: {cause}"), found
        assert "NetworkPolicy of hosts" in found.remedy
    with NoticeServer(*self_signed(tmp_path)) as server:
        found = await checked(server.url)
        assert found.ok is False and "certificate verify failed" in found.detail and not server.requests


async def test_the_check_fails_without_the_secret(server: NoticeServer, tmp_path: Path) -> None:
    missing = secret(tmp_path, "key")
    (tmp_path / "header").unlink()
    found = await checked(server.url, **missing)
    assert (found.ok, found.detail) == (
        False,
        "Secret hooks, or its key token, does not exist",
    ) and "create it" in found.remedy
    found = await checked(server.url, **secret(tmp_path, "two\nlines"))
    assert found.ok is False and "is not the value of a header" in found.detail and "one line" in found.remedy
    assert not server.requests


@pytest.mark.parametrize(
    "piece", [b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000, b"HTTP/1.1 200 OK\r\n" + b"h: x\r\n" * 1000]
)
async def test_an_answer_without_an_end_is_refused_by_its_size(piece: bytes) -> None:
    sent = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with contextlib.suppress(OSError):
            while sent < 64 * 1024 * 1024:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NoticeFailed, match="has too many bytes"):
            await post(f"http://127.0.0.1:{port}/files")
    assert sent < 8 * 1024 * 1024, "what the buffers of the kernel hold"
