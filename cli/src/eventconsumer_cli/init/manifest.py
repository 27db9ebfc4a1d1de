"""A first EventConsumer from a few answers. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from eventconsumer_api.kube.mounts import CHECKPOINT_SECRET, HUB_SECRET, SINK_SECRET, credential, proxy_config
from eventconsumer_api.resource.crdgen import NAME_MAX
from eventconsumer_api.spec.endpoints import AZURE_HUB_SUFFIXES, AZURE_STORAGE_SUFFIXES
from eventconsumer_api.v1alpha1 import API_VERSION, KIND, EventConsumerSpec
from eventconsumer_api.wire.host_config import (
    BlobLocation,
    HostConfig,
    HubConfig,
    LeaseConfig,
    LeaseLocation,
    ResourceRef,
)
from eventconsumer_cli.errors import Failed
from eventconsumer_cli.kube.releases import Settings

DEFAULT_KEY = "connectionString"
_GRACE_SECONDS = 60


@dataclass(frozen=True)
class Answers:
    """The answers of the user.

    Attributes:
        name: Name of the EventConsumer.
        namespace: Its namespace.
        hub: Name of the Event Hub; empty: the connection string has it (EntityPath).
        hub_namespace: Host name of its namespace; empty: the connection string has it.
        consumer_group: Consumer group to read with.
        hub_secret: Secret, or Secret/key, with the hub's connection string; empty: workload identity.
        storage_secret: The same for the storage account.
        client_id: Client id of the workload identity; empty: Secrets.
        storage_account_url: Blob endpoint; empty: the connection string has it.
        lease_container: Container of leases and checkpoints.
        sink_container: Container of the drained files.
        spark_output: Output path of Spark; empty: no Spark.
    """

    name: str
    namespace: str
    hub: str = ""
    hub_namespace: str = ""
    consumer_group: str = "$Default"
    hub_secret: str = ""
    storage_secret: str = ""
    client_id: str = ""
    storage_account_url: str = ""
    lease_container: str = "leases"
    sink_container: str = "drained"
    spark_output: str = ""


def manifest(answers: Answers) -> dict[str, Any]:
    """The resource, with the answers and without defaults.

    Raises:
        Failed: An answer is invalid; the message names it.
    """
    _check(answers)
    storage = _authentication(answers.storage_secret, answers.client_id)
    account = {"storageAccountUrl": answers.storage_account_url} if answers.storage_account_url else {}
    hub = {
        "fullyQualifiedNamespace": answers.hub_namespace,
        "name": answers.hub,
        "consumerGroup": answers.consumer_group,
    }
    spec: dict[str, Any] = {
        "eventHub": {name: value for name, value in hub.items() if value}
        | {"authentication": _authentication(answers.hub_secret, answers.client_id)},
        "checkpointStore": {**account, "container": answers.lease_container, "authentication": storage},
        "sink": {**account, "container": answers.sink_container, "authentication": storage},
    }
    if answers.spark_output:
        spec["spark"] = {"output": {"path": answers.spark_output}}
    parse(spec)
    metadata = {"name": answers.name, "namespace": answers.namespace}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def parse(spec: Mapping[str, Any]) -> EventConsumerSpec:
    """The spec, validated by the resource's models.

    Raises:
        Failed: A field is invalid; the message names the first.
    """
    try:
        return EventConsumerSpec.model_validate(spec)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(["spec", *(str(part) for part in first["loc"])])
        raise Failed(f"{path}: {first['msg']}") from error


def host_config(resource: Mapping[str, Any], settings: Settings) -> HostConfig:
    """The configuration with which a host would reach hub and storage.

    Args:
        resource: The result of `manifest`.
        settings: Define the allowed endpoints.
    """
    spec, metadata = parse(resource["spec"]), resource["metadata"]
    hub, leases, sink = spec.event_hub, spec.checkpoint_store, spec.sink
    return HostConfig(
        resource=ResourceRef(namespace=metadata["namespace"], name=metadata["name"], uid=""),
        event_hub=HubConfig(
            fully_qualified_namespace=hub.fully_qualified_namespace,
            name=hub.name,
            consumer_group=hub.consumer_group,
            credential=credential("spec.eventHub", HUB_SECRET, hub.authentication),
            transport=hub.transport,
        ),
        leases=LeaseConfig(
            location=LeaseLocation(
                storage_account_url=leases.storage_account_url,
                storage_api_version=leases.storage_api_version,
                container=leases.container,
                prefix=leases.prefix,
                credential=credential("spec.checkpointStore", CHECKPOINT_SECRET, leases.authentication),
            ),
            duration_seconds=leases.lease_duration_seconds,
        ),
        starting_position=spec.starting_position,
        processing=spec.processing.for_hosts(),
        sink=BlobLocation(
            storage_account_url=sink.storage_account_url,
            storage_api_version=sink.storage_api_version,
            container=sink.container,
            prefix=f"{metadata['namespace']}/{metadata['name']}",
            credential=credential("spec.sink", SINK_SECRET, sink.authentication),
        ),
        roll=sink.roll,
        batches=None,
        proxy=proxy_config(spec.proxy),
        drain_seconds=_GRACE_SECONDS,
        allow_insecure_endpoints=settings.allow_insecure_endpoints,
        hub_suffixes=settings.hub_suffixes or AZURE_HUB_SUFFIXES,
        storage_suffixes=settings.storage_suffixes or AZURE_STORAGE_SUFFIXES,
    )


def render(resource: Mapping[str, Any]) -> str:
    """The manifest as YAML, with the next commands as comments."""
    import yaml

    class Plain(yaml.SafeDumper):
        """Anchors and aliases are disabled, because they make the file hard to read."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    name, namespace = resource["metadata"]["name"], resource["metadata"]["namespace"]
    head = (
        f"# kubectl apply -f <this file>, then: kubectl eventconsumer status {name} -n {namespace}\n"
        "# All fields: docs/reference/eventconsumer.md, or kubectl explain eventconsumer.spec\n"
    )
    return head + yaml.dump(dict(resource), Dumper=Plain, sort_keys=False, width=120)


def _check(answers: Answers) -> None:
    if len(answers.name) > NAME_MAX or not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", answers.name):
        raise Failed(
            f"{answers.name!r} is not a valid name: at most {NAME_MAX} lower-case letters, digits and hyphens, "
            "starting with a letter"
        )
    if answers.client_id and (answers.hub_secret or answers.storage_secret):
        raise Failed("either Secrets or a workload identity: --client-id goes with neither --hub-secret nor "
                     "--storage-secret")  # fmt: skip
    if not answers.client_id and not (answers.hub_secret and answers.storage_secret):
        raise Failed("specify a credential: --hub-secret and --storage-secret, or --client-id")
    if answers.client_id and not (answers.hub and answers.hub_namespace and answers.storage_account_url):
        raise Failed("with a workload identity --hub, --hub-namespace and --storage-account-url are required")


def _authentication(secret: str, client_id: str) -> dict[str, Any]:
    if client_id:
        return {"workloadIdentity": {"clientId": client_id}}
    name, _, key = secret.partition("/")
    return {"connectionStringSecretRef": {"name": name, "key": key or DEFAULT_KEY}}
