"""Protocol of the cluster for commands: few verbs, plain dicts, our own errors."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from eventconsumer_api.kube.kinds import Kind, Manifest


class Cluster(Protocol):
    """Operations of commands on a cluster. Every method may raise ClusterError, Forbidden or Failed."""

    namespace: str
    """The namespace of the kubeconfig's context; `default` if it has none."""

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """Return the object.

        Raises:
            NotFound: It does not exist.
        """

    def list(self, kind: Kind, namespace: str, labels: Mapping[str, str] | None = None) -> list[Manifest]:
        """Return all objects of the namespace, or of all namespaces with "", that have `labels`.

        Raises:
            NotFound: The API server does not know the kind.
        """

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create the object; `dry_run`: only validate it.

        Raises:
            RefusedError: It is invalid, or its name exists.
        """

    def merge(self, kind: Kind, namespace: str, name: str, change: Manifest) -> Manifest:
        """Change some fields (JSON merge patch) and return the object.

        Raises:
            NotFound: It does not exist.
            RefusedError: The change is invalid.
        """

    def delete(self, kind: Kind, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete the object; no error if it does not exist."""

    def logs(
        self, namespace: str, pod: str, container: str, *, follow: bool, tail: int | None, since: int | None
    ) -> Iterator[bytes]:
        """Lines of a container's log, each with its line end.

        Args:
            namespace: Namespace of the pod.
            pod: Its name.
            container: In it.
            follow: Continue until the container ends.
            tail: Number of the newest lines; None: all.
            since: Maximum age in seconds; None: all.

        Raises:
            NotFound: There is no such pod.
        """

    def ask_pod(self, namespace: str, pod: str, port: int, path: str) -> bytes:
        """GET from a pod's HTTP port: through the API server's proxy, otherwise through a forwarded port.

        Raises:
            NotFound: There is no such pod.
            Failed: No response either way.
        """
