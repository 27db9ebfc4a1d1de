"""The errors that stop a batch; each message names the object, the cause and the remedy.

    SparkJobError
    ├── ConfigurationError     the job's description, the credential or the output path is invalid
    ├── RegistryError          the schema registry refused the credential or did not respond
    ├── StorageError           the storage account refused or did not respond (`eventconsumer_storage.errors`)
    ├── ManifestError          the batch's manifest is missing, unreadable or belongs to another resource
    ├── FilesChangedError      a file of the batch is missing or differs from the frozen one
    ├── CountMismatchError     the number of events in the files differs from the manifest
    ├── ClaimHeldError         an earlier attempt at the batch is still running
    ├── ClaimLostError         another attempt has taken over, or may have: this one must stop
    └── SearchError            the search for unprocessable files had no result

The job does not retry after any of them: a failed batch stays uncommitted, and the next attempt overwrites its output.
Messages are redacted when they are built, because they appear in logs and in the pod's termination message.
"""

from eventconsumer_api.errors import EventConsumerError

SparkJobError = EventConsumerError
"""Base of all errors that stop a batch, including those of storage."""


class ConfigurationError(SparkJobError):
    """The job's description, the credential or the output path is invalid."""


class RegistryError(SparkJobError):
    """The schema registry refused the credential or did not respond; a later attempt may succeed."""


class ManifestError(SparkJobError):
    """The batch's manifest is missing, unreadable or belongs to another resource."""


class FilesChangedError(SparkJobError):
    """A file of the batch is missing or differs from the frozen one."""


class CountMismatchError(SparkJobError):
    """The number of events in the files differs from the manifest."""


class ClaimHeldError(SparkJobError):
    """An earlier attempt at the batch is still running."""


class ClaimLostError(SparkJobError):
    """Another attempt has taken over, or may have: this one must stop."""


class SearchError(SparkJobError):
    """The search for unprocessable files had no result."""
