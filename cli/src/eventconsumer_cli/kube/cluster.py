"""The cluster as commands ask for it: few verbs, plain dicts, our own errors."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from eventconsumer_api.kinds import Kind, Manifest


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
