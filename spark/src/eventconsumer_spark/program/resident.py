"""The batches of a resident driver: after its commit it waits for the next frozen batch, processes it, and so on.

    batch n committed ──► HEAD _batches/<n+1>.json, each second ──► batch n+1, or the end of the driver

Invariant: nothing changes for a single batch: each is claimed, checked and committed as by a driver of its own. The end
of a resident driver is never a failure: the operator starts another one for the next batch.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.wire.batch import BatchJob, BatchManifest, ResidentLimits, manifest_name
from eventconsumer_spark.input.manifest import load_manifest
from eventconsumer_spark.storage.paths import Site
from eventconsumer_storage.credential import fingerprint
from eventconsumer_storage.errors import StorageError

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Between:
    """A resident driver between two batches.

    Attributes:
        batches: Number of batches that it processed.
        age: Time since its start, seconds.
        idle: Time since its last batch, seconds.
        credential_changed: Whether the mounted credential differs from the one with which it started.
        next_bytes: Size of the files of the next batch; None: not frozen yet, or storage does not respond.
        next_parallel: Whether it is parallel.
    """

    batches: int
    age: float
    idle: float
    credential_changed: bool = False
    next_bytes: int | None = None
    next_parallel: bool = False


class DriverStep(Enum):
    """What a resident driver does while it lives."""

    TAKE = auto()
    WAIT = auto()


@dataclass(frozen=True)
class End:
    """The end of a resident driver, and its reason."""

    reason: str


def decide(limits: ResidentLimits, now: Between) -> DriverStep | End:
    """PURE: take the next batch, wait for it, or end."""
    if now.credential_changed:
        return End("the credential of spec.sink has changed")
    if now.batches >= limits.max_batches:
        return End(f"it has processed {now.batches} batches")
    if now.age >= limits.max_age_seconds:
        return End(f"it is {now.age:.0f} s old")
    if now.next_bytes is not None:
        if now.next_parallel:
            return End("spec.spark.batch.inFlight is above 1: parallel batches have drivers of their own")
        if limits.max_bytes is None or now.next_bytes <= limits.max_bytes:
            return DriverStep.TAKE
        return End(f"the files of the next batch have {now.next_bytes} bytes, above its limit of {limits.max_bytes}")
    if now.idle >= limits.seconds:
        return End(f"it has had no batch for {now.idle:.0f} s")
    return DriverStep.WAIT


def jobs_while_alive(
    job: BatchJob,
    limits: ResidentLimits,
    site: Site,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[BatchJob]:
    """The job, and after each batch the job for the next one, until the driver must end.

    Storage errors while it waits are logged and tried again.

    Args:
        job: The first batch.
        limits: When the driver ends.
        site: Its locations.
        clock: Seconds, monotonic.
        sleep: Waits, seconds.

    Raises:
        ManifestError: The manifest of the next batch is invalid, or of another chain.
    """
    born, batches = clock(), 0
    throttle = LogThrottle(clock)
    while True:
        yield job
        batches, committed = batches + 1, clock()
        job = job.model_copy(
            update={"number": job.number + 1, "attempt": 1, "search_unprocessable": limits.search_unprocessable}
        )
        while True:
            frozen = _frozen(job, site, throttle)
            now = clock()
            changed = fingerprint([job.sink.credential]) != site.credential
            size = sum(file.size for file in frozen.files) if frozen else None
            is_parallel = frozen is not None and frozen.parallel
            step = decide(limits, Between(batches, now - born, now - committed, changed, size, is_parallel))
            if step is not DriverStep.WAIT:
                break
            sleep(POLL_SECONDS)
        if isinstance(step, End):
            log.info("the resident driver ends before batch %d: %s", job.number, step.reason)
            return


def _frozen(job: BatchJob, site: Site, throttle: LogThrottle) -> BatchManifest | None:
    """The manifest of a batch; None: it is not frozen, or storage does not respond."""
    try:
        is_there = site.store.facts(manifest_name(job.sink.prefix, job.number)) is not None
        frozen = load_manifest(site.store, job) if is_there else None
    except StorageError as error:
        if times := throttle.again("poll", str(error)):
            log.warning("batch %d cannot be looked for; trying again (%d failures): %s", job.number, times, error)
        return None
    if times := throttle.over("poll"):
        log.info("batch %d can be looked for again, after %d failures", job.number, times)
    return frozen
