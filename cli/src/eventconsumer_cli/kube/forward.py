"""A GET through a forwarded port, as `kubectl port-forward` makes it.

The kubelet opens the connection inside the pod, so no network policy applies. Requires the permission to create
pods/portforward.
"""

import contextlib
import functools
import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from eventconsumer_cli.errors import Failed, Forbidden

SECONDS = 10
ANSWER_SECONDS = 30  # of an answer in all: a pod may send it byte by byte
MAX_BYTES = 4 * 1024 * 1024  # a report of 1,000 partitions has about 200 kB


@contextlib.contextmanager
def limited(end_reading: Callable[[], None]) -> Iterator[None]:
    """End the reading of an answer after ANSWER_SECONDS.

    Args:
        end_reading: Makes a read in another thread return, as if the other side had closed.

    Raises:
        TimeoutError: It ended so.
    """
    late = threading.Event()

    def end() -> None:
        late.set()
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it was closed
            end_reading()

    timer = threading.Timer(ANSWER_SECONDS, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError(f"no complete answer within {ANSWER_SECONDS} s")


def get(api_client: Any, namespace: str, pod: str, port: int, path: str) -> bytes:
    """The body of the response.

    Raises:
        Forbidden: The user may not forward ports.
        Failed: The pod does not respond, or the status is not 200.
    """
    from kubernetes.client import CoreV1Api
    from kubernetes.client.exceptions import ApiException
    from kubernetes.stream import portforward

    api = CoreV1Api(api_client)
    try:
        tunnel = portforward(
            api.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port), _request_timeout=SECONDS
        )
    except ApiException as error:
        if "403" in str(error.reason):
            raise Forbidden(
                f"pod {namespace}/{pod} cannot be queried: neither pods/proxy (get) nor pods/portforward (create) is "
                f"allowed to you in namespace {namespace}",
                "ask an administrator of the cluster for one of them",
            ) from error
        raise Failed(f"pod {namespace}/{pod} is not reachable: its port cannot be forwarded") from error
    try:
        connection = http.client.HTTPConnection(pod, port, timeout=SECONDS)
        connection.sock = tunnel.socket(port)
        connection.sock.settimeout(SECONDS)
        with limited(functools.partial(connection.sock.shutdown, socket.SHUT_RDWR)):
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read(MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"pod {namespace}/{pod} does not respond on port {port} ({type(error).__name__})") from error
    finally:
        tunnel.close()
    if len(body) > MAX_BYTES:
        raise Failed(f"pod {namespace}/{pod} returned more than {MAX_BYTES} bytes for {path}")
    if response.status != 200:
        raise Failed(f"pod {namespace}/{pod} returned HTTP {response.status} for {path}")
    return body
