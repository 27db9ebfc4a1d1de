"""The errors of storage.

StorageError        a storage call failed: status and code of the answer
├── NotFound        404: no such blob or container
├── Conflict        409, 412: a condition did not hold, or a lease is in the way
├── Refused         400: storage will never take this request, a bad container name for one
├── Damaged         a blob of this consumer cannot be read: something else changed it
├── Unauthorized    401, 403, or no token: the credential is refused
└── Unavailable     no answer, 429 or 5xx: try again; the request may or may not have been applied
"""

# ruff: noqa: N818 - the names say what happened

from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from eventconsumer_api.errors import EventConsumerError


class StorageError(EventConsumerError):
    """A storage call failed.

    Attributes:
        status: HTTP status, 0 where there was no answer.
        code: The service's error code, such as LeaseIdMissing; empty where there is none.
        retry_after: Seconds that the service asks to wait before the next try; 0 where it does not say.
    """

    def __init__(self, message: str, status: int = 0, code: str = "", retry_after: float = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class NotFound(StorageError):
    """No such blob or container."""


class Conflict(StorageError):
    """A condition did not hold, or a lease is in the way."""


class Refused(StorageError):
    """Storage will never take this request."""


class Damaged(StorageError):
    """A blob of this consumer cannot be read: something else changed it."""


class Unauthorized(StorageError):
    """The credential is refused."""


class Unavailable(StorageError):
    """No answer, throttled or a server error; whether the request was applied is unknown."""


def storage_error(operation: str, error: Exception) -> StorageError:
    """The error of our tree for an error of the client library.

    Source: learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
    """
    status = int(getattr(error, "status_code", None) or 0)
    code = str(getattr(getattr(error, "error_code", None), "value", None) or getattr(error, "error_code", None) or "")
    text = str(error).strip().splitlines()
    message = f"{operation}: {code or status or type(error).__name__}: {text[0] if text else 'no message'}"
    if status == 404:
        return NotFound(message, status, code)
    if status in {409, 412}:
        return Conflict(message, status, code)
    if status in {401, 403} or (isinstance(error, ClientAuthenticationError) and not status):
        return Unauthorized(message, status, code)
    if status in {0, 408, 429} or status >= 500:
        if isinstance(error, ValueError):  # built by the library before any request
            return Refused(message, status, code)
        if isinstance(error, ServiceRequestError):
            message = f"{operation}: no connection: {text[0] if text else type(error).__name__}"
        return Unavailable(message, status, code, _retry_after(error))
    return Refused(message, status, code)


def _retry_after(error: Exception) -> float:
    """Seconds that the service asks to wait; 0 where it does not say, or says a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers.get("Retry-After", 0)))
    except ValueError:
        return 0.0
