"""The end of a batch: the record replaces the claim, and is then published as `_commits/<n>.json`.

Invariant: a commit is written once, and it is complete. Other attempts continue with the next batch only after the copy
is published. An attempt that ends between the two steps has committed: the next attempt publishes its
record, byte for byte, and processes nothing.

The record of a parallel batch is of this batch alone: the batches before it may be open. The leading host publishes it
in order, continued from the record before.
"""

from dataclasses import dataclass

from pydantic import ValidationError

from eventconsumer_api.wire.batch import (
    BatchCommit,
    BatchFile,
    BatchManifest,
    Quarantine,
    commit_name,
)
from eventconsumer_spark.attempt.claim import MAX_RECORD_BYTES, Claim
from eventconsumer_spark.output.write_result import WriteResult
from eventconsumer_spark.storage.store import SparkBlobStore
from eventconsumer_storage.errors import StorageError

_CAUSE_CHARACTERS = 1000


@dataclass(frozen=True)
class Committed:
    """The valid commit; `ours`: whether this attempt wrote it."""

    record: BatchCommit
    ours: bool


@dataclass(frozen=True)
class LeftOut:
    """Files that cannot be processed, and the cause for the first of them."""

    files: tuple[BatchFile, ...] = ()
    cause: str = ""

    @property
    def events(self) -> int:
        """Events in these files."""
        return sum(file.count for file in self.files)


def find_commit(store: SparkBlobStore, prefix: str, number: int) -> BatchCommit | None:
    """The published commit of a batch; None while there is none.

    Raises:
        StorageError: The commit cannot be parsed.
    """
    name = commit_name(prefix, number)
    content = store.read(name, MAX_RECORD_BYTES)
    return None if content is None else _parse(name, content)


def previous_commit(store: SparkBlobStore, prefix: str, number: int, first: int) -> BatchCommit | None:
    """The commit before batch `number`; None if `number` is the `first` batch.

    Raises:
        StorageError: It is missing or cannot be parsed: totals that continue from zero would be permanently wrong.
    """
    if number <= first:
        return None
    if (before := find_commit(store, prefix, number - 1)) is None:
        raise StorageError(
            f"batch {number} cannot be committed without commit {commit_name(prefix, number - 1)}, which its totals go "
            "on from: commits are never to be deleted: restore it (soft delete or versions of the storage account)"
        )
    return before


def commit(
    store: SparkBlobStore, prefix: str, claim: Claim, record: BatchCommit, *, parallel: bool = False
) -> Committed:
    """Commit the batch of `claim`, and return the valid record.

    Args:
        store: The container.
        prefix: Folder of the commits.
        claim: This attempt's claim.
        record: The complete record; of a parallel batch, the record of this batch alone.
        parallel: Leave it to the leading host to publish the record.

    Raises:
        ClaimLostError: Another attempt has claimed the batch since; nothing was written.
        StorageError: Storage refused or did not respond; the next attempt finds whether the batch is committed.
    """
    content = record.to_json(indent=2).encode()
    if len(content) > MAX_RECORD_BYTES:
        raise StorageError(f"the commit of batch {record.number} would have {len(content)} bytes, above the limit")
    claim.decide(content)
    if parallel:
        return Committed(record, ours=True)
    standing = publish(store, prefix, record.number, content)
    return Committed(standing, ours=standing.attempt == record.attempt)


def publish(store: SparkBlobStore, prefix: str, number: int, content: bytes) -> BatchCommit:
    """Publish the decided record, if it is not published yet, and return the valid one.

    Raises:
        StorageError: Storage refused, or has a commit that cannot be parsed.
    """
    name = commit_name(prefix, number)
    if store.create(name, content):
        return _parse(name, content)
    if (standing := find_commit(store, prefix, number)) is None:
        raise StorageError(f"commit {name} existed and was deleted: commits must never be deleted")
    return standing


def quarantine_of(manifest: BatchManifest, written: WriteResult, left_out: LeftOut) -> Quarantine | None:
    """PURE: quarantine of this batch; None: nothing."""
    if not left_out.files and not written.quarantined_rows:
        return None
    return Quarantine(
        number=manifest.number,
        files=list(left_out.files),
        rows=written.quarantined_rows,
        rows_path=written.rows_path,
        message=(left_out.cause or written.message)[:_CAUSE_CHARACTERS],
    )


def _parse(name: str, content: bytes) -> BatchCommit:
    try:
        return BatchCommit.model_validate_json(content)
    except ValidationError as error:
        raise StorageError(
            f"cannot parse commit {name} ({error.errors()[0]['msg']}): it was not written by this job"
        ) from error
