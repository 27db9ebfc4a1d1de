"""A program in a container of a running pod, as `kubectl exec` runs it: stdin, stdout, stderr apart, the exit code.

What is given on stdin is known beforehand, so its end is made in the container: `head` passes on exactly so many bytes,
and no version of the exec protocol has to be able to close one side of the connection. The program's process id comes
as the first line of stderr, because breaking the connection does not end it: whoever stops waiting sends a signal.
"""

import contextlib
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
_STDOUT, _STDERR, _ERROR = 1, 2, 3


@runtime_checkable
class Shell(Protocol):
    """What runs programs in pods."""

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
            namespace: Of the pod.
            pod: Its name.
            container: In it.
            command: The program and its arguments.
            stdin: All that it gets on stdin; None: nothing.
            out: Gets what it writes on stdout.
            err: Gets what it writes on stderr.

        Raises:
            Forbidden: The user may not.
            NotFound: There is no such pod or container.
            ClusterError: The connection broke; the program may run on.
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
            raise _refused(namespace, pod, str(error.reason)) from error

    def _end(self, namespace: str, pod: str, container: str, pid: int | None) -> None:
        """End the program and its children; its result is not needed any more, so a failure is no new error."""
        if pid is None:
            return
        command = ("sh", "-c", f"kill -TERM -{pid} || kill -TERM {pid}")
        with contextlib.suppress(Exception):
            socket = self._open(namespace, pod, container, command, stdin=False)
            socket.run_forever(timeout=5)
            _close(socket)


def shell_of(cluster: Cluster) -> Shell:
    """What runs programs in the pods of a cluster."""
    if isinstance(cluster, KubernetesCluster):
        return KubernetesShell(cluster.client)
    if isinstance(cluster, Shell):
        return cluster
    raise TypeError(f"{type(cluster).__name__} runs no programs")


def wrapped(command: Sequence[str], stdin: bytes | None) -> list[str]:
    """The command with its process id told first, and with the end of stdin where it gets one."""
    quoted = shlex.join(command)
    told = "echo $$ >&2; "
    if stdin is None:
        return ["sh", "-c", f"{told}exec {quoted} </dev/null"]
    return ["sh", "-c", f"{told}head -c {len(stdin)} | {quoted}"]


def exit_code(status: bytes, what: str) -> int:
    """The exit code that the last message on the error channel tells.

    Raises:
        ClusterError: There is none: the connection broke.
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
    raise Failed(f"{what} does not run the program: {found.get('message', 'no reason given')}")


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
    # stderr first: it brings the process id, without which a program cannot be ended.
    for channel, sink in ((_STDERR, err), (_STDOUT, out)):
        data = socket.read_channel(channel)
        if data:
            sink(data)


def _await_pid(socket: Any, errors: _WithoutPid) -> None:
    """The process id is the first thing that is written, but stdout may be here before stderr is."""
    deadline = time.monotonic() + _PID_SECONDS
    with contextlib.suppress(OSError, WebSocketException):
        while errors.pid is None and socket.is_open() and time.monotonic() < deadline:
            socket.update(timeout=_POLL_SECONDS)
            if data := socket.read_channel(_STDERR):
                errors(data)


def _close(socket: Any) -> None:
    socket.close(timeout=1)  # seconds for the other side to agree
    socket.sock.shutdown()  # where the other side closed first, the client leaves its end open


def _broken(what: str, error: Exception | None) -> ClusterError:
    cause = f" ({type(error).__name__})" if error else ""
    return ClusterError(
        f"the connection to {what} broke{cause} before the program ended; it may still run",
        "see what it did before you start it again",
    )


def _refused(namespace: str, pod: str, reason: str) -> Exception:
    """What the answer to the request for a connection means."""
    if "403" in reason:
        return Forbidden(
            f"pods/exec is forbidden for you in namespace {namespace}",
            "ask an administrator of the cluster for the right to get and create pods/exec there",
        )
    if "404" in reason:
        return NotFound(f"pod {namespace}/{pod} does not exist any more", "try again")
    cause = reason.splitlines()[0][:200] if reason else "interrupted"
    return ClusterError(f"no program can be started in pod {namespace}/{pod}: {cause}")
