"""A file's content in blocks, and the stretches an encoder makes it of."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_processor.sink.content import Content, ContentWriter, put_if_absent
from eventconsumer_processor.sink.stretches import groups
from eventconsumer_processor.source.batch import EVENT_OVERHEAD_BYTES, EventBatch
from tests.fakes.blobs import FakeBlobStore
from tests.fakes.hub import append_event


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_what_is_written_is_in_the_blocks(writes: list[bytes], block_bytes: int) -> None:
    writer = ContentWriter(block_bytes)
    positions = []
    for data in writes:
        positions.append(writer.tell())
        assert writer.write(data) == len(data)
    content, whole = writer.content(), b"".join(writes)
    assert positions == [sum(map(len, writes[:index])) for index in range(len(writes))]
    assert bytes(content) == whole and len(content) == len(whole)
    assert content.sha256 == hashlib.sha256(whole).hexdigest()
    assert all(block_bytes <= len(block) < block_bytes + 30 for block in content.blocks[:-1])
    assert Content.of(whole).sha256 == content.sha256


@given(
    st.lists(st.lists(st.integers(0, 300), max_size=6), max_size=6),
    st.integers(1, 1000),
)
def test_stretches_hold_every_row_once_and_no_more_bytes_than_wanted(lengths: list[list[int]], limit: int) -> None:
    batches, number = [], 0
    for sizes in lengths:
        batch = EventBatch()
        for size in sizes:
            append_event(batch, number, bytes(size))
            number += 1
        batches.append(batch)
    seen = []
    for group in groups(batches, limit):
        rows = [(stretch.batch, row) for stretch in group for row in range(stretch.start, stretch.stop)]
        assert sum(map(len, group)) == len(rows) > 0 and all(map(len, group))
        assert len(rows) == 1 or sum(batch.sizes[row] for batch, row in rows) <= limit
        seen += [batch.sequence_numbers[row] for batch, row in rows]
    assert seen == list(range(number))


def test_groups_are_filled() -> None:
    batch = EventBatch()
    for number in range(10):
        append_event(batch, number, bytes(100))
    sizes = [sum(map(len, group)) for group in groups([batch], 3 * (100 + EVENT_OVERHEAD_BYTES))]
    assert sizes == [3, 3, 3, 1]


async def test_a_small_file_is_one_request_and_a_large_one_a_request_a_block() -> None:
    blobs = FakeBlobStore(lambda: 0.0)
    await put_if_absent(blobs, "small", Content.of(b"x"), {})
    await put_if_absent(blobs, "none", ContentWriter().content(), {})
    await put_if_absent(blobs, "large", Content((b"a", b"b"), "hash"), {"first": "1"})
    assert [call for call, _ in blobs.calls] == ["put", "put", "put_block", "put_block", "put_block_list"]
    assert {name: blob.data for name, blob in blobs.blobs.items()} == {"small": b"x", "none": b"", "large": b"ab"}
