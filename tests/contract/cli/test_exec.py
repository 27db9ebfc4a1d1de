"""Programs in pods over the official client's web socket: streams apart, all bytes, the exit code, and a clean stop."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from eventconsumer_cli.errors import ClusterError
from eventconsumer_cli.kube.exec import KubernetesShell
from tests.contract.cli.execserver import ExecServer
from tests.support.waiting import HANG_SECONDS

PROTOCOLS = ("v4.channel.k8s.io", "v5.channel.k8s.io")


@pytest.fixture(params=PROTOCOLS)
def server(request: pytest.FixtureRequest) -> Iterator[ExecServer]:
    with ExecServer(request.param).running() as running:
        yield running


@pytest.fixture
def shell(server: ExecServer) -> KubernetesShell:
    return KubernetesShell(client.ApiClient(client.Configuration(host=server.url)))


def run(shell: KubernetesShell, *command: str, stdin: bytes | None = None) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr."""
    out, err = bytearray(), bytearray()
    code = shell.run("shop", "orders-host-0", "host", command, stdin=stdin, out=out.extend, err=err.extend)
    return code, bytes(out), bytes(err)


@pytest.mark.parametrize("stdin", [None, b"given"])
def test_arguments_streams_and_the_exit_code_are_passed_on(shell: KubernetesShell, stdin: bytes | None) -> None:
    program = 'echo answer; echo remark >&2; printf "%s|" "$@"; exit 2'
    ran = run(shell, "sh", "-c", program, "x", "a b", "$HOME", "it's", "*", "", stdin=stdin)
    assert ran == (2, b"answer\na b|$HOME|it's|*||", b"remark\n")
    assert run(shell, "true") == (0, b"", b"")


def test_the_plugin_starts_without_the_kubernetes_client() -> None:
    program = "import sys, eventconsumer_cli.main; sys.exit('kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_byte_arrives(shell: KubernetesShell) -> None:
    content = bytes(range(256)) * 4096  # 1 MiB, no text
    assert run(shell, "cat", stdin=content) == (0, content, b"")
    assert run(shell, "cat", stdin=b"") == (0, b"", b"")
    assert run(shell, "sh", "-c", "head -c 3000000 /dev/zero")[1] == bytes(3_000_000)


def test_a_broken_connection_is_no_answer(server: ExecServer, shell: KubernetesShell) -> None:
    server.breaks = True
    with pytest.raises(ClusterError, match="may still run"):
        run(shell, "echo", "done")


@pytest.mark.parametrize(("stdin", "late"), [(b"some", 0.0), (None, 0.5)])
def test_an_interrupted_program_is_ended(
    server: ExecServer, shell: KubernetesShell, stdin: bytes | None, late: float
) -> None:
    server.late = late

    def interrupt(data: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command = ["sh", "-c", "echo started; sleep 600"]
        shell.run("shop", "orders-host-0", "host", command, stdin=stdin, out=interrupt, err=len)
    deadline = time.monotonic() + HANG_SECONDS
    while not any(code < 0 for code in server.ended):
        assert time.monotonic() < deadline, server.ended
        time.sleep(0.1)


def test_an_interrupted_program_may_clean_up(shell: KubernetesShell, tmp_path: Path) -> None:
    cleaned = tmp_path / "cleaned"
    program = f"trap 'sleep 1; touch {cleaned}; exit 1' TERM; echo started; while :; do sleep 0.1; done"

    def interrupt(data: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shell.run("shop", "orders-host-0", "host", ["sh", "-c", program], stdin=None, out=interrupt, err=len)
    assert cleaned.exists(), "a temporary pod is deleted next"
