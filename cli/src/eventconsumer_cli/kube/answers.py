"""Errors for responses of an API server, and for a missing response."""

import json

from eventconsumer_cli.errors import CliError, ClusterError, Failed, Forbidden, NotFound, RefusedError

_NOT_SERVED = ("could not find the requested resource", "404 page not found")  # for a kind, and for a whole group


def unreachable(host: str, error: Exception) -> ClusterError:
    """The error for a missing response."""
    cause = getattr(error, "reason", None) or error
    if "CERTIFICATE_VERIFY_FAILED" in str(cause):
        return ClusterError(
            f"the certificate of the cluster at {host} is not trusted",
            "fetch the kubeconfig again: its certificate-authority-data does not match this cluster",
        )
    return ClusterError(
        f"the cluster at {host} does not answer ({type(cause).__name__})",
        "check `kubectl config current-context`, the VPN or proxy, and --context and --kubeconfig",
    )


def answer_error(status: int, method: str, path: str, content: bytes) -> CliError:
    """The error for a response of the API server."""
    message = _message(content) or f"{method} {path} returned HTTP {status}"
    if status == 401:
        return Forbidden(f"the cluster does not accept your credentials: {message}", "sign in again, as for kubectl")
    if status == 403:
        return Forbidden(message, "ask an administrator of the cluster for this permission")
    if status == 404:
        if any(text in message for text in _NOT_SERVED):
            return NotFound(
                f"the cluster does not serve {path.rpartition('/')[2]}",
                "install EventConsumer (its chart contains the CRD), or select another cluster with --context",
            )
        return NotFound(message)
    if status in (400, 409, 422):
        return RefusedError(message)
    return Failed(f"{message} (HTTP {status})")


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:300].decode(errors="replace").strip()
