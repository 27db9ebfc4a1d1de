"""Security contexts of pods and containers that the restricted Pod Security Standard admits. Pure."""

from typing import Any

USER = 65532  # "nonroot" in distroless images, and in ours


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
