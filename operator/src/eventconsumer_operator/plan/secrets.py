"""Rejects Secrets that pods of an EventConsumer must not mount. Pure.

Host pods mount the Secrets that a spec names, and may run a handler of the user. So the Secrets of the operator's own
installation are reserved, in every namespace: its signing key, the credentials of its registry, and the records of
Helm, which contain the manifests of a release with the signing key.
"""

from collections.abc import Iterator

from eventconsumer_api.v1alpha1 import EventConsumerSpec, SecretKeyRef
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.settings import Settings

HELM_RELEASE = "sh.helm.release.v1."
"""Prefix of the Secrets in which Helm stores releases (helm.sh/docs/topics/advanced, "Storage backends")."""


def check_secrets(spec: EventConsumerSpec, settings: Settings) -> None:
    """Check the name of every Secret in the spec.

    Raises:
        SpecError: A Secret is reserved, or its name has none of the allowed prefixes.
    """
    for field, secret in _references(spec):
        name = secret.name
        if name.startswith(HELM_RELEASE) or name in settings.reserved_secrets:
            raise SpecError(field, f"{name} is reserved for the operator's own installation: use another Secret")
        prefixes = settings.secret_name_prefixes
        if prefixes and not name.startswith(prefixes):
            raise SpecError(
                field,
                f"{name} is not allowed: use a Secret whose name starts with one of {', '.join(prefixes)}, or ask the "
                "operator's administrator to extend secretNamePrefixes",
            )


def _references(spec: EventConsumerSpec) -> Iterator[tuple[str, SecretKeyRef]]:
    for part, authentication in (
        ("spec.eventHub", spec.event_hub.authentication),
        ("spec.leaseStore", spec.lease_store.authentication),
        ("spec.sink", spec.sink.authentication),
    ):
        if secret := authentication.connection_string_secret_ref:
            yield f"{part}.authentication.connectionStringSecretRef.name", secret
    if spec.proxy and spec.proxy.credentials_secret_ref:
        yield "spec.proxy.credentialsSecretRef.name", spec.proxy.credentials_secret_ref
