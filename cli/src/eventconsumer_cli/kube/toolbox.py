"""Where the programs of the host image run for a consumer: in a host pod that is ready, else in a pod made for it.

The commands that need the consumer's credentials are programs of the host image, so that nobody has to hold those
credentials to use them: who may use them is who may create pods/exec. A pod that was made goes when the command ends,
however it ends; if this program is killed, the pod ends by itself, and the next command removes it.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eventconsumer_api import labels
from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.kinds import Manifest
from eventconsumer_cli.errors import CliError, Failed, Forbidden, NotFound, RefusedError
from eventconsumer_cli.interrupts import signals_as_interrupts, undisturbed
from eventconsumer_cli.kube import toolpod
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.exec import Shell
from eventconsumer_cli.kube.kinds import POD, STATEFUL_SET, is_ready, name_of, namespace_of
from eventconsumer_cli.kube.tool import Place, Tool

LIFETIME_SECONDS = 3600
START_SECONDS = 180.0
_POLL_SECONDS = 0.5
_HOPELESS = ("ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError",
             "ImagePullBackOff", "RunContainerError")  # fmt: skip

Say = Callable[[str], object]


@dataclass
class Toolbox:
    """Finds or makes the place.

    Attributes:
        cluster: The cluster.
        shell: Runs programs in its pods.
        say: Gets remarks for people.
        sleep: Waits, seconds.
        clock: Time, seconds.
    """

    cluster: Cluster
    shell: Shell
    say: Say = lambda _: None
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    @contextlib.contextmanager
    def at(self, consumer: Manifest, *, new_pod: bool = False, seconds: int = LIFETIME_SECONDS) -> Iterator[Tool]:
        """The tool of a consumer's hosts.

        Args:
            consumer: The EventConsumer.
            new_pod: Make a pod even where a host runs, to leave hosts their memory and processor time.
            seconds: A pod that is made ends after so long, whatever happens.

        Raises:
            NotFound: The operator has made nothing for this consumer yet.
            Forbidden: The user may not create a pod.
            Failed: The pod does not start.
        """
        host = None if new_pod else ready_host(self.cluster, consumer)
        if host is not None:
            yield Tool(self.shell, host)
            return
        namespace, name = namespace_of(consumer), name_of(consumer)
        try:
            hosts = self.cluster.get(STATEFUL_SET, namespace, f"{name}-host")
        except NotFound as error:
            raise NotFound(
                f"the operator has made no hosts for {namespace}/{name} yet, so there is nothing to make a pod from",
                f"see `kubectl eventconsumer status {name} -n {namespace}`, and whether its operator runs",
            ) from error
        manifest = toolpod.of_consumer(consumer, hosts, secrets.token_hex(4), seconds)
        with self._made(manifest, toolpod.tool_labels(name)) as place:
            yield Tool(self.shell, place)

    @contextlib.contextmanager
    def for_config(
        self, namespace: str, config: HostConfig, image: str, service_account: str, *, seconds: int = LIFETIME_SECONDS
    ) -> Iterator[Tool]:
        """The tool for a configuration that there is no resource for yet.

        Raises:
            Forbidden: The user may not create a pod.
            Failed: The pod does not start.
        """
        suffix = secrets.token_hex(4)
        manifest = toolpod.of_config(
            namespace, config, image=image, service_account=service_account, suffix=suffix, seconds=seconds
        )
        with self._made(manifest, toolpod.tool_labels()) as place:
            yield Tool(self.shell, place)

    @contextlib.contextmanager
    def _made(self, manifest: Manifest, like: dict[str, str]) -> Iterator[Place]:
        namespace, name = namespace_of(manifest), name_of(manifest)
        image = str(manifest["spec"]["containers"][0]["image"])
        self._sweep(namespace, like)
        with signals_as_interrupts():
            try:
                self._create(manifest)
                self.say(f"no host to ask: pod {namespace}/{name} is made for this and removed afterwards")
                self._wait(namespace, name)
                yield Place(namespace, name, toolpod.CONTAINER, image)
            finally:
                with undisturbed():
                    self._remove(namespace, name)

    def _create(self, manifest: Manifest) -> None:
        namespace = namespace_of(manifest)
        try:
            self.cluster.create(POD, manifest)
        except Forbidden as error:
            account = manifest["spec"].get("serviceAccountName", "default")
            if "serviceaccount" in str(error) and "not found" in str(error):
                raise NotFound(
                    f"namespace {namespace} has no service account {account}, as which hosts run",
                    "let the chart serve this namespace (watchNamespaces), or create the service account",
                ) from error
            if "exceeded quota" in str(error) or "violates PodSecurity" in str(error):
                raise RefusedError(f"namespace {namespace} does not admit the pod: {error}") from error
            raise Forbidden(
                f"pods: create is forbidden for you in namespace {namespace}",
                "ask an administrator of the cluster for the right to create and delete pods there "
                "(no host runs, so a pod has to be made)",
            ) from error

    def _wait(self, namespace: str, name: str) -> None:
        deadline = self.clock() + START_SECONDS
        while True:
            pod = self.cluster.get(POD, namespace, name)
            if toolpod.is_running(pod):
                return
            why = toolpod.why_waiting(pod)
            if toolpod.has_ended(pod):
                raise Failed(f"pod {namespace}/{name} ended before it could be used{f': {why}' if why else ''}")
            if why.startswith(_HOPELESS) or self.clock() >= deadline:
                raise Failed(
                    f"pod {namespace}/{name} does not start{f': {why}' if why else f' within {START_SECONDS:.0f} s'}",
                    "see why with `kubectl get events`: the image must be pullable and the cluster have room",
                )
            self.sleep(_POLL_SECONDS)

    def _remove(self, namespace: str, name: str) -> None:
        try:
            self.cluster.delete(POD, namespace, name, grace_seconds=toolpod.GRACE_SECONDS)
        except CliError as error:
            self.say(
                f"pod {namespace}/{name} could not be removed ({error}); it ends by itself: "
                f"kubectl delete pod {name} -n {namespace}"
            )

    def _sweep(self, namespace: str, like: dict[str, str]) -> None:
        """Remove what earlier commands left, which have ended; whoever may not, leaves it."""
        with contextlib.suppress(CliError):
            for pod in self.cluster.list(POD, namespace, like):
                if toolpod.has_ended(pod):
                    self.cluster.delete(POD, namespace, name_of(pod))


def ready_host(cluster: Cluster, consumer: Manifest) -> Place | None:
    """A host pod that is ready, None where there is none."""
    name = name_of(consumer)
    wanted = {
        labels.LABEL_NAME: toolpod.APPLICATION,
        labels.LABEL_COMPONENT: labels.COMPONENT_HOST,
        labels.LABEL_CONSUMER: name,
    }
    for pod in sorted(cluster.list(POD, namespace_of(consumer), wanted), key=name_of):
        # Labels can be put on anything by anyone: credentials are not shown to whatever has them.
        owned = any(
            each["kind"] == STATEFUL_SET.name and each["name"] == f"{name}-host" and each.get("controller")
            for each in pod["metadata"].get("ownerReferences", [])
        )
        if owned and is_ready(pod):
            image = next(
                (each["image"] for each in pod["spec"]["containers"] if each["name"] == labels.COMPONENT_HOST), ""
            )
            return Place(namespace_of(consumer), name_of(pod), labels.COMPONENT_HOST, image)
    return None
