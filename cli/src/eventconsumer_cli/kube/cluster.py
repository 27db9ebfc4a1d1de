"""The cluster: the kubeconfig as kubectl reads it, few verbs, plain dicts, our own errors.

`Cluster` is the interface, `KubernetesCluster` the official client behind it. Every request but a followed log has a
time limit. The client is loaded when it is needed: it takes a second, and `--help` and completion should not.
"""

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from eventconsumer_api.kinds import Kind, Manifest
from eventconsumer_cli.errors import CliError, ClusterError, Failed, Forbidden, NotFound, RefusedError

CONNECT_SECONDS = 10
READ_SECONDS = 30
_PAGE = 500
_NOT_SERVED = ("could not find the requested resource", "404 page not found")  # of a kind, and of a whole group
_MERGE = "application/merge-patch+json"
_MANAGER: dict[str, str | int] = {"fieldManager": "kubectl-eventconsumer"}  # by which the API server tells our changes
_IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Cluster(Protocol):
    """What commands ask of a cluster. Every method may raise ClusterError, Forbidden or Failed."""

    namespace: str
    """The one that the kubeconfig's context names; default where it names none."""

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """Return the object.

        Raises:
            NotFound: There is none.
        """

    def list(self, kind: Kind, namespace: str, labels: Mapping[str, str] | None = None) -> list[Manifest]:
        """Return all objects of the namespace, or of all namespaces with "", that carry `labels`.

        Raises:
            NotFound: The API server does not know the kind.
        """

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create the object; `dry_run`: only have it judged.

        Raises:
            RefusedError: It is not accepted, or its name is taken.
        """

    def merge(self, kind: Kind, namespace: str, name: str, change: Manifest) -> Manifest:
        """Change some fields (JSON merge patch) and return the object.

        Raises:
            NotFound: There is none.
            RefusedError: The change is not accepted.
        """

    def delete(self, kind: Kind, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete the object; none of that name is as good."""

    def logs(
        self, namespace: str, pod: str, container: str, *, follow: bool, tail: int | None, since: int | None
    ) -> Iterator[bytes]:
        """Lines of a container's log, each with its end.

        Args:
            namespace: Of the pod.
            pod: Its name.
            container: In it.
            follow: Go on until the container ends.
            tail: So many of the newest lines; None: all.
            since: Not older than so many seconds; None: all.

        Raises:
            NotFound: There is no such pod.
        """

    def ask_pod(self, namespace: str, pod: str, port: int, path: str) -> bytes:
        """GET from a pod's HTTP port: through the API server's proxy, else through a forwarded port.

        Raises:
            NotFound: There is no such pod.
            Failed: It answers neither way.
        """


class KubernetesCluster:
    """`Cluster` over the official client."""

    def __init__(self, client: Any, namespace: str) -> None:
        """Use a configured `kubernetes.client.ApiClient`; `namespace` is the context's."""
        self.client = client
        self.namespace = namespace
        self._one_forward = threading.Lock()  # the client is changed while it opens a web socket
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
            # Items of a list carry no kind of their own.
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
        from eventconsumer_cli.kube.kinds import POD

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
        from eventconsumer_cli.kube.kinds import POD

        if not self._proxy_refused:
            try:
                proxy = POD.path(namespace, f"{pod}:{port}", "proxy") + path
                return bytes(self._open("GET", proxy, None, read_seconds=CONNECT_SECONDS).data)
            except Forbidden:
                self._proxy_refused = True  # one right serves all pods
            except CliError:
                pass  # a network policy may keep the API server's node out; a forwarded port comes from inside
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
        """One request with a JSON answer.

        Raises:
            CliError: Any of `errors`, by the status of the answer.
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


def _lines(response: Any, what: str) -> Iterator[bytes]:
    from urllib3.exceptions import HTTPError

    rest = b""
    try:
        for chunk in response.stream(65_536, decode_content=True):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line + b"\n" for line in whole)
    except (HTTPError, OSError) as error:
        raise ClusterError(f"{what} broke off: {type(error).__name__}") from error
    finally:
        response.close()
    if rest:
        yield rest


def unreachable(host: str, error: Exception) -> ClusterError:
    """The API server does not answer."""
    cause = getattr(error, "reason", None) or error
    if "CERTIFICATE_VERIFY_FAILED" in str(cause):
        return ClusterError(
            f"the certificate of the cluster at {host} is not trusted",
            "fetch the kubeconfig again: its certificate-authority-data is not that of this cluster",
        )
    return ClusterError(
        f"the cluster at {host} does not answer ({type(cause).__name__})",
        "look at `kubectl config current-context`, the VPN or proxy, and --context and --kubeconfig",
    )


def answer_error(status: int, method: str, path: str, content: bytes) -> CliError:
    """The error that an answer of the API server stands for."""
    message = _message(content) or f"{method} {path} was answered with HTTP {status}"
    if status == 401:
        return Forbidden(f"the cluster does not know you: {message}", "sign in again, as for kubectl")
    if status == 403:
        return Forbidden(message, "ask an administrator of the cluster for that right")
    if status == 404:
        if any(text in message for text in _NOT_SERVED):
            return NotFound(
                f"the cluster does not serve {path.rpartition('/')[2]}",
                "install EventConsumer (its chart brings the definition), or choose another cluster with --context",
            )
        return NotFound(message)
    if status in (400, 409, 422):
        return RefusedError(message)
    return Failed(f"{message} (HTTP {status})")


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:300].decode(errors="replace").strip()


def connect(kubeconfig: Path | None = None, context: str | None = None) -> KubernetesCluster:
    """The cluster that kubectl would use: --kubeconfig, else KUBECONFIG, else ~/.kube/config, else the pod's own.

    Raises:
        ClusterError: There is no kubeconfig, or it has no such context.
    """
    import yaml
    from kubernetes import client, config

    settings = client.Configuration()
    settings.retries = 1  # for a connection that went stale; a cluster that is away should not be waited for four times
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # what it tries again is no news
    path = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or "~/.kube/config"
    if not kubeconfig and not context and _IN_POD.exists() and not _exists(path):
        config.load_incluster_config(client_configuration=settings)
        return KubernetesCluster(client.ApiClient(settings), _IN_POD.read_text(encoding="utf-8").strip())
    if not _exists(path):
        raise ClusterError(f"no kubeconfig: {path} does not exist", "name one with --kubeconfig, or set KUBECONFIG")
    try:
        contexts, current = config.list_kube_config_contexts(path)
        chosen = next(each for each in contexts if each["name"] == context) if context else current
        config.load_kube_config(path, chosen["name"], client_configuration=settings, persist_config=False)
    except StopIteration:
        names = ", ".join(sorted(str(each["name"]) for each in contexts))
        raise ClusterError(f"the kubeconfig has no context {context!r}; it has {names or 'none'}") from None
    except (config.ConfigException, yaml.YAMLError) as error:
        raise ClusterError(f"the kubeconfig {path} cannot be used: {error}") from error
    return KubernetesCluster(client.ApiClient(settings), chosen["context"].get("namespace") or "default")


def _exists(paths: str) -> bool:
    return any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path)
