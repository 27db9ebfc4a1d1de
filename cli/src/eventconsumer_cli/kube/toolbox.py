"""Location of the programs of the host image for a consumer: a ready host pod, otherwise a temporary pod.

Commands that need the consumer's credentials are programs of the host image, so that users do not need these
credentials: the permission to create pods/exec is sufficient. A temporary pod is deleted when the command ends, however
it ends; if this program is killed, the pod ends by itself, and the next command deletes it.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.wire.host_config import Credential, HostConfig, ProxyConfig
from eventconsumer_cli.errors import CliError, Failed, Forbidden, NotFound, RefusedError
from eventconsumer_cli.interrupts import signals_as_interrupts, undisturbed
from eventconsumer_cli.kube import toolpod
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.exec import Shell
from eventconsumer_cli.kube.kinds import POD, STATEFUL_SET, is_ready, name_of, namespace_of
from eventconsumer_cli.kube.tool import Tool, ToolContainer

LIFETIME_SECONDS = 3600
START_SECONDS = 180.0
_POLL_SECONDS = 0.5
_HOPELESS = (
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ImagePullBackOff",
    "RunContainerError",
)

Say = Callable[[str], object]


@dataclass
class Toolbox:
    """Finds or creates the container.

    Attributes:
        cluster: The cluster.
        shell: Runs programs in its pods.
        say: Receives notices for the user.
        sleep: Waits, seconds.
        clock: Time, seconds.
    """

    cluster: Cluster
    shell: Shell
    say: Say = lambda _: None
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    @contextlib.contextmanager
    def at(
        self,
        consumer: Manifest,
        *,
        new_pod: bool = False,
        seconds: int = LIFETIME_SECONDS,
        memory: toolpod.PodMemory | None = None,
    ) -> Iterator[Tool]:
        """The tool of a consumer's hosts.

        Args:
            consumer: The EventConsumer.
            new_pod: Use a temporary pod even if a host runs, to leave memory and CPU time to hosts.
            seconds: Maximum lifetime of a temporary pod.
            memory: Of a temporary pod, which is then always used; None: that of a host.

        Raises:
            NotFound: The operator has not created hosts for this consumer yet.
            RefusedError: The StatefulSet with the name of its hosts belongs to something else.
            Forbidden: The user may not create a pod.
            Failed: The pod does not start.
        """
        host = None if new_pod or memory else ready_host(self.cluster, consumer)
        if host is not None:
            yield Tool(self.shell, host)
            return
        namespace, name = namespace_of(consumer), name_of(consumer)
        try:
            hosts = self.cluster.get(STATEFUL_SET, namespace, f"{name}-host")
        except NotFound as error:
            raise NotFound(
                f"the operator has not created hosts for {namespace}/{name} yet, which are the template of the pod",
                f"run `kubectl eventconsumer status {name} -n {namespace}`, and check that its operator runs",
            ) from error
        if consumer["metadata"]["uid"] not in (each["uid"] for each in hosts["metadata"].get("ownerReferences", ())):
            raise RefusedError(
                f"StatefulSet {namespace}/{name}-host does not belong to this EventConsumer, so it is no template",
                "give the EventConsumer another name",
            )
        manifest = toolpod.of_consumer(consumer, hosts, secrets.token_hex(4), seconds, memory)
        why = "this command needs memory of its own" if memory else "no host runs"
        with self._made(manifest, toolpod.tool_labels(name), why) as place:
            yield Tool(self.shell, place)

    @contextlib.contextmanager
    def for_config(
        self, namespace: str, config: HostConfig, image: str, service_account: str, *, seconds: int = LIFETIME_SECONDS
    ) -> Iterator[Tool]:
        """The tool for a configuration without a resource.

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
    def like_driver(
        self,
        consumer: Manifest,
        image: str,
        credential: Credential | None,
        *,
        proxy: ProxyConfig | None,
        program: Sequence[str],
    ) -> Iterator[Tool]:
        """A program of the Spark image in a temporary pod that reaches the schema registry as drivers do.

        Args:
            consumer: The EventConsumer.
            image: Its Spark image.
            credential: For its schema registry; None: none.
            proxy: Its proxy.
            program: The program.

        Raises:
            Forbidden: The user may not create a pod.
            Failed: The pod does not start.
        """
        suffix = secrets.token_hex(4)
        manifest = toolpod.of_driver(consumer, image, credential, proxy=proxy, suffix=suffix, seconds=LIFETIME_SECONDS)
        like = toolpod.tool_labels(name_of(consumer), labels.COMPONENT_SPARK_TOOL)
        with self._made(manifest, like, "hosts do not reach what drivers reach") as place:
            yield Tool(self.shell, place, program)

    @contextlib.contextmanager
    def _made(self, manifest: Manifest, like: dict[str, str], why: str = "no host runs") -> Iterator[ToolContainer]:
        namespace, name = namespace_of(manifest), name_of(manifest)
        spec = manifest["spec"]
        images = [str(each["image"]) for each in (*spec["containers"], *spec.get("initContainers", ()))]
        self._sweep(namespace, like)
        # Said before the pod exists, so that it is known however the command ends.
        self.say(
            f"{why}: pod {namespace}/{name} with image {', '.join(images)} and service account "
            f"{spec.get('serviceAccountName', 'default')} is created for this command and deleted afterwards"
        )
        with signals_as_interrupts():
            try:
                self._create(manifest, why)
                self._wait(namespace, name)
                yield ToolContainer(namespace, name, toolpod.CONTAINER, images[0])
            finally:
                with undisturbed():
                    self._remove(namespace, name)

    def _create(self, manifest: Manifest, why: str) -> None:
        namespace = namespace_of(manifest)
        try:
            self.cluster.create(POD, manifest)
        except Forbidden as error:
            account = manifest["spec"].get("serviceAccountName", "default")
            if "serviceaccount" in str(error) and "not found" in str(error):
                raise NotFound(
                    f"namespace {namespace} has no service account {account}, which the pod needs",
                    "add this namespace to the chart's watchNamespaces, or create the service account",
                ) from error
            if "exceeded quota" in str(error) or "violates PodSecurity" in str(error):
                raise RefusedError(f"namespace {namespace} does not admit the pod: {error}") from error
            raise Forbidden(
                f"pods: create is forbidden for you in namespace {namespace}",
                "ask an administrator of the cluster for the permission to create and delete pods there "
                f"({why}, so a temporary pod is required)",
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
                    "`kubectl get events` shows the cause: the image must be pullable, and nodes must have capacity",
                )
            self.sleep(_POLL_SECONDS)

    def _remove(self, namespace: str, name: str) -> None:
        try:
            self.cluster.delete(POD, namespace, name, grace_seconds=toolpod.GRACE_SECONDS)
        except CliError as error:
            self.say(
                f"pod {namespace}/{name} could not be deleted ({error}); it ends by itself: "
                f"kubectl delete pod {name} -n {namespace}"
            )

    def _sweep(self, namespace: str, like: dict[str, str]) -> None:
        """Delete ended pods of earlier commands, if the user has permission."""
        with contextlib.suppress(CliError):
            for pod in self.cluster.list(POD, namespace, like):
                if toolpod.has_ended(pod):
                    self.cluster.delete(POD, namespace, name_of(pod))


def ready_host(cluster: Cluster, consumer: Manifest) -> ToolContainer | None:
    """A ready host pod; None if there is none."""
    name = name_of(consumer)
    wanted = {
        labels.LABEL_NAME: toolpod.APPLICATION,
        labels.LABEL_COMPONENT: labels.COMPONENT_HOST,
        labels.LABEL_CONSUMER: name,
    }
    for pod in sorted(cluster.list(POD, namespace_of(consumer), wanted), key=name_of):
        # Any user can set labels: credentials must not be sent to pods only because of their labels.
        owned = any(
            each["kind"] == STATEFUL_SET.name and each["name"] == f"{name}-host" and each.get("controller")
            for each in pod["metadata"].get("ownerReferences", [])
        )
        if owned and is_ready(pod):
            image = next(
                (each["image"] for each in pod["spec"]["containers"] if each["name"] == labels.COMPONENT_HOST), ""
            )
            return ToolContainer(namespace_of(consumer), name_of(pod), labels.COMPONENT_HOST, image)
    return None
