"""The end of a batch: `_commits/<n>.json`, put if absent.

Invariant: a commit is written once and never again. The operator goes on to the next batch on this record alone, so
whoever comes second (a retry after an unknown outcome, a driver that was thought dead) finds the record and leaves
it.
"""

from dataclasses import dataclass

from pydantic import ValidationError

from eventconsumer_api.batch import BatchCommit, BatchJob, commit_name
from eventconsumer_spark.errors import StorageError
from eventconsumer_spark.store import BlobStore

MAX_COMMIT_BYTES = 64 * 1024


@dataclass(frozen=True)
class Committed:
    """The commit that stands; `ours` tells whether this attempt wrote it."""

    record: BatchCommit
    ours: bool


def find_commit(store: BlobStore, job: BatchJob) -> BatchCommit | None:
    """The commit of the job's batch; None while there is none.

    Raises:
        StorageError: There is one that cannot be read.
    """
    name = commit_name(job.sink.prefix, job.number)
    content = store.read(name, MAX_COMMIT_BYTES)
    if content is None:
        return None
    try:
        return BatchCommit.model_validate_json(content)
    except ValidationError as error:
        raise StorageError(
            f"commit {name} is not readable ({error.errors()[0]['msg']}): it was not written by this job"
        ) from error


def commit_batch(store: BlobStore, job: BatchJob, record: BatchCommit) -> Committed:
    """Put `record` unless the batch has a commit already, and return the one that stands.

    Raises:
        StorageError: Storage refused, or has a commit that cannot be read.
    """
    name = commit_name(job.sink.prefix, job.number)
    if store.create(name, record.model_dump_json(by_alias=True, indent=2).encode()):
        return Committed(record, ours=True)
    standing = find_commit(store, job)
    if standing is None:
        raise StorageError(f"commit {name} was there and is gone: commits are never to be deleted")
    # A put whose answer was lost is repeated by the client and meets its own record.
    return Committed(standing, ours=standing.attempt == record.attempt)
