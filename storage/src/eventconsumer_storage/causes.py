"""PURE: the cause and the remedy for the error codes of storage.

One status has many causes: 403 is a missing role, a network rule, a disabled key or a wrong clock; 409 is a lease, a
policy or a pending copy. Only the code tells them apart. Sources: learn.microsoft.com/rest/api/storageservices/
common-rest-api-error-codes and blob-service-error-codes; learn.microsoft.com/troubleshoot/azure/azure-storage/blobs/
authentication/storage-troubleshoot-403-errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from eventconsumer_storage.errors import StorageError


@dataclass(frozen=True, slots=True)
class StorageCause:
    """Why storage refuses a request.

    Attributes:
        text: The cause; it completes "storage refuses the request because …".
        remedy: What the user can do.
    """

    text: str
    remedy: str


_STOP = "find the program that leases or writes the blob, and stop it"
_BROKEN = StorageCause("a person or a program broke the lease", "no action: the lease is acquired again")
_ANOTHER = StorageCause("another program holds the lease of the blob now", _STOP)
_ENDED = StorageCause("the lease has ended", "no action: the lease is acquired again")
_RENEW = "create a signature with the permissions read, create, write, delete and list for the container"
_ARCHIVED = StorageCause(
    "the blob is in the archive tier",
    "rehydrate it, and exclude the container from rules that archive blobs",
)
_DISABLED = StorageCause(
    "the account is disabled or read-only", "check the state of the account and its subscription in the portal"
)
_SERVICE = StorageCause(
    "it has an internal error",
    "requests are repeated; if this lasts, check Azure's service health, and give Azure's support the request id",
)

CAUSES: Mapping[str, StorageCause] = {
    # 401 and 403
    "AuthenticationFailed": StorageCause(
        "the key or the signature is wrong or has expired, or this machine's clock is wrong",
        "copy the connection string again, create a new signature, or set the node's time (NTP)",
    ),
    "AuthorizationFailure": StorageCause(
        "the account's network rules do not admit this cluster, or the signature does not cover the request",
        "admit the cluster's subnet, address or private endpoint in the networking settings of the account; for a "
        f"signature, {_RENEW}",
    ),
    "AuthorizationPermissionMismatch": StorageCause(
        "the credential has no permission for it",
        "grant the identity the role Storage Blob Data Contributor (it takes effect after up to ten minutes); for a "
        f"signature, {_RENEW}",
    ),
    "AuthorizationProtocolMismatch": StorageCause("the signature allows https only", "use an https endpoint"),
    "AuthorizationResourceTypeMismatch": StorageCause(
        "the signature of the account does not allow containers and objects",
        "create a signature with the resource types container and object",
    ),
    "AuthorizationServiceMismatch": StorageCause(
        "the signature is for another storage service", "create a signature for the Blob service"
    ),
    "AuthorizationSourceIPMismatch": StorageCause(
        "the signature allows other addresses only", "create a signature without addresses, or with this cluster's"
    ),
    "InvalidAuthenticationInfo": StorageCause(
        "the key, the signature or the token is malformed, or not valid for this account",
        "copy the connection string again; for an identity, check its tenant and client id, and the node's time (NTP)",
    ),
    "KeyBasedAuthenticationNotPermitted": StorageCause(
        "the account does not permit keys and signatures made from keys",
        "use workloadIdentity, or allow storage account key access in the configuration of the account",
    ),
    "UnauthorizedBlobOverwrite": StorageCause("the signature may create blobs but not overwrite them", _RENEW),
    "AccountIsDisabled": _DISABLED,
    "InsufficientAccountPermissions": _DISABLED,
    # 404
    "ContainerNotFound": StorageCause(
        "the container does not exist", "create it, or use a credential that may create containers"
    ),
    # 409 and 412: the state of the blob or its container
    "BlobImmutableDueToPolicy": StorageCause(
        "an immutability policy or a legal hold protects the blob",
        "use a version-level policy, which allows overwrites, or a container without a policy",
    ),
    "BlobArchived": _ARCHIVED,
    "BlobBeingRehydrated": _ARCHIVED,
    "BlobAlreadyExists": StorageCause("the blob exists", "find the program that writes blobs of this name"),
    "ConditionNotMet": StorageCause("another program changed the blob", _STOP),
    "ContainerBeingDeleted": StorageCause(
        "the container is being deleted", "wait until it is deleted, then it is created again; or set another container"
    ),
    "ContainerBeingDisabled": _DISABLED,
    "ContainerDisabled": _DISABLED,
    "InvalidBlobType": StorageCause("the blob is not a block blob", _STOP),
    "PendingCopyOperation": StorageCause("another program copies to the blob", "wait for the copy, or abort it"),
    "SnapshotsPresent": StorageCause("the blob has snapshots", "delete the snapshots"),
    # 409 and 412: leases
    "LeaseAlreadyBroken": _BROKEN,
    "LeaseIsBreakingAndCannotBeAcquired": _BROKEN,
    "LeaseIsBreakingAndCannotBeChanged": _BROKEN,
    "LeaseIsBrokenAndCannotBeRenewed": _BROKEN,
    "LeaseAlreadyPresent": _ANOTHER,
    "LeaseIdMismatchWithBlobOperation": _ANOTHER,
    "LeaseIdMismatchWithLeaseOperation": _ANOTHER,
    "LeaseIdMissing": _ANOTHER,
    "LeaseLost": _ENDED,
    "LeaseNotPresentWithBlobOperation": _ENDED,
    "LeaseNotPresentWithLeaseOperation": _ENDED,
    # 500 and 503
    "InternalError": _SERVICE,
    "OperationTimedOut": StorageCause("it did not complete the request in time", _SERVICE.remedy),
    "ServerBusy": StorageCause(
        "it limits the requests of the account",
        "raise sink.roll, or use another account for each consumer, or ask for a higher limit; requests are repeated",
    ),
    # 400
    "InvalidHeaderValue": StorageCause(
        "the account does not know the version of the storage API, or a part of a header",
        "on Azure Stack Hub and old services, set storageApiVersion to a version that the service supports",
    ),
    "InvalidResourceName": StorageCause(
        "the name of the container is invalid", "use 3 to 63 lower-case letters, digits and single hyphens"
    ),
}


def cause_of(error: StorageError) -> StorageCause | None:
    """The cause of a failed request; None if its code is unknown or does not tell."""
    return CAUSES.get(error.code)


def with_cause(error: StorageError) -> str:
    """The error with its cause, if that is known."""
    cause = cause_of(error)
    return f"{cause.text} ({error})" if cause else str(error)
