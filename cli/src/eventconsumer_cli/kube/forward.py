"""A GET through a forwarded port, as `kubectl port-forward` makes it.

The kubelet opens the connection inside the pod, so no network policy applies. Requires the permission to create
pods/portforward.
"""

import http.client
from typing import Any

from eventconsumer_cli.errors import Failed, Forbidden

SECONDS = 10
MAX_BYTES = 4 * 1024 * 1024  # a report of 1,000 partitions has about 200 kB


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
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(MAX_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"pod {namespace}/{pod} does not respond on port {port} ({type(error).__name__})") from error
    finally:
        tunnel.close()
    if response.status != 200:
        raise Failed(f"pod {namespace}/{pod} returned HTTP {response.status} for {path}")
    return body
