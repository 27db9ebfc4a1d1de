"""Committing a file under any failure of storage: it is in its slot exactly once, or the winner's is adopted."""

import asyncio
from collections.abc import Callable
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.errors import LeaseLost
from eventconsumer_host.sink.commit import commit
from eventconsumer_host.sink.content import Content
from eventconsumer_host.sink.slots import Chain, Draft, Slot
from eventconsumer_storage.errors import Conflict, Refused, StorageError, Unauthorized, Unavailable
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.virtual import virtual
from tests.unit.host.chains import LAYOUTS, Seconds, chain, draft

SMALL, LARGE = (b"events",), (b"eve", b"nts")
OPERATIONS = ["head", "put", "put_block", "put_block_list", "remove"]
ERRORS: dict[str, Callable[[], StorageError]] = {
    "no answer": lambda: Unavailable("no answer"),
    "throttled": lambda: Unavailable("busy", 503, "ServerBusy"),
    "409": lambda: Conflict("exists", 409, "BlobAlreadyExists"),
    "412": lambda: Conflict("condition", 412, "ConditionNotMet"),
    "400": lambda: Refused("blocks", 400, "InvalidBlockList"),
    "403": lambda: Unauthorized("no", 403, "AuthorizationFailure"),
}


async def committed(files: Chain, facts: Draft, blocks: tuple[bytes, ...]) -> Slot | None:
    """Commit with a lease that lasts."""
    return await commit(files, facts, Content.of(*blocks), check=lambda: None, failed=lambda _: None, rng=Random(1))


def data_of(blobs: FakeBlobStore, slot: Slot) -> bytes:
    """What a committed file holds."""
    return blobs.blobs[slot.path].data


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("blocks", [SMALL, LARGE], ids=["small", "large"])
@virtual
async def test_one_failure_anywhere_commits_once(layout: str, blocks: tuple[bytes, ...]) -> None:
    for error, applied, operation in product(ERRORS, (False, True), OPERATIONS):
        blobs = FakeBlobStore(virtual_clock)
        files = chain(layout, blobs, Seconds())
        blobs.faults.append(Fault(operation, applied, ERRORS[error]))
        assert await committed(files, draft(5, 8), blocks) is None, (error, applied, operation)
        blobs.faults.clear()
        slot = await files.at(5)
        assert slot is not None and slot.nonce == "mine", (error, applied, operation)
        assert data_of(blobs, slot) == b"events"
        assert len([name for name in blobs.blobs if name.endswith((".parquet", ".avro"))]) == 1


faults = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.booleans(), st.sampled_from(sorted(ERRORS))), max_size=6)


@given(st.sampled_from(LAYOUTS), st.lists(faults, min_size=2, max_size=3), st.booleans(), st.integers(0, 9))
def test_writers_of_one_slot_agree_on_one_file(
    layout: str, failures: list[list[tuple[str, bool, str]]], large: bool, seed: int
) -> None:
    @virtual
    async def race() -> None:
        blobs = FakeBlobStore(virtual_clock)
        rng = Random(seed)
        for operation, applied, error in [fault for some in failures for fault in some]:
            blobs.faults.append(Fault(operation, applied, ERRORS[error]))

        async def write(index: int) -> Slot | None:
            await asyncio.sleep(rng.random())
            mine = f"events of {index}".encode()
            blocks = (mine[:5], mine[5:]) if large else (mine,)
            return await committed(chain(layout, blobs), draft(5, 8, nonce=str(index)), blocks)

        answers = await asyncio.gather(*map(write, range(len(failures))))
        blobs.faults.clear()
        slot = await chain(layout, blobs).at(5)
        assert slot is not None
        assert [answer is None for answer in answers].count(True) == 1
        assert answers[int(slot.nonce)] is None
        assert data_of(blobs, slot) == f"events of {slot.nonce}".encode()
        assert all(answer.nonce == slot.nonce for answer in answers if answer)

    race()


@pytest.mark.parametrize("layout", LAYOUTS)
@virtual
async def test_the_winners_file_is_given_back_and_nothing_is_left_of_the_losers(layout: str) -> None:
    blobs = FakeBlobStore(virtual_clock)
    await chain(layout, blobs).put(draft(5, 6, nonce="theirs", epoch=2), b"theirs")
    before = dict(blobs.blobs)
    winner = await committed(chain(layout, blobs), draft(5, 8), LARGE)
    assert winner is not None and (winner.last, winner.epoch) == (6, 2)
    assert dict(blobs.blobs) == before


@pytest.mark.parametrize("layout", LAYOUTS)
@virtual
async def test_a_lost_lease_ends_the_attempts(layout: str) -> None:
    blobs = FakeBlobStore(virtual_clock)
    blobs.faults += [Fault("put"), Fault("put"), Fault("put")]
    told: list[StorageError] = []

    def check() -> None:
        if len(told) == 2:
            raise LeaseLost("gone")

    with pytest.raises(LeaseLost):
        await commit(
            chain(layout, blobs), draft(5, 8), Content.of(*SMALL), check=check, failed=told.append, rng=Random(1)
        )
    assert len(told) == 2 and not blobs.blobs


@virtual
async def test_storage_that_is_down_is_asked_ever_less_often() -> None:
    blobs = FakeBlobStore(virtual_clock)
    blobs.faults += [Fault("put")] * 40
    began = virtual_clock()
    assert await committed(chain("SequenceNumber", blobs), draft(5, 8), SMALL) is None
    assert 80 < virtual_clock() - began < 300
