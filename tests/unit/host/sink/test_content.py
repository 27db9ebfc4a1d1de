"""A file's content in blocks, and the stretches an encoder makes it of."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.errors import LeaseLost
from eventconsumer_host.sink.content import BlockWriter, Content, upload
from eventconsumer_host.sink.row_chunks import groups
from eventconsumer_storage.errors import Refused, Unavailable
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.hub import batch_of


@given(st.lists(st.tuples(st.binary(max_size=30), st.booleans())), st.integers(1, 40))
def test_written_bytes_leave_in_blocks(writes: list[tuple[bytes, bool]], block_bytes: int) -> None:
    writer, blocks, written = BlockWriter(block_bytes), [], 0
    for data, taken in writes:
        assert writer.tell() == written
        assert writer.write(data) == len(data)
        written += len(data)
        if taken:
            blocks += writer.full()
            assert written - sum(map(len, blocks)) < block_bytes
    blocks += writer.rest()
    assert b"".join(blocks) == b"".join(data for data, _ in writes)
    assert all(block_bytes <= len(block) < block_bytes + 30 for block in blocks[:-1])
    assert list(writer.rest()) == []


@given(st.lists(st.lists(st.integers(0, 300), max_size=6), max_size=6), st.integers(1, 1000))
def test_stretches_hold_every_row_once_and_no_more_bytes_than_wanted(lengths: list[list[int]], limit: int) -> None:
    batches, number = [], 0
    for sizes in lengths:
        batches.append(batch_of((number + index, bytes(size)) for index, size in enumerate(sizes)))
        number += len(sizes)
    seen: list[int] = []
    before = 0
    for group in groups(batches, limit):
        assert group and all(map(len, group))
        assert sum(map(len, group)) == 1 or sum(stretch.size for stretch in group) <= limit
        if seen:  # the first row of a group had no room in the one before
            assert before + group[0].sizes[0] > limit
        before = sum(stretch.size for stretch in group)
        seen += [number for stretch in group for number in stretch.numbers.tolist()]
    assert seen == list(range(number))


async def test_a_small_file_is_one_request_and_a_large_one_a_request_a_block() -> None:
    blobs = FakeBlobStore(lambda: 0.0)
    await upload(blobs, "small", Content.of(b"x"), {})
    await upload(blobs, "none", Content.of(), {})
    await upload(blobs, "large", Content.of(b"a", b"b", b"c"), {"first": "1"})
    assert [call for call, _ in blobs.calls] == ["put", "put", *["put_block"] * 3, "put_block_list"]
    assert {name: blob.data for name, blob in blobs.blobs.items()} == {"small": b"x", "none": b"", "large": b"abc"}
    assert blobs.blobs["large"].metadata == {"first": "1", "sha256": hashlib.sha256(b"abc").hexdigest()}
    assert blobs.blobs["none"].metadata == {"sha256": hashlib.sha256(b"").hexdigest()}


async def inline(work: Callable[..., Any], *arguments: Any) -> Any:
    """Offload to no thread: the same run each time."""
    return work(*arguments)


class Making:
    """Counts what is made, and when."""

    def __init__(self, *blocks: bytes) -> None:
        self.made: list[bytes] = []
        self.begun = self.ended = 0
        self._blocks = blocks

    def __call__(self) -> Iterator[bytes]:
        self.begun += 1
        try:
            for block in self._blocks:
                self.made.append(block)
                yield block
        finally:
            self.ended += 1


async def test_blocks_are_made_while_others_are_put_and_never_far_ahead() -> None:
    making, put = Making(*(b"%d" % number for number in range(8))), 0
    ahead = []

    class Watched(FakeBlobStore):
        async def put_block(self, name: str, block_id: str, data: bytes) -> None:
            nonlocal put
            for _ in range(20):  # turns enough to make more
                await asyncio.sleep(0)
            ahead.append(len(making.made) - put)
            put += 1
            await super().put_block(name, block_id, data)

    blobs = Watched(lambda: 0.0)
    content = Content(making, inline)
    await upload(blobs, "large", content, {})
    assert blobs.blobs["large"].data == b"01234567" and content.size == 8
    # The one that is put, and the one that is made meanwhile; first, whether there is another one.
    assert ahead[:6] == [3, *[2] * 5]
    assert (making.begun, making.ended) == (1, 1)


@pytest.mark.parametrize("failure", ["put_block", "put_block_list"])
async def test_another_try_makes_the_blocks_again_or_sends_just_their_list(failure: str) -> None:
    blobs, making = FakeBlobStore(lambda: 0.0), Making(b"a", b"b")
    content = Content(making, inline)
    blobs.faults.append(Fault(failure))
    with pytest.raises(Unavailable):
        await upload(blobs, "large", content, {})
    await upload(blobs, "large", content, {})
    assert making.begun == making.ended == (2 if failure == "put_block" else 1)
    assert blobs.blobs["large"].data == b"ab"


async def test_blocks_that_storage_has_dropped_are_put_again() -> None:
    blobs, making = FakeBlobStore(lambda: 0.0), Making(b"a", b"b")
    content = Content(making, inline)
    blobs.faults.append(Fault("put_block_list"))
    with pytest.raises(Unavailable):
        await upload(blobs, "large", content, {})
    await blobs.put("large", b"another's")
    blobs.delete("large")
    with pytest.raises(Refused):
        await upload(blobs, "large", content, {})
    await upload(blobs, "large", content, {})
    assert blobs.blobs["large"].data == b"ab" and making.begun == 2


async def test_a_try_that_is_cancelled_leaves_nothing_running() -> None:
    making = Making(b"a", b"b", b"c")

    class Stuck(FakeBlobStore):
        async def put_block(self, name: str, block_id: str, data: bytes) -> None:
            await asyncio.sleep(60)

    trying = asyncio.create_task(upload(Stuck(lambda: 0.0), "large", Content(making, inline), {}))
    while len(making.made) < 3:
        await asyncio.sleep(0)
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    assert len(asyncio.all_tasks()) == 1


async def test_a_large_file_is_given_up_as_soon_as_it_must_not_be_put() -> None:
    blobs, asked = FakeBlobStore(lambda: 0.0), []

    def check() -> None:
        asked.append(len(blobs.calls))
        if len(asked) == 4:
            raise LeaseLost("gone")

    with pytest.raises(LeaseLost):
        await upload(blobs, "large", Content(Making(b"a", b"b", b"c"), inline, check), {})
    assert asked == [0, 1, 2, 3] and not blobs.blobs  # every block, and then the list


async def test_an_error_in_the_making_is_the_uploads() -> None:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise ValueError("no file")

    blobs = FakeBlobStore(lambda: 0.0)
    with pytest.raises(ValueError, match="no file"):
        await upload(blobs, "large", Content(broken, inline), {})
    assert not blobs.blobs
