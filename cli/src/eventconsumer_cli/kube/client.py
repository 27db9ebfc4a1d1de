"""`cluster.Cluster` over the official client. Every request except a followed log has a time limit.

The client is imported on first use: the import takes a second, which `--help` and completion should avoid.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_cli.errors import CliError, ClusterError, Forbidden, NotFound
from eventconsumer_cli.kube.answers import answer_error, unreachable
from eventconsumer_cli.kube.kinds import POD

CONNECT_SECONDS = 10
READ_SECONDS = 30
_PAGE = 500
_MERGE = "application/merge-patch+json"
_MANAGER: dict[str, str | int] = {"fieldManager": "kubectl-eventconsumer"}  # identifies our changes in the API server


class KubernetesCluster:
    """`Cluster` over the official client."""

    def __init__(self, client: Any, namespace: str) -> None:
        """Use a configured `kubernetes.client.ApiClient`; `namespace` is the context's."""
        self.client = client
        self.namespace = namespace
        self._one_forward = threading.Lock()  # opening a web socket modifies the client
        self._proxy_refused = False

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """See `Cluster`."""
        return self.request("GET", kind.path(namespace, name))

    def list(self, kind: Kind, namespace: str, labels: Mapping[str, str] | None = None) -> list[Manifest]:
        """See `Cluster`."""
        query: dict[str, str | int] = {"limit": _PAGE}
        if labels:
            query["labelSelector"] = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        items: list[Manifest] = []
        while True:
            page = self.request("GET", kind.path(namespace), query)
            # Items of a list have no kind.
            items += [{"apiVersion": kind.api_version, "kind": kind.name} | item for item in page["items"]]
            if not page["metadata"].get("continue"):
                return items
            query["continue"] = page["metadata"]["continue"]

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """See `Cluster`."""
        query = _MANAGER | ({"dryRun": "All"} if dry_run else {})
        return self.request("POST", kind.path(manifest["metadata"].get("namespace", "")), query, manifest)

    def merge(self, kind: Kind, namespace: str, name: str, change: Manifest) -> Manifest:
        """See `Cluster`."""
        return self.request("PATCH", kind.path(namespace, name), _MANAGER, change, _MERGE)

    def delete(self, kind: Kind, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        """See `Cluster`."""
        options: Manifest = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self.request("DELETE", kind.path(namespace, name), None, options)
        except NotFound:
            return

    def logs(
        self, namespace: str, pod: str, container: str, *, follow: bool, tail: int | None, since: int | None
    ) -> Iterator[bytes]:
        """See `Cluster`."""
        query: dict[str, str | int] = {"container": container}
        if follow:
            query["follow"] = "true"
        if tail is not None:
            query["tailLines"] = tail
        if since is not None:
            query["sinceSeconds"] = since
        path = POD.path(namespace, pod, "log")
        response = self._open("GET", path, query, read_seconds=None if follow else READ_SECONDS)
        return _lines(response, f"the log of pod {namespace}/{pod}")

    def ask_pod(self, namespace: str, pod: str, port: int, path: str) -> bytes:
        """See `Cluster`."""
        from eventconsumer_cli.kube.forward import get as forwarded

        if not self._proxy_refused:
            try:
                proxy = POD.path(namespace, f"{pod}:{port}", "proxy") + path
                return _bounded(self._open("GET", proxy, None, read_seconds=CONNECT_SECONDS), f"pod {namespace}/{pod}")
            except Forbidden:
                self._proxy_refused = True  # one permission covers all pods
            except CliError:
                pass  # a network policy may block the API server's node; a forwarded port comes from inside the pod
        with self._one_forward:
            return forwarded(self.client, namespace, pod, port, path)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None = None,
        body: Manifest | None = None,
        content_type: str = "application/json",
    ) -> Manifest:
        """One request with a JSON response.

        Raises:
            CliError: Any of `errors`, by the status of the response.
        """
        content = self._open(method, path, query, body, content_type).data
        result: Manifest = json.loads(content)
        return result

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        body: Manifest | None = None,
        content_type: str = "application/json",
        *,
        read_seconds: float | None = READ_SECONDS,
    ) -> Any:
        from urllib3.exceptions import HTTPError

        headers = {"Accept": "application/json, */*", "Content-Type": content_type}
        try:
            request = self.client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            response = self.client.call_api(*request, _request_timeout=(CONNECT_SECONDS, read_seconds)).response
            if 200 <= response.status < 300:
                return response
            content = response.data
        except (HTTPError, OSError) as error:
            raise unreachable(self.client.configuration.host, error) from error
        raise answer_error(response.status, method, path, content)


def _bounded(response: Any, where: str) -> bytes:
    """The content of an answer that a pod chose: not decompressed, and limited in size and time."""
    from urllib3.exceptions import HTTPError

    from eventconsumer_cli.kube.forward import MAX_BYTES, limited

    try:
        with limited(response.shutdown):
            content: bytes = response.read(MAX_BYTES + 1, decode_content=False)
    except (HTTPError, OSError) as error:
        raise ClusterError(f"the answer of {where} was interrupted: {type(error).__name__}") from error
    finally:
        response.close()
    if len(content) > MAX_BYTES:
        raise ClusterError(f"{where} returned more than {MAX_BYTES} bytes")
    return content


def _lines(response: Any, what: str) -> Iterator[bytes]:
    from urllib3.exceptions import HTTPError

    rest = b""
    try:
        for chunk in response.stream(65_536, decode_content=True):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line + b"\n" for line in whole)
    except (HTTPError, OSError) as error:
        raise ClusterError(f"{what} was interrupted: {type(error).__name__}") from error
    finally:
        response.close()
    if rest:
        yield rest
