"""Two attempts at one batch in the orders that matter, against the real service.

The property test over all orders is in the unit tests; this shows that the real service refuses what the fake refuses.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient

from eventconsumer_api.wire.batch import commit_name
from eventconsumer_spark.attempt.claim import MAX_RECORD_BYTES
from eventconsumer_spark.storage.store import ClaimStore, SinkContainer
from eventconsumer_storage.account import StorageAccount
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.unit.spark.schedules import CLAIM, NUMBER, PREFIX, ScheduledAttempt, record

Start = Callable[[str], ScheduledAttempt]


@pytest.fixture
def store(azurite: AzuriteProcess, service: BlobServiceClient) -> Iterator[SinkContainer]:
    container = service.create_container(azurite.container()).container_name
    with SinkContainer(StorageAccount(azurite.url, ACCOUNT, key=KEY), container) as real:
        yield real


@pytest.fixture
def start(store: ClaimStore) -> Start:
    # A clock that stands still: no attempt gives up by itself.
    return lambda name: ScheduledAttempt(store, name, lambda: 0.0)


def expire(store: ClaimStore) -> None:
    """What the end of a lease's time does, without waiting for it."""
    store.break_off(CLAIM, 0)


def content(attempt: str) -> bytes:
    return record(attempt).to_json(indent=2).encode()


def committed(store: ClaimStore) -> Any:
    """The published commit, which must be the content of the claim."""
    published = store.read(commit_name(PREFIX, NUMBER), MAX_RECORD_BYTES)
    assert published == store.read(CLAIM, MAX_RECORD_BYTES)
    return published


def test_zombie_that_wakes_before_its_commit(store: ClaimStore, start: Start) -> None:
    zombie = start("zombie")
    zombie.until("work")
    expire(store)
    heir = start("heir")
    heir.until("work")
    zombie.finish()
    assert "was claimed by app-heir" in zombie.error
    heir.finish()
    assert heir.standing == record("heir")
    assert committed(store) == content("heir")


def test_zombie_that_wakes_after_the_commit_of_another(store: ClaimStore, start: Start) -> None:
    zombie = start("zombie")
    zombie.until("work")
    zombie.step()
    expire(store)
    heir = start("heir")
    heir.finish()
    zombie.finish()
    assert zombie.standing is None
    assert "ClaimLostError" in zombie.error
    assert committed(store) == content("heir")


def test_attempt_that_ends_between_decision_and_publication(store: ClaimStore, start: Start) -> None:
    first = start("first")
    first.until(f"create {commit_name(PREFIX, NUMBER)}")
    first.step("kill")
    expire(store)
    heir = start("heir")
    heir.finish()
    assert not heir.worked
    assert heir.standing == record("first")
    assert committed(store) == content("first")


def test_attempt_that_was_frozen_between_decision_and_publication(store: ClaimStore, start: Start) -> None:
    first = start("first")
    first.until(f"create {commit_name(PREFIX, NUMBER)}")
    expire(store)
    heir = start("heir")
    heir.finish()
    first.finish()
    assert first.standing == record("first")
    assert committed(store) == content("first")


@pytest.mark.parametrize("until", ["work", "heir claims", "heir commits"])
def test_decision_that_arrives_late(store: ClaimStore, start: Start, until: str) -> None:
    zombie = start("zombie")
    zombie.until("work")
    zombie.until("replace")
    zombie.step("hold")
    (arrive,) = zombie.gate.held
    heir = None
    if until != "work":
        expire(store)
        heir = start("heir")
        heir.until("work")
    if heir and until == "heir commits":
        heir.finish()
    applied = arrive()
    assert applied is (until == "work")
    expire(store)
    if heir:
        heir.finish() if until == "heir commits" else heir.until("replace")
    start("last").finish()
    winner = {"work": "zombie", "heir claims": "last", "heir commits": "heir"}[until]
    assert committed(store) == content(winner)


@pytest.mark.parametrize("way", ["repeat", "lose"])
@pytest.mark.parametrize("request_number", range(10))
def test_lost_answer_of_any_request(store: ClaimStore, start: Start, way: str, request_number: int) -> None:
    attempt = start("a")
    for _ in range(request_number):
        attempt.step()
    attempt.step(way)
    attempt.finish()
    expire(store)
    heir = start("heir")
    heir.finish()
    winner = "a" if attempt.standing or not heir.worked else "heir"
    assert way == "lose" or winner == "a", attempt.error
    assert heir.standing == record(winner)
    assert committed(store) == content(winner)


def test_two_at_once_take_turns(store: ClaimStore, start: Start) -> None:
    one, other = start("one"), start("other")
    for _ in range(7):
        one.step()
        other.step()
    # One has the lease; the other asks for it until it is released.
    one.finish()
    other.finish()
    assert sorted([one.worked, other.worked]) == [False, True]
    winner = "one" if one.worked else "other"
    assert one.standing == other.standing == record(winner)
    assert committed(store) == content(winner)


def test_claim_blob_that_a_person_deletes_costs_the_attempt_its_commit(start: Start, store: SinkContainer) -> None:
    attempt = start("a")
    attempt.until("work")
    expire(store)
    store._blobs._client.delete_blob(CLAIM)
    attempt.finish()
    assert "ClaimLostError" in attempt.error
    assert store.read(commit_name(PREFIX, NUMBER), 10) is None
