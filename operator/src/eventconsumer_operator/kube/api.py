"""The Kubernetes API as the operator uses it: few verbs, plain dicts, one field manager, the operator's errors.

`Api` is the interface, `KubernetesApi` implements it with the official asyncio client. The tests' fake passes the same
contract tests. Every request has a time limit, so an API server that hangs does not block a reconcile.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import aiohttp
from kubernetes.aio import client, config

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.kube.labels import FIELD_MANAGER
from eventconsumer_operator import metrics
from eventconsumer_operator.errors import Changed, Forbidden, Gone, OperatorError, Refused, Transient
from eventconsumer_operator.kube.manifest import (
    EVENT_CONSUMER,
    ObjectList,
    describe,
    install_hint,
    kind_of,
    name_of,
    trimmed,
)

_TIMEOUT = aiohttp.ClientTimeout(total=15, sock_connect=5)
# Objects of a page of a list. An object has at most 1.5 MiB, the limit of etcd for a request
# (https://etcd.io/docs/v3.6/dev-guide/limit/), and a page takes three times its size while it is parsed. So a page of
# PAGE objects always fits, and a longer one is given up for it once it has more bytes than it should.
PAGE = 20
LONG_PAGE = 250
LONG_PAGE_BYTES = 8 * 1024 * 1024
_APPLY = "application/apply-patch+yaml"

Keep = Callable[[Manifest], Manifest]
"""The part of an object that is held in memory."""


class Api(Protocol):
    """The requests of the operator. Every method may raise Forbidden, Refused or Transient."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return the object, or None if there is none."""

    async def list(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        keep: Keep = trimmed,
        fields: Mapping[str, str] | None = None,
    ) -> ObjectList:
        """Return all objects of the namespace, or of all namespaces with "", that carry `labels` and have `fields`.

        `keep` is called for each object as soon as its page arrives. `fields` are paths that the API server can select
        by, such as involvedObject.uid of Events.
        """

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply as the operator's field manager; take over fields of other managers.

        Raises:
            Changed: The manifest has a uid, and the object of its name has another one or does not exist.
        """

    async def apply_status(self, manifest: Manifest) -> Manifest:
        """Server-side apply of the status of an EventConsumer; return the whole object.

        Raises:
            Gone: It does not exist.
            Changed: It is no longer at metadata.resourceVersion. The API server ignores a uid here: the status of a
                deleted resource would be written to a new resource of the same name.
        """

    async def create(self, manifest: Manifest) -> Manifest | None:
        """Create the object; return it, or None if an object of that name exists.

        Raises:
            Refused: The API server does not serve its kind; the message names the operator to install.
        """

    async def merge(self, kind: Kind, namespace: str, name: str, change: Manifest) -> Manifest:
        """Change some fields of an object and return all of it.

        Raises:
            Gone: It does not exist.
        """

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """Delete the object if it has this `uid`; its dependents are deleted in the background."""


class KubernetesApi:
    """`Api` over the official client."""

    def __init__(self, api_client: Any) -> None:
        """Use a configured `kubernetes.aio.client.ApiClient`; the caller closes it."""
        self._client = api_client

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """See `Api`."""
        try:
            return await self._request("GET", kind.path(namespace, name))
        except Gone:
            return None

    async def list(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        keep: Keep = trimmed,
        fields: Mapping[str, str] | None = None,
    ) -> ObjectList:
        """See `Api`."""
        query: dict[str, str | int] = {"limit": LONG_PAGE}
        for name, wanted in (("labelSelector", labels), ("fieldSelector", fields)):
            if wanted:
                query[name] = ",".join(f"{each}={value}" for each, value in sorted(wanted.items()))
        items: list[Manifest] = []
        while True:
            try:
                most = LONG_PAGE_BYTES if query["limit"] == LONG_PAGE else None
                page = await self._request("GET", kind.path(namespace), query, most=most)
            except _TooLong:
                query["limit"] = PAGE  # the rest of the list, too: the next long page may be as large
                continue
            # Items of a list have no kind.
            items += [keep({"apiVersion": kind.api_version, "kind": kind.name} | item) for item in page["items"]]
            if not page["metadata"].get("continue"):
                # All pages have the version of the first one, or the API server answers 410.
                return ObjectList(tuple(items), page["metadata"]["resourceVersion"])
            query["continue"] = page["metadata"]["continue"]

    async def apply(self, manifest: Manifest) -> Manifest:
        """See `Api`."""
        path = kind_of(manifest).path(manifest["metadata"]["namespace"], name_of(manifest))
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        try:
            return await self._request("PATCH", path, query, manifest, _APPLY)
        except Refused as error:
            # The API server answers a wrong uid with 422, and the uid of a deleted object with 409.
            if "uid" in manifest["metadata"] and "metadata.uid" in str(error):
                raise Changed(str(error)) from error
            raise

    async def apply_status(self, manifest: Manifest) -> Manifest:
        """See `Api`."""
        path = EVENT_CONSUMER.path(manifest["metadata"]["namespace"], name_of(manifest), "status")
        return await self._request("PATCH", path, {"fieldManager": FIELD_MANAGER, "force": "true"}, manifest, _APPLY)

    async def create(self, manifest: Manifest) -> Manifest | None:
        """See `Api`."""
        path = kind_of(manifest).path(manifest["metadata"]["namespace"])
        try:
            return await self._request("POST", path, {"fieldManager": FIELD_MANAGER}, manifest)
        except Changed:
            return None
        except Gone as error:
            kind = kind_of(manifest)
            if install_hint(kind) and not await self.is_served(kind):
                raise Refused(f"{describe(manifest)}: {install_hint(kind)}") from error
            raise

    async def merge(self, kind: Kind, namespace: str, name: str, change: Manifest) -> Manifest:
        """See `Api`."""
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("PATCH", kind.path(namespace, name), query, change, "application/merge-patch+json")

    async def replace(self, manifest: Manifest) -> Manifest:
        """Write the whole object if it is still at its resourceVersion.

        Raises:
            Changed: It is at another version.
            Gone: It does not exist.
        """
        path = kind_of(manifest).path(manifest["metadata"]["namespace"], name_of(manifest))
        return await self._request("PUT", path, {"fieldManager": FIELD_MANAGER}, manifest)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """See `Api`."""
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._request("DELETE", kind.path(namespace, name), body=options)
        except (Gone, Changed):
            return  # deleted already, or replaced by another object

    async def is_served(self, kind: Kind) -> bool:
        """Whether the API server serves the kind."""
        try:
            resources = await self._request("GET", f"/apis/{kind.api_version}")
        except Gone:
            return False
        return any(resource["name"] == kind.plural for resource in resources["resources"])

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None = None,
        body: Manifest | None = None,
        content_type: str = "application/json",
        *,
        most: int | None = None,
    ) -> Manifest:
        what = f"{method} {describe(body)}" if body and "kind" in body else f"{method} {path}"
        headers = {"Accept": "application/json", "Content-Type": content_type}
        try:
            request = await self._client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(*request, _request_timeout=_TIMEOUT)
            content = await _read(response.response, most)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            metrics.API_REQUESTS.labels(method, resource_of(path), 0).inc()
            raise Transient(f"{what}: no answer from the API server ({type(error).__name__}: {error})") from error
        metrics.API_REQUESTS.labels(method, resource_of(path), response.status).inc()
        if 200 <= response.status < 300:
            result: Manifest = json.loads(content)
            return result
        raise _error(response.status, f"{what}: {_reason(content)}")


class _TooLong(Exception):  # noqa: N818 - named after what happened
    """A page has more bytes than it should."""


async def _read(response: aiohttp.ClientResponse, most: int | None) -> bytes:
    """The body of a response.

    Raises:
        _TooLong: It has more than `most` bytes; the rest is not read.
    """
    if most is None:
        return await response.read()
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most:
            response.close()
            raise _TooLong
    return bytes(body)


def resource_of(path: str) -> str:
    """The resource in an API path, with its subresource (eventconsumers/status); `discovery` for none."""
    parts = path.strip("/").split("/")[2 if path.startswith("/api/") else 3 :]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return "/".join(parts[::2]) or "discovery"


_ERRORS: dict[int, type[OperatorError]] = {
    400: Refused,
    403: Forbidden,
    404: Gone,
    409: Changed,
    422: Refused,
}


def _error(status: int, message: str) -> OperatorError:
    # 401 is transient, too: the client reads a rotated token within a minute.
    return _ERRORS.get(status, Transient)(f"{message} (HTTP {status})")


def _reason(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:300].decode(errors="replace") or "no reason given"


class NoCluster(Exception):  # noqa: N818 - named after what happened
    """There is neither a service account nor a kubeconfig; the message names the remedy."""


async def connect() -> Any:
    """Return an API client configured from the pod's service account, else from the kubeconfig.

    Raises:
        NoCluster: Neither exists, or the kubeconfig cannot be used.
    """
    settings = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=settings)
    except config.ConfigException:
        try:
            await config.load_kube_config(client_configuration=settings)
        except config.ConfigException as error:
            raise NoCluster(
                f"no cluster is configured: run in a pod with a service account, or set KUBECONFIG to a file ({error})"
            ) from None
    return client.ApiClient(settings)
