"""What host pods and Spark driver pods have in common: restricted security context and mounted credentials. Pure."""

from typing import Any

from eventconsumer_api.host_config import Credential
from eventconsumer_api.labels import SECRETS_DIR
from eventconsumer_operator.plan.config import SECRET_FILE

USER = 65532  # "nonroot" in distroless images, and in ours
WORKLOAD_IDENTITY_LABEL = {"azure.workload.identity/use": "true"}


def pod_security() -> dict[str, Any]:
    """Security context of a pod that the restricted Pod Security Standard admits."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,  # so that the user can read mounted Secrets
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """Security context of each container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def downward(variable: str, field_path: str) -> dict[str, Any]:
    """An environment variable with a field of the pod."""
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}


def secret_volume(folder: str, credential: Credential, *, optional: bool) -> dict[str, Any] | None:
    """The volume with one key of a Secret, or None where no Secret is used.

    Args:
        folder: Name of the volume and of its folder.
        credential: Which Secret and key.
        optional: Whether the pod starts without the Secret. It appears in a running pod later, when somebody creates
            it.
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
    """Where the volume of the same name appears in the container."""
    return {"name": folder, "mountPath": f"{SECRETS_DIR}/{folder}", "readOnly": True}
