"""Manifest and job description, against a container in memory."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from eventconsumer_api.kube.labels import BATCH_JOB_ENV
from eventconsumer_api.spec.spark import IN_FLIGHT_MAX, SparkOutput
from eventconsumer_api.wire.batch import BatchFile, BatchJob, BatchManifest, Range, ReprocessOf, Totals, manifest_name
from eventconsumer_api.wire.host_config import BlobLocation, Credential, ResourceRef
from eventconsumer_spark.attempt.attempt import begin
from eventconsumer_spark.attempt.shutdown import Ending
from eventconsumer_spark.batch import Batch
from eventconsumer_spark.errors import ConfigurationError, FilesChangedError, ManifestError
from eventconsumer_spark.input.manifest import MAX_MANIFEST_BYTES, check_files, difference, load_manifest
from eventconsumer_spark.program.environment import load_job
from eventconsumer_spark.program.process import process
from eventconsumer_spark.storage.store import BlobFacts
from tests.support.fakes.spark_store import FakeSparkBlobStore

RESOURCE = ResourceRef(namespace="shop", name="orders", uid="uid-1")
PREFIX = "shop/orders"
JOB = BatchJob(
    chain="c1",
    resource=RESOURCE,
    application="orders-uid1-b3",
    number=3,
    sink=BlobLocation(
        container="drained",
        prefix=PREFIX,
        credential=Credential(field="spec.sink.x", secret="s", key="k", connection_string_file="/nowhere/k"),
    ),
    output=SparkOutput(path="abfss://results@shop.blob.core.windows.net/orders"),
)
PATHS = [f"{PREFIX}/segment=1/partition=0/from={n:020d}.parquet" for n in (0, 10)]


@pytest.fixture
def store() -> FakeSparkBlobStore:
    blobs = FakeSparkBlobStore()
    for path in PATHS:
        blobs.put(path, b"parquet")
    return blobs


def frozen(store: FakeSparkBlobStore, **changes: object) -> BatchManifest:
    """The manifest over what the store has now, written to it."""
    files = [
        BatchFile(path=path, etag=store.blobs[path][0], size=7, partition="0", first=n, last=n + 9, count=10)
        for path, n in zip(PATHS, (0, 10), strict=True)
    ]
    manifest = BatchManifest(
        number=3,
        chain="c1",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        reason="Files",
        resource=RESOURCE,
        segment_id="1",
        files=files,
        ranges={"0": Range(first=0, last=19)},
        next={"0": 20},
        totals=Totals(),
    ).model_copy(update=changes)
    store.put(manifest_name(PREFIX, 3), manifest.model_dump_json(by_alias=True).encode())
    return manifest


@pytest.mark.parametrize("reprocess", [None, ReprocessOf(name="again", first=3, last=3)])
def test_merge_is_refused_where_batches_are_parallel(store: FakeSparkBlobStore, reprocess: ReprocessOf | None) -> None:
    job = JOB.model_copy(update={"reprocess": reprocess})
    made: dict[str, Any] = {"spark": None, "events": None, "output": "o", "quarantine_path": "q", "transaction": "t"}
    batch = Batch(job=job, manifest=frozen(store, parallel=True), table="not a table", **made)
    # Reprocessing keeps the order of the batches: its merge begins, and needs Spark.
    refusal = pytest.raises(AttributeError) if reprocess else pytest.raises(ConfigurationError, match="inFlight: 1")
    with refusal:
        batch.merge_delta(None, "t.id = s.id", {})  # type: ignore[arg-type]


def test_transactions_of_parallel_batches_differ_from_those_of_batches_that_may_be_open_with_them() -> None:
    store = FakeSparkBlobStore()
    for path in PATHS:
        store.put(path, b"parquet")
    names = [frozen(store, number=number, parallel=True).transaction for number in range(1, 1 + 2 * IN_FLIGHT_MAX)]
    for first in range(IN_FLIGHT_MAX):
        assert len(set(names[first : first + IN_FLIGHT_MAX])) == IN_FLIGHT_MAX
    assert len(set(names)) == IN_FLIGHT_MAX
    assert frozen(store).transaction == "c1"  # as before there were parallel batches


def test_driver_refuses_a_batch_that_the_operator_takes_for_another_kind(store: FakeSparkBlobStore) -> None:
    site: Any = SimpleNamespace(store=store, commits=PREFIX)
    frozen(store, parallel=True)
    with pytest.raises(ManifestError, match="operator and hosts must have the same version"):
        begin(JOB, site, Ending())


def test_manifest_is_read_as_written_whatever_resource_it_was_frozen_for(store: FakeSparkBlobStore) -> None:
    for resource in (RESOURCE, ResourceRef(namespace="market", name="orders", uid="uid-2")):
        manifest = frozen(store, resource=resource)
        assert load_manifest(store, JOB) == manifest
        check_files(store, manifest)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, r"batch 3 has no manifest shop/orders/_batches/0000000003\.json"),
        (b"{}", "cannot parse"),
        (b" " * (MAX_MANIFEST_BYTES + 1), "larger than"),
    ],
    ids=["missing", "not readable", "too large to be parsed"],
)
def test_manifest_that_cannot_be_read(store: FakeSparkBlobStore, content: bytes | None, text: str) -> None:
    if content is not None:
        store.put(manifest_name(PREFIX, 3), content)
    with pytest.raises(ManifestError, match=text):
        load_manifest(store, JOB)


@pytest.mark.parametrize("changes", [{"number": 4}, {"chain": "c2"}])
def test_manifest_of_something_else(store: FakeSparkBlobStore, changes: dict[str, object]) -> None:
    frozen(store, **changes)
    with pytest.raises(ManifestError, match=r"own spec\.sink\.prefix"):
        load_manifest(store, JOB)


def test_changed_and_missing_files_are_named(store: FakeSparkBlobStore) -> None:
    manifest = frozen(store)
    store.put(PATHS[0], b"parquet")
    store.delete(PATHS[1])
    with pytest.raises(FilesChangedError) as raised:
        check_files(store, manifest)
    assert f"{PATHS[0]} has ETag" in str(raised.value)
    assert f"{PATHS[1]} is missing" in str(raised.value)


def test_many_changed_files_are_counted(store: FakeSparkBlobStore) -> None:
    manifest = frozen(store)
    files = [manifest.files[0].model_copy(update={"path": f"gone-{n}"}) for n in range(12)]
    with pytest.raises(FilesChangedError, match=r"gone-0 is missing.*gone-4 is missing and 7 more"):
        check_files(store, manifest.model_copy(update={"files": files}))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (BlobFacts('"0x1"', 7), None),
        (BlobFacts("0x1", 7), None),
        (BlobFacts("0x2", 7), "a has ETag 0x2, not 0x1"),
        (BlobFacts("0x1", 8), "a has 8 bytes, not 7"),
        (None, "a is missing"),
    ],
)
def test_difference_of_one_file(found: BlobFacts | None, text: str | None) -> None:
    file = BatchFile(path="a", etag='"0x1"', size=7, partition="0", first=0, last=0, count=1)
    assert difference(file, found) == text


def test_job_from_the_environment() -> None:
    assert load_job({BATCH_JOB_ENV: JOB.model_dump_json(by_alias=True)}) == JOB


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({}, "is not set"),
        ({BATCH_JOB_ENV: "{"}, "Invalid JSON"),
        ({BATCH_JOB_ENV: JOB.model_dump_json(by_alias=True, exclude={"output"})}, "output: Field required"),
    ],
)
def test_bad_job_description_names_the_variable_and_the_field(environment: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=BATCH_JOB_ENV) as raised:
        load_job(environment)
    assert text in str(raised.value)


def test_missing_secret_file_names_the_field_and_the_secret() -> None:
    def never(_: Batch) -> int:
        raise AssertionError("the program ran")

    with pytest.raises(ConfigurationError, match=r"spec\.sink\.x: Secret s, or its key k, does not exist: create it"):
        process(JOB, never, {})
