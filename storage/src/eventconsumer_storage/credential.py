"""Connection strings from mounted files, workload identity, and the rules for their endpoints.

A Secret is mounted as a file that may be missing (the mount is optional) and may change while a host runs. So reading a
credential can fail with a `Problem`, and is repeated; `fingerprint` changes with the files. Messages never contain a
value of a connection string.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from eventconsumer_api.errors import Blocked
from eventconsumer_api.shared.connection_string import (
    ConnectionStringError,
    normal_connection_string,
    parse_connection_string,
)
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.spec.endpoints import EndpointProblem
from eventconsumer_api.wire.host_config import Credential

_IDENTITY_ENV = ("AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE")


def fingerprint(credentials: Iterable[Credential]) -> str:
    """A hash of all connection string files: it changes when a file is added, changed or removed."""
    digest = hashlib.sha256()
    for credential in credentials:
        digest.update((_bytes(credential) or b"") + b"\0")
    return digest.hexdigest()


def read_connection_string(credential: Credential, form: str) -> tuple[str, dict[str, str]]:
    """The text of a connection string on one line, and its parts by name in lower case.

    Args:
        credential: Location of the mounted file.
        form: Its form, for the message.

    Raises:
        Blocked: The Secret or its key is missing, or the text is not a connection string.
    """
    text = read_secret(credential, f"a connection string of the form {form}")
    try:
        return normal_connection_string(text), parse_connection_string(text)
    except ConnectionStringError as error:
        raise invalid(credential, f"is not a connection string: {error}") from None


def read_secret(credential: Credential, form: str) -> str:
    """The text of a mounted Secret's key.

    Args:
        credential: Location of the mounted file.
        form: Its content, for the message.

    Raises:
        Blocked: The Secret or its key is missing or empty, or is not text.
    """
    try:
        text = _content(credential)
    except UnicodeDecodeError:
        raise invalid(credential, "is not text in UTF-8: store the text itself, without a further encoding") from None
    if not text:
        secret, key = credential.secret, credential.key
        what = f"Secret {secret}, or its key {key}, does not exist" if text is None else f"{place(credential)} is empty"
        raise Blocked(
            credential.field,
            Reason.SECRET_KEY_MISSING,
            f"{what}: create it with kubectl create secret generic {secret} -n <namespace> --from-literal={key}='…' "
            f"(if only the key is missing, add it to the Secret), where … is {form}",
        )
    return text


def check_workload_identity(credential: Credential, reason: Reason) -> None:
    """Verify that workload identity is injected into this pod.

    Raises:
        Blocked: It is not injected; `reason` is the reason of the condition.
    """
    missing = [name for name in _IDENTITY_ENV if not os.environ.get(name)]
    if missing:
        raise Blocked(
            credential.field,
            reason,
            f"workload identity is not injected into this pod ({', '.join(missing)} not set): install the workload "
            "identity webhook and annotate the pod's service account with azure.workload.identity/client-id",
        )


def refuse(field: str, problem: EndpointProblem | None) -> None:
    """Refuse a host name of the resource, if there is a problem.

    Raises:
        Blocked: There is one.
    """
    if problem is not None:
        raise Blocked(field, problem.reason, problem.message)


def refuse_named(credential: Credential, problem: EndpointProblem | None) -> None:
    """Refuse a host name in a connection string, if there is a problem.

    Raises:
        Blocked: There is one.
    """
    if problem is not None:
        message = f"{place(credential)} names a host that is not allowed: {problem.message}"
        raise Blocked(credential.field, problem.reason, message)


def place(credential: Credential) -> str:
    """The credential in the user's terms, for messages."""
    return f"key {credential.key} of Secret {credential.secret}"


def invalid(credential: Credential, what: str) -> Blocked:
    """The error for a connection string that cannot be used."""
    return Blocked(credential.field, Reason.CONNECTION_STRING_INVALID, f"{place(credential)} {what}")


def insecure(credential: Credential, what: str) -> Blocked:
    """The error for a connection string that asks for a plain connection."""
    return Blocked(
        credential.field,
        Reason.INSECURE_ENDPOINT,
        f"{place(credential)} {what}: use a TLS endpoint, or let the administrator install the operator with "
        "allowInsecureEndpoints",
    )


def _content(credential: Credential) -> str | None:
    data = _bytes(credential)
    return None if data is None else data.decode().strip()


def _bytes(credential: Credential) -> bytes | None:
    if credential.connection_string_file is None:
        return None
    try:
        return Path(credential.connection_string_file).read_bytes()
    except OSError:
        return None
