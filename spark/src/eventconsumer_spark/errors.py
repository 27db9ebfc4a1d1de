"""Everything that can stop a batch, each with a message that names the thing, the cause and the remedy.

    SparkJobError
    ├── ConfigurationError     the job's description, the credential or the output path cannot work as they are
    ├── StorageError           the storage account refused or did not answer (`eventconsumer_storage.errors`)
    ├── ManifestError          the batch's manifest is missing, unreadable or another resource's
    ├── FilesChangedError      a file of the batch is missing or is not the one that the manifest froze
    ├── CountMismatchError     the files hold another number of events than the manifest says
    ├── ClaimHeldError         an earlier attempt at the batch is still at work
    ├── ClaimLostError         another attempt has taken over, or could have: this one must stop
    └── SearchError            the search for files that cannot be processed came to no result

None of them is retried inside the job: a batch that fails is left uncommitted, and its output is overwritten by the
next attempt. Messages are redacted where they are built, because they end in logs and in the pod's termination
message.
"""

from eventconsumer_api.errors import EventConsumerError

SparkJobError = EventConsumerError
"""Base of all errors that stop a batch, those of storage among them."""


class ConfigurationError(SparkJobError):
    """The job's description, the credential or the output path cannot work as they are."""


class ManifestError(SparkJobError):
    """The batch's manifest is missing, unreadable or another resource's."""


class FilesChangedError(SparkJobError):
    """A file of the batch is missing or is not the one that the manifest froze."""


class CountMismatchError(SparkJobError):
    """The files hold another number of events than the manifest says."""


class ClaimHeldError(SparkJobError):
    """An earlier attempt at the batch is still at work."""


class ClaimLostError(SparkJobError):
    """Another attempt has taken over, or could have: this one must stop."""


class SearchError(SparkJobError):
    """The search for files that cannot be processed came to no result."""
