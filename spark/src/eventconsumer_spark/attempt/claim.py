"""Decides which attempt may commit: the blob `_attempts/<n>.json` goes from claim to claim to the commit.

    {}  ──►  claim of attempt a  ──►  claim of attempt b  ──►  commit record of b (never overwritten)

Every arrow is one conditional write (`If-Match` the previous version, under the blob's lease), so storage orders all
attempts without a clock: an attempt whose claim was overwritten cannot write its record, and an attempt that finds a
record does not begin. The lease avoids parallel work: the next attempt waits for it, so two attempts do not write one
output at the same time. `_commits/<n>.json`, which all other programs read, is a copy of the record, written by the
first attempt that finds it (commit.py).
"""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from eventconsumer_api.wire.batch import BatchClaim, BatchCommit, BatchFile, BatchJob, decided
from eventconsumer_spark.errors import ClaimHeldError, ClaimLostError
from eventconsumer_spark.storage.keeper import LEASE_SECONDS, Keeper
from eventconsumer_spark.storage.store import ClaimStore, Version
from eventconsumer_storage.lease_time import boottime

log = logging.getLogger("eventconsumer.spark")

MAX_RECORD_BYTES = 1024 * 1024
"""Claims and commits are parsed only up to this size; 8,000 partitions need about 0.5 MB."""
WAIT_SECONDS = LEASE_SECONDS + 15
"""If a lease is held for longer, it is being renewed, and its attempt is alive."""
POLL_SECONDS = 2.0
REPLACE_ATTEMPTS = 3


@dataclass(frozen=True)
class Decided:
    """A commit record in place of a claim, and its bytes."""

    record: BatchCommit
    content: bytes


class Claim:
    """The claim of this attempt; `keeper` renews its lease after the caller starts it."""

    def __init__(
        self, store: ClaimStore, name: str, record: BatchClaim, *, lease: str, etag: str, keeper: Keeper
    ) -> None:
        self.record = record
        self.keeper = keeper
        self.released = False
        self._store = store
        self._name = name
        self._lease = lease
        self._etag = etag

    def decide(self, content: bytes) -> None:
        """Replace the claim by the commit record: the batch is then committed.

        Raises:
            ClaimLostError: Another attempt has claimed the batch; nothing was written.
            StorageError: No response: the next attempt finds whether the batch is committed.
        """
        self._replace(content)

    def leave_out(self, files: Sequence[BatchFile], cause: str) -> None:
        """Record that these files cannot be processed, before a result without them is written.

        Later attempts exclude them too, so that all attempts write the same result.

        Raises:
            ClaimLostError: Another attempt has claimed the batch.
            StorageError: Storage refused or did not answer.
        """
        record = self.record.model_copy(update={"left_out": list(files), "cause": cause})
        self._replace(_content(record))
        self.record = record

    def release(self) -> None:
        """Allow the next attempt to begin at once."""
        self.released = True
        self.keeper.stop()
        self._store.release(self._name, self._lease)

    def break_off(self, seconds: int) -> None:
        """Allow the next attempt to begin after `seconds`; this one ends before."""
        self.keeper.stop()
        self._store.break_off(self._name, seconds)

    def _replace(self, content: bytes) -> None:
        """Replace this claim by `content`; the present content decides whether that is done or possible.

        A renewal may change the ETag: accounts with a hierarchical namespace are not documented to keep it. And the
        client repeats a put without a response, so the repetition may find its own record.
        """
        for _ in range(REPLACE_ATTEMPTS):
            self.keeper.check()
            done = self._store.replace(self._name, content, self._etag, self._lease)
            standing = None if done else self._store.load(self._name, MAX_RECORD_BYTES)
            if done or (standing is not None and standing.content == content):
                return
            if standing is None or standing.content != _content(self.record):
                raise ClaimLostError(
                    f"batch {self.record.number} was claimed by {describe(standing)} meanwhile: nothing was committed"
                )
            self._etag = standing.etag
        raise ClaimLostError(f"the lease of batch {self.record.number} was broken: nothing was committed")


def take(
    store: ClaimStore,
    name: str,
    record: BatchClaim,
    on_lost: Callable[[str], None],
    *,
    clock: Callable[[], float] = boottime,
    sleep: Callable[[float], None] = time.sleep,
) -> Claim | Decided:
    """Claim a batch for the attempt of `record`, or find its commit record.

    Args:
        store: Container of the claim.
        name: Blob name of the claim.
        record: The claim to write.
        on_lost: Ends the driver, with the reason; called from another thread after the claim's keeper is started.
        clock: Seconds, monotonic.
        sleep: Waits, seconds.

    Raises:
        ClaimHeldError: Another attempt, which the message names, holds the lease and renews it.
        ClaimLostError: Another attempt claimed the batch at the same time.
        StorageError: Storage refused or did not answer.
    """
    lease = str(uuid.uuid4())  # A proposed lease id, so that a repeated request acquires the same lease.
    store.create(name, b"{}")  # Only an existing blob can be leased.
    since = _acquire(store, name, record.number, lease, clock=clock, sleep=sleep)
    keeper = Keeper(f"the claim of batch {record.number}", lambda: store.renew(name, lease), since, on_lost, clock)
    while True:
        before = store.load(name, MAX_RECORD_BYTES)
        if before is not None and (record_there := decided(before.content)):
            store.release(name, lease)
            return Decided(record_there, before.content)
        holder = _parse(before)
        if before is not None and holder and holder.attempt == record.attempt:
            return Claim(store, name, holder, lease=lease, etag=before.etag, keeper=keeper)
        if holder:
            # The result may have been written without these files, so they stay excluded.
            record = record.model_copy(update={"left_out": holder.left_out, "cause": holder.cause})
        keeper.check()
        if before is None or not store.replace(name, _content(record), before.etag, lease):
            # The response was lost, or the lease was broken: the present content decides.
            now = store.load(name, MAX_RECORD_BYTES)
            if now is None or (now.content != _content(record) and not decided(now.content)):
                raise ClaimLostError(f"batch {record.number} was claimed by {describe(now)} at the same time")


def new_claim(job: BatchJob) -> BatchClaim:
    """A claim by an attempt that begins now; its id shows the number of starts of the batch."""
    attempt = f"{job.attempt}-{uuid.uuid4().hex}"
    return BatchClaim(
        number=job.number,
        chain=job.chain,
        claimed_at=datetime.now(UTC),
        application=job.application,
        attempt=attempt,
    )


def describe(version: Version | None) -> str:
    """Owner and time of a claim, for messages."""
    if version is None:
        return "no attempt (its blob was deleted)"
    if (holder := _parse(version)) is None:
        return "an unknown attempt"
    return f"{holder.application} (attempt {holder.attempt}, since {holder.claimed_at:%Y-%m-%d %H:%M:%S} UTC)"


def _parse(version: Version | None) -> BatchClaim | None:
    """The claim in a blob; None if it contains none."""
    try:
        return BatchClaim.model_validate_json(version.content) if version else None
    except ValidationError:
        return None


def _content(record: BatchClaim) -> bytes:
    return record.model_dump_json(by_alias=True).encode()


def _acquire(
    store: ClaimStore,
    name: str,
    number: int,
    lease: str,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> float:
    """Acquire the lease, after the lease of an earlier attempt; return when the request was sent."""
    began, said = clock(), False
    while True:
        sent = clock()
        if store.acquire(name, LEASE_SECONDS, lease):
            return sent
        holder = describe(store.load(name, MAX_RECORD_BYTES))
        if sent - began >= WAIT_SECONDS:
            raise ClaimHeldError(
                f"batch {number} is being processed by {holder}, which renews its claim: only one attempt may run at a "
                "time; delete that application if it hangs"
            )
        if not said:
            log.info(
                "batch %d is claimed by %s: waiting up to %d s for its lease to expire", number, holder, WAIT_SECONDS
            )
            said = True
        sleep(POLL_SECONDS)
