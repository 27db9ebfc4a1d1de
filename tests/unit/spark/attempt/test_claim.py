"""Claim and commit under every order of two and three attempts' requests: one commit, complete, by the newest claim."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.wire.batch import BatchClaim, BatchCommit, BatchFile, commit_name
from eventconsumer_spark.attempt.claim import WAIT_SECONDS, Claim, Decided, take
from eventconsumer_spark.attempt.commit import commit, find_commit, previous_commit, publish
from eventconsumer_spark.errors import ClaimHeldError, ClaimLostError
from eventconsumer_spark.storage.keeper import LEASE_SECONDS
from eventconsumer_storage.errors import StorageError
from tests.support.clocks import ManualClock
from tests.support.fakes.spark_store import FakeSparkBlobStore
from tests.unit.spark.schedules import CLAIM, NUMBER, PREFIX, TIMES, ScheduledAttempt, record

FILE = BatchFile(path="a", etag="1", size=7, partition="0", first=0, last=9, count=10)
OTHER = FILE.model_copy(update={"path": "b"})


def ignore(_: str) -> None:
    """What a lost claim does where a test looks at the error."""


def claim_of(attempt: str) -> BatchClaim:
    return BatchClaim(number=NUMBER, claimed_at=TIMES, application=f"app-{attempt}", attempt=attempt)


def taken(store: FakeSparkBlobStore, clock: ManualClock, attempt: str) -> Claim:
    claim = take(store, CLAIM, claim_of(attempt), ignore, clock=clock, sleep=clock.sleep)
    assert isinstance(claim, Claim)
    return claim


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> FakeSparkBlobStore:
    return FakeSparkBlobStore(clock)


def test_commit_is_a_copy_of_the_record_in_the_place_of_the_claim(
    store: FakeSparkBlobStore, clock: ManualClock
) -> None:
    claim = taken(store, clock, "a")
    assert json.loads(store.blobs[CLAIM][1])["attempt"] == "a"
    committed = commit(store, PREFIX, claim, record("a"))
    assert committed.ours
    assert find_commit(store, PREFIX, NUMBER) == record("a")
    assert store.blobs[CLAIM][1] == store.blobs[commit_name(PREFIX, NUMBER)][1]


@pytest.mark.parametrize(
    ("end", "least", "most"),
    [
        (lambda claim: None, LEASE_SECONDS, WAIT_SECONDS),
        (lambda claim: claim.release(), 0, 0),
        (lambda claim: claim.break_off(3), 3, 6),
    ],
    ids=["the lease runs out", "it is released", "it is broken off"],
)
def test_next_attempt_begins_when_the_lease_has_ended(
    store: FakeSparkBlobStore, clock: ManualClock, end: Callable[[Claim], None], least: int, most: int
) -> None:
    end(taken(store, clock, "a"))
    began = clock.now
    taken(store, clock, "b")
    assert least <= clock.now - began <= most


def test_attempt_that_is_alive_is_named_after_a_while(store: FakeSparkBlobStore, clock: ManualClock) -> None:
    taken(store, clock, "a")

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        held = store._leases[CLAIM]
        assert store.renew(CLAIM, held.id)

    with pytest.raises(ClaimHeldError, match=r"by app-a \(attempt a, since 2026-01-01 00:00:00 UTC\), which renews"):
        take(store, CLAIM, claim_of("b"), ignore, clock=clock, sleep=sleep)


def test_attempt_that_was_given_up_can_neither_leave_out_nor_commit(
    store: FakeSparkBlobStore, clock: ManualClock
) -> None:
    old = taken(store, clock, "a")
    old.keeper.stop()
    new = taken(store, clock, "b")
    clock.now -= LEASE_SECONDS + 10  # Its clock would let it: storage must not.
    with pytest.raises(ClaimLostError, match=r"was claimed by app-b \(attempt b"):
        old.leave_out([FILE], "late")
    with pytest.raises(ClaimLostError, match=r"was claimed by app-b \(attempt b"):
        commit(store, PREFIX, old, record("a"))
    clock.now += LEASE_SECONDS + 10
    new.release()
    last = taken(store, clock, "c")
    assert last.record.left_out == []
    assert commit(store, PREFIX, last, record("c")).ours


def test_lease_that_ended_is_lost_before_storage_is_asked(store: FakeSparkBlobStore, clock: ManualClock) -> None:
    claim = taken(store, clock, "a")
    clock.sleep(LEASE_SECONDS - 4)
    with pytest.raises(ClaimLostError, match="could not be renewed in time"):
        commit(store, PREFIX, claim, record("a"))
    assert not find_commit(store, PREFIX, NUMBER)


def test_attempt_that_finds_a_record_publishes_it_and_does_not_begin(
    store: FakeSparkBlobStore, clock: ManualClock
) -> None:
    content = record("a").model_dump_json(by_alias=True).encode()
    taken(store, clock, "a").decide(content)
    found = take(store, CLAIM, claim_of("b"), ignore, clock=clock, sleep=clock.sleep)
    assert found == Decided(record("a"), content)
    assert publish(store, PREFIX, NUMBER, content) == record("a")
    assert store.read(commit_name(PREFIX, NUMBER), 10_000) == content
    # Nobody waits for the one that only published.
    assert store.acquire(CLAIM, LEASE_SECONDS, "third")


def test_files_left_out_by_one_attempt_are_left_out_by_the_next(store: FakeSparkBlobStore, clock: ManualClock) -> None:
    first = taken(store, clock, "a")
    first.leave_out([FILE], "it is no Parquet file")
    first.release()
    heir = taken(store, clock, "b")
    assert (heir.record.left_out, heir.record.cause) == ([FILE], "it is no Parquet file")
    assert heir.record.attempt == "b"
    heir.leave_out([FILE, OTHER], heir.record.cause)
    assert commit(store, PREFIX, heir, record("b")).ours


def test_a_renewal_that_changes_the_etag_does_not_cost_the_claim(clock: ManualClock) -> None:
    store = FakeSparkBlobStore(clock, lease_changes_etag=True)
    claim = taken(store, clock, "a")
    assert store.renew(CLAIM, claim._lease)
    claim.leave_out([FILE], "x")
    assert store.renew(CLAIM, claim._lease)
    assert commit(store, PREFIX, claim, record("a")).ours


def test_a_claim_without_a_lease_is_lost(store: FakeSparkBlobStore, clock: ManualClock) -> None:
    claim = taken(store, clock, "a")
    store.break_off(CLAIM, 0)  # as a person can
    with pytest.raises(ClaimLostError, match="was broken: nothing was committed"):
        commit(store, PREFIX, claim, record("a"))


def test_a_file_is_left_out_though_the_answer_was_lost(store: FakeSparkBlobStore, clock: ManualClock) -> None:
    claim = taken(store, clock, "a")
    store.lose_next_answer = True
    claim.leave_out([FILE], "x")
    assert commit(store, PREFIX, claim, record("a")).ours


def test_foreign_content_of_a_claim_is_overwritten(store: FakeSparkBlobStore, clock: ManualClock) -> None:
    store.put(CLAIM, b"hello")
    taken(store, clock, "a")
    assert json.loads(store.blobs[CLAIM][1])["attempt"] == "a"


def test_foreign_blob_in_the_place_of_a_commit(store: FakeSparkBlobStore, clock: ManualClock) -> None:
    store.put(commit_name(PREFIX, NUMBER), b"hello")
    with pytest.raises(StorageError, match=r"cannot parse commit .*_commits/0000000003\.json"):
        commit(store, PREFIX, taken(store, clock, "a"), record("a"))


def test_totals_are_not_restarted_when_a_commit_is_missing(store: FakeSparkBlobStore) -> None:
    assert previous_commit(store, PREFIX, 1, first=1) is None
    assert previous_commit(store, PREFIX, 7, first=7) is None
    with pytest.raises(StorageError, match=r"without commit shop/orders/_commits/0000000003\.json"):
        previous_commit(store, PREFIX, 4, first=1)
    store.put(commit_name(PREFIX, NUMBER), record("a").model_dump_json(by_alias=True).encode())
    assert previous_commit(store, PREFIX, 4, first=1) == record("a")


@pytest.mark.parametrize(
    "requests", [["create"], ["acquire"], ["replace"], ["create shop/orders/_commits"], ["work", "replace"]]
)
def test_repeated_request_meets_its_own_effect(
    store: FakeSparkBlobStore, clock: ManualClock, requests: list[str]
) -> None:
    attempt = ScheduledAttempt(store, "a", clock)
    for request in requests:
        attempt.until(request)
    attempt.step("repeat")
    attempt.finish()
    assert attempt.standing == record("a"), attempt.error


ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["do"] * 40 + ["repeat", "lose", "refuse", "kill", "hold", "arrive", "expire", "expire"]),
    ),
    min_size=20,
    max_size=70,
)


class WithoutLeases(FakeSparkBlobStore):
    """Storage that grants every lease and asks for none: what is left is the conditional writes."""

    def acquire(self, name: str, seconds: int, lease: str) -> bool:
        """Everybody gets it."""
        return True

    def replace(self, name: str, content: bytes, etag: str, lease: str) -> bool:
        """Put if the blob still is the version `etag`."""
        if self.blobs[name][0] != etag:
            return False
        self.put(name, content)
        return True


@pytest.mark.parametrize("kind", [FakeSparkBlobStore, WithoutLeases])
@given(actions=ACTIONS)
def test_any_order_of_requests_gives_one_complete_commit_by_the_newest_claim(
    kind: type[FakeSparkBlobStore], actions: list[tuple[int, str]]
) -> None:
    clock = ManualClock()
    store = kind(clock)
    # The attempts' own clocks stand still: only storage may decide (a zombie's clock can be trusted for nothing).
    attempts = [ScheduledAttempt(store, name, lambda: 0.0) for name in "abc"]
    claims, commits = Observed(store, CLAIM), Observed(store, commit_name(PREFIX, NUMBER))
    late: list[Callable[[], object]] = []
    for who, way in actions:
        attempt = attempts[who]
        if way == "expire":
            clock.sleep(LEASE_SECONDS + 1)
        elif way == "arrive":
            if late:
                late.pop(0)()
        else:
            attempt.step(way)
            if way == "hold" and not attempt.running:
                late += attempt.gate.held
                attempt.gate.held = []
        claims.look()
        commits.look()
    for attempt in attempts:
        attempt.step("kill")
    for attempt in attempts:
        while attempt.running:
            attempt.step("kill")
    for effect in late:
        effect()
        claims.look()
        commits.look()
    # Whatever happened, one more attempt ends it.
    clock.sleep(LEASE_SECONDS + 1)
    last = ScheduledAttempt(store, "last", lambda: 0.0)
    while last.running:
        last.step()
        claims.look()
        commits.look()
    assert last.standing is not None, last.error

    decided = [BatchCommit.model_validate_json(content) for content in claims.contents if b"committedAt" in content]
    assert len(decided) == 1, "the claim was decided twice"
    assert b"committedAt" in claims.contents[-1], "a decided claim was overwritten"
    # The one that decided had the newest claim.
    assert json.loads(claims.contents[-2])["attempt"] == decided[0].attempt
    assert commits.contents == [claims.contents[-1]], "the commit is not the record, byte for byte, written once"
    for attempt in [*attempts, last]:
        assert attempt.standing in (None, decided[0])


class Observed:
    """Every content that a blob had."""

    def __init__(self, store: FakeSparkBlobStore, name: str) -> None:
        self.contents: list[bytes] = []
        self._store = store
        self._name = name

    def look(self) -> None:
        """Note a content that is new."""
        content = self._store.read(self._name, 1 << 20)
        if content is not None and (not self.contents or self.contents[-1] != content):
            self.contents.append(content)
