"""The errors that answers of an API server stand for, and the lack of one."""

import json

from eventconsumer_cli.errors import CliError, ClusterError, Failed, Forbidden, NotFound, RefusedError

_NOT_SERVED = ("could not find the requested resource", "404 page not found")  # of a kind, and of a whole group


def unreachable(host: str, error: Exception) -> ClusterError:
    """The API server does not answer."""
    cause = getattr(error, "reason", None) or error
    if "CERTIFICATE_VERIFY_FAILED" in str(cause):
        return ClusterError(
            f"the certificate of the cluster at {host} is not trusted",
            "fetch the kubeconfig again: its certificate-authority-data is not that of this cluster",
        )
    return ClusterError(
        f"the cluster at {host} does not answer ({type(cause).__name__})",
        "look at `kubectl config current-context`, the VPN or proxy, and --context and --kubeconfig",
    )


def answer_error(status: int, method: str, path: str, content: bytes) -> CliError:
    """The error that an answer of the API server stands for."""
    message = _message(content) or f"{method} {path} was answered with HTTP {status}"
    if status == 401:
        return Forbidden(f"the cluster does not know you: {message}", "sign in again, as for kubectl")
    if status == 403:
        return Forbidden(message, "ask an administrator of the cluster for that right")
    if status == 404:
        if any(text in message for text in _NOT_SERVED):
            return NotFound(
                f"the cluster does not serve {path.rpartition('/')[2]}",
                "install EventConsumer (its chart brings the definition), or choose another cluster with --context",
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
