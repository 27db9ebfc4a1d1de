"""The report of a host through the API server's proxy: the pod may have been taken over, and chooses the answer."""

import contextlib
import gzip
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from eventconsumer_cli.errors import CliError
from eventconsumer_cli.kube import forward
from eventconsumer_cli.kube.client import KubernetesCluster
from eventconsumer_cli.kube.kubeconfig import connect
from tests.support.httpservers import Quiet, serving

PROXY = "/api/v1/namespaces/shop/pods/orders-host-0:8080/proxy/status"


class Pod:
    """An API server whose proxy passes on what a pod answers.

    Attributes:
        answers: `good`, `endless`, `drip`, `redirect` or `compressed`.
        asked: Paths of all requests.
    """

    def __init__(self) -> None:
        self.answers = "good"
        self.asked: list[str] = []
        self.url = ""

    @contextlib.contextmanager
    def running(self) -> Iterator["Pod"]:
        pod = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pod.asked.append(self.path)
                with contextlib.suppress(OSError):
                    pod.answer(self)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}"
        with serving(server):
            yield self

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if request.path != PROXY:
            request.send_error(404)
            return
        request.send_response(302 if self.answers == "redirect" else 200)
        if self.answers == "redirect":
            request.send_header("Location", f"{self.url}/api/v1/namespaces/shop/secrets")
            request.send_header("Content-Length", "0")
        if self.answers == "compressed":
            request.send_header("Content-Encoding", "gzip")
        request.end_headers()
        match self.answers:
            case "good":
                request.wfile.write(b"{}")
            case "compressed":
                request.wfile.write(gzip.compress(b" " * 64 * 1024 * 1024))
            case "endless":
                while True:
                    request.wfile.write(b" " * 65_536)
            case "drip":
                while True:
                    request.wfile.write(b" ")
                    time.sleep(0.05)


@pytest.fixture
def pod() -> Iterator[Pod]:
    with Pod().running() as made:
        yield made


def ask(pod: Pod, folder: Path) -> bytes:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": pod.url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (folder / "config").write_text(json.dumps(config))
    cluster: KubernetesCluster = connect(folder / "config")
    return cluster.ask_pod("shop", "orders-host-0", 8080, "/status")


def test_a_good_answer(pod: Pod, tmp_path: Path) -> None:
    assert ask(pod, tmp_path) == b"{}"


@pytest.mark.parametrize("answers", ["endless", "drip", "redirect"])
def test_an_answer_without_an_end_or_a_redirect_is_none(
    answers: str, pod: Pod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "ANSWER_SECONDS", 0.5)
    pod.answers = answers
    with pytest.raises(CliError, match="pod shop/orders-host-0"):
        ask(pod, tmp_path)
    assert pod.asked[0] == PROXY
    assert not any("secrets" in path for path in pod.asked)


def test_an_answer_is_not_decompressed(pod: Pod, tmp_path: Path) -> None:
    pod.answers = "compressed"
    assert len(ask(pod, tmp_path)) < 1024 * 1024
