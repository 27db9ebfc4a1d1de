"""Batches as a Spark application meets them: reads a manifest, and commits it as one that processed everything."""

from datetime import UTC, datetime

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient

from eventconsumer_api.wire.batch import BatchCommit, BatchManifest, CommitTotals, commit_name, manifest_name

PREFIX = "shop/orders"


def read_manifest(container: ContainerClient, number: int) -> BatchManifest:
    """A frozen batch."""
    return BatchManifest.model_validate_json(container.download_blob(manifest_name(PREFIX, number)).readall())


def read_commit(container: ContainerClient, number: int) -> BatchCommit | None:
    """The commit of a batch; None while there is none."""
    try:
        return BatchCommit.model_validate_json(container.download_blob(commit_name(PREFIX, number)).readall())
    except ResourceNotFoundError:
        return None


def commit_batch(container: ContainerClient, manifest: BatchManifest) -> None:
    """Do what a finished Spark application does."""
    before = read_commit(container, manifest.number - 1)
    totals = before.totals if before else CommitTotals()
    rows = sum(file.count for file in manifest.files)
    record = BatchCommit(
        number=manifest.number,
        committed_at=datetime.now(UTC),
        application="app",
        attempt="1",
        output="",  # the audit then looks for no record of an output
        files=len(manifest.files),
        bytes=sum(file.size for file in manifest.files),
        rows_read=rows,
        rows_written=1,
        ranges=manifest.ranges,
        seconds=1.0,
        totals=CommitTotals(rows_read=totals.rows_read + rows, rows_written=totals.rows_written + 1),
    )
    container.upload_blob(commit_name(PREFIX, manifest.number), record.model_dump_json(by_alias=True))
