"""The errors of storage.

StorageError        a storage call failed: status and code of the response
├── NotFound        404: no such blob or container
├── Conflict        409, 412: a condition failed, or a lease prevents the request
├── Refused         400, 409: storage does not execute the request: a bad container name, an immutability policy
├── Damaged         a blob of this consumer cannot be parsed: another program changed it
├── Unauthorized    401, 403, a malformed token (400), or no token: the credential is refused
└── Unavailable     no response, 429, 5xx, or 409 for a time: try again; the request may or may not have been applied

409 has several causes, so it is classified by its code. `causes` explains the codes to users.
"""

# ruff: noqa: N818 - the names are the outcomes

from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from eventconsumer_api.errors import EventConsumerError

# Codes of 409 that no condition or lease causes. Source:
# learn.microsoft.com/rest/api/storageservices/blob-service-error-codes and common-rest-api-error-codes
_FOR_A_TIME = frozenset(
    {
        "AccountBeingCreated",
        "ContainerBeingDeleted",
        "ContainerBeingDisabled",
        "ContainerDisabled",
        "PendingCopyOperation",
    }
)
_PERMANENT = frozenset(
    {"BlobArchived", "BlobBeingRehydrated", "BlobImmutableDueToPolicy", "InvalidBlobType", "SnapshotsPresent"}
)
# Of 400, where the Authorization header is malformed: common-rest-api-error-codes
_OF_CREDENTIAL = frozenset({"InvalidAuthenticationInfo"})


class StorageError(EventConsumerError):
    """A storage call failed.

    Attributes:
        status: HTTP status, 0 if there was no response.
        code: The service's error code, such as LeaseIdMissing; empty if there is none.
        retry_after: Seconds to wait before the next attempt, from the service; 0 if absent.
    """

    def __init__(self, message: str, status: int = 0, code: str = "", retry_after: float = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class NotFound(StorageError):
    """No such blob or container."""


class Conflict(StorageError):
    """A condition failed, or a lease prevents the request."""


class Refused(StorageError):
    """The request is invalid, or the state of the blob forbids it permanently."""


class Damaged(StorageError):
    """A blob of this consumer cannot be parsed: another program changed it."""


class Unauthorized(StorageError):
    """The credential is refused."""


class Unavailable(StorageError):
    """No response, throttled, a server error or a state that ends; it is unknown whether the request was applied."""


def storage_error(operation: str, error: Exception) -> StorageError:
    """The error class for an error of the client library.

    Source: learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
    """
    status = int(getattr(error, "status_code", None) or 0)
    code = str(getattr(getattr(error, "error_code", None), "value", None) or getattr(error, "error_code", None) or "")
    text = str(error).strip().splitlines()
    message = f"{operation}: {code or status or type(error).__name__}: {text[0] if text else 'no message'}"
    if status == 404:
        return NotFound(message, status, code)
    if status == 409 and code in _FOR_A_TIME:
        return Unavailable(message, status, code, _retry_after(error))
    if status == 409 and code in _PERMANENT:
        return Refused(message, status, code)
    if status in {409, 412}:
        return Conflict(message, status, code)
    if status in {401, 403} or code in _OF_CREDENTIAL or (isinstance(error, ClientAuthenticationError) and not status):
        return Unauthorized(message, status, code)
    if status in {0, 408, 429} or status >= 500:
        if isinstance(error, ValueError):  # raised by the library before any request
            return Refused(message, status, code)
        if isinstance(error, ServiceRequestError):
            message = f"{operation}: no connection: {text[0] if text else type(error).__name__}"
        return Unavailable(message, status, code, _retry_after(error))
    return Refused(message, status, code)


def _retry_after(error: Exception) -> float:
    """Seconds to wait, from the service; 0 if absent or a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers.get("Retry-After", 0)))
    except ValueError:
        return 0.0
