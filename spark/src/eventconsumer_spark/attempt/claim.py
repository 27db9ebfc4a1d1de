"""Which attempt at a batch may commit: one blob, `_attempts/<n>.json`, that goes from claim to claim to the commit.

    {}  ──►  claim of attempt a  ──►  claim of attempt b  ──►  commit record of b (never overwritten)

Every arrow is one conditional write (`If-Match` the version before, under the blob's lease), so storage puts all
attempts in one order and no clock decides anything: an attempt whose claim was overwritten cannot write its record,
and an attempt that finds a record does not begin. The lease is there for peace: the next attempt waits for it, so two
do not write one output at the same time. `_commits/<n>.json`, which all others read, is a copy of the record, made by
whoever sees it first (commit.py).
"""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from eventconsumer_api.batch import BatchClaim, BatchCommit, BatchFile, BatchJob
from eventconsumer_spark.errors import ClaimHeldError, ClaimLostError
from eventconsumer_spark.storage.keeper import LEASE_SECONDS, Keeper
from eventconsumer_spark.storage.store import ClaimStore, Version
from eventconsumer_storage.lease_time import boottime

log = logging.getLogger("eventconsumer.spark")

MAX_RECORD_BYTES = 1024 * 1024
"""Claims and commits are parsed only up to this size; 8,000 partitions need about 0.5 MB."""
WAIT_SECONDS = LEASE_SECONDS + 15
"""A lease that is held for longer is renewed: its attempt is alive."""
POLL_SECONDS = 2.0


@dataclass(frozen=True)
class Decided:
    """A commit record in the place of a claim, byte for byte."""

    content: bytes


class Claim:
    """The claim of this attempt; `keeper` holds its lease, and is started by whoever works under it."""

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
        """Put the commit record in the place of the claim: from here on the batch is committed.

        Raises:
            ClaimLostError: Another attempt has claimed the batch since; nothing was written.
            StorageError: No answer: whether it is committed is found out by the next attempt.
        """
        self.keeper.check()
        if self._store.replace(self._name, content, self._etag, self._lease):
            return
        # A put whose answer was lost is repeated by the client and meets its own record.
        standing = self._store.load(self._name, MAX_RECORD_BYTES)
        if standing is None or standing.content != content:
            raise ClaimLostError(
                f"batch {self.record.number} was claimed by {describe(standing)} meanwhile: nothing was committed here"
            )

    def leave_out(self, files: Sequence[BatchFile], cause: str) -> None:
        """Write down that these files cannot be processed, before a result without them is written.

        The next attempt leaves them out as well, so that all attempts that write a result write the same.

        Raises:
            ClaimLostError: Another attempt has claimed the batch since.
            StorageError: Storage refused or did not answer.
        """
        self.keeper.check()
        record = self.record.model_copy(update={"left_out": list(files), "cause": cause})
        self._store.replace(self._name, _content(record), self._etag, self._lease)
        standing = self._store.load(self._name, MAX_RECORD_BYTES)
        if standing is None or standing.content != _content(record):
            raise ClaimLostError(f"batch {self.record.number} was claimed by {describe(standing)} meanwhile")
        self.record, self._etag = record, standing.etag

    def release(self) -> None:
        """Let the next attempt begin at once."""
        self.released = True
        self.keeper.stop()
        self._store.release(self._name, self._lease)

    def break_off(self, seconds: int) -> None:
        """Let the next attempt begin after `seconds`, in which this one ends."""
        self.keeper.stop()
        self._store.break_off(self._name, seconds)


def take(
    store: ClaimStore,
    name: str,
    record: BatchClaim,
    on_lost: Callable[[str], None],
    *,
    clock: Callable[[], float] = boottime,
    sleep: Callable[[float], None] = time.sleep,
) -> Claim | Decided:
    """Claim a batch for the attempt of `record`, or find that it is decided.

    Args:
        store: Where the claim is.
        name: Blob name of the claim.
        record: What to claim.
        on_lost: Ends the driver, given the reason; called from another thread once the claim's keeper is started.
        clock: Seconds, monotonic.
        sleep: Waits for so many seconds.

    Raises:
        ClaimHeldError: Another attempt holds the lease and renews it; names it.
        ClaimLostError: Another attempt claimed at the same moment.
        StorageError: Storage refused or did not answer.
    """
    lease = str(uuid.uuid4())  # Chosen here, so that a request that is repeated takes the same lease.
    store.create(name, b"{}")  # Only a blob can be leased.
    since = _acquire(store, name, record.number, lease, clock=clock, sleep=sleep)
    keeper = Keeper(f"the claim of batch {record.number}", lambda: store.renew(name, lease), since, on_lost, clock)
    while True:
        before = store.load(name, MAX_RECORD_BYTES)
        if before is not None and is_commit(before.content):
            store.release(name, lease)
            return Decided(before.content)
        holder = _parse(before)
        if before is not None and holder and holder.attempt == record.attempt:
            return Claim(store, name, holder, lease=lease, etag=before.etag, keeper=keeper)
        if holder:
            # Its result may have been written without these files, so they stay left out.
            record = record.model_copy(update={"left_out": holder.left_out, "cause": holder.cause})
        keeper.check()
        if before is None or not store.replace(name, _content(record), before.etag, lease):
            # The answer was lost, or the lease was broken: what stands there now tells.
            now = store.load(name, MAX_RECORD_BYTES)
            if now is None or (now.content != _content(record) and not is_commit(now.content)):
                raise ClaimLostError(f"batch {record.number} was claimed by {describe(now)} at the same time")


def new_claim(job: BatchJob) -> BatchClaim:
    """A claim by an attempt that begins now; its id tells people how often the batch was started."""
    attempt = f"{job.attempt}-{uuid.uuid4().hex}"
    return BatchClaim(
        number=job.number,
        chain=job.chain,
        claimed_at=datetime.now(UTC),
        application=job.application,
        attempt=attempt,
    )


def is_commit(content: bytes) -> bool:
    """Whether the content of a claim's blob is a commit record."""
    try:
        BatchCommit.model_validate_json(content)
    except ValidationError:
        return False
    return True


def describe(version: Version | None) -> str:
    """Whose a claim is and since when, for messages."""
    if version is None:
        return "nobody (its blob is gone)"
    if (holder := _parse(version)) is None:
        return "an attempt that has not said its name"
    return f"{holder.application} (attempt {holder.attempt}, since {holder.claimed_at:%Y-%m-%d %H:%M:%S} UTC)"


def _parse(version: Version | None) -> BatchClaim | None:
    """The claim in a blob; None where it holds none."""
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
    """Take the lease, waiting for that of an earlier attempt; return when the request was sent."""
    began, said = clock(), False
    while True:
        sent = clock()
        if store.acquire(name, LEASE_SECONDS, lease):
            return sent
        holder = describe(store.load(name, MAX_RECORD_BYTES))
        if sent - began >= WAIT_SECONDS:
            raise ClaimHeldError(
                f"batch {number} is worked on by {holder}, which keeps its claim alive: only one attempt may run at a "
                "time; delete that application if it hangs"
            )
        if not said:
            log.info("batch %d is claimed by %s: waiting up to %d s for its lease to end", number, holder, WAIT_SECONDS)
            said = True
        sleep(POLL_SECONDS)
