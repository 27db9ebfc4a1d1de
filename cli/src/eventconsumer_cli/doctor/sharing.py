"""EventConsumers that share a consumer group, leases, files or an output: each pair, with the required change.

Pure except `look`. Storage accounts and hubs may be named only by connection strings in Secrets, whose values are not
read. The same key of the same Secret means the same account; for different Secrets it is unknown. The hub of a consumer
whose hosts have run is in its status.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import ValidationError

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.endpoints import account_name
from eventconsumer_api.v1alpha1 import Authentication, EventConsumerSpec, LeaseLayout
from eventconsumer_api.v1alpha1.status import EventConsumerStatus, HubStatus
from eventconsumer_api.wire.identity import lease_prefix
from eventconsumer_cli.doctor.findings import Finding, Level
from eventconsumer_cli.errors import CliError
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, name_of, namespace_of

CHECK = "sharing"
_LEASES_REMEDY = (
    "remove spec.checkpointStore.prefix of both, or set prefixes that differ; "
    "for two consumers of one Event Hub, give one of them another spec.eventHub.consumerGroup"
)
_GROUP_REMEDY = (
    "create one of them again with another spec.eventHub.consumerGroup, or delete it: "
    "Event Hubs has one reader for each partition and consumer group"
)
_SINK_REMEDY = (
    "set another spec.sink.prefix for one of them; "
    "to move the files, suspend or delete their owner, and run kubectl eventconsumer adopt for the other"
)


@dataclass(frozen=True)
class Named:
    """An object identified by its name, or by the Secret that contains its name."""

    name: str = ""
    secret: tuple[str, str, str] | None = None  # namespace, name, key

    def same(self, other: "Named") -> bool | None:
        """Whether both are the same; None: unknown."""
        if self.name and other.name:
            return self.name.lower() == other.name.lower()
        return True if self.secret is not None and self.secret == other.secret else None


@dataclass(frozen=True)
class SharedLeases:
    """Location of leases."""

    account: Named
    container: str
    prefix: str | None
    layout: LeaseLayout
    hub_namespace: Named
    hub: Named
    group: str

    def folder(self) -> str | None:
        """Prefix of the names of the leases (layout EventProcessorHost), the group in lower case; None: hub unknown."""
        if self.prefix is None and not (self.hub_namespace.name and self.hub.name):
            return None
        return (
            lease_prefix(self.prefix, self.layout, self.hub_namespace.name.lower(), self.hub.name) + self.group.lower()
        )


@dataclass(frozen=True)
class SharedPlaces:
    """The storage locations of a consumer.

    Attributes:
        about: `<namespace>/<name>` of the consumer.
        leases: Location of its leases.
        account: The storage account of the files.
        container: Their container.
        prefix: Their folder.
        output: Account, container and folder of Spark's output; None: no Spark.
    """

    about: str
    leases: SharedLeases
    account: Named
    container: str
    prefix: str
    output: tuple[str, str, str] | None


def look(cluster: Cluster, consumers: Sequence[Manifest], scope: str) -> Iterator[Finding]:
    """Compare consumers with all consumers that the user may list.

    Args:
        cluster: The cluster.
        consumers: Consumers to compare; they need not exist in the cluster.
        scope: Namespace to list if the user may not list all namespaces.
    """
    try:
        found, where = cluster.list(EVENT_CONSUMER, ""), "in all namespaces"
    except CliError:
        try:
            found, where = cluster.list(EVENT_CONSUMER, scope), f"in namespace {scope}"
        except CliError as error:
            text = f"you have no permission to list EventConsumers: {error}"
            yield from (Finding(CHECK, Level.UNKNOWN, text, consumer=_about(each)) for each in consumers)
            return
    own = {_about(each): each for each in consumers}
    others = {_about(each): each for each in found if _about(each) not in own}
    yield from judge([*_places(own.values())], [*_places(others.values())], where)


def judge(own: Sequence[SharedPlaces], others: Sequence[SharedPlaces], where: str) -> Iterator[Finding]:
    """Findings for shared locations; one positive finding for each consumer that shares none.

    Args:
        own: Consumers to compare with each other and with the others.
        others: Other consumers.
        where: Location of the others, for messages.
    """
    for index, one in enumerate(own):
        compared = [*own[:index], *own[index + 1 :], *others]
        found = [finding for other in compared for finding in _pair(one, other)]
        if not found:
            rest = f"the {len(compared)} other EventConsumers {where}"
            text = f"shares no consumer group, leases, files or output with {rest}"
            found = [Finding(CHECK, Level.OK, text, consumer=one.about)]
        yield from found


def places(consumer: Manifest) -> SharedPlaces:
    """The storage locations of a consumer.

    Raises:
        ValidationError: Its spec does not match this version.
    """
    spec, namespace = EventConsumerSpec.model_validate(consumer["spec"]), namespace_of(consumer)
    hub, leases, sink = spec.event_hub, spec.checkpoint_store, spec.sink
    host, name = hub.fully_qualified_namespace, hub.name
    if not (host and name):
        reported = _hub_status(consumer)
        host, name = host or reported.namespace, name or reported.name
    key = _secret(namespace, hub.authentication)
    output = spec.spark.output if spec.spark and spec.spark.enabled else None
    return SharedPlaces(
        about=_about(consumer),
        leases=SharedLeases(
            account=_account(namespace, leases.storage_account_url, leases.authentication),
            container=leases.container,
            prefix=leases.prefix,
            layout=leases.layout,
            hub_namespace=Named((host or "").partition(":")[0], key),
            hub=Named(name or "", key),
            group=hub.consumer_group,
        ),
        account=_account(namespace, sink.storage_account_url, sink.authentication),
        container=sink.container,
        prefix=sink.prefix.rstrip("/") or _about(consumer),
        output=_output(output.path) if output else None,
    )


def _pair(one: SharedPlaces, other: SharedPlaces) -> Iterator[Finding]:
    def finding(level: Level, what: str, remedy: str) -> Finding:
        shares = "shares" if level is Level.BROKEN else "may share (values in Secrets are unknown)"
        return Finding(CHECK, level, f"{one.about} {shares} with {other.about} {what}", remedy, consumer=one.about)

    account, folder = one.leases.account.same(other.leases.account), _same_leases(one.leases, other.leases)
    group, level = _same_group(one.leases, other.leases), None
    if one.leases.container == other.leases.container and account is not False and folder is not False:
        level = Level.UNKNOWN if folder is None else Level.WARNING if account is None else Level.BROKEN
    if group and level is not Level.BROKEN:  # one finding for one cause: shared leases include the consumer group
        yield finding(Level.BROKEN, f"consumer group {one.leases.group} of one Event Hub", _GROUP_REMEDY)
    elif level is not None:
        what = f"the leases of consumer group {one.leases.group} in container {one.leases.container}"
        yield finding(level, what, _LEASES_REMEDY)
    elif group is None:
        what = f"consumer group {one.leases.group} of one Event Hub"
        yield finding(Level.UNKNOWN, what, _GROUP_REMEDY)
    account, overlap = one.account.same(other.account), _overlap(one.prefix, other.prefix)
    if one.container == other.container and account is not False and overlap:
        level = Level.WARNING if account is None else Level.BROKEN
        yield finding(level, f"files in container {one.container}: {overlap}", _SINK_REMEDY)
    if one.output and other.output and one.output[:2] == other.output[:2]:
        overlap = _overlap(one.output[2], other.output[2])
        if overlap:
            what = f"the output in container {one.output[1]} of account {one.output[0]}: {overlap}"
            yield finding(Level.BROKEN, what, "set another spec.spark.output.path for one of them")


def _same_leases(one: SharedLeases, other: SharedLeases) -> bool | None:
    if one.layout is not other.layout:
        return False
    hub = _both(one.hub_namespace.same(other.hub_namespace), one.hub.same(other.hub))
    group = one.group.lower() == other.group.lower()
    if one.layout is LeaseLayout.AZURE_SDK:  # the names always contain the hub
        return _both(hub, group and (one.prefix or "").strip() == (other.prefix or "").strip())
    if one.prefix is None and other.prefix is None:
        return _both(hub, group)
    folders = one.folder(), other.folder()
    if None not in folders:
        return folders[0] == folders[1]
    explicit = next(each.prefix for each in (one, other) if each.prefix is not None)
    return None if explicit.count("/") == 2 and group else False  # a default is <namespace>/<hub>/


def _same_group(one: SharedLeases, other: SharedLeases) -> bool | None:
    """Whether both read one hub in one consumer group: Event Hubs compares the names without case."""
    hub = _both(one.hub_namespace.same(other.hub_namespace), one.hub.same(other.hub))
    return _both(hub, one.group.lower() == other.group.lower())


def _hub_status(consumer: Manifest) -> HubStatus:
    """What hosts reported about the hub for the present spec; nothing where an older operator wrote the status."""
    try:
        status = EventConsumerStatus.model_validate(consumer.get("status", {}))
    except ValidationError:
        return HubStatus()
    return status.hub if status.observed_generation == consumer["metadata"].get("generation") else HubStatus()


def _both(*parts: bool | None) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def _overlap(one: str, other: str) -> str:
    """The overlap of two folders; empty: none."""
    if one == other:
        return f"both write to {one}"
    for inner, outer in ((one, other), (other, one)):
        if inner.startswith(f"{outer}/"):
            return f"{inner} is inside {outer}"
    return ""


def _account(namespace: str, url: str | None, authentication: Authentication) -> Named:
    return Named(account_name(url) if url else "", _secret(namespace, authentication))


def _secret(namespace: str, authentication: Authentication) -> tuple[str, str, str] | None:
    ref = authentication.connection_string_secret_ref
    return (namespace, ref.name, ref.key) if ref else None


def _output(path: str) -> tuple[str, str, str]:
    url = urlsplit(path)
    container, _, host = url.netloc.rpartition("@")
    return host.partition(".")[0].lower(), container, url.path.strip("/")


def _places(consumers: Iterable[Manifest]) -> Iterator[SharedPlaces]:
    for consumer in consumers:
        try:
            yield places(consumer)
        except ValidationError:
            continue  # the finding `definition` reports different versions


def _about(consumer: Manifest) -> str:
    return f"{namespace_of(consumer)}/{name_of(consumer)}"
