"""A resident driver between two batches: its decisions, and the loop around them with a clock and storage in memory."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eventconsumer_api.spec.spark import SparkOutput
from eventconsumer_api.wire.batch import BatchFile, BatchJob, BatchManifest, ResidentLimits, Totals, manifest_name
from eventconsumer_api.wire.host_config import BlobLocation, Credential, ResourceRef
from eventconsumer_spark.errors import ManifestError
from eventconsumer_spark.program.resident import Between, DriverStep, End, decide, jobs_while_alive
from eventconsumer_spark.storage.abfs import AbfsFolder
from eventconsumer_spark.storage.paths import Site
from eventconsumer_spark.storage.store import BlobFacts
from eventconsumer_storage.account import StorageAccount
from eventconsumer_storage.credential import fingerprint
from eventconsumer_storage.errors import StorageError
from tests.support.fakes.spark_store import FakeSparkBlobStore

PREFIX = "shop/orders"
RESOURCE = ResourceRef(namespace="shop", name="orders", uid="uid-1")
LIMITS = ResidentLimits(seconds=60, max_batches=4, max_age_seconds=1000, max_bytes=100)
AT_WORK = Between(batches=1, age=30, idle=0)


@pytest.mark.parametrize(
    ("now", "step"),
    [
        (AT_WORK, DriverStep.WAIT),
        (Between(1, 30, 59.9), DriverStep.WAIT),
        (Between(1, 30, 60), End("it has had no batch for 60 s")),
        (Between(1, 30, 0, next_bytes=0), DriverStep.TAKE),
        (Between(1, 30, 0, next_bytes=100), DriverStep.TAKE),
        (
            Between(1, 30, 0, next_bytes=1, next_parallel=True),
            End("spec.spark.batch.inFlight is above 1: parallel batches have drivers of their own"),
        ),
        (Between(1, 90, 61, next_bytes=100), DriverStep.TAKE),  # frozen during the last pause
        (
            Between(1, 30, 0, next_bytes=101),
            End("the files of the next batch have 101 bytes, above its limit of 100"),
        ),
        (Between(3, 999, 0, next_bytes=1), DriverStep.TAKE),
        (Between(4, 30, 0, next_bytes=1), End("it has processed 4 batches")),
        (Between(1, 1000, 0, next_bytes=1), End("it is 1000 s old")),
        (Between(1, 30, 0, credential_changed=True, next_bytes=1), End("the credential of spec.sink has changed")),
    ],
)
def test_next_step(now: Between, step: DriverStep | End) -> None:
    assert decide(LIMITS, now) == step


@dataclass
class DriverWorld:
    """A container, a mounted credential, and a clock that only the driver's pauses and batches move."""

    secret: Path
    store: FakeSparkBlobStore = field(default_factory=FakeSparkBlobStore)
    now: float = 0.0
    pauses: dict[int, Callable[[], object]] = field(default_factory=dict)
    """What happens during the pause of this number."""
    refusing: bool = False
    looks: int = 0

    def facts(self, name: str) -> BlobFacts | None:
        self.looks += 1
        if self.refusing:
            raise StorageError("cannot look at it: no response")
        return self.store.facts(name)

    def read(self, name: str, limit: int) -> bytes | None:
        return self.store.read(name, limit)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.pop(self.looks, lambda: None)()

    @property
    def job(self) -> BatchJob:
        credential = Credential(field="spec.sink.x", secret="s", key="k", connection_string_file=str(self.secret))
        return BatchJob(
            chain="c1",
            resource=RESOURCE,
            application="orders-b3",
            number=3,
            attempt=2,
            search_unprocessable=True,
            sink=BlobLocation(container="drained", prefix=PREFIX, credential=credential),
            output=SparkOutput(path="abfss://results@shop.blob.core.windows.net/orders"),
            resident=LIMITS,
        )

    def freeze(self, number: int, size: int = 10, chain: str = "c1") -> None:
        manifest = BatchManifest(
            number=number,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            reason="Files",
            chain=chain,
            resource=RESOURCE,
            segment_id="1",
            files=[BatchFile(path="a", etag="1", size=size, partition="0", first=0, last=0, count=1)],
            ranges={},
            next={},
            totals=Totals(),
        )
        self.store.put(manifest_name(PREFIX, number), manifest.model_dump_json(by_alias=True).encode())

    def jobs(self, limits: ResidentLimits = LIMITS) -> Iterator[BatchJob]:
        folder = AbfsFolder("abfss", "drained", "shop.blob.core.windows.net", "")
        account = StorageAccount("https://shop.blob.core.windows.net", "shop", key="k")
        known = fingerprint([self.job.sink.credential])
        site = Site(account, self, folder, folder, {}, PREFIX, known)  # type: ignore[arg-type]
        return jobs_while_alive(self.job, limits, site, clock=lambda: self.now, sleep=self.sleep)


@pytest.fixture
def world(tmp_path: Path) -> DriverWorld:
    secret = tmp_path / "connectionString"
    secret.write_text("one")
    return DriverWorld(secret)


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "eventconsumer_spark")


def test_next_batches_are_first_attempts_in_order_and_the_last_line_has_the_reason(
    world: DriverWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.freeze(4)
    world.pauses[3] = lambda: world.freeze(5)
    first, *others = world.jobs()
    assert first == world.job
    assert [(job.number, job.attempt, job.search_unprocessable) for job in others] == [(4, 1, False), (5, 1, False)]
    assert caplog.messages == ["the resident driver ends before batch 6: it has had no batch for 60 s"]


def test_idle_time_begins_with_the_end_of_a_batch(world: DriverWorld) -> None:
    world.freeze(4)
    for job in world.jobs():
        world.now += 500 if job.number == 3 else 0  # the batch takes that long
    assert job.number == 4
    assert world.now == 560


def test_search_for_unprocessable_files_as_the_operator_decided_for_first_attempts(world: DriverWorld) -> None:
    world.freeze(4)
    _, other = world.jobs(LIMITS.model_copy(update={"search_unprocessable": True}))
    assert other.search_unprocessable


def test_changed_credential_ends_it(world: DriverWorld) -> None:
    world.pauses[5] = lambda: world.secret.write_text("two")
    assert [job.number for job in world.jobs()] == [3]
    assert world.now == 5


def test_storage_errors_are_logged_once_and_end_it_by_its_idle_time_only(
    world: DriverWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.refusing = True

    def recover() -> None:
        world.refusing = False
        world.freeze(4)

    world.pauses[40] = recover
    assert [job.number for job in world.jobs()] == [3, 4]
    assert caplog.messages == [
        "batch 4 cannot be looked for; trying again (1 failures): cannot look at it: no response",
        "batch 4 can be looked for again, after 40 failures",
        "the resident driver ends before batch 5: it has had no batch for 60 s",
    ]


def test_storage_that_stays_away_ends_it_by_its_idle_time(world: DriverWorld) -> None:
    world.refusing = True
    assert [job.number for job in world.jobs()] == [3]
    assert world.now == 60


def test_manifest_of_another_chain_is_an_error_of_the_batch(world: DriverWorld) -> None:
    world.freeze(4, chain="c2")
    with pytest.raises(ManifestError, match=r"own spec\.sink\.prefix"):
        list(world.jobs())
