"""Location of credentials in a pod that runs the host image, for hosts and for creators of such pods. Pure.

The operator creates hosts, probes and Spark drivers in this way, and the kubectl plugin creates the pod in which it
checks a configuration before the resource exists.
"""

from typing import Any

from eventconsumer_api.host_config import Credential
from eventconsumer_api.labels import SECRETS_DIR
from eventconsumer_api.v1alpha1 import Authentication

# Folders under SECRETS_DIR, one for each credential, and the one file in each. A fixed file name: the key of a Secret
# is the user's text and must not become a path.
HUB_SECRET = "event-hub"  # noqa: S105 - a folder
LEASE_SECRET = "lease-store"  # noqa: S105 - a folder
SINK_SECRET = "sink"  # noqa: S105 - a folder
SECRET_FILE = "connection-string"  # noqa: S105 - a file name


def credential(field: str, folder: str, authentication: Authentication) -> Credential:
    """The credential of a host.

    Args:
        field: Path of the part of the resource, such as spec.sink.
        folder: Name of the volume with its Secret: HUB_SECRET, LEASE_SECRET or SINK_SECRET.
        authentication: The part of the resource.
    """
    path = f"{field}.authentication"
    secret = authentication.connection_string_secret_ref
    if secret is not None:
        return Credential(
            field=f"{path}.connectionStringSecretRef",
            secret=secret.name,
            key=secret.key,
            connection_string_file=f"{SECRETS_DIR}/{folder}/{SECRET_FILE}",
        )
    identity = authentication.workload_identity
    return Credential(field=f"{path}.workloadIdentity", client_id=identity.client_id if identity else None)


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
