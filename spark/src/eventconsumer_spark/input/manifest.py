"""The frozen list of a batch's files: loaded, and compared with the present files in storage.

Invariant: only files that are unchanged since the leading host froze them are read. Slots never change (S1), so a
difference means that another program changed the container; the batch then stops and names the files.
"""

from concurrent.futures import ThreadPoolExecutor

from pydantic import ValidationError

from eventconsumer_api.wire.batch import BatchFile, BatchJob, BatchManifest, manifest_name
from eventconsumer_spark.errors import FilesChangedError, ManifestError
from eventconsumer_spark.storage.store import CHECKS, BlobFacts, SparkBlobStore

MAX_MANIFEST_BYTES = 64 * 1024 * 1024
"""A manifest is parsed only below this size; 100,000 files need about 25 MB."""

_NAMED = 5  # Maximum number of files named in a message.


def load_manifest(store: SparkBlobStore, job: BatchJob) -> BatchManifest:
    """Read the manifest of `job`.

    Raises:
        ManifestError: It is missing, too large or invalid, or belongs to another resource or batch.
    """
    name = manifest_name(job.sink.prefix, job.number)
    content = store.read(name, MAX_MANIFEST_BYTES + 1)
    if content is None:
        raise ManifestError(
            f"batch {job.number} has no manifest {name}: the leading host writes it before a job starts"
        )
    if len(content) > MAX_MANIFEST_BYTES:
        raise ManifestError(
            f"manifest {name} is larger than {MAX_MANIFEST_BYTES} bytes: lower spec.spark.batch.maxFiles"
        )
    try:
        manifest = BatchManifest.model_validate_json(content)
    except ValidationError as error:
        raise ManifestError(f"cannot parse manifest {name}: {error.errors()[0]['msg']}") from error
    if (manifest.number, manifest.chain) != (job.number, job.chain):
        raise ManifestError(
            f"manifest {name} is of batch {manifest.number} of chain {manifest.chain}, frozen for EventConsumer "
            f"{manifest.resource.path}; this job is for batch {job.number} of chain {job.chain}, EventConsumer "
            f"{job.resource.path}: give each EventConsumer its own spec.sink.prefix"
        )
    return manifest


def check_files(store: SparkBlobStore, manifest: BatchManifest) -> None:
    """Check ETag and size of each file of the batch.

    Raises:
        FilesChangedError: Some are missing or different; names them.
    """
    with ThreadPoolExecutor(CHECKS) as pool:
        found = pool.map(lambda file: store.facts(file.path), manifest.files)
        differences = [text for text in map(difference, manifest.files, found) if text]
    if differences:
        more = f" and {len(differences) - _NAMED} more" if len(differences) > _NAMED else ""
        raise FilesChangedError(
            f"batch {manifest.number} has changed since it was frozen: {'; '.join(differences[:_NAMED])}{more}: "
            "drained files must never be changed or deleted: restore them (soft delete or versions of the account)"
        )


def difference(expected: BatchFile, found: BlobFacts | None) -> str | None:
    """PURE: the difference of one file, as text; None if it is unchanged."""
    if found is None:
        return f"{expected.path} is missing"
    if found.size != expected.size:
        return f"{expected.path} has {found.size} bytes, not {expected.size}"
    if _bare(found.etag) != _bare(expected.etag):
        return f"{expected.path} has ETag {_bare(found.etag)}, not {_bare(expected.etag)}"
    return None


def _bare(etag: str) -> str:
    # Headers have quotes, listings do not.
    return etag.strip('"')
