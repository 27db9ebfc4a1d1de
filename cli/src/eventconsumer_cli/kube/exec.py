"""A program in a container of a running pod, as `kubectl exec` runs it: stdin, stdout, stderr apart, the exit code.

The input is known in advance, so `head` in the container ends it after exactly so many bytes; the exec protocol need
not close one side of the connection. The first line of stderr is the program's process id: a broken connection does not
end the program, so a caller that stops waiting sends it a signal.
"""

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import yaml
from websocket import WebSocketException

from eventconsumer_cli.errors import ClusterError, Failed, Forbidden, NotFound
from eventconsumer_cli.kube.client import KubernetesCluster
from eventconsumer_cli.kube.cluster import Cluster

Sink = Callable[[bytes], object]

_CHUNK = 64 * 1024
_POLL_SECONDS = 1.0
_PID_SECONDS = 10.0
_END_SECONDS = 20  # within which an interrupted program ends
_STDOUT, _STDERR, _ERROR = 1, 2, 3


@runtime_checkable
class Shell(Protocol):
    """Runs programs in pods."""

    def run(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bytes | None,
        out: Sink,
        err: Sink,
    ) -> int:
        """Run a program until it ends, and return its exit code; when interrupted, end it.

        Args:
            namespace: Namespace of the pod.
            pod: Its name.
            container: In it.
            command: The program and its arguments.
            stdin: Its complete input; None: no input.
            out: Receives its stdout.
            err: Receives its stderr.

        Raises:
            Forbidden: The user has no permission.
            NotFound: There is no such pod or container.
            ClusterError: The connection broke; the program may still run.
        """


class KubernetesShell:
    """`Shell` over the official client."""

    def __init__(self, client: Any) -> None:
        """Use a configured `kubernetes.client.ApiClient`."""
        self._client = client

    def run(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bytes | None,
        out: Sink,
        err: Sink,
    ) -> int:
        """See `Shell`."""
        socket = self._open(namespace, pod, container, wrapped(command, stdin), stdin is not None)
        errors = _WithoutPid(err)
        try:
            for start in range(0, len(stdin or b""), _CHUNK):
                socket.write_stdin((stdin or b"")[start : start + _CHUNK])
            while socket.is_open():
                socket.update(timeout=_POLL_SECONDS)
                _pass_on(socket, out, errors)
            _pass_on(socket, out, errors)
            return exit_code(socket.read_channel(_ERROR), f"pod {namespace}/{pod}")
        except KeyboardInterrupt:
            _await_pid(socket, errors)
            self._end(namespace, pod, container, errors.pid)
            raise
        except (OSError, WebSocketException) as error:
            raise _broken(f"pod {namespace}/{pod}", error) from error
        finally:
            with contextlib.suppress(OSError, WebSocketException):
                _close(socket)

    def _open(self, namespace: str, pod: str, container: str, command: Sequence[str], stdin: bool) -> Any:
        from kubernetes.client import CoreV1Api
        from kubernetes.client.exceptions import ApiException
        from kubernetes.stream import stream

        api = CoreV1Api(self._client)
        try:
            return stream(
                api.connect_get_namespaced_pod_exec,
                pod,
                namespace,
                container=container,
                command=list(command),
                stdin=stdin,
                stdout=True,
                stderr=True,
                tty=False,
                binary=True,
                _preload_content=False,
            )
        except ApiException as error:
            raise refused(namespace, pod, str(error.reason)) from error

    def _end(self, namespace: str, pod: str, container: str, pid: int | None) -> None:
        """End the program and its children, and wait until they have cleaned up: a temporary pod is deleted next.

        Errors are ignored, because the result is no longer needed.
        """
        if pid is None:
            return
        gone = f"for _ in $(seq {_END_SECONDS * 10}); do kill -0 {pid} 2>/dev/null || break; sleep 0.1; done"
        command = ("sh", "-c", f"kill -TERM -{pid} || kill -TERM {pid}; {gone}")
        with contextlib.suppress(Exception):
            socket = self._open(namespace, pod, container, command, stdin=False)
            socket.run_forever(timeout=_END_SECONDS)
            _close(socket)


def shell_of(cluster: Cluster) -> Shell:
    """The `Shell` for the pods of a cluster."""
    if isinstance(cluster, KubernetesCluster):
        return KubernetesShell(cluster.client)
    if isinstance(cluster, Shell):
        return cluster
    raise TypeError(f"{type(cluster).__name__} cannot run programs")


def wrapped(command: Sequence[str], stdin: bytes | None) -> list[str]:
    """The command, which prints its process id first, and with the end of stdin if it has input."""
    quoted = shlex.join(command)
    told = "echo $$ >&2; "
    if stdin is None:
        return ["sh", "-c", f"{told}exec {quoted} </dev/null"]
    return ["sh", "-c", f"{told}head -c {len(stdin)} | {quoted}"]


def exit_code(status: bytes, what: str) -> int:
    """The exit code in the last message on the error channel.

    Raises:
        ClusterError: There is no message: the connection broke.
        Failed: The program could not be started.
    """
    found = yaml.safe_load(status) if status else None
    if not isinstance(found, dict):
        raise _broken(what, None)
    if found.get("status") == "Success":
        return 0
    for cause in (found.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise Failed(f"{what} did not run the program: {found.get('message', 'no reason given')}")


class _WithoutPid:
    """Passes stderr on without its first line, which is the process id."""

    def __init__(self, sink: Sink) -> None:
        self.pid: int | None = None
        self._sink = sink
        self._first: bytes | None = b""

    def __call__(self, data: bytes) -> None:
        if self._first is None:
            self._sink(data)
            return
        self._first += data
        line, newline, rest = self._first.partition(b"\n")
        if not newline:
            return
        self._first = None
        if line.strip().isdigit():
            self.pid = int(line)
        else:
            rest = line + newline + rest
        if rest:
            self._sink(rest)


def _pass_on(socket: Any, out: Sink, err: Sink) -> None:
    # stderr first: it contains the process id, which is required to end a program.
    for channel, sink in ((_STDERR, err), (_STDOUT, out)):
        data = socket.read_channel(channel)
        if data:
            sink(data)


def _await_pid(socket: Any, errors: _WithoutPid) -> None:
    """The process id is written first, but stdout may arrive before stderr."""
    deadline = time.monotonic() + _PID_SECONDS
    with contextlib.suppress(OSError, WebSocketException):
        while errors.pid is None and socket.is_open() and time.monotonic() < deadline:
            socket.update(timeout=_POLL_SECONDS)
            if data := socket.read_channel(_STDERR):
                errors(data)


def _close(socket: Any) -> None:
    socket.close(timeout=1)  # seconds for the other side to close
    socket.sock.shutdown()  # if the other side closed first, the client does not close its end


def _broken(what: str, error: Exception | None) -> ClusterError:
    cause = f" ({type(error).__name__})" if error else ""
    return ClusterError(
        f"the connection to {what} broke{cause} before the program ended; it may still run",
        "check its effects before you start it again",
    )


def refused(namespace: str, pod: str, reason: str) -> Exception:
    """The error for a response that starts no program.

    Args:
        namespace: Of the pod.
        pod: Its name.
        reason: As the client tells it, `Handshake status <code> …`, followed by headers and content.
    """
    status = re.match(r"Handshake status (\d{3})\b", reason)
    code = status[1] if status else ""
    if code == "403":
        return Forbidden(
            f"pods/exec is forbidden for you in namespace {namespace}",
            "ask an administrator of the cluster for the permission to get and create pods/exec there",
        )
    if code == "404":
        return NotFound(f"pod {namespace}/{pod} no longer exists", "try again")
    cause = reason.splitlines()[0][:200] if reason else "interrupted"
    return ClusterError(f"cannot start a program in pod {namespace}/{pod}: {cause}")
