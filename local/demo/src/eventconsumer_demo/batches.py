"""The Spark batches of a consumer in storage: frozen, or committed with their results."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from azure.storage.blob import ContainerClient
from rich.table import Table

from eventconsumer_api.wire.batch import BatchCommit, BatchManifest


@dataclass(frozen=True)
class Batch:
    """A manifest and, after Spark has processed it, its commit."""

    manifest: BatchManifest
    commit: BatchCommit | None


def read_batches(container: ContainerClient, prefix: str) -> list[Batch]:
    """All batches below `prefix`, in order."""
    found = []
    for blob in container.list_blobs(name_starts_with=f"{prefix}/_batches/"):
        manifest = BatchManifest.model_validate_json(container.download_blob(blob.name).readall())
        commit = container.get_blob_client(blob.name.replace("/_batches/", "/_commits/"))
        record = BatchCommit.model_validate_json(commit.download_blob().readall()) if commit.exists() else None
        found.append(Batch(manifest, record))
    return found


def _driver(application: str) -> str:
    """The end of an application's name: the batch and the attempt for which it was started, such as b1 or b7-a2."""
    found = re.search(r"-(b\d+(-a\d+)?)$", application)
    return found[1] if found else application


def table_of(batches: Sequence[Batch]) -> Table:
    """One line per batch."""
    table = Table(
        "batch", "why", "files", "events", "state", "rows", "seconds", "version", "driver", title="Spark's batches"
    )
    for batch in batches:
        manifest, commit = batch.manifest, batch.commit
        events = f"{sum(file.count for file in manifest.files):,}"
        done = (
            (
                "done",
                f"{commit.rows_written:,}",
                f"{commit.seconds:.1f}",
                str(commit.output_version),
                _driver(commit.application),
            )
            if commit
            else ()
        )
        table.add_row(str(manifest.number), manifest.reason, str(len(manifest.files)), events, *(done or ("running",)))
    return table
