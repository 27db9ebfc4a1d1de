"""What every command starts from: the cluster, the namespace, and where answers go."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_cli.errors import Failed, NotFound
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, name_of
from eventconsumer_cli.kube.kubeconfig import connect
from eventconsumer_cli.output import Format, Output


@dataclass(frozen=True)
class Options:
    """The options that every command takes; None: not given."""

    namespace: str | None = None
    all_namespaces: bool = False
    context: str | None = None
    kubeconfig: Path | None = None
    output: Format | None = None

    def over(self, before: "Options") -> "Options":
        """These, and for what they do not say those given before the command."""
        return Options(
            namespace=self.namespace or before.namespace,
            all_namespaces=self.all_namespaces or before.all_namespaces,
            context=self.context or before.context,
            kubeconfig=self.kubeconfig or before.kubeconfig,
            output=self.output or before.output,
        )


def kubernetes(options: Options) -> Cluster:
    """The cluster that the options name."""
    return connect(options.kubeconfig, options.context)


@dataclass
class Session:
    """One run of the program."""

    options: Options = Options()
    connect: Callable[[Options], Cluster] = field(default=kubernetes)

    @cached_property
    def cluster(self) -> Cluster:
        """Connected when it is first asked for."""
        return self.connect(self.options)

    @cached_property
    def out(self) -> Output:
        """Where answers go."""
        return Output(self.options.output or Format.TABLE)

    @property
    def namespace(self) -> str:
        """The namespace that was named, else the context's."""
        return self.options.namespace or self.cluster.namespace

    @property
    def scope(self) -> str:
        """Where to list: "" with --all-namespaces."""
        return "" if self.options.all_namespaces else self.namespace

    def consumers(self, name: str | None = None) -> list[Manifest]:
        """The named consumer, or all in scope, by namespace and name; none is no error.

        Raises:
            NotFound: There is none of that name.
        """
        if name is not None:
            return [self.consumer(name)]
        found = self.cluster.list(EVENT_CONSUMER, self.scope)
        return sorted(found, key=lambda each: (each["metadata"]["namespace"], name_of(each)))

    def consumer(self, name: str | None) -> Manifest:
        """The named consumer; without a name the only one in the namespace.

        Raises:
            NotFound: There is none.
            Failed: There are several and none is named, or a name was given for all namespaces.
        """
        if self.options.all_namespaces:
            raise Failed("this is about one consumer: name its namespace with -n instead of -A")
        if name is not None:
            try:
                found = self.cluster.get(EVENT_CONSUMER, self.namespace, name.rpartition("/")[2])
            except NotFound as error:
                if error.remedy:
                    raise
                raise NotFound(
                    f"there is no EventConsumer {name} in namespace {self.namespace}", self._instead()
                ) from error
            return found
        found_all = self.cluster.list(EVENT_CONSUMER, self.namespace)
        if not found_all:
            raise NotFound(f"there is no EventConsumer in namespace {self.namespace}", self._elsewhere())
        if len(found_all) > 1:
            names = ", ".join(sorted(map(name_of, found_all)))
            raise Failed(f"namespace {self.namespace} has several EventConsumers: {names}", "name one of them")
        return found_all[0]

    def _instead(self) -> str:
        names = sorted(map(name_of, self.cluster.list(EVENT_CONSUMER, self.namespace)))
        return f"there are: {', '.join(names)}" if names else self._elsewhere()

    @staticmethod
    def _elsewhere() -> str:
        return (
            "name another namespace with -n, list all with `kubectl eventconsumer status -A`, or make one with `init`"
        )
