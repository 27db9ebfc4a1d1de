"""Location of credentials in a pod that runs the host image, for hosts and for creators of such pods. Pure.

The operator creates hosts, probes and Spark drivers in this way, and the kubectl plugin creates the pod in which it
checks a configuration before the resource exists.
"""

from typing import Any

from eventconsumer_api.kube.labels import SECRETS_DIR
from eventconsumer_api.spec.spark import Registry
from eventconsumer_api.v1alpha1 import Authentication, Notices, Proxy, SecretKeyRef
from eventconsumer_api.wire.host_config import Credential, HostConfig, NoticesConfig, ProxyConfig

# Folders under SECRETS_DIR, one for each credential, and the one file in each. A fixed file name: the key of a Secret
# is the user's text and must not become a path.
HUB_SECRET = "event-hub"  # noqa: S105 - a folder
CHECKPOINT_SECRET = "checkpoint-store"  # noqa: S105 - a folder
SINK_SECRET = "sink"  # noqa: S105 - a folder
PROXY_SECRET = "proxy"  # noqa: S105 - a folder
NOTICES_SECRET = "notices"  # noqa: S105 - a folder
REGISTRY_SECRET = "registry"  # noqa: S105 - a folder
SECRET_FILE = "connection-string"  # noqa: S105 - a file name

# Spark calls the API server by this name, in client mode and in cluster mode (spark.kubernetes.driver.master).
NEVER_BY_PROXY = ("kubernetes.default.svc", "localhost", "127.0.0.1")


def credential(field: str, folder: str, authentication: Authentication) -> Credential:
    """The credential of a host.

    Args:
        field: Path of the part of the resource, such as spec.sink.
        folder: Name of the volume with its Secret: HUB_SECRET, CHECKPOINT_SECRET or SINK_SECRET.
        authentication: The part of the resource.
    """
    path = f"{field}.authentication"
    secret = authentication.connection_string_secret_ref
    if secret is not None:
        return _mounted(f"{path}.connectionStringSecretRef", folder, secret)
    identity = authentication.workload_identity
    return Credential(field=f"{path}.workloadIdentity", client_id=identity.client_id if identity else None)


def proxy_config(proxy: Proxy | None) -> ProxyConfig | None:
    """The proxy of a host; None: that of its environment."""
    if proxy is None:
        return None
    secret = proxy.credentials_secret_ref
    return ProxyConfig(
        url=proxy.url,
        no_proxy=tuple(proxy.no_proxy),
        credential=_mounted("spec.proxy.credentialsSecretRef", PROXY_SECRET, secret) if secret else None,
    )


def proxy_environment(proxy: ProxyConfig | None) -> dict[str, str]:
    """Variables by which the Python of a driver uses a proxy; its schema refuses credentials together with Spark."""
    if proxy is None:
        return {}
    direct = ",".join((*NEVER_BY_PROXY, *proxy.no_proxy))
    return {"HTTPS_PROXY": proxy.url, "HTTP_PROXY": proxy.url, "NO_PROXY": direct}


def notices_config(notices: Notices | None) -> NoticesConfig | None:
    """The receiver of a host's notices; None: none."""
    if notices is None:
        return None
    given = notices.authentication
    if given is None:
        return NoticesConfig(url=notices.url, format=notices.format)
    field = "spec.sink.notices.authentication.headerSecretRef"
    credential = _mounted(field, NOTICES_SECRET, given.header_secret_ref)
    return NoticesConfig(url=notices.url, format=notices.format, header=given.header, credential=credential)


def registry_credential(registry: Registry | None) -> Credential | None:
    """The credential of a Spark driver at its schema registry; None: none."""
    given = registry.authentication if registry else None
    if given is None:
        return None
    field = "spec.spark.output.body.registry.authentication"
    if secret := given.basic_secret_ref:
        return _mounted(f"{field}.basicSecretRef", REGISTRY_SECRET, secret)
    identity = given.workload_identity
    return Credential(field=f"{field}.workloadIdentity", client_id=identity.client_id if identity else None)


def credentials(config: HostConfig) -> dict[str, Credential]:
    """The credentials of a host by the folder of their Secret."""
    found = {
        HUB_SECRET: config.event_hub.credential,
        CHECKPOINT_SECRET: config.leases.location.credential,
        SINK_SECRET: config.sink.credential,
    }
    proxy = config.proxy and config.proxy.credential
    notices = config.notices and config.notices.credential
    return found | ({PROXY_SECRET: proxy} if proxy else {}) | ({NOTICES_SECRET: notices} if notices else {})


def _mounted(field: str, folder: str, secret: SecretKeyRef) -> Credential:
    return Credential(
        field=field,
        secret=secret.name,
        key=secret.key,
        connection_string_file=f"{SECRETS_DIR}/{folder}/{SECRET_FILE}",
    )


def secret_volume(folder: str, credential: Credential, *, optional: bool) -> dict[str, Any] | None:
    """The volume with one key of a Secret, or None without a Secret.

    Args:
        folder: Name of the volume and of its folder.
        credential: Names the Secret and the key.
        optional: Whether the pod starts without the Secret. It appears in a running pod after
            it is created.
    """
    if not credential.secret:
        return None
    return {
        "name": folder,
        "secret": {
            "secretName": credential.secret,
            "optional": optional,
            "defaultMode": 0o440,
            "items": [{"key": credential.key, "path": SECRET_FILE}],
        },
    }


def secret_mount(folder: str) -> dict[str, Any]:
    """The mount of the volume of the same name."""
    return {"name": folder, "mountPath": f"{SECRETS_DIR}/{folder}", "readOnly": True}
