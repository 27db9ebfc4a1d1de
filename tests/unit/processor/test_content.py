"""A file's content in blocks, and the stretches an encoder makes it of."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_processor.sink.content import Content, ContentWriter, put_if_absent
from eventconsumer_processor.sink.stretches import groups
from eventconsumer_processor.source.rows import EVENT_OVERHEAD_BYTES
from tests.fakes.blobs import FakeBlobStore
from tests.fakes.hub import batch_of


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


def test_groups_are_filled() -> None:
    batch = batch_of((number, bytes(100 - len("number" + str(number)) - len("key"))) for number in range(10))
    sizes = [sum(map(len, group)) for group in groups([batch], 3 * (100 + EVENT_OVERHEAD_BYTES))]
    assert sizes == [3, 3, 3, 1]


async def test_a_small_file_is_one_request_and_a_large_one_a_request_a_block() -> None:
    blobs = FakeBlobStore(lambda: 0.0)
    await put_if_absent(blobs, "small", Content.of(b"x"), {})
    await put_if_absent(blobs, "none", ContentWriter().content(), {})
    await put_if_absent(blobs, "large", Content((b"a", b"b"), "hash"), {"first": "1"})
    assert [call for call, _ in blobs.calls] == ["put", "put", "put_block", "put_block", "put_block_list"]
    assert {name: blob.data for name, blob in blobs.blobs.items()} == {"small": b"x", "none": b"", "large": b"ab"}
