"""The fault proxy: bytes go through unchanged, and each action does to a request what it says."""

import contextlib
import http.client
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.faultactions import Amend, Delay, Down, DropReply, Fail, Hold, Replay, ResetUpload, Slow, Truncate
from tests.support.faultproxy import Action, FaultProxy, Match
from tests.support.httpservers import Quiet, serving
from tests.support.waiting import HANG_SECONDS
from tests.support.wire import Request

PUT = Match("PUT")


class Storage(ThreadingHTTPServer):
    """Remembers what it was sent, whole requests only."""

    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.seen: list[tuple[str, bytes]] = []


class _Answers(Quiet, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Storage

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(size)
        if len(body) < size:
            self.close_connection = True
            return
        self.server.seen.append((self.requestline, body))
        self.send_response(201, "Created")
        text = f"answer {len(self.server.seen)}".encode()
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text))
            return
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_PUT = do_HEAD = _answer  # noqa: N815 - names that the library calls


@pytest.fixture
def storage() -> Iterator[Storage]:
    """A server behind the proxy."""
    with serving(Storage()) as server:
        yield server


@pytest.fixture
def proxy(storage: Storage) -> Iterator[FaultProxy]:
    """A proxy without faults."""
    port = storage.server_address[1]
    made = FaultProxy(port, f"BlobEndpoint=http://127.0.0.1:{port}/account;")
    made.start()
    yield made
    made.close()


def ask(proxy: FaultProxy, method: str = "PUT", path: str = "/c/blob", body: bytes = b"data") -> tuple[int, bytes]:
    """One request; status and body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    try:
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_requests_and_answers_pass_unchanged_and_are_recorded(proxy: FaultProxy, storage: Storage) -> None:
    assert proxy.connection_string == f"BlobEndpoint=http://127.0.0.1:{proxy.port}/account;"
    assert ask(proxy, "PUT", "/c/a%20b?comp=lease", b"\x00" * 100_000) == (201, b"answer 1")
    assert ask(proxy, "HEAD", "/c/x", b"") == (201, b"")
    assert ask(proxy, "GET", "/chunked", b"") == (201, b"answer 3")
    assert storage.seen[0] == ("PUT /c/a%20b?comp=lease HTTP/1.1", b"\x00" * 100_000)
    first = proxy.exchanges[0]
    assert (first.request.method, first.request.path, first.request.query) == ("PUT", "/c/a b", {"comp": "lease"})
    assert [exchange.replies[0].status for exchange in proxy.exchanges] == [201, 201, 201]
    assert proxy.met(Match(path="^/chunked$")) == proxy.exchanges[2:]


@pytest.mark.parametrize(
    ("match", "meets"),
    [
        (Match(), True),
        (Match("GET"), False),
        (Match(path=r"/from=\d+"), True),
        (Match(path=r"^/from"), False),
        (Match(query={"comp": "lease"}), True),
        (Match(query={"comp": None}), False),
        (Match(query={"timeout": None}), True),
        (Match(headers={"x-ms-lease-action": "acquire|renew"}), True),
        (Match(headers={"x-ms-lease-action": "acq"}), False),
        (Match(headers={"x-ms-lease-id": None}), True),
        (Match(headers={"x-ms-lease-action": None}), False),
        (Match(body=rb'"Offset":"'), True),
        (Match(body=b"Epoch"), False),
    ],
)
def test_a_match_is_all_its_parts(match: Match, meets: bool) -> None:
    head = b"PUT /c/from%3D17?comp=lease HTTP/1.1\r\nHost: h\r\nX-Ms-Lease-Action: acquire\r\n\r\n"
    assert match.meets(Request(head, b'{"Offset":"1"}', 0)) is meets


def test_a_fault_skips_counts_and_goes(proxy: FaultProxy) -> None:
    fault = proxy.add(PUT, Fail(503), times=2, skip=1)
    assert [ask(proxy)[0] for _ in range(4)] == [201, 503, 503, 201]
    fault.wait(count=2)
    proxy.add(Match(path="blob"), Fail(500))
    assert ask(proxy)[0] == 500
    proxy.clear()
    assert ask(proxy)[0] == 201


def test_an_error_is_answered_for_storage(proxy: FaultProxy, storage: Storage) -> None:
    proxy.add(PUT, Fail(429, "ServerBusy", retry_after=3))
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port)
    for _ in range(2):  # the connection lives on
        connection.request("PUT", "/c/blob", body=b"data")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
        assert answer.headers["x-ms-error-code"] == "ServerBusy"
        assert b"<Code>ServerBusy</Code>" in answer.read()
    connection.close()
    assert not storage.seen


@pytest.mark.parametrize(("action", "applied"), [(Down(), 0), (DropReply(), 1), (ResetUpload(), 0), (Truncate(0), 1)])
def test_the_client_loses_the_answer(proxy: FaultProxy, storage: Storage, action: Action, applied: int) -> None:
    proxy.add(PUT, action, times=1)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask(proxy, body=b"d" * 50_000)
    assert len(storage.seen) == applied
    assert ask(proxy)[0] == 201


def test_an_answer_gets_another_header(proxy: FaultProxy, storage: Storage) -> None:
    proxy.add(PUT, Amend("server", "other"))
    with urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{proxy.port}/c/blob", b"data", method="PUT"), timeout=10
    ) as answer:
        assert (answer.status, answer.headers.get_all("Server"), answer.read()) == (201, ["other"], b"answer 1")


def test_an_answer_breaks_off(proxy: FaultProxy, storage: Storage) -> None:
    proxy.add(PUT, Truncate(30))
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as client:
        client.sendall(b"PUT /c/blob HTTP/1.1\r\nContent-Length: 4\r\n\r\ndata")
        came = client.recv(100)
        with contextlib.suppress(ConnectionResetError):
            came += client.recv(100)
    assert came.startswith(b"HTTP/1.1 201 Created\r\n")
    assert len(came) == 30
    assert storage.seen == [("PUT /c/blob HTTP/1.1", b"data")]


def test_a_delay_and_a_trickle_take_their_time(proxy: FaultProxy, storage: Storage) -> None:
    proxy.add(Match("GET"), Delay(0.3))
    proxy.add(PUT, Slow(2000))
    for method, body in (("GET", b""), ("PUT", b"d" * 1000)):
        begun = time.monotonic()
        assert ask(proxy, method, body=body)[0] == 201
        assert time.monotonic() - begun >= 0.3
    assert storage.seen[-1][1] == b"d" * 1000


def test_a_trickle_ends_when_the_fault_is_cleared(proxy: FaultProxy, storage: Storage) -> None:
    proxy.add(PUT, Slow(1))  # the body would take a quarter of an hour
    healer = threading.Timer(0.3, proxy.clear)
    healer.start()
    assert ask(proxy, body=b"d" * 1000)[0] == 201
    healer.join()
    assert storage.seen == [("PUT /c/blob HTTP/1.1", b"d" * 1000)]


def test_a_request_lands_twice(proxy: FaultProxy, storage: Storage) -> None:
    proxy.add(PUT, Replay(), times=1)
    assert ask(proxy) == (201, b"answer 2")
    proxy.add(PUT, Replay(answer_first=True), times=1)
    assert ask(proxy) == (201, b"answer 3")
    assert len(storage.seen) == 4
    assert [len(exchange.replies) for exchange in proxy.exchanges] == [2, 2]


def hold_and_leave(proxy: FaultProxy) -> None:
    """A client that gives up on its held request."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=0.3)
    connection.request("PUT", "/c/blob", body=b"late")
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()


def test_a_held_request_lands_after_its_client_has_gone(proxy: FaultProxy, storage: Storage) -> None:
    fault = proxy.add(PUT, Hold(), times=1)
    hold_and_leave(proxy)
    fault.wait()
    assert not storage.seen
    fault.release()
    deadline = time.monotonic() + HANG_SECONDS
    while not storage.seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert storage.seen == [("PUT /c/blob HTTP/1.1", b"late")]


def test_a_discarded_request_never_lands(proxy: FaultProxy, storage: Storage) -> None:
    fault = proxy.add(PUT, Hold(), times=1)
    hold_and_leave(proxy)
    fault.discard()
    assert ask(proxy, body=b"next")[0] == 201
    assert storage.seen == [("PUT /c/blob HTTP/1.1", b"next")]


def test_a_held_answer_is_of_a_request_that_was_applied(proxy: FaultProxy, storage: Storage) -> None:
    fault = proxy.add(PUT, Hold(applied=True), times=1)
    answers: list[tuple[int, bytes]] = []
    client = threading.Thread(target=lambda: answers.append(ask(proxy)))
    client.start()
    fault.wait()
    deadline = time.monotonic() + HANG_SECONDS
    while not storage.seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert storage.seen and not answers
    fault.release()
    client.join(5)
    assert answers == [(201, b"answer 1")]


def test_waiting_for_a_request_that_does_not_come_fails(proxy: FaultProxy) -> None:
    fault = proxy.add(PUT, Fail(503))
    with pytest.raises(AssertionError, match=r"met 0 requests of 1"):
        fault.wait(0.05)
