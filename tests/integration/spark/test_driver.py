"""A driver's whole life against real storage: result, commit, second run, and each refusal before a commit."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import AccountSasPermissions, BlobLeaseClient, ResourceTypes, Services, generate_account_sas

from eventconsumer_api.wire.batch import BatchCommit, BatchJob, ResidentLimits, attempt_name, commit_name
from eventconsumer_spark import Batch
from eventconsumer_spark.errors import FilesChangedError, ManifestError
from eventconsumer_spark.program.process import process
from eventconsumer_storage.errors import StorageError
from tests.integration.spark.conftest import Driver
from tests.integration.spark.drained import PREFIX, DrainedBatch
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess

Result = Callable[[BatchJob], list[dict[str, Any]]]


def never(_: Batch) -> int:
    """A program that must not be reached."""
    raise AssertionError("the program ran")


def expected(drained: DrainedBatch) -> dict[str | None, tuple[int, int, int]]:
    """Events, ids and sum of ids for each key, without Spark."""
    numbers: dict[Any, list[int]] = {}
    for row in drained.events:
        numbers.setdefault(row["partition_key"], []).append(int(dict(row["properties"])["id"]))  # type: ignore[call-overload]
    return {key: (len(ids), len(set(ids)), sum(ids)) for key, ids in numbers.items()}


def test_batch_is_processed_once_and_its_commit_stays(drained: DrainedBatch, driver: Driver, result: Result) -> None:
    drained.slot("0", 0, 500)
    drained.slot("0", 500, 300)
    drained.slot("1", 40, 200)
    job = drained.freeze()
    drained.slot("1", 240, 10)  # Not of this batch: it must not be read.
    del drained.events[-10:]

    first = driver(job)
    assert first.returncode == 0, first.stdout
    rows = {row["partition_key"]: (row["events"], row["ids"], row["id_sum"]) for row in result(job)}
    assert rows == expected(drained)
    commit = drained.commit()
    assert commit is not None
    record = BatchCommit.model_validate_json(commit)
    assert (record.files, record.rows_read, record.rows_written) == (3, 1000, len(rows))
    assert record.output == f"{job.output.path}/batch=1"
    assert KEY not in first.stdout

    # The published copy is lost: it is made again from the claim, and nothing is processed.
    drained.container.delete_blob(commit_name(PREFIX, 1))
    process(job, never, {})
    assert drained.commit() == commit

    # Committed: nothing is done, nothing is overwritten; a resident driver goes on to the next batch until it is idle.
    process(job.model_copy(update={"resident": ResidentLimits(seconds=1, max_bytes=0)}), never, {})
    assert drained.commit() == commit


def test_wrong_count_is_refused_before_the_commit(drained: DrainedBatch, driver: Driver) -> None:
    wrong = drained.slot("0", 0, 100)
    drained.files[0] = wrong.model_copy(update={"count": 103})
    ended = driver(drained.freeze())
    assert ended.returncode == 1
    assert "have 100 events" in ended.stdout
    assert "the manifest has 103 (difference -3)" in ended.stdout
    assert drained.commit() is None


def shared_access_signature() -> str:
    """One that allows everything for an hour."""
    return str(
        generate_account_sas(
            ACCOUNT,
            KEY,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True),
            datetime.now(UTC) + timedelta(hours=1),
            services=Services(blob=True),
        )
    )


@pytest.mark.parametrize("way", ["key", pytest.param("sas", marks=pytest.mark.long)])
def test_credential_opens_the_files_and_is_nowhere_in_what_spark_shows(
    way: str, azurite: AzuriteProcess, drained: DrainedBatch, driver: Driver
) -> None:
    secret, setting = KEY, f"fs.azure.account.key.{drained.host}"
    if way == "sas":
        signature = shared_access_signature()
        secret, setting = signature.partition("sig=")[2], f"fs.azure.sas.fixed.token.{drained.host}"
        Path(drained.secret_file).write_text(f"BlobEndpoint={azurite.url};SharedAccessSignature={signature}")
    drained.slot("0", 0, 10)
    ended = driver(drained.freeze(), Path(__file__).with_name("show_environment.py"))
    assert ended.returncode == 0, ended.stdout
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]  # the log's are JSON, too
    (shown,) = [line for line in lines if "settings" in line]
    # The setting itself is shown, so the list was complete; its value is not.
    assert f"({setting},*********(redacted))" in shown["settings"].splitlines()
    assert secret not in ended.stdout


def test_a_property_with_a_wrong_value_ends_the_driver_instead_of_hanging_it(
    drained: DrainedBatch, driver: Driver
) -> None:
    """The CRD refuses the first; only Java knows all time zones."""
    drained.slot("0", 0, 10)
    job = drained.freeze()
    for name, value in (("spark.sql.shuffle.partitions", "abc"), ("spark.sql.session.timeZone", "Mars/Olympus")):
        ended = driver(job, conf={name: value})
        assert ended.returncode == 1, ended.stdout
        assert f"ConfigurationError: Spark property {name}: " in ended.stdout
        assert value in ended.stdout.rpartition("ConfigurationError: ")[2]
    assert drained.commit() is None


def test_changed_file_is_named(drained: DrainedBatch) -> None:
    drained.slot("0", 0, 10)
    changed = drained.slot("0", 10, 10)
    job = drained.freeze()
    content = drained.container.download_blob(changed.path).readall()
    drained.container.upload_blob(changed.path, content, overwrite=True)  # Same bytes, but not the frozen blob.
    with pytest.raises(FilesChangedError, match=f"{changed.path} has ETag"):
        process(job, never, {})
    assert drained.commit() is None


def test_missing_and_resized_files_are_named(drained: DrainedBatch) -> None:
    missing, resized = drained.slot("0", 0, 10), drained.slot("1", 0, 10)
    job = drained.freeze()
    drained.container.delete_blob(missing.path)
    drained.container.upload_blob(resized.path, b"other", overwrite=True)
    with pytest.raises(FilesChangedError) as raised:
        process(job, never, {})
    assert f"{missing.path} is missing" in str(raised.value)
    assert f"{resized.path} has 5 bytes, not {resized.size}" in str(raised.value)


def test_manifest_of_another_chain_is_refused(drained: DrainedBatch) -> None:
    drained.slot("0", 0, 10)
    job = drained.freeze(chain="00000000000000c2")
    with pytest.raises(ManifestError, match=r"give each EventConsumer its own spec\.sink\.prefix"):
        process(job, never, {})


def test_batch_without_manifest_is_refused(drained: DrainedBatch) -> None:
    drained.slot("0", 0, 10)
    job = drained.freeze().model_copy(update={"number": 2})
    with pytest.raises(ManifestError, match="batch 2 has no manifest"):
        process(job, never, {})


def test_commit_that_cannot_be_read_is_no_commit_and_no_free_place(drained: DrainedBatch) -> None:
    drained.slot("0", 0, 10)
    job = drained.freeze()
    drained.container.upload_blob(commit_name(PREFIX, 1), b"hello")
    with pytest.raises(StorageError, match=r"cannot parse commit .*_commits/0000000001\.json"):
        process(job, never, {})
    assert drained.commit() == b"hello"


def test_refused_credential_names_the_remedy_and_claims_nothing(drained: DrainedBatch) -> None:
    drained.slot("0", 0, 10)
    job = drained.freeze()
    secret = Path(drained.secret_file)
    secret.write_text(secret.read_text().replace(KEY, "d3Jvbmcgd3Jvbmcgd3Jvbmc="))
    with pytest.raises(StorageError, match="admit the cluster's subnet"):
        process(job, never, {})
    assert not drained.container.get_blob_client(attempt_name(PREFIX, 1)).exists()


def test_second_batch_needs_the_commit_of_the_first(drained: DrainedBatch) -> None:
    drained.slot("0", 0, 10)
    job = drained.freeze(2)
    with pytest.raises(StorageError, match=r"cannot be committed without commit .*_commits/0000000001\.json"):
        process(job, never, {})
    assert not drained.container.get_blob_client(attempt_name(PREFIX, 2)).exists()


def test_claim_is_let_go_where_the_batch_cannot_begin(drained: DrainedBatch) -> None:
    drained.slot("0", 0, 10)
    job = drained.freeze()
    # A name that no container can have is refused when the output is made, with the batch claimed.
    bad = job.output.model_copy(update={"path": f"abfs://x@{drained.host}/results"})
    with pytest.raises(StorageError, match="cannot create the container itself in container x "):
        process(job.model_copy(update={"output": bad}), never, {})
    BlobLeaseClient(drained.container.get_blob_client(attempt_name(PREFIX, 1))).acquire(15)
