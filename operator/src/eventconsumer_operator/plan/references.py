"""Rejects Secrets and ConfigMaps that pods of an EventConsumer must not use. Pure.

Host pods and Spark's mount the Secrets that a spec names, and may run a handler or a program of the user. So the
Secrets of the operator's own installation are reserved, in every namespace: its signing key, the credentials of its
registry, and the records of Helm, which contain the manifests of a release with the signing key. ConfigMaps of hosts,
<name>-host, contain the configuration of an EventConsumer: user code must not read that of another one.
"""

from collections.abc import Iterator

from eventconsumer_api.spec.programs import Inputs, references
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.resource.names import HOST_SUFFIX
from eventconsumer_operator.settings import Settings

HELM_RELEASE = "sh.helm.release.v1."
"""Prefix of the Secrets in which Helm stores releases (helm.sh/docs/topics/advanced, "Storage backends")."""


def check_references(spec: EventConsumerSpec, settings: Settings) -> None:
    """Check the name of every Secret and ConfigMap in the spec.

    Raises:
        SpecError: An object is reserved, or its name has none of the allowed prefixes.
    """
    for field, name in _credentials(spec):
        _check_secret(field, name, settings)
    for path, inputs in programs(spec):
        for reference in references(inputs):
            check = _check_secret if reference.kind == "Secret" else _check_config_map
            check(f"spec.{path}.{reference.field}", reference.name, settings)


def programs(spec: EventConsumerSpec) -> Iterator[tuple[str, Inputs]]:
    """The parts of the spec with inputs of user code, by their paths below spec."""
    yield "processing", spec.processing
    if spec.spark and spec.spark.enabled:
        yield "spark.application", spec.spark.application


def _check_secret(field: str, name: str, settings: Settings) -> None:
    if name.startswith(HELM_RELEASE) or name in settings.reserved_secrets:
        raise SpecError(field, f"{name} is reserved for the operator's own installation: use another Secret")
    _check_prefix(field, name, settings.secret_name_prefixes, "Secret", "secretNamePrefixes")


def _check_config_map(field: str, name: str, settings: Settings) -> None:
    if name.endswith(HOST_SUFFIX):
        raise SpecError(field, f"{name} has the name of a ConfigMap of hosts: use a ConfigMap with another name")
    _check_prefix(field, name, settings.config_map_name_prefixes, "ConfigMap", "configMapNamePrefixes")


def _check_prefix(field: str, name: str, prefixes: tuple[str, ...], kind: str, setting: str) -> None:
    if prefixes and not name.startswith(prefixes):
        raise SpecError(
            field,
            f"{name} is not allowed: use a {kind} whose name starts with one of {', '.join(prefixes)}, or ask the "
            f"operator's administrator to extend {setting}",
        )


def _credentials(spec: EventConsumerSpec) -> Iterator[tuple[str, str]]:
    for part, authentication in (
        ("spec.eventHub", spec.event_hub.authentication),
        ("spec.checkpointStore", spec.checkpoint_store.authentication),
        ("spec.sink", spec.sink.authentication),
    ):
        if secret := authentication.connection_string_secret_ref:
            yield f"{part}.authentication.connectionStringSecretRef.name", secret.name
    if spec.sink.notices and spec.sink.notices.authentication:
        secret = spec.sink.notices.authentication.header_secret_ref
        yield "spec.sink.notices.authentication.headerSecretRef.name", secret.name
    registry = spec.spark.output.body.registry if spec.spark and spec.spark.output else None
    if registry and registry.authentication and registry.authentication.basic_secret_ref:
        secret = registry.authentication.basic_secret_ref
        yield "spec.spark.output.body.registry.authentication.basicSecretRef.name", secret.name
    if spec.proxy and spec.proxy.credentials_secret_ref:
        yield "spec.proxy.credentialsSecretRef.name", spec.proxy.credentials_secret_ref.name
